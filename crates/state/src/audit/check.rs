//! The invariants of the audit.

use super::ring::AuditRing;
use crate::{State, check::ensure};
use fairhold_types::{
    Revision,
    cluster_version::AUDIT_SINCE,
    limits::{AUDIT_BYTES_MAX, AUDIT_ENTRIES_MAX},
};

impl State {
    /// Checks every invariant. The error says what is wrong.
    pub(crate) fn check_audit(&self) -> Result<(), String> {
        let is_early = self.version < AUDIT_SINCE && *self.audit != AuditRing::default();
        ensure(!is_early, || "acts were recorded before the cluster's version has the audit".to_owned())?;
        self.audit.check()?;
        let newest = self.audit.from(0).next_back().map(|(_, record)| record.revision);
        ensure(newest <= Some(self.revision), || "an act was recorded at a later revision than that of the state".to_owned())
    }
}

impl AuditRing {
    /// Checks that the chain is whole, and within its bounds.
    pub fn check(&self) -> Result<(), String> {
        let (len, bytes) = (self.len(), self.bytes());
        ensure(len <= AUDIT_ENTRIES_MAX, || format!("the audit has {len} entries"))?;
        ensure(bytes <= AUDIT_BYTES_MAX, || format!("the audit has {bytes} bytes"))?;
        ensure(self.entries.recounted() == bytes, || "the audit counts other bytes than a walk finds".to_owned())?;
        ensure(self.dropped.is_none() || len > 0, || "the audit dropped its newest entry".to_owned())?;
        let mut expected = self.dropped.map_or(1, |(seq, _)| seq.saturating_add(1));
        let mut revision = Revision(0);
        for (seq, record) in self.from(0) {
            ensure(seq == expected, || format!("audit entry {expected} is missing before entry {seq}"))?;
            let is_whole = record.hash == record.expected_hash(seq, self.previous(seq));
            ensure(is_whole, || format!("the hash of audit entry {seq} is wrong"))?;
            ensure(record.revision > revision, || format!("audit entry {seq} has no later revision than the one before"))?;
            (expected, revision) = (seq + 1, record.revision);
        }
        let mut rebuilt = AuditRing::default();
        for saved in self.saved() {
            rebuilt.restore(saved);
        }
        ensure(rebuilt == *self, || "the audit differs from what a snapshot has of it".to_owned())
    }
}
