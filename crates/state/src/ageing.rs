//! Priority with ageing: only a bounded number of newcomers can be placed before the longest waiter of a lock.
//!
//! Only the longest waiter counts the newcomers that are placed before it. So a newcomer costs one step however long
//! the queue is, and the longest waiter is served after a bounded number of grants. From then on, newcomers of higher
//! priority queue behind it as its equals, in order of arrival. Time has no effect: the same commands give the same
//! order.

use crate::{change::Change, service_rank::ServiceRank};
use fairhold_types::{GrantNumber, LockName};

impl Change<'_> {
    /// Counts a newcomer that is placed before the longest waiter, `oldest`.
    pub(crate) fn count_overtaken(&mut self, lock: &LockName, oldest: GrantNumber, newcomer: ServiceRank) {
        let contender = self.contender_in(lock, oldest);
        let rank = ServiceRank::of(contender);
        if contender.cannot_be_overtaken() || newcomer > rank {
            return;
        }
        // It has one lock: multi-lock contenders cannot be overtaken.
        let contender = self.contender_mut(oldest);
        contender.overtaken += 1;
        if contender.cannot_be_overtaken() {
            self.state.tree.locks.update(lock, |record| record.queue_mut().barriers.insert(rank));
        }
    }
}
