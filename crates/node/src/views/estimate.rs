//! Those ahead of a waiter, as it is told of them, and how long it usually waits for them.

use crate::api::Ahead;
use fairhold_state::{
    State,
    command::{HolderFacts, Meta},
    record::Contender,
};
use fairhold_types::LockName;
use std::time::Duration;

/// What others may know of a contender.
pub(crate) fn facts(contender: &Contender) -> HolderFacts {
    HolderFacts {
        number: contender.number,
        owner: contender.owner.text.clone(),
        token: contender.token(),
        since: contender.held_since.unwrap_or(contender.queued_at),
    }
}

/// Those ahead, as a caller is told of them.
pub(crate) fn first_ahead<'a>(contenders: impl Iterator<Item = &'a Contender>) -> Vec<Ahead> {
    let with_meta = |(place, contender): (usize, &Contender)| Ahead {
        facts: facts(contender),
        meta: if place == 0 { contender.meta.clone() } else { Meta::default() },
    };
    contenders.enumerate().map(with_meta).collect()
}

/// What is usual in a lock, of which estimates are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usual {
    hold_ms: Option<u64>,
    limit: u64,
}

impl Usual {
    pub(crate) fn of(state: &State, lock: &LockName) -> Usual {
        Usual { hold_ms: state.usual_hold_ms(lock), limit: state.lock_summary(lock).limit.unwrap_or(1).max(1).into() }
    }

    /// How long it takes until those ahead have held, as many at a time as may, each for as long as is usual; nothing where
    /// nobody has held yet.
    pub(crate) fn estimate(self, position: u64) -> Option<Duration> {
        let turns = position.saturating_sub(1).div_ceil(self.limit);
        self.hold_ms.map(|hold_ms| Duration::from_millis(hold_ms.saturating_mul(turns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_turns_of_as_many_as_may_hold_together() {
        let usual = |hold_ms, limit| Usual { hold_ms, limit };
        for (position, seconds) in [(1, 0), (2, 10), (4, 30)] {
            assert_eq!(usual(Some(10_000), 1).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        for (position, seconds) in [(3, 10), (4, 10), (5, 20)] {
            assert_eq!(usual(Some(10_000), 3).estimate(position), Some(Duration::from_secs(seconds)), "{position}");
        }
        assert_eq!(usual(None, 1).estimate(2), None);
    }
}
