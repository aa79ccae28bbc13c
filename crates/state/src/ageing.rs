//! Priority with ageing: the longest waiter of a lock lets a bounded number of later ones go before it.
//!
//! Only the one that waits longest counts, by the number of those who were placed before it: so a newcomer costs one step however
//! long the queue, and of so many grants one at least goes to who waits longest. From then on those of higher priority stand
//! behind it as its equals, in the order of their coming. Time has no part in it: the same commands give the same order.

use crate::{change::Change, service_rank::ServiceRank};
use fairhold_types::LockName;

impl Change<'_> {
    /// Counts a newcomer that is placed before the one that waits longest.
    pub(crate) fn note_overtaken(&mut self, lock: &LockName, newcomer: ServiceRank) {
        let queue = self.state.index.queues.get(lock);
        let Some(oldest) = queue.and_then(|queue| queue.by_age.get_min()).copied() else { return };
        let contender = self.contender_in(lock, oldest);
        let rank = ServiceRank::of(contender);
        if contender.cannot_be_overtaken() || newcomer > rank {
            return;
        }
        // It has one lock, for one of several is not overtaken.
        let contender = self.contender_mut(oldest);
        contender.overtaken += 1;
        if contender.cannot_be_overtaken() {
            self.state.index.add_barrier(lock, rank);
        }
    }
}
