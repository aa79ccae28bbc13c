//! The audit in a snapshot: a head with the number of entries, and an item for each of them.

use super::{
    record::{ActRecord, ChainHash},
    ring::AuditRing,
};
use crate::weighed::Weigh as _;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An item of a snapshot. Snapshots encode variants by position: add at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum SavedAudit {
    /// Comes first: the newest entry that was dropped, and how many entries follow.
    Head(Option<(u64, ChainHash)>, u64),
    Entry(u64, Arc<ActRecord>),
}

impl SavedAudit {
    /// About its encoded size: what it counts in the state's budget.
    pub(crate) fn size(&self) -> u64 {
        match self {
            SavedAudit::Head(..) => 0,
            SavedAudit::Entry(_, record) => record.weight(),
        }
    }
}

impl AuditRing {
    /// The items of a snapshot. There are none without entries.
    pub(crate) fn saved(&self) -> impl Iterator<Item = SavedAudit> + '_ {
        let head = (!self.is_empty()).then_some(SavedAudit::Head(self.dropped, self.len() as u64));
        head.into_iter().chain(self.entries.iter().map(|(seq, record)| SavedAudit::Entry(*seq, Arc::clone(record))))
    }

    /// Adds an item. Returns how many entries shall follow a head.
    pub(crate) fn restore(&mut self, saved: SavedAudit) -> Option<u64> {
        match saved {
            SavedAudit::Head(dropped, entries) => {
                self.dropped = dropped;
                Some(entries)
            }
            SavedAudit::Entry(seq, record) => {
                self.entries.insert(seq, record);
                None
            }
        }
    }
}
