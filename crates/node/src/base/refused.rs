//! The newest requests that were refused because waiting would have caused a deadlock. They are only in memory: the
//! state has no trace of a refusal.

use crate::api::{RefusedWait, RefusedWaitsView};
use fairhold_state::command::Blocked;
use fairhold_types::{limits::CYCLE_NAMED_MAX, time::WallMillis};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// How many refusals are kept.
const REFUSED_MAX: usize = 64;
/// The most bytes of refusals in an answer: enough for 64 with short names. If names are long, the oldest refusals are
/// left out; a single cycle of long names can exceed it alone.
const SHOWN_BYTES_MAX: usize = 12 * 1024;
/// About the bytes of a refusal as JSON, without its cycle.
const WAIT_BYTES: usize = 64;
/// About the bytes of a waiter in a cycle as JSON, without its texts.
const BLOCKED_BYTES: usize = 48;

#[derive(Debug, Default)]
struct Kept {
    /// The oldest first.
    waits: VecDeque<Arc<RefusedWait>>,
    /// All refusals since then are kept.
    since: WallMillis,
}

/// The newest refusals that this node has applied, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct RefusedWaits(Mutex<Kept>);

impl RefusedWaits {
    /// Adds a refusal. Each waiter of the cycle waits for the next one, and the first is the requester.
    pub(crate) fn add(&self, at: WallMillis, cycle: &[Blocked]) {
        let left_out = cycle.len().saturating_sub(CYCLE_NAMED_MAX);
        let cycle = cycle.iter().take(CYCLE_NAMED_MAX).cloned().collect();
        let wait = Arc::new(RefusedWait { at, cycle, left_out });
        let mut kept = self.0.lock();
        if kept.waits.len() == REFUSED_MAX
            && let Some(dropped) = kept.waits.pop_front()
        {
            kept.since = kept.since.max(dropped.at);
        }
        kept.waits.push_back(wait);
    }

    /// Notes that refusals before now may be missing.
    pub(crate) fn note_gap(&self, now: WallMillis) {
        let mut kept = self.0.lock();
        kept.since = kept.since.max(now);
    }

    /// The refusals that may be shown.
    pub(crate) fn visible(&self, is_visible: impl Fn(&RefusedWait) -> bool) -> RefusedWaitsView {
        let (kept, since) = {
            let kept = self.0.lock();
            (kept.waits.clone(), kept.since)
        };
        RefusedWaitsView { waits: kept.into_iter().rev().filter(|wait| is_visible(wait)).collect(), since }
    }
}

impl RefusedWaitsView {
    /// As many of the newest as an answer has room for, and the newest one in any case.
    pub(crate) fn fitting(mut self) -> RefusedWaitsView {
        let mut bytes = 0;
        let fits = |wait: &&Arc<RefusedWait>| {
            bytes += size(wait);
            bytes <= SHOWN_BYTES_MAX
        };
        let count = self.waits.iter().take_while(fits).count().max(1);
        let left_out = self.waits.split_off(count.min(self.waits.len()));
        let since = left_out.iter().map(|wait| wait.at).fold(self.since, WallMillis::max);
        RefusedWaitsView { since, ..self }
    }
}

fn size(wait: &RefusedWait) -> usize {
    wait.cycle.iter().map(|one| BLOCKED_BYTES + one.owner.len() + one.lock.as_str().len()).sum::<usize>() + WAIT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{LockName, SessionNumber};

    fn blocked(owner: &str, lock: &str) -> Blocked {
        Blocked { session: SessionNumber(1), owner: owner.to_owned(), lock: LockName::parse(lock).unwrap() }
    }

    fn all(refused: &RefusedWaits) -> RefusedWaitsView {
        refused.visible(|_| true).fitting()
    }

    fn times(view: &RefusedWaitsView) -> Vec<u64> {
        view.waits.iter().map(|wait| wait.at.0).collect()
    }

    #[test]
    fn the_newest_refusals_come_first_and_it_is_known_from_when_on_they_are_complete() {
        let refused = RefusedWaits::default();
        refused.note_gap(WallMillis(50));
        let first = 100;
        for at in first..first + REFUSED_MAX as u64 {
            refused.add(WallMillis(at), &[blocked("ci-9", "stock"), blocked("ci-7", "deploy")]);
        }
        let shown = all(&refused);
        let newest = first + REFUSED_MAX as u64 - 1;
        assert_eq!((shown.waits.len(), shown.waits[0].at.0, shown.since.0), (REFUSED_MAX, newest, 50));
        refused.add(WallMillis(newest + 1), &[blocked("ci-9", "stock")]);
        let shown = all(&refused);
        assert_eq!((shown.waits.len(), shown.waits[0].at.0, shown.since.0), (REFUSED_MAX, newest + 1, first));
        refused.note_gap(WallMillis(newest + 9));
        assert_eq!(all(&refused).since.0, newest + 9, "a snapshot says nothing of refusals");
    }

    #[test]
    fn what_is_not_visible_is_left_out() {
        let refused = RefusedWaits::default();
        for (at, lock) in [(1, "open"), (2, "secret"), (3, "open")] {
            refused.add(WallMillis(at), &[blocked("ci-9", lock)]);
        }
        let some = refused.visible(|wait| wait.cycle.iter().all(|one| one.lock.as_str() == "open"));
        assert_eq!((times(&some), some.since.0), (vec![3, 1], 0));
    }

    #[test]
    fn long_cycles_are_cut_and_long_names_leave_out_the_oldest() {
        let refused = RefusedWaits::default();
        let long = "x".repeat(500);
        let cycle = |length: usize| vec![blocked("ci-9", &long); length];
        refused.add(WallMillis(1), &cycle(2));
        refused.add(WallMillis(2), &cycle(20));
        refused.add(WallMillis(3), &cycle(2));
        let shown = all(&refused);
        assert_eq!((times(&shown), shown.since.0), (vec![3, 2], 1), "{SHOWN_BYTES_MAX} bytes have room for 22 of them");
        refused.add(WallMillis(4), &cycle(CYCLE_NAMED_MAX));
        let shown = all(&refused);
        assert_eq!((times(&shown), shown.since.0), (vec![4], 3), "one is shown, however long its names are");
        assert_eq!(times(&refused.visible(|_| true)), [4, 3, 2, 1], "rules look at all of them");
        assert_eq!(times(&RefusedWaits::default().visible(|_| true).fitting()), [0; 0]);
        let refused = RefusedWaits::default();
        refused.add(WallMillis(1), &vec![blocked("ci-9", "a"); CYCLE_NAMED_MAX + 3]);
        let shown = all(&refused);
        assert_eq!((shown.waits[0].cycle.len(), shown.waits[0].left_out), (CYCLE_NAMED_MAX, 3));
    }
}
