//! The processes of the members, as this node last reached them. A copy of a data directory has the same id, but another
//! boot number.

use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The boot numbers of the members' processes. 0 is an unknown number: an older program does not tell it.
#[derive(Debug)]
pub(crate) struct Processes {
    /// This node and its own process, which it never dials.
    own: (NodeId, u64),
    /// The process that answered when this node last dialled a node at the address of the member.
    dialled: Mutex<BTreeMap<NodeId, u64>>,
}

impl Processes {
    /// No other process is known yet. `boot` is the number of this node's own one.
    pub(crate) fn new(id: NodeId, boot: u64) -> Processes {
        Processes { own: (id, boot), dialled: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn record(&self, node: NodeId, boot: u64) {
        self.dialled.lock().insert(node, boot);
    }

    pub(crate) fn of(&self, node: NodeId) -> Option<u64> {
        let (id, boot) = self.own;
        if node == id { Some(boot) } else { self.dialled.lock().get(&node).copied() }
    }

    /// Forgets all other nodes.
    pub(crate) fn retain(&self, nodes: &BTreeSet<NodeId>) {
        self.dialled.lock().retain(|node, _| nodes.contains(node));
    }
}
