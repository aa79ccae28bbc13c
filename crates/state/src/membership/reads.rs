//! Reads of the membership's records.

use super::{Join, JoinToken, Membership, Placement, Removal, Removed};
use fairhold_types::{Incarnation, JoinTokenNumber, NodeId, Timing};

impl Membership {
    /// That of a new cluster: only the timing profile is given.
    pub(crate) fn of_new_cluster(timing: Timing) -> Membership {
        Membership { timing, ..Membership::default() }
    }

    /// The highest id that was ever given to a node, as far as the state knows. New ids are higher.
    #[must_use]
    pub fn ids_through(&self) -> NodeId {
        self.ids_through
    }

    /// All join tokens by number, including used ones, and expired ones that are not forgotten yet.
    pub fn tokens(&self) -> impl Iterator<Item = (JoinTokenNumber, &JoinToken)> {
        self.tokens.iter().map(|(number, token)| (*number, token))
    }

    /// A join token.
    #[must_use]
    pub fn token(&self, number: JoinTokenNumber) -> Option<&JoinToken> {
        self.tokens.get(&number)
    }

    /// The nodes that are joining, by id.
    pub fn joins(&self) -> impl Iterator<Item = (NodeId, &Join)> {
        self.joins.iter().map(|(node, join)| (*node, join))
    }

    /// The pending join of a node.
    #[must_use]
    pub fn join(&self, node: NodeId) -> Option<&Join> {
        self.joins.get(&node)
    }

    /// The pending join of the node with this data directory.
    #[must_use]
    pub fn join_of(&self, incarnation: Incarnation) -> Option<(NodeId, &Join)> {
        self.joins().find(|(_, join)| join.incarnation == incarnation)
    }

    /// The pending join that replaces a member.
    #[must_use]
    pub fn replacement_of(&self, node: NodeId) -> Option<(NodeId, &Join)> {
        self.joins().find(|(_, join)| join.replaces == Some(node))
    }

    /// The nodes that shall be removed, by id.
    pub fn removals(&self) -> impl Iterator<Item = (NodeId, &Removal)> {
        self.removals.iter().map(|(node, removal)| (*node, removal))
    }

    /// The pending removal of a node.
    #[must_use]
    pub fn removal(&self, node: NodeId) -> Option<&Removal> {
        self.removals.get(&node)
    }

    /// The removed nodes that are remembered, by id.
    pub fn removed(&self) -> impl Iterator<Item = (NodeId, &Removed)> {
        self.removed.iter().map(|(node, removed)| (*node, removed))
    }

    /// A removed node, while it is remembered.
    #[must_use]
    pub fn removed_node(&self, node: NodeId) -> Option<&Removed> {
        self.removed.get(&node)
    }

    /// The timing profile of the cluster.
    #[must_use]
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The placement of a member.
    #[must_use]
    pub fn placement(&self, node: NodeId) -> Placement {
        self.placements.get(&node).cloned().unwrap_or_default()
    }

    /// Whether the cluster has set this member's address: then a node's own configuration no longer counts.
    #[must_use]
    pub fn has_set_address(&self, node: NodeId) -> bool {
        self.set_addresses.contains(&node)
    }

    /// Whether no join and no removal is pending.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.joins.is_empty() && self.removals.is_empty()
    }

    /// Whether this id was given to a node that is gone: it is neither joining nor, by the caller's word, a member.
    #[must_use]
    pub fn is_gone(&self, id: NodeId, is_member: bool) -> bool {
        let was_given = id > 0 && id <= self.ids_through;
        self.removed.contains_key(&id) || (was_given && !is_member && !self.joins.contains_key(&id))
    }

    /// How many records a snapshot of it has.
    pub(crate) fn records(&self) -> usize {
        self.tokens.len() + self.joins.len() + self.removals.len() + self.removed.len() + self.placements.len()
    }
}
