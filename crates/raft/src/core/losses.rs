//! Which nodes have reported that their storage lost log entries.

use crate::base::{lost_entries::LostEntries, peer::Refusal};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The reported losses, by node.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<BTreeMap<NodeId, LostEntries>>);

impl Losses {
    /// Records the loss that a refusal reports, and logs it once.
    pub(crate) fn record(&self, refusal: &Refusal) {
        let Refusal::LostEntries(lost) = refusal else { return };
        if self.0.lock().insert(lost.node, lost.clone()).as_ref() != Some(lost) {
            tracing::error!(node = lost.node, "{lost}");
        }
    }

    /// Forgets a node's loss: it takes part again, with its newest data directory.
    pub(crate) fn forget(&self, node: NodeId) {
        self.0.lock().remove(&node);
    }

    /// What a node has lost, if anything.
    pub(crate) fn of(&self, node: NodeId) -> Option<LostEntries> {
        self.0.lock().get(&node).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_known_until_the_node_takes_part_again() {
        let losses = Losses::default();
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: Some(40) };
        losses.record(&Refusal::Starting);
        losses.record(&Refusal::LostEntries(lost.clone()));
        assert_eq!((losses.of(1), losses.of(2)), (None, Some(lost)));
        losses.forget(2);
        assert_eq!(losses.of(2), None);
    }
}
