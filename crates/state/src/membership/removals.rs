//! How the removal of a node is requested and recorded.

use super::{Membership, Removal, Removed, RequestRemoval};
use crate::{
    change::{Change, Effect},
    event::{ClusterEvent, Event},
    outcome::Outcome,
    rejection::Rejection,
};
use fairhold_types::{Incarnation, NodeId, limits};
use std::sync::Arc;

impl Membership {
    /// Counts all ids up to these as given. A node that is removed had an id, so no other node may get it.
    fn count_ids(&mut self, ids_through: NodeId, node: NodeId) {
        self.ids_through = self.ids_through.max(ids_through).max(node);
    }

    /// Who or what removes a node.
    fn remover_of(&self, node: NodeId) -> String {
        let requested = self.removal(node).map(|removal| removal.by.clone());
        let replaced = || self.replacement_of(node).map(|(newer, _)| format!("replaced by node {newer}"));
        requested.or_else(replaced).unwrap_or_default()
    }

    /// Whether one of these voters neither is removed nor shall be.
    fn keeps_one_of(&self, voters: &[NodeId]) -> bool {
        voters.iter().any(|voter| self.removal(*voter).is_none() && self.removed_node(*voter).is_none())
    }

    /// Forgets the oldest removals beyond the limit. Their ids are not given again all the same.
    fn forget_oldest_removals(&mut self) {
        while self.removed.len() > limits::REMOVED_NODES_MAX {
            let oldest = self.removed.iter().min_by_key(|(_, removed)| removed.revision).map(|(node, _)| *node);
            oldest.into_iter().for_each(|node| drop(self.removed.remove(&node)));
        }
    }
}

impl Change<'_> {
    /// Records that a node shall be removed. A cluster without voters can do nothing, and a removal is never withdrawn: so
    /// the removals of all voters are never recorded, even if they were requested at the same time.
    pub(crate) fn request_removal(&mut self, request: &RequestRemoval) -> Result<Effect, Rejection> {
        let node = request.node;
        let membership = &self.state.membership;
        if membership.removed_node(node).is_some() || membership.removal(node).is_some() {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        if !membership.keeps_one_of(&request.other_voters) {
            return Err(Rejection::NoVoterLeft { node });
        }
        let membership = Arc::make_mut(&mut self.state.membership);
        membership.count_ids(request.ids_through, node);
        membership.removals.insert(node, Removal { by: request.by.clone(), requested_at: request.at });
        self.events.push(Event::Cluster(ClusterEvent::Removing { node, by: request.by.clone() }));
        Ok(Effect::Changed(Outcome::Done))
    }

    /// Records that a node is no longer a member, and never will be again. Everything about it is dropped.
    pub(crate) fn record_removal(&mut self, node: NodeId, incarnation: Option<Incarnation>, ids_through: NodeId) -> Effect {
        if self.state.membership.removed_node(node).is_some() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        let membership = Arc::make_mut(&mut self.state.membership);
        let by = membership.remover_of(node);
        membership.count_ids(ids_through, node);
        membership.removals.remove(&node);
        membership.placements.remove(&node);
        membership.set_addresses.remove(&node);
        let of_join = membership.joins.remove(&node).map(|join| join.incarnation);
        let incarnation = incarnation.or(of_join);
        membership.removed.insert(node, Removed { incarnation, revision: self.revision, by: by.clone(), at: self.at });
        membership.forget_oldest_removals();
        self.events.push(Event::Cluster(ClusterEvent::Removed { node, by }));
        Effect::Changed(Outcome::Done)
    }
}
