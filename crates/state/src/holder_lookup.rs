//! Maintains the index of a lock's holders (`holder_index`).

use crate::{
    State,
    holder_index::{HOLDERS_SCANNED_MAX, HolderIndex},
    record::Contender,
};
use fairhold_types::LockName;
use std::sync::Arc;

impl State {
    /// Adds a holder to the index. `holders`: how many the lock has now.
    pub(crate) fn index_holder(&mut self, holder: &Contender, holders: usize) {
        if holders > HOLDERS_SCANNED_MAX {
            match self.index.queue_mut(&holder.lock).and_then(|queue| queue.by_holder.as_mut()) {
                Some(index) => Arc::make_mut(index).add(holder),
                None => self.index_holders(&holder.lock.clone()),
            }
        }
    }

    /// Removes a holder that is no longer in the tree.
    pub(crate) fn unindex_holder(&mut self, holder: &Contender) {
        // A queue without an index, the usual one, is not copied.
        if self.index.queues.get(&holder.lock).is_none_or(|queue| queue.by_holder.is_none()) {
            return;
        }
        let Some(queue) = self.index.queue_mut(&holder.lock) else { return };
        if queue.holders.len() <= HOLDERS_SCANNED_MAX {
            queue.by_holder = None;
        } else if let Some(index) = queue.by_holder.as_mut().filter(|_| !holder.cooling) {
            Arc::make_mut(index).remove(holder);
        }
    }

    /// Removes a holder that cools from now on.
    pub(crate) fn unindex_cooling(&mut self, holder: &Contender) {
        let queue = self.index.queue_mut(&holder.lock);
        if let Some(index) = queue.and_then(|queue| queue.by_holder.as_mut()) {
            Arc::make_mut(index).remove(holder);
        }
    }

    /// Rebuilds the index of a lock's holders, if it has enough of them.
    pub(crate) fn index_holders(&mut self, lock: &LockName) {
        let Some(queue) = self.index.queues.get(lock) else { return };
        let many = queue.holders.len() > HOLDERS_SCANNED_MAX;
        let mut index = HolderIndex::default();
        let holders = queue.holders.iter().filter(|_| many).filter_map(|number| self.contender_in(lock, *number));
        holders.for_each(|holder| index.add(holder));
        if let Some(queue) = self.index.queue_mut(lock) {
            queue.by_holder = many.then(|| Arc::new(index));
        }
    }
}
