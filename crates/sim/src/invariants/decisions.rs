//! All nodes decide alike by the access data of one revision, and as the rules say.

use super::invariant::Invariant;
use crate::{
    access_user::{decisions_by, expected_decisions},
    facts::{Applied, Fact},
};
use fairhold_types::{NodeId, Revision};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Decisions {
    /// What each revision of the access data decides.
    known: BTreeMap<Revision, Vec<bool>>,
    /// The access data of each node that was checked last.
    checked: BTreeMap<NodeId, Revision>,
}

impl Decisions {
    fn check(&self, node: NodeId, access: Revision, decisions: &[bool]) -> Result<(), String> {
        match self.known.get(&access) {
            Some(known) if known != decisions => {
                Err(format!("node {node} decides {decisions:?} by the access data of revision {access}, but {known:?} is right"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Invariant for Decisions {
    fn name(&self) -> &'static str {
        "nodes decide alike"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let (node, access) = (applied.node, applied.state.access());
        if self.checked.insert(node, access.revision()) == Some(access.revision()) {
            return Ok(());
        }
        self.known.entry(access.revision()).or_insert_with(|| expected_decisions(access));
        self.check(node, access.revision(), &decisions_by(access))
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Decided { node, access, decisions } = fact else { return Ok(()) };
        self.check(*node, *access, decisions)
    }
}
