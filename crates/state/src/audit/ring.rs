//! The ring: the newest entries, bounded in number and in bytes.

use super::record::{ActRecord, ChainHash, GENESIS};
use crate::weighed::{Weigh as _, Weighed};
use fairhold_types::limits::AUDIT_ENTRIES_MAX;
use std::sync::Arc;

/// How many entries one new entry drops at most. A large one takes the room of five small ones. More are dropped only after the
/// budget has become smaller, and then little by little.
const DROPPED_MAX: usize = 16;

/// The newest entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditHead {
    /// Its sequence number: how many entries there were.
    pub seq: u64,
    /// Its hash.
    pub hash: ChainHash,
}

/// The newest entries, by their sequence numbers without gaps. A clone shares them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditRing {
    pub(super) entries: Weighed<u64, Arc<ActRecord>>,
    /// The newest entry that was dropped, or the place before the first one.
    pub(super) dropped: Option<(u64, ChainHash)>,
}

impl AuditRing {
    /// The newest entry, if there was ever one.
    #[must_use]
    pub fn head(&self) -> Option<AuditHead> {
        self.entries.get_max().map(|(seq, record)| AuditHead { seq: *seq, hash: record.hash })
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its bytes, as the state counts them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.bytes()
    }

    /// The entry with this number.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<&ActRecord> {
        self.entries.get(&seq).map(|record| &**record)
    }

    /// The hash before the entry with this number.
    #[must_use]
    pub fn previous(&self, seq: u64) -> ChainHash {
        let before = seq.checked_sub(1).and_then(|before| self.get(before)).map(|record| record.hash);
        before.unwrap_or_else(|| self.dropped.map_or(GENESIS, |(_, hash)| hash))
    }

    /// The entries from this number on, in their order.
    pub fn from(&self, seq: u64) -> impl DoubleEndedIterator<Item = (u64, &ActRecord)> {
        self.entries.range(seq..).map(|(seq, record)| (*seq, &**record))
    }

    /// Adds an entry, with its hash, and drops the oldest ones beyond the bounds. The newest one always stays.
    pub(crate) fn append(&mut self, mut record: ActRecord, bytes_max: u64) {
        let (seq, previous) = match self.head() {
            Some(head) => (head.seq + 1, head.hash),
            None => self.dropped.map_or((1, GENESIS), |(seq, hash)| (seq + 1, hash)),
        };
        record.hash = record.expected_hash(seq, previous);
        let record = Arc::new(record);
        let room = bytes_max.saturating_sub(record.weight());
        for _ in 0..DROPPED_MAX {
            if self.len() < AUDIT_ENTRIES_MAX && self.bytes() <= room {
                break;
            }
            self.drop_oldest();
        }
        self.entries.insert(seq, record);
    }

    fn drop_oldest(&mut self) {
        let Some(seq) = self.entries.get_min().map(|(seq, _)| *seq) else { return };
        self.dropped = self.entries.remove(&seq).map(|record| (seq, record.hash));
    }
}
