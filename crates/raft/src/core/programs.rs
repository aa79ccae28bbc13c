//! The programs of other nodes, as they last introduced themselves.

use crate::base::{peer::Introduction, program::Program};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The programs by node. A node introduces itself on each connection, so a restart with another program replaces its
/// entry before the node answers anything.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<BTreeMap<NodeId, Program>>);

impl Programs {
    pub(crate) fn record(&self, of: &Introduction) {
        let program = Program { version: of.program.clone(), supports: of.supports };
        self.0.lock().insert(of.id, program);
    }

    pub(crate) fn of(&self, node: NodeId) -> Option<Program> {
        self.0.lock().get(&node).cloned()
    }

    /// Forgets all other nodes.
    pub(crate) fn retain(&self, nodes: &BTreeSet<NodeId>) {
        self.0.lock().retain(|node, _| nodes.contains(node));
    }
}
