//! Log lines that strangers can cause: one at a time, however often they knock.

use parking_lot::Mutex;
use std::{collections::BTreeSet, net::IpAddr, time::Duration};
use tokio::time::Instant;

/// The shortest time between two lines of one kind.
const NOTICE_EVERY: Duration = Duration::from_secs(10);

/// Lets a log line pass now and then and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Notice(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    last: Option<Instant>,
    kept_back: u64,
}

impl Notice {
    /// Writes a line, unless one was written just before. The line is told how many were kept back since.
    pub(crate) fn say(&self, write: impl FnOnce(u64)) {
        if let Some(kept_back) = self.due() {
            write(kept_back);
        }
    }

    fn due(&self) -> Option<u64> {
        let now = Instant::now();
        let mut counted = self.0.lock();
        if counted.last.is_some_and(|last| now.duration_since(last) < NOTICE_EVERY) {
            counted.kept_back += 1;
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.kept_back))
    }
}

/// Addresses of which it is remembered that a line was written. With more of them, some are written of again.
const ADDRESSES_MAX: usize = 1_024;

/// The same, and of each address one line, until what it was about is over.
#[derive(Debug, Default)]
pub(crate) struct NoticeByAddress {
    told: Mutex<BTreeSet<IpAddr>>,
    notice: Notice,
}

impl NoticeByAddress {
    /// Writes a line, unless there is one of this address, or one of another was written just before.
    pub(crate) fn say(&self, address: IpAddr, write: impl FnOnce(u64)) {
        let mut told = self.told.lock();
        if told.contains(&address) {
            return;
        }
        self.notice.say(|kept_back| {
            if told.len() >= ADDRESSES_MAX {
                told.clear();
            }
            told.insert(address);
            write(kept_back);
        });
    }

    /// What was written of this address is over: it would be news again.
    pub(crate) fn forget(&self, address: IpAddr) {
        self.told.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_makes_one_line_until_it_is_over() {
        let notice = NoticeByAddress::default();
        let lines = |address: u8| {
            let mut lines = 0;
            // As if the last line were old.
            notice.notice.0.lock().last = None;
            notice.say(IpAddr::from([10, 0, 0, address]), |_| lines += 1);
            lines
        };
        assert_eq!((lines(1), lines(1), lines(2), lines(1)), (1, 0, 1, 0));
        notice.forget(IpAddr::from([10, 0, 0, 1]));
        assert_eq!((lines(2), lines(1)), (0, 1));
        let (mut written, other) = (0, IpAddr::from([10, 0, 0, 3]));
        notice.say(other, |_| written += 1);
        assert_eq!((written, lines(3)), (0, 1), "kept back for now, and written later");
    }

    #[test]
    fn a_thousand_knocks_make_one_line() {
        let notice = Notice::default();
        assert_eq!(notice.due(), Some(0));
        assert!((0..1_000).all(|_| notice.due().is_none()));
        assert_eq!(notice.0.lock().kept_back, 1_000);
    }
}
