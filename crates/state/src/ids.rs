//! The uses of ids and keys, except those in the table of tombstones: a cache of the grants and the sessions.

use fairhold_types::{GrantId, GrantNumber, SessionNumber};
use imbl::OrdMap;

/// The use of an id or a key. It has one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdUse {
    /// The id of a hold of a live grant: held or queued, but not cooling.
    Grant(GrantNumber),
    /// The key of a request that changed a live grant.
    Change(GrantNumber),
    /// The key that opened a live session.
    Session(SessionNumber),
    /// The id of an ended grant, which this session remembers.
    Ended(SessionNumber),
}

/// The uses of all ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ids {
    uses: OrdMap<GrantId, IdUse>,
    /// How many of them are not `Ended`.
    live: usize,
}

impl Ids {
    pub(crate) fn get(&self, id: &GrantId) -> Option<IdUse> {
        self.uses.get(id).copied()
    }

    /// The live grant with this id.
    pub(crate) fn grant(&self, id: &GrantId) -> Option<GrantNumber> {
        if let Some(IdUse::Grant(number)) = self.get(id) { Some(number) } else { None }
    }

    /// The ids of live grants.
    pub(crate) fn grants(&self) -> impl Iterator<Item = &GrantId> {
        self.uses.iter().filter(|(_, used)| matches!(used, IdUse::Grant(_))).map(|(id, _)| id)
    }

    /// How many ids will need a tombstone when they end.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Sets the use of an id, in place of an earlier one.
    pub(crate) fn insert(&mut self, id: GrantId, used: IdUse) {
        let earlier = self.uses.insert(id, used);
        self.live = self.live + is_live(Some(used)) - is_live(earlier);
    }

    pub(crate) fn remove(&mut self, id: &GrantId) {
        self.live -= is_live(self.uses.remove(id));
    }
}

fn is_live(used: Option<IdUse>) -> usize {
    match used {
        Some(IdUse::Grant(_) | IdUse::Change(_) | IdUse::Session(_)) => 1,
        Some(IdUse::Ended(_)) | None => 0,
    }
}
