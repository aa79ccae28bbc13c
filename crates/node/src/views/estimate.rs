//! The contenders ahead of a waiter, and how long the waiter will probably wait for them.

use crate::api::Ahead;
use fairhold_state::{
    State,
    command::{HolderFacts, Meta},
    record::Contender,
};
use fairhold_types::{LockName, time::WallMillis};
use std::time::Duration;

/// The public facts of a contender.
pub(crate) fn facts(contender: &Contender) -> HolderFacts {
    HolderFacts {
        number: contender.number,
        owner: contender.owner.text.clone(),
        token: contender.token(),
        since: contender.held_since.unwrap_or(contender.queued_at),
    }
}

/// The contenders ahead, for a caller.
pub(crate) fn first_ahead<'a>(contenders: impl Iterator<Item = &'a Contender>) -> Vec<Ahead> {
    let with_meta = |(index, contender): (usize, &Contender)| Ahead {
        facts: facts(contender),
        meta: if index == 0 { contender.meta.clone() } else { Meta::default() },
    };
    contenders.enumerate().map(with_meta).collect()
}

/// A hold this many times as long as the usual one says nothing about when it ends.
const OVERDUE_TIMES: u64 = 2;
/// A shorter hold is never overdue, in milliseconds: the clocks of two nodes differ a little.
const OVERDUE_MIN_MS: u64 = 1_000;
/// How many holders an estimate looks at: a lock may have many.
const HOLDERS_MAX: usize = 16;

/// Estimates waiting times in a lock from its usual holding time, and from how long its holders have held it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WaitEstimator {
    usual_hold_ms: Option<u64>,
    limit: u64,
    /// The shortest and the longest of the present holds; 0 if nobody holds the lock.
    shortest_ms: u64,
    longest_ms: u64,
}

impl WaitEstimator {
    pub(crate) fn of(state: &State, lock: &LockName, now: WallMillis) -> WaitEstimator {
        let holders = state.front(lock, HOLDERS_MAX).filter(|first| state.token_of(first).is_some());
        let held_ms: Vec<u64> = holders.filter_map(|holder| Some(now.0.saturating_sub(holder.held_since?.0))).collect();
        WaitEstimator {
            usual_hold_ms: state.usual_hold_ms(lock),
            limit: state.lock_summary(lock).limit.unwrap_or(1).max(1).into(),
            shortest_ms: held_ms.iter().copied().min().unwrap_or(0),
            longest_ms: held_ms.iter().copied().max().unwrap_or(0),
        }
    }

    /// How long recent holders have usually held the lock; `None` if nobody has held it before.
    pub(crate) fn usual_hold(self) -> Option<Duration> {
        self.usual_hold_ms.map(Duration::from_millis)
    }

    /// How long the contenders ahead will hold, `limit` at a time, each for the usual time. What the newest holder has
    /// held so far is over. `None` if the lock has not been held before, or if its holder exceeds the usual time.
    pub(crate) fn estimate(self, position: u64) -> Option<Duration> {
        let usual_ms = self.usual_hold_ms?;
        if self.is_overdue(usual_ms) {
            return None;
        }
        let rounds = position.saturating_sub(1).div_ceil(self.limit);
        let elapsed_ms = self.shortest_ms.min(usual_ms);
        Some(Duration::from_millis(usual_ms.saturating_mul(rounds).saturating_sub(elapsed_ms)))
    }

    /// Whether nobody can say when the next waiter gets the lock. One holder that stays keeps a lock; a semaphore moves on
    /// while one of its holders does.
    fn is_overdue(self, usual_ms: u64) -> bool {
        let held_ms = if self.limit == 1 { self.longest_ms } else { self.shortest_ms };
        held_ms > usual_ms.saturating_mul(OVERDUE_TIMES).max(OVERDUE_MIN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(usual_hold_ms: Option<u64>, limit: u64) -> WaitEstimator {
        WaitEstimator { usual_hold_ms, limit, ..WaitEstimator::default() }
    }

    #[test]
    fn an_estimate_counts_rounds_of_as_many_holders_as_the_limit_allows() {
        for (position, seconds) in [(1, 0), (2, 10), (4, 30)] {
            assert_eq!(estimator(Some(10_000), 1).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        for (position, seconds) in [(3, 10), (4, 10), (5, 20)] {
            assert_eq!(estimator(Some(10_000), 3).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        assert_eq!(estimator(None, 1).estimate(2), None);
    }

    #[test]
    fn what_the_holder_has_held_so_far_is_over_and_a_holder_that_stays_leaves_no_estimate() {
        for (held_ms, position, expected) in [
            (3_000, 2, Some(7)),
            (3_000, 4, Some(27)),
            (10_000, 2, Some(0)),
            (20_000, 2, Some(0)),
            (20_000, 3, Some(10)),
            (20_001, 2, None),
            (20_001, 9, None),
        ] {
            let one = WaitEstimator { shortest_ms: held_ms, longest_ms: held_ms, ..estimator(Some(10_000), 1) };
            assert_eq!(one.estimate(position), expected.map(Duration::from_secs), "{held_ms} {position}");
            let never_held = WaitEstimator { usual_hold_ms: None, ..one };
            assert_eq!(never_held.estimate(position), None, "{held_ms} {position}");
        }
        let brief = WaitEstimator { shortest_ms: 1_000, longest_ms: 1_000, ..estimator(Some(0), 1) };
        assert_eq!(brief.estimate(2), Some(Duration::ZERO), "clocks may differ by that much");
    }

    #[test]
    fn one_reader_that_stays_keeps_a_lock_but_not_a_semaphore() {
        let holds = WaitEstimator { shortest_ms: 4_000, longest_ms: 900_000, ..WaitEstimator::default() };
        assert_eq!(WaitEstimator { usual_hold_ms: Some(10_000), limit: 1, ..holds }.estimate(3), None);
        let semaphore = WaitEstimator { usual_hold_ms: Some(10_000), limit: 2, ..holds };
        assert_eq!(semaphore.estimate(3), Some(Duration::from_secs(6)));
        assert_eq!(WaitEstimator { shortest_ms: 30_000, ..semaphore }.estimate(3), None);
    }
}
