//! Rate limits for log lines that strangers can cause.

use parking_lot::Mutex;
use std::{collections::BTreeSet, net::IpAddr, time::Duration};
use tokio::time::Instant;

/// The minimum time between two lines of one kind.
const NOTICE_EVERY: Duration = Duration::from_secs(10);

/// Writes a log line at most once per interval, and counts the suppressed ones.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
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
        let mut counted = self.0.lock();
        if counted.last.is_some_and(|last| now.duration_since(last) < NOTICE_EVERY) {
            counted.suppressed += 1;
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.suppressed))
    }
}

/// Addresses whose lines are remembered. With more addresses, some lines repeat.
const ADDRESSES_MAX: usize = 1_024;

/// The same, with one line per address until its cause has ended.
#[derive(Debug, Default)]
pub(crate) struct LogLimitByAddress {
    told: Mutex<BTreeSet<IpAddr>>,
    limit: LogLimit,
}

impl LogLimitByAddress {
    /// Writes a line, unless this address has one already or the last line is too recent.
    pub(crate) fn log(&self, address: IpAddr, write: impl FnOnce(u64)) {
        let mut told = self.told.lock();
        if told.contains(&address) {
            return;
        }
        self.limit.log(|suppressed| {
            if told.len() >= ADDRESSES_MAX {
                told.clear();
            }
            told.insert(address);
            write(suppressed);
        });
    }

    /// The cause of the address's line has ended: the next one is written again.
    pub(crate) fn forget(&self, address: IpAddr) {
        self.told.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_makes_one_line_until_it_is_over() {
        let limit = LogLimitByAddress::default();
        let lines = |address: u8| {
            let mut lines = 0;
            // As if the last line were old.
            limit.limit.0.lock().last = None;
            limit.log(IpAddr::from([10, 0, 0, address]), |_| lines += 1);
            lines
        };
        assert_eq!((lines(1), lines(1), lines(2), lines(1)), (1, 0, 1, 0));
        limit.forget(IpAddr::from([10, 0, 0, 1]));
        assert_eq!((lines(2), lines(1)), (0, 1));
        let (mut written, other) = (0, IpAddr::from([10, 0, 0, 3]));
        limit.log(other, |_| written += 1);
        assert_eq!((written, lines(3)), (0, 1), "kept back for now, and written later");
    }

    #[test]
    fn a_thousand_knocks_make_one_line() {
        let limit = LogLimit::default();
        assert_eq!(limit.due(), Some(0));
        assert!((0..1_000).all(|_| limit.due().is_none()));
        assert_eq!(limit.0.lock().suppressed, 1_000);
    }
}
