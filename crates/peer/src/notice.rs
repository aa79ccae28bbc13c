//! Log lines that strangers can cause: one at a time, however often they knock.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Between two lines of one sort at least this much passes.
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
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.last.is_some_and(|last| now.duration_since(last) < NOTICE_EVERY) {
            counted.kept_back += 1;
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_knocks_make_one_line() {
        let notice = Notice::default();
        assert_eq!(notice.due(), Some(0));
        assert!((0..1_000).all(|_| notice.due().is_none()));
        assert_eq!(notice.0.lock().unwrap().kept_back, 1_000);
    }
}
