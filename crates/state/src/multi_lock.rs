//! Multi-lock grants: one grant with a contender in the queue of each lock.
//!
//! All its contenders have the same number, and no newcomer is placed before any of them. So multi-lock grants have the
//! same order in every queue and never wait for each other in a cycle. A contender that is first in its queue and
//! compatible with the holders is reserved: it blocks the contenders behind it until the grant can take all its locks.

use crate::{State, record::Contender, service_rank::ServiceRank};

impl State {
    /// For a contender that is reserved here: the contender right before it in a lock in which it is not.
    pub(crate) fn blocker_elsewhere(&self, contender: &Contender) -> Option<&Contender> {
        let number = contender.number;
        let locks = self.locks_of(number);
        let lock = locks.iter().find(|lock| **lock != contender.lock && !self.can_be_granted(lock, number))?;
        let queue = self.queue_of(lock)?;
        let there = self.contender_in(lock, number)?;
        let before = queue.waiting.range(..ServiceRank::of(there)).next_back().map(|rank| rank.number());
        self.contender_in(lock, before.or_else(|| queue.holders.get_min().copied())?)
    }
}
