//! Rate limits for log lines that unauthenticated connections can cause.

use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// The minimum time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Writes a log line at most once per interval, and counts the suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<LogLimitState>);

#[derive(Debug, Default)]
struct LogLimitState {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogLimit {
    /// Writes a line unless the last one is too recent. The line gets the number of suppressed lines.
    pub(crate) fn log(&self, write: impl FnOnce(u64)) {
        if let Some(suppressed) = self.due() {
            write(suppressed);
        }
    }

    fn due(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| now.duration_since(last) < LINE_INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// Sources whose lines are remembered. With more sources, some lines repeat.
const SOURCES_MAX: usize = 1_024;

/// A `LogLimit` that also writes only one line per source, such as an address, until the cause of the line has ended.
#[derive(Debug)]
pub(crate) struct LogLimitBy<K> {
    logged: Mutex<BTreeSet<K>>,
    limit: LogLimit,
}

impl<K> Default for LogLimitBy<K> {
    fn default() -> Self {
        LogLimitBy { logged: Mutex::default(), limit: LogLimit::default() }
    }
}

impl<K: Ord> LogLimitBy<K> {
    /// Writes a line, unless this source has one already or the last line is too recent.
    pub(crate) fn log(&self, source: K, write: impl FnOnce(u64)) {
        let mut logged = self.logged.lock();
        if logged.contains(&source) {
            return;
        }
        self.limit.log(|suppressed| {
            if logged.len() >= SOURCES_MAX {
                logged.clear();
            }
            logged.insert(source);
            write(suppressed);
        });
    }

    /// The cause of the line has ended: the next line of this source is written again.
    pub(crate) fn forget(&self, source: K) {
        self.logged.lock().remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn an_address_gets_one_line_until_its_cause_has_ended() {
        let limit = LogLimitBy::default();
        let lines = |address: u8| {
            let mut lines = 0;
            // Makes the last line old.
            limit.limit.0.lock().last = None;
            limit.log(IpAddr::from([10, 0, 0, address]), |_| lines += 1);
            lines
        };
        assert_eq!((lines(1), lines(1), lines(2), lines(1)), (1, 0, 1, 0));
        limit.forget(IpAddr::from([10, 0, 0, 1]));
        assert_eq!((lines(2), lines(1)), (0, 1));
        let (mut written, other) = (0, IpAddr::from([10, 0, 0, 3]));
        limit.log(other, |_| written += 1);
        assert_eq!((written, lines(3)), (0, 1), "suppressed for now, and written later");
    }

    #[test]
    fn a_thousand_lines_at_once_become_one() {
        let limit = LogLimit::default();
        assert_eq!(limit.due(), Some(0));
        assert!((0..1_000).all(|_| limit.due().is_none()));
        assert_eq!(limit.0.lock().suppressed, 1_000);
    }
}
