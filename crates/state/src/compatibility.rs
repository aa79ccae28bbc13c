//! Which requests are compatible with the holders of a lock.

use crate::{State, command::Want, granting::planted_overtaking, queue::Queue, service_rank::ServiceRank};
use fairhold_types::{
    Mode,
    planted::{self, Bug},
};

impl State {
    /// Whether a newcomer with this rank would be granted at once: no waiter is before it, the lock is not being broken,
    /// and it is compatible with the holders. A lock without contenders is free.
    pub(crate) fn can_grant_at_once(
        &self,
        queue: Option<&Queue>,
        want: &Want,
        rank: ServiceRank,
        permits: u32,
        limit: u32,
    ) -> bool {
        let Some(queue) = queue else {
            return true;
        };
        let is_first = queue.waiting.get_min().is_none_or(|waiter| rank < *waiter);
        (is_first || planted_overtaking())
            && !self.index.breaking.contains_key(&want.lock)
            && self.is_compatible(queue, want.mode, permits, limit)
    }

    /// Whether one more grant is compatible with the holders and the cooling grants.
    pub(crate) fn is_compatible(&self, queue: &Queue, mode: Mode, permits: u32, limit: u32) -> bool {
        match mode {
            Mode::Shared => (queue.upgrading.is_none() && queue.exclusive == 0) || readers_beside_writer(),
            Mode::Exclusive if limit == 1 => queue.holders.is_empty(),
            Mode::Exclusive => {
                // Shared holders date from before the lock had a limit.
                queue.exclusive == queue.holders.len() && queue.permits + u64::from(permits) <= permits_of(limit)
            }
        }
    }
}

/// The permits of a lock with this limit; one more with the planted bug.
fn permits_of(limit: u32) -> u64 {
    u64::from(limit) + u64::from(planted::has(Bug::OnePermitTooMany))
}

/// Always false, except with the planted bug: readers are granted while a writer holds.
fn readers_beside_writer() -> bool {
    planted::has(Bug::ReadersBesideWriter)
}
