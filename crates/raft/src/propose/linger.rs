//! How long a batch of commands lingers for more commands.
//!
//! A log entry costs the cluster three syncs and about a hundred task switches, whether it holds one command or a
//! hundred. The callers of the last batch have just been answered, and many are about to send their next command. So a
//! batch waits, for two milliseconds at most, until as many commands are queued as the last batch had. After a small
//! batch it does not wait.

use openraft::AsyncRuntime;
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use tokio::sync::Notify;

/// How long a batch lingers at most.
const LINGER_MAX: Duration = Duration::from_millis(2);
/// Size of the last batch below which the next one does not linger.
const LINGER_BATCH_MIN: usize = 4;

/// Counts the waiting commands, and the target of the batch that lingers.
#[derive(Debug, Default)]
pub(crate) struct BatchLinger {
    waiting: AtomicUsize,
    /// 0 while no batch lingers.
    target: AtomicUsize,
    enough: Notify,
}

impl BatchLinger {
    /// A command is about to enter the queue.
    pub(crate) fn enqueued(&self) {
        if self.waiting.fetch_add(1, SeqCst) + 1 == self.target.load(SeqCst) {
            self.enough.notify_one();
        }
    }

    /// A command has left the queue.
    pub(crate) fn dequeued(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// How many commands the next batch waits for, after a batch of this size; `None` if it need not wait.
    pub(crate) fn target(&self, last_batch: usize) -> Option<usize> {
        (last_batch >= LINGER_BATCH_MIN && self.waiting.load(SeqCst) < last_batch).then_some(last_batch)
    }

    /// Waits until this many commands are queued, but not for long.
    pub(crate) async fn wait_for<RT: AsyncRuntime>(&self, target: usize) {
        self.target.store(target, SeqCst);
        let enough = async {
            // Earlier callers are already counted; later ones notify.
            while self.waiting.load(SeqCst) < target {
                self.enough.notified().await;
            }
        };
        // Enough or not, the batch continues.
        drop(RT::timeout(LINGER_MAX, enough).await);
        self.target.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft_rt_tokio::TokioRuntime;

    fn linger_with(waiting: usize) -> BatchLinger {
        let linger = BatchLinger::default();
        (0..waiting).for_each(|_| linger.enqueued());
        linger
    }

    #[test]
    fn a_batch_waits_for_as_many_commands_as_the_last_batch_had_unless_that_was_small() {
        let small = [0, 1, LINGER_BATCH_MIN - 1].map(|last_batch| linger_with(1).target(last_batch));
        assert_eq!(small, [None; 3], "a single command does not wait");
        assert_eq!(linger_with(63).target(64), Some(64));
        assert_eq!(linger_with(64).target(64), None, "enough are waiting already");
    }

    #[tokio::test]
    async fn the_last_expected_command_ends_the_wait() {
        let linger = linger_with(2);
        let mut waits = std::pin::pin!(linger.wait_for::<TokioRuntime>(3));
        assert!(futures_util::poll!(&mut waits).is_pending());
        linger.enqueued();
        assert!(futures_util::poll!(&mut waits).is_ready());
        assert_eq!(linger.target.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_missing_command_ends_the_wait_soon() {
        let linger = linger_with(2);
        linger.wait_for::<TokioRuntime>(1_000).await;
        linger.dequeued();
        assert_eq!(linger.waiting.load(SeqCst), 1);
    }
}
