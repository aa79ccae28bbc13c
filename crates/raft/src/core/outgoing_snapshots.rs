//! Counts the snapshots that are being sent to other nodes: the log after them is kept until they have arrived.
//!
//! A node that receives a snapshot continues with the log after it. If that log is purged meanwhile, because heavy
//! writing has already produced the next snapshot, the node gets that snapshot, and then the next one, and never
//! catches up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the snapshots that this node is sending. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutgoingSnapshots(Arc<AtomicUsize>);

/// One snapshot that is being sent, until it is dropped.
#[derive(Debug)]
pub(crate) struct OutgoingSnapshot(Arc<AtomicUsize>);

impl OutgoingSnapshots {
    /// Counts one more, until the returned value is dropped.
    pub(crate) fn begin(&self) -> OutgoingSnapshot {
        self.0.fetch_add(1, Ordering::Relaxed);
        OutgoingSnapshot(Arc::clone(&self.0))
    }

    /// Whether any snapshot is being sent.
    pub(crate) fn is_active(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for OutgoingSnapshot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
        let second = outgoing_snapshots.clone().begin();
        drop(first);
        assert!(outgoing_snapshots.is_active());
        drop(second);
        assert!(!outgoing_snapshots.is_active());
    }
}
