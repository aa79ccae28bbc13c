//! Which nodes catch up, since when, and how fast they get what they lack.
//!
//! A learner gets a snapshot, and the log after it, slowly at first: more bytes a second would take the disk, the network
//! and the processor from the commands that are served meanwhile. A voter gets both as fast as it can, because it may be
//! needed for the majority (decision 0062).

use fairhold_types::NodeId;
use openraft::Instant;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The bytes that a learner gets in a second at first.
const BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;
/// The rate doubles after each such time, also over several snapshots. Otherwise a learner would never get a large state
/// while there is much writing: the log that it needs next would be purged before.
const DOUBLES_AFTER: Duration = Duration::from_secs(10);

/// The nodes that catch up.
#[derive(Debug)]
pub(crate) struct CatchUps<I> {
    learners: Mutex<BTreeSet<NodeId>>,
    /// When this node began to send a snapshot to each node that has not continued with the log since.
    began: Mutex<BTreeMap<NodeId, I>>,
}

impl<I> Default for CatchUps<I> {
    fn default() -> Self {
        CatchUps { learners: Mutex::default(), began: Mutex::default() }
    }
}

impl<I: Instant> CatchUps<I> {
    /// Sets the members without a vote.
    pub(crate) fn set_learners(&self, learners: impl Iterator<Item = NodeId>) {
        *self.learners.lock() = learners.collect();
    }

    /// This node begins to send a snapshot to another. Returns when it sent the first one of this catch-up.
    pub(crate) fn begin(&self, to: NodeId) -> I {
        *self.began.lock().entry(to).or_insert_with(I::now)
    }

    /// The node continues with the log.
    pub(crate) fn end(&self, to: NodeId) {
        self.began.lock().remove(&to);
    }

    /// How long to wait after these bytes of a snapshot. `began`: what `begin` returned.
    pub(crate) fn pause_in_snapshot(&self, to: NodeId, bytes: usize, began: I) -> Duration {
        if self.is_learner(to) { pause(bytes, began.elapsed()) } else { Duration::ZERO }
    }

    /// How long to wait after these bytes of the log. `None`: not at all.
    pub(crate) fn pause_in_log(&self, to: NodeId, bytes: usize) -> Option<Duration> {
        self.is_learner(to).then(|| pause(bytes, Duration::ZERO))
    }

    fn is_learner(&self, id: NodeId) -> bool {
        self.learners.lock().contains(&id)
    }
}

fn pause(bytes: usize, lasted: Duration) -> Duration {
    let doublings = lasted.as_secs() / DOUBLES_AFTER.as_secs();
    let pause = Duration::from_nanos(bytes as u64 * 1_000_000_000 / BYTES_PER_SECOND);
    pause / 2_u32.saturating_pow(u32::try_from(doublings).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::AsyncRuntime;
    use openraft_rt_tokio::TokioRuntime;

    #[test]
    fn a_catch_up_begins_slowly_and_hurries_if_it_takes_long() {
        let rate = usize::try_from(BYTES_PER_SECOND).unwrap();
        let pause = |seconds| pause(rate, Duration::from_secs(seconds));
        assert_eq!((pause(0), pause(9)), (Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!((pause(10), pause(25)), (Duration::from_millis(500), Duration::from_millis(250)));
        assert_eq!((pause(1_000), pause(u64::MAX)), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn only_a_learner_waits_and_its_time_counts_until_it_continues_with_the_log() {
        let catch_ups = CatchUps::<<TokioRuntime as AsyncRuntime>::Instant>::default();
        catch_ups.set_learners([4].into_iter());
        let first = catch_ups.begin(4);
        assert!(catch_ups.pause_in_snapshot(4, 1_000, first) > Duration::ZERO && catch_ups.pause_in_log(4, 1_000).is_some());
        assert!(catch_ups.pause_in_snapshot(2, 1_000, first).is_zero() && catch_ups.pause_in_log(2, 1_000).is_none());
        assert_eq!(catch_ups.begin(4), first);
        catch_ups.end(4);
        assert!(catch_ups.began.lock().is_empty());
    }
}
