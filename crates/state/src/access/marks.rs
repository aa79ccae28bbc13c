//! The marks: the newest revisions at which rights were narrowed.

use fairhold_access::{PrincipalKey, limits::MARKS_MAX};
use fairhold_types::{
    Revision,
    planted::{self, Bug},
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What a change of the access data does to rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RightsMove {
    /// Something is new: no principal loses anything.
    Wider,
    /// One principal may have lost something.
    NarrowerFor(PrincipalKey),
    /// Any principal may have lost something.
    Narrower,
}

/// The mark of all principals, and those of single principals that are newer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    of_all: Revision,
    of_one: OrdMap<PrincipalKey, Revision>,
}

impl Marks {
    /// The mark of all principals.
    pub(super) fn of_all(&self) -> Revision {
        self.of_all
    }

    /// The newest mark that counts for a principal.
    pub(super) fn of(&self, principal: PrincipalKey) -> Revision {
        self.of_one.get(&principal).copied().unwrap_or_default().max(self.of_all)
    }

    /// How many principals have marks of their own.
    pub(super) fn len(&self) -> usize {
        self.of_one.len()
    }

    /// The newest of all marks.
    pub(super) fn newest(&self) -> Revision {
        self.of_one.values().copied().max().unwrap_or_default().max(self.of_all)
    }

    pub(super) fn shift(&mut self, rights: RightsMove, revision: Revision) {
        match rights {
            RightsMove::Wider if planted::has(Bug::WideningMovesTheMark) => self.move_all(revision),
            RightsMove::Wider => {}
            RightsMove::NarrowerFor(principal) if self.of_one.len() < MARKS_MAX || self.of_one.contains_key(&principal) => {
                self.of_one.insert(principal, revision);
            }
            // A mark of all in place of very many marks refuses more commands than needed, once. They are judged again.
            RightsMove::NarrowerFor(_) | RightsMove::Narrower => self.move_all(revision),
        }
    }

    fn move_all(&mut self, revision: Revision) {
        *self = Marks { of_all: revision, of_one: OrdMap::new() };
    }
}
