//! Log lines about failed TLS handshakes, one at a time: strangers cannot fill the log.

use parking_lot::Mutex;
use std::{net::SocketAddr, time::Duration};
use tokio::time::Instant;

/// The shortest time between two log lines about failed handshakes.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Logs failed handshakes, one line at a time.
#[derive(Debug, Default)]
pub(super) struct HandshakeLog(Mutex<LoggedFailures>);

#[derive(Debug, Default)]
struct LoggedFailures {
    logged_at: Option<Instant>,
    /// The failures since then, which have no line.
    others: u64,
}

impl HandshakeLog {
    /// Logs a failure, or counts it until the next line is due.
    pub(super) fn failed(&self, peer: SocketAddr, message: &str) {
        if let Some(others) = self.is_due(Instant::now()) {
            tracing::warn!(%peer, others, "a TLS handshake failed: {message}");
        } else {
            tracing::debug!(%peer, "a TLS handshake failed: {message}");
        }
    }

    /// If a line is due, how many failures had none.
    fn is_due(&self, now: Instant) -> Option<u64> {
        let mut logged = self.0.lock();
        if logged.logged_at.is_some_and(|at| now.duration_since(at) < LOG_INTERVAL) {
            logged.others += 1;
            return None;
        }
        logged.logged_at = Some(now);
        Some(std::mem::take(&mut logged.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_once_in_ten_seconds_with_the_number_of_the_others() {
        let (log, now) = (HandshakeLog::default(), Instant::now());
        assert_eq!(log.is_due(now), Some(0));
        assert_eq!([log.is_due(now), log.is_due(now + LOG_INTERVAL / 2)], [None, None]);
        assert_eq!(log.is_due(now + LOG_INTERVAL), Some(2));
        assert_eq!(log.is_due(now + 2 * LOG_INTERVAL), Some(0));
    }
}
