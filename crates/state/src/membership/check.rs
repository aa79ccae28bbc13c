//! The invariants of the membership's records.

use super::Membership;
use crate::check::ensure;
use fairhold_types::{NodeId, Revision, limits};

impl Membership {
    /// Checks every invariant. The error says what is wrong.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), String> {
        self.check_tokens()?;
        self.check_ids()?;
        let joins = self.joins.len();
        ensure(joins <= limits::JOINS_MAX, || format!("{joins} nodes are joining"))?;
        for (node, join) in self.joins() {
            let alone = self.joins().all(|(other, with)| other == node || with.incarnation != join.incarnation);
            ensure(alone, || format!("node {node} shares its data directory with another node that is joining"))?;
            let replaces =
                join.replaces.and_then(|member| self.joins().filter(|(_, other)| other.replaces == Some(member)).nth(1));
            ensure(replaces.is_none(), || format!("node {node} and another node replace the same member"))?;
        }
        let (count, newest) = (self.removed.len(), self.removed.values().map(|removed| removed.revision).max());
        ensure(count <= limits::REMOVED_NODES_MAX, || format!("{count} removed nodes are remembered"))?;
        ensure(newest <= Some(revision), || "a node was removed at a later revision than that of the state".to_owned())
    }

    fn check_tokens(&self) -> Result<(), String> {
        let count = self.tokens.len();
        ensure(count <= limits::JOIN_TOKENS_MAX, || format!("{count} join tokens are remembered"))?;
        for (number, token) in self.tokens() {
            ensure(number.0 <= self.tokens_created, || format!("join token {number} was never created"))?;
            let unused = token.used_by.is_none();
            ensure(unused || !token.standing, || format!("the standing join token {number} is used up"))?;
            let given = token.used_by.is_none_or(|(node, _)| node <= self.ids_through);
            ensure(given, || format!("join token {number} was used by a node without an id"))?;
        }
        Ok(())
    }

    /// Every id that occurs was given to a node, and nothing is left of a removed node.
    fn check_ids(&self) -> Result<(), String> {
        let given = self.joins.keys().chain(self.removals.keys()).chain(self.removed.keys()).max();
        ensure(given <= Some(&self.ids_through), || format!("node {given:?} has an id that was never given"))?;
        let with_removed = |node: &NodeId| self.removed.contains_key(node);
        let mut known = self.joins.keys().chain(self.removals.keys()).chain(self.placements.keys()).chain(&self.set_addresses);
        let left = known.find(|node| with_removed(node));
        left.map_or(Ok(()), |node| Err(format!("node {node} was removed, but something is left of it")))
    }
}
