//! Rate limits for log lines that unauthenticated connections can cause.

use parking_lot::Mutex;
use std::{collections::BTreeSet, net::IpAddr, time::Duration};
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

/// Addresses whose lines are remembered. With more addresses, some lines repeat.
const ADDRESSES_MAX: usize = 1_024;

/// A `LogLimit` that also writes only one line per address until the cause of the line has ended.
#[derive(Debug, Default)]
pub(crate) struct LogLimitByAddress {
    logged: Mutex<BTreeSet<IpAddr>>,
    limit: LogLimit,
}

impl LogLimitByAddress {
    /// Writes a line, unless this address has one already or the last line is too recent.
    pub(crate) fn log(&self, address: IpAddr, write: impl FnOnce(u64)) {
        let mut logged = self.logged.lock();
        if logged.contains(&address) {
            return;
        }
        self.limit.log(|suppressed| {
            if logged.len() >= ADDRESSES_MAX {
                logged.clear();
            }
            logged.insert(address);
            write(suppressed);
        });
    }

    /// The cause of the line has ended: the next line of this address is written again.
    pub(crate) fn forget(&self, address: IpAddr) {
        self.logged.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_one_line_until_its_cause_has_ended() {
        let limit = LogLimitByAddress::default();
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
