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

/// How long a batch waits for linger.
const LINGER_MAX: Duration = Duration::from_millis(1);
/// Where fewer came together than that, nobody is waited for.
const LINGER_BATCH_MIN: usize = 4;

/// How many commands wait, and how many a batch in the making waits for.
#[derive(Debug, Default)]
pub(crate) struct BatchLinger {
    waiting: AtomicUsize,
    /// 0: for none.
    target: AtomicUsize,
    enough: Notify,
}

impl BatchLinger {
    /// A command is about to wait.
    pub(crate) fn enqueued(&self) {
        if self.waiting.fetch_add(1, SeqCst) + 1 == self.target.load(SeqCst) {
            self.enough.notify_one();
        }
    }

    /// A command waits no more.
    pub(crate) fn dequeued(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// How many the next batch waits for, after one of that size; `None` where it need not wait.
    pub(crate) fn target(&self, together: usize) -> Option<usize> {
        // Of many callers some are done: with all of them each batch would wait to the end of its time.
        let wanted = together / 4 * 3;
        (together >= LINGER_BATCH_MIN && self.waiting.load(SeqCst) < wanted).then_some(wanted)
    }

    /// Waits until so many wait, but not for long.
    pub(crate) async fn wait_for<RT: AsyncRuntime>(&self, wanted: usize) {
        self.target.store(wanted, SeqCst);
        let enough = async {
            // Callers before that are counted; later callers report themselves.
            while self.waiting.load(SeqCst) < wanted {
                self.enough.notified().await;
            }
        };
        // Enough or not: what is there goes.
        drop(RT::timeout(LINGER_MAX, enough).await);
        self.target.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    fn linger(waiting: usize) -> BatchLinger {
        let linger = BatchLinger::default();
        (0..waiting).for_each(|_| linger.enqueued());
        linger
    }

    #[test]
    fn a_lone_command_waits_for_nobody() {
        assert_eq!(linger(1).target(0), None);
        assert_eq!(linger(1).target(1), None);
        assert_eq!(linger(1).target(LINGER_BATCH_MIN - 1), None);
    }

    #[test]
    fn a_batch_waits_for_most_of_the_callers_that_came_together_before() {
        assert_eq!(linger(1).target(64), Some(48));
        assert_eq!(linger(48).target(64), None, "they are there already");
    }

    #[tokio::test]
    async fn the_last_expected_caller_ends_the_waiting() {
        let linger = linger(2);
        let mut gathers = std::pin::pin!(linger.wait_for::<TokioRuntime>(3));
        assert!(futures_util::poll!(&mut gathers).is_pending());
        linger.enqueued();
        assert!(futures_util::poll!(&mut gathers).is_ready());
        assert_eq!(linger.target.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_missing_caller_is_not_waited_for_long() {
        let linger = linger(2);
        linger.wait_for::<TokioRuntime>(1_000).await;
        linger.dequeued();
        assert_eq!(linger.waiting.load(SeqCst), 1);
    }
}
