//! The queue of a lock: its holders and its waiters. A cache of their contenders.

use crate::{
    holder_index::{HOLDERS_SCANNED_MAX, HolderIndex},
    record::Contender,
    service_rank::ServiceRank,
    small_set::SmallSet,
};
use fairhold_types::{GrantNumber, Mode};
use std::sync::Arc;

/// The contenders of one lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Queue {
    /// The holders and the cooling grants.
    pub(crate) holders: SmallSet<GrantNumber, 2>,
    /// The permits of all holders together.
    pub(crate) permits: u64,
    /// How many holders are exclusive.
    pub(crate) exclusive: usize,
    /// The holders by token and by owner, if there are many.
    pub(crate) by_holder: Option<Arc<HolderIndex>>,
    /// The waiters, in service order.
    pub(crate) waiting: SmallSet<ServiceRank, 2>,
    /// The waiters, the longest wait first.
    pub(crate) by_age: SmallSet<GrantNumber, 2>,
    /// The waiters that cannot be overtaken, in service order.
    pub(crate) barriers: SmallSet<ServiceRank, 1>,
    /// The shared holder that waits to be upgraded. There is never a second: the two would wait for each other.
    pub(crate) upgrading: Option<GrantNumber>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }

    /// How many waiters are before a rank. Counts from the nearer end of the queue.
    pub(crate) fn waiting_before(&self, rank: ServiceRank) -> usize {
        let mut before = self.waiting.range(..rank);
        let mut behind = self.waiting.range(rank..);
        let mut counted = 0;
        loop {
            if before.next().is_none() {
                return counted;
            }
            if behind.next().is_none() {
                return self.waiting.len() - counted;
            }
            counted += 1;
        }
    }

    /// Adds a contender, in any phase. `State::index_holders` indexes many holders.
    pub(crate) fn add(&mut self, contender: &Contender) {
        if contender.granted_at.is_some() {
            self.add_holder(contender);
        } else {
            self.add_waiting(contender);
        }
        if contender.upgrading {
            self.upgrading = Some(contender.number);
        }
    }

    /// Removes a contender that is no longer in the tree.
    pub(crate) fn remove(&mut self, contender: &Contender) {
        if contender.granted_at.is_some() {
            self.remove_holder(contender);
        } else {
            self.remove_waiting(ServiceRank::of(contender));
        }
        self.upgrading = self.upgrading.filter(|upgrading| *upgrading != contender.number);
    }

    /// Adds a holder, which may have waited.
    pub(crate) fn grant(&mut self, contender: &Contender) {
        self.remove_waiting(ServiceRank::of(contender));
        self.add_holder(contender);
    }

    /// Whether it has many holders but no index of them.
    pub(crate) fn is_unindexed(&self) -> bool {
        self.by_holder.is_none() && self.holders.len() > HOLDERS_SCANNED_MAX
    }

    /// Counts a holder that has changed to `mode`.
    pub(crate) fn count_mode_change(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.exclusive += 1,
            Mode::Shared => self.exclusive -= 1,
        }
    }

    /// Removes a holder from the index, because it cools from now on.
    pub(crate) fn unindex(&mut self, holder: &Contender) {
        if let Some(index) = &mut self.by_holder {
            Arc::make_mut(index).remove(holder);
        }
    }

    fn add_holder(&mut self, contender: &Contender) {
        self.holders.insert(contender.number);
        self.permits += u64::from(contender.permits);
        self.exclusive += usize::from(contender.mode == Mode::Exclusive);
        if let Some(index) = &mut self.by_holder {
            Arc::make_mut(index).add(contender);
        }
    }

    fn remove_holder(&mut self, contender: &Contender) {
        if self.holders.remove(&contender.number) {
            self.permits -= u64::from(contender.permits);
            self.exclusive -= usize::from(contender.mode == Mode::Exclusive);
        }
        if self.holders.len() <= HOLDERS_SCANNED_MAX {
            self.by_holder = None;
        } else if !contender.cooling {
            self.unindex(contender);
        }
    }

    fn add_waiting(&mut self, contender: &Contender) {
        let rank = ServiceRank::of(contender);
        self.waiting.insert(rank);
        self.by_age.insert(contender.number);
        if contender.cannot_be_overtaken() {
            self.barriers.insert(rank);
        }
    }

    fn remove_waiting(&mut self, rank: ServiceRank) {
        if self.waiting.remove(&rank) {
            self.by_age.remove(&rank.number());
            self.barriers.remove(&rank);
        }
    }
}
