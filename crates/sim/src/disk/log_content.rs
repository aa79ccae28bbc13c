//! The content of a log, and the writes that change it.

use crate::host::HostRuntime;
use fairhold_raft::types::Types;
use fairhold_types::planted::{self, Bug};
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use std::collections::BTreeMap;

/// The types of the log.
pub(super) type C = Types<HostRuntime>;

/// The content of a log.
#[derive(Default, Clone)]
pub(super) struct LogContent {
    pub(super) vote: Option<VoteOf<C>>,
    pub(super) committed: Option<LogIdOf<C>>,
    pub(super) entries: BTreeMap<u64, EntryOf<C>>,
    pub(super) purged: Option<LogIdOf<C>>,
}

impl LogContent {
    /// Whether the terms of its entries never decrease.
    pub(super) fn has_monotonic_terms(&self) -> bool {
        let ids: Vec<_> = self.entries.values().map(|entry| entry.log_id).collect();
        ids.windows(2).all(|pair| pair[0] < pair[1])
    }

    pub(super) fn apply(&mut self, write: &Write) {
        match write {
            Write::Vote(vote) => self.vote = Some(*vote),
            Write::Committed(committed) => self.committed = *committed,
            Write::Entry(entry) => {
                self.entries.insert(entry.log_id.index, EntryOf::<C>::clone(entry));
            }
            Write::Truncate(next) => drop(self.entries.split_off(next)),
            Write::Purge(through) => {
                self.entries = self.entries.split_off(&(through.index + 1));
                self.purged = Some(*through);
            }
        }
    }
}

/// The smallest atomic write.
pub(super) enum Write {
    Vote(VoteOf<C>),
    Committed(Option<LogIdOf<C>>),
    Entry(Box<EntryOf<C>>),
    Truncate(u64),
    Purge(LogIdOf<C>),
}

impl Write {
    /// Whether a flush keeps it.
    pub(super) fn is_kept(&self) -> bool {
        !self.is_forgotten()
    }

    /// Only with a planted bug.
    fn is_forgotten(&self) -> bool {
        planted::has(Bug::ForgetsTruncation) && matches!(self, Write::Truncate(_))
    }
}
