//! The order of waiters.

use crate::record::Contender;
use fairhold_types::GrantNumber;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// The rank of a waiter: higher effective priority first, then first come, first served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ServiceRank(Reverse<i32>, GrantNumber);

impl ServiceRank {
    pub(crate) fn of(contender: &Contender) -> ServiceRank {
        ServiceRank(Reverse(contender.effective_priority), contender.number)
    }

    pub(crate) fn new(effective_priority: i32, number: GrantNumber) -> ServiceRank {
        ServiceRank(Reverse(effective_priority), number)
    }

    /// Before all waiters.
    pub(crate) fn first() -> ServiceRank {
        ServiceRank::new(i32::MAX, GrantNumber(0))
    }

    /// The priority that orders the queue.
    pub(crate) fn effective_priority(self) -> i32 {
        self.0.0
    }

    pub(crate) fn number(self) -> GrantNumber {
        self.1
    }
}
