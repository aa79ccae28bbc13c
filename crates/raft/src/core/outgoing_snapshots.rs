//! Counts the snapshots that are being sent to other nodes: the log after them is kept until they have arrived.
//!
//! A node that receives a snapshot continues with the log after it. If that log is purged meanwhile, because heavy
//! writing has already produced the next snapshot, the node gets that snapshot, and then the next one, and never
//! catches up.

use std::sync::Arc;

/// Counts the snapshots that this node is sending: one reference for each.
#[derive(Debug, Default)]
pub(crate) struct OutgoingSnapshots(Arc<()>);

impl OutgoingSnapshots {
    /// Counts one more, until the returned value is dropped.
    pub(crate) fn begin(&self) -> Arc<()> {
        Arc::clone(&self.0)
    }

    /// Whether any snapshot is being sent.
    pub(crate) fn is_active(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_is_active_until_the_last_snapshot_has_ended() {
        let outgoing_snapshots = OutgoingSnapshots::default();
        assert!(!outgoing_snapshots.is_active());
        let first = outgoing_snapshots.begin();
        let second = outgoing_snapshots.begin();
        drop(first);
        assert!(outgoing_snapshots.is_active());
        drop(second);
        assert!(!outgoing_snapshots.is_active());
    }
}
