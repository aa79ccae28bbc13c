//! What is remembered of grants, sessions and writes that are over, so that a late retry is answered for what it was.
//!
//! A named session remembers its own ended grants (`Session::ended`); all else is in the table here, for at least
//! `REMEMBERED_FOR` by the leader's clock, which then proposes `Forget`. A full table refuses new work, it never forgets
//! sooner.

use crate::{command::OperationResult, weighed::Weighed};
use fairhold_types::{EndReason, GrantId, Revision, SessionNumber, limits::FORGOTTEN_MAX};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What became of an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tombstone {
    /// It was a grant.
    Grant(EndReason),
    /// It was the key of a session.
    Session,
    /// It was the key of a write; without its results where they were more than `RESULTS_REMEMBERED_BYTES`.
    Write { fingerprint: [u8; 16], succeeded: bool, results: Option<Vec<OperationResult>> },
    /// It was a grant that an administrator broke, and this is what he said. A grant of a named session is in its session too.
    Broken { note: String },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tombstones {
    /// Ids remembered without a session, with the revision since when.
    table: Weighed<GrantId, (Revision, Tombstone)>,
    /// The same by age: a cache.
    by_age: OrdMap<(Revision, GrantId), ()>,
    /// Which session remembers an ended grant: a cache of `Session::ended`.
    pub(crate) in_session: OrdMap<GrantId, SessionNumber>,
}

impl Tombstones {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many bytes all of the table counts together.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// The same, by a walk over all of it.
    pub(crate) fn recounted(&self) -> u64 {
        self.table.recounted()
    }

    /// What became of an id.
    pub(crate) fn get(&self, id: &GrantId) -> Option<&Tombstone> {
        self.table.get(id).map(|(_, remembered)| remembered)
    }

    /// The same, with the revision since when.
    pub(crate) fn noted(&self, id: &GrantId) -> Option<&(Revision, Tombstone)> {
        self.table.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&GrantId, &(Revision, Tombstone))> {
        self.table.iter()
    }

    pub(crate) fn remember(&mut self, id: GrantId, at: Revision, what: Tombstone) {
        if let Some((earlier, _)) = self.table.insert(id, (at, what)) {
            self.by_age.remove(&(earlier, id));
        }
        self.by_age.insert((at, id), ());
    }

    /// Forgets what was remembered up to that revision, the oldest first and `FORGOTTEN_MAX` at most; says how many.
    pub(crate) fn forget(&mut self, through: Revision) -> usize {
        let mut forgotten = 0;
        while forgotten < FORGOTTEN_MAX
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

    /// The revision of the oldest and of the newest thing remembered.
    pub(crate) fn span(&self) -> Option<(Revision, Revision)> {
        let ((oldest, _), ()) = self.by_age.get_min()?;
        let ((newest, _), ()) = self.by_age.get_max()?;
        Some((*oldest, *newest))
    }

    /// Whether the cache by age says the same as the table.
    pub(crate) fn is_consistent(&self) -> bool {
        self.table.len() == self.by_age.len() && self.table.iter().all(|(id, (at, _))| self.by_age.contains_key(&(*at, *id)))
    }
}
