//! Builds the index of a lock's holders (`holder_index`).

use crate::{State, command::HolderFacts, holder_index::HolderIndex, record::Contender};
use fairhold_types::LockName;
use std::sync::Arc;

impl State {
    pub(crate) fn holder_facts(&self, holder: &Contender) -> HolderFacts {
        HolderFacts {
            number: holder.number,
            owner: holder.owner.text.clone(),
            token: self.token_of(holder),
            since: holder.held_since.unwrap_or(holder.queued_at),
        }
    }

    /// Indexes the holders of a lock that has many. The queue keeps the index up to date.
    pub(crate) fn index_holders(&mut self, lock: &LockName) {
        let mut index = HolderIndex::default();
        let holders = self.queue_of(lock).into_iter().flat_map(|queue| &queue.holders);
        holders.filter_map(|number| self.contender_in(lock, *number)).for_each(|holder| index.add(holder));
        self.tree.locks.update(lock, |record| record.queue_mut().by_holder = Some(Arc::new(index)));
    }
}
