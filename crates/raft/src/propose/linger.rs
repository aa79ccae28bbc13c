//! When a batch of commands waits for more, and for how long.
//!
//! A log entry costs the cluster three syncs and some hundred task switches, whether it has one command or a hundred. The
//! callers of the last batch have just been answered, and those who have more to ask are about to: so a batch waits, for a
//! millisecond at most, until about as many are there as came together the last time. Where few come together, nobody is
//! waited for.

use openraft::AsyncRuntime;
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use tokio::sync::Notify;

/// How long a batch waits for company.
const COMPANY_WITHIN: Duration = Duration::from_millis(1);
/// Where fewer came together than that, nobody is waited for.
const COMPANY_LEAST: usize = 4;

/// How many commands wait, and how many a batch in the making waits for.
#[derive(Debug, Default)]
pub(crate) struct BatchLinger {
    waiting: AtomicUsize,
    /// 0: for none.
    wanted: AtomicUsize,
    enough: Notify,
}

impl BatchLinger {
    /// A command is about to wait.
    pub(crate) fn came(&self) {
        if self.waiting.fetch_add(1, SeqCst) + 1 == self.wanted.load(SeqCst) {
            self.enough.notify_one();
        }
    }

    /// A command waits no more.
    pub(crate) fn left(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// How many the next batch waits for, after one of that size; `None` where it need not wait.
    pub(crate) fn wanted_after(&self, together: usize) -> Option<usize> {
        // Of many callers some are done: with all of them each batch would wait to the end of its time.
        let wanted = together / 4 * 3;
        (together >= COMPANY_LEAST && self.waiting.load(SeqCst) < wanted).then_some(wanted)
    }

    /// Waits until so many wait, but not for long.
    pub(crate) async fn gathers<RT: AsyncRuntime>(&self, wanted: usize) {
        self.wanted.store(wanted, SeqCst);
        let enough = async {
            // Callers before that are counted; later callers report themselves.
            while self.waiting.load(SeqCst) < wanted {
                self.enough.notified().await;
            }
        };
        // Enough or not: what is there goes.
        drop(RT::timeout(COMPANY_WITHIN, enough).await);
        self.wanted.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    fn company(waiting: usize) -> BatchLinger {
        let company = BatchLinger::default();
        (0..waiting).for_each(|_| company.came());
        company
    }

    #[test]
    fn a_lone_command_waits_for_nobody() {
        assert_eq!(company(1).wanted_after(0), None);
        assert_eq!(company(1).wanted_after(1), None);
        assert_eq!(company(1).wanted_after(COMPANY_LEAST - 1), None);
    }

    #[test]
    fn a_batch_waits_for_most_of_the_callers_that_came_together_before() {
        assert_eq!(company(1).wanted_after(64), Some(48));
        assert_eq!(company(48).wanted_after(64), None, "they are there already");
    }

    #[tokio::test]
    async fn the_last_expected_caller_ends_the_waiting() {
        let company = company(2);
        let mut gathers = std::pin::pin!(company.gathers::<TokioRuntime>(3));
        assert!(futures_util::poll!(&mut gathers).is_pending());
        company.came();
        assert!(futures_util::poll!(&mut gathers).is_ready());
        assert_eq!(company.wanted.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_missing_caller_is_not_waited_for_long() {
        let company = company(2);
        company.gathers::<TokioRuntime>(1_000).await;
        company.left();
        assert_eq!(company.waiting.load(SeqCst), 1);
    }
}
