//! The contenders ahead of a waiter, and how long the waiter will probably wait for them.

use crate::api::Ahead;
use fairhold_state::{
    State,
    command::{HolderFacts, Meta},
    record::Contender,
};
use fairhold_types::LockName;
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

/// Estimates waiting times in a lock from its usual holding time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitEstimator {
    usual_hold_ms: Option<u64>,
    limit: u64,
}

impl WaitEstimator {
    pub(crate) fn of(state: &State, lock: &LockName) -> WaitEstimator {
        WaitEstimator {
            usual_hold_ms: state.usual_hold_ms(lock),
            limit: state.lock_summary(lock).limit.unwrap_or(1).max(1).into(),
        }
    }

    /// How long the contenders ahead will hold, `limit` at a time, each for the usual time; `None` if the lock has not
    /// been held yet.
    pub(crate) fn estimate(self, position: u64) -> Option<Duration> {
        let rounds = position.saturating_sub(1).div_ceil(self.limit);
        self.usual_hold_ms.map(|usual_hold_ms| Duration::from_millis(usual_hold_ms.saturating_mul(rounds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_rounds_of_as_many_holders_as_the_limit_allows() {
        let estimator = |usual_hold_ms, limit| WaitEstimator { usual_hold_ms, limit };
        for (position, seconds) in [(1, 0), (2, 10), (4, 30)] {
            assert_eq!(estimator(Some(10_000), 1).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        for (position, seconds) in [(3, 10), (4, 10), (5, 20)] {
            assert_eq!(estimator(Some(10_000), 3).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        assert_eq!(estimator(None, 1).estimate(2), None);
    }
}
