//! Tombstones of ended grants, sessions and writes, so that a late retry receives the right answer.
//!
//! A named session remembers its own ended grants (`SessionRecord::ended`). The table here has all others, for at least
//! `TOMBSTONE_KEPT_FOR` by the leader's clock, which then proposes `Forget`. A full table refuses new work; it never
//! forgets earlier.

use crate::{command::OperationResult, weighed::Weighed};
use fairhold_types::{EndReason, GrantId, Revision, limits::TOMBSTONES_REMOVED_MAX};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What an id or a key was used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tombstone {
    /// The id of a grant.
    Grant(EndReason),
    /// The key of a session.
    Session,
    /// The key of a write, with its results unless they exceed `RESULTS_KEPT_BYTES`.
    Write { fingerprint: [u8; 16], succeeded: bool, results: Option<Vec<OperationResult>> },
    /// The id of a grant that an administrator broke, with the reason. If the grant had a named session, that session
    /// remembers it too.
    Broken { note: String },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tombstones {
    /// The tombstones outside sessions, each with its revision.
    pub(crate) table: Weighed<GrantId, (Revision, Tombstone)>,
    /// The same by age: a cache.
    by_age: OrdMap<(Revision, GrantId), ()>,
}

impl Tombstones {
    /// The tombstone of an id.
    pub(crate) fn get(&self, id: &GrantId) -> Option<&Tombstone> {
        self.table.get(id).map(|(_, remembered)| remembered)
    }

    pub(crate) fn remember(&mut self, id: GrantId, at: Revision, what: Tombstone) {
        if let Some((earlier, _)) = self.table.insert(id, (at, what)) {
            self.by_age.remove(&(earlier, id));
        }
        self.by_age.insert((at, id), ());
    }

    /// Forgets tombstones up to this revision, the oldest first and `TOMBSTONES_REMOVED_MAX` at most. Returns how many.
    pub(crate) fn forget(&mut self, through: Revision) -> usize {
        let mut forgotten = 0;
        while forgotten < TOMBSTONES_REMOVED_MAX
            && let Some((oldest, ())) = self.by_age.get_min()
        {
            let (at, id) = *oldest;
            if at > through {
                break;
            }
            self.by_age.remove(&(at, id));
            self.table.remove(&id);
            forgotten += 1;
        }
        forgotten
    }

    /// The revisions of the oldest and the newest tombstone.
    pub(crate) fn span(&self) -> Option<(Revision, Revision)> {
        let ((oldest, _), ()) = self.by_age.get_min()?;
        let ((newest, _), ()) = self.by_age.get_max()?;
        Some((*oldest, *newest))
    }

    /// Whether the cache by age equals the table.
    pub(crate) fn is_consistent(&self) -> bool {
        self.table.len() == self.by_age.len() && self.table.iter().all(|(id, (at, _))| self.by_age.contains_key(&(*at, *id)))
    }
}
