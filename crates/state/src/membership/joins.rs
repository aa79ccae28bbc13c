//! How a node gets its id, and how its join ends.

use super::{AdmitNode, Join, JoinToken, JoinTokenFault, Membership};
use crate::{
    change::{Change, Effect},
    event::{ClusterEvent, Event},
    outcome::Outcome,
    rejection::Rejection,
};
use fairhold_types::{
    Incarnation, JoinTokenNumber, MemberRole, NodeId, limits,
    planted::{self, Bug},
};
use std::sync::Arc;

/// What a join token admits a node as.
struct Admission {
    node: NodeId,
    role: MemberRole,
    replaces: Option<NodeId>,
}

impl Admission {
    fn outcome(self) -> Outcome {
        let Admission { node, role, replaces } = self;
        Outcome::Admitted { node, role, replaces }
    }
}

impl Membership {
    fn token_with_secret(&self, number: JoinTokenNumber, secret_hash: &[u8; 32]) -> Result<&JoinToken, JoinTokenFault> {
        self.token(number).filter(|token| token.secret_hash == *secret_hash).ok_or(JoinTokenFault::Unknown)
    }

    /// The earlier admission of the node with this data directory, if it has one that counts.
    fn earlier_admission(&self, token: &JoinToken, incarnation: Incarnation) -> Option<Admission> {
        if let Some((node, join)) = self.join_of(incarnation) {
            return Some(Admission { node, role: join.role, replaces: join.replaces });
        }
        // Its join is done. A token does not admit a node that has been removed.
        let (node, _) = token.used_by.filter(|(node, used_by)| *used_by == incarnation && !self.removed.contains_key(node))?;
        Some(Admission { node, role: token.role, replaces: token.replaces })
    }

    /// Refuses a node that the token does not admit.
    fn require_admissible(&self, token: &JoinToken, request: &AdmitNode) -> Result<(), Rejection> {
        if token.is_expired(request.at) {
            return Err(Rejection::JoinToken(JoinTokenFault::Expired));
        }
        if let Some((node, _)) = token.used_by {
            return Err(Rejection::JoinToken(JoinTokenFault::Used { node }));
        }
        // A repeated request may arrive after the node came and went.
        if let Some(node) = self.removed_node_of(request.incarnation) {
            return Err(Rejection::JoinToken(JoinTokenFault::Removed { node }));
        }
        let fits_token =
            if token.standing { token.up_to.is_some() || request.replaces.is_some() } else { request.replaces == token.replaces };
        let is_replaceable = |node| self.removed_node(node).is_none() && self.replacement_of(node).is_none();
        if !fits_token || !request.replaces.is_none_or(is_replaceable) {
            return Err(Rejection::JoinToken(JoinTokenFault::NoReplacement));
        }
        if self.joins.len() >= limits::JOINS_MAX {
            return Err(Rejection::JoinsFull { max: limits::JOINS_MAX as u64 });
        }
        if self.ids_through.max(request.ids_through) == NodeId::MAX {
            return Err(Rejection::Unsupported { what: format!("a node with an id above {}", NodeId::MAX) });
        }
        Ok(())
    }

    /// The removed node with this data directory, if it is remembered.
    fn removed_node_of(&self, incarnation: Incarnation) -> Option<NodeId> {
        self.removed().find(|(_, removed)| removed.incarnation == Some(incarnation)).map(|(node, _)| node)
    }

    /// Takes the next id. There is one: `require_admissible` checks that.
    fn take_id(&mut self, ids_through: NodeId) -> NodeId {
        self.ids_through = self.ids_through.max(ids_through);
        if let Some(id) = self.planted_reused_id() {
            return id;
        }
        self.ids_through += 1;
        self.ids_through
    }

    /// Always `None`, except with the planted bug: the highest id of a removed node.
    fn planted_reused_id(&self) -> Option<NodeId> {
        let id = self.removed.get_max().map(|(id, _)| *id);
        id.filter(|id| planted::has(Bug::JoinReusesId) && !self.joins.contains_key(id))
    }
}

impl Change<'_> {
    /// Admits a node: gives it an id, and records its join. A node that was admitted before gets the same id.
    pub(crate) fn admit_node(&mut self, request: &AdmitNode) -> Result<Effect, Rejection> {
        let membership = &self.state.membership;
        let token = membership.token_with_secret(request.token, &request.secret_hash).map_err(Rejection::JoinToken)?;
        if let Some(admission) = membership.earlier_admission(token, request.incarnation) {
            return Ok(Effect::Unchanged(admission.outcome()));
        }
        membership.require_admissible(token, request)?;
        let (role, standing) = (token.role, token.standing);
        let membership = Arc::make_mut(&mut self.state.membership);
        let node = membership.take_id(request.ids_through);
        let join = Join {
            incarnation: request.incarnation,
            url: request.url.clone(),
            address: request.address.clone(),
            role,
            replaces: request.replaces,
            token: request.token,
            requested_at: request.at,
        };
        membership.joins.insert(node, join);
        if let Some(token) = membership.tokens.get_mut(&request.token).filter(|_| !standing) {
            token.used_by = Some((node, request.incarnation));
        }
        self.events.push(Event::Cluster(ClusterEvent::Joining { node, role, replaces: request.replaces }));
        Ok(Effect::Changed(Admission { node, role, replaces: request.replaces }.outcome()))
    }

    /// Ends a join that is done. From now on the address of the node is the one that the cluster has set.
    pub(crate) fn settle_join(&mut self, node: NodeId) -> Effect {
        let Some(role) = self.state.membership.join(node).map(|join| join.role) else {
            return Effect::Unchanged(Outcome::Nothing);
        };
        let membership = Arc::make_mut(&mut self.state.membership);
        membership.joins.remove(&node);
        membership.set_addresses.insert(node);
        self.events.push(Event::Cluster(ClusterEvent::Joined { node, role }));
        Effect::Changed(Outcome::Done)
    }
}
