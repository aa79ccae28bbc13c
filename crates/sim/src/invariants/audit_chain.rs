//! The audit of administrative acts is one chain: whole at every node, with the same entries at all nodes, and without a loss
//! by a snapshot or a restart. Before the version that has it, there are no entries.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_state::audit::{AuditHead, ChainHash};
use fairhold_types::{NodeId, Revision, cluster_version::AUDIT_SINCE};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct AuditChain {
    /// Each entry by its number, as first seen: its revision and its hash.
    known: BTreeMap<u64, (Revision, ChainHash)>,
    /// The newest entry of each node whose chain was checked.
    checked: BTreeMap<NodeId, AuditHead>,
}

impl Invariant for AuditChain {
    fn name(&self) -> &'static str {
        "the audit is one chain"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let (node, ring) = (applied.node, applied.state.audit());
        let head = ring.head();
        if applied.state.cluster_version() < AUDIT_SINCE && head.is_some() {
            return Err(format!("node {node} records acts before the cluster's version has the audit"));
        }
        // An entry that any node has at this revision or before, every node has then.
        let newest = self.known.iter().rev().find(|(_, (revision, _))| *revision <= applied.revision);
        if let Some((seq, (revision, _))) = newest
            && head.is_none_or(|head| head.seq < *seq)
        {
            return Err(format!("node {node} lost act {seq} of revision {revision}: its newest is {head:?}"));
        }
        let Some(head) = head else { return Ok(()) };
        if self.checked.get(&node) == Some(&head) {
            return Ok(());
        }
        ring.check().map_err(|error| format!("node {node} at revision {}: {error}", applied.revision))?;
        for (seq, record) in ring.from(0) {
            let (revision, hash) = *self.known.entry(seq).or_insert((record.revision, record.hash));
            if (revision, hash) != (record.revision, record.hash) {
                let first = format!("{hash} at revision {revision}");
                return Err(format!("act {seq} is {first}, and at node {node} {} at {}", record.hash, record.revision));
            }
        }
        self.checked.insert(node, head);
        Ok(())
    }
}
