//! Changes of a member that an operator requests.
//!
//! A removal is recorded in the state, and the reconciler does it. The leader makes the other changes at once. Each
//! says what the member becomes, so a repeated request does no harm. A key is recorded after the change: from then
//! on, every late copy of the request does nothing.

use crate::{
    base::{
        membership::{MemberChange, MemberRequest, MembershipError},
        wall_clock::wall_now,
    },
    core::{Core, leadership_in},
    leadership::{
        membership_calls::{
            member_request::{Made, Request, in_progress, other_change, require_member},
            ready::{check_version, leading, turn},
        },
        reconciler::{
            plan::{self, Health},
            view::Sight,
        },
    },
    queues::Queues,
};
use fairhold_state::command::{Command, NotedAct, RequestRemoval, SetMember};
use fairhold_types::{
    NodeId,
    limits::{LEARNERS_MAX, VOTERS_MAX},
};
use openraft::{AsyncRuntime, ChangeMembers};
use std::{collections::BTreeSet, sync::Arc};

/// Changes a member if this node leads. If the caller leaves, this goes on: a change that has begun gets its note.
pub(crate) async fn serve<RT: AsyncRuntime>(
    core: &Arc<Core<RT>>,
    queues: &Queues,
    change: MemberChange,
    deadline: RT::Instant,
) -> Result<(), MembershipError> {
    let (core, queues) = (Arc::clone(core), queues.clone());
    let served = RT::spawn(async move { serve_here(&core, &queues, change, deadline).await });
    // Without an answer, the runtime ends.
    served.await.unwrap_or(Err(MembershipError::NoLeader))
}

async fn serve_here<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    change: MemberChange,
    deadline: RT::Instant,
) -> Result<(), MembershipError> {
    let leadership = leading(core, queues, deadline).await.ok_or(MembershipError::NoLeader)?;
    check_version(&core.shared.read())?;
    let MemberChange { request, guard, origin } = change;
    let here = Request { core, queues, leadership, guard, origin, deadline };
    here.check_guard()?;
    match request {
        MemberRequest::Remove { node, by } => here.remove(node, by).await,
        MemberRequest::Promote { node, key, by } => {
            tracing::info!(node, "making node {node} a voter, as {by} requested");
            here.once(key, NotedAct::Promote { node }, here.promote(node)).await
        }
        MemberRequest::Demote { node, key, by } => {
            tracing::info!(node, "making node {node} a learner, as {by} requested");
            here.once(key, NotedAct::Demote { node }, here.demote(node)).await
        }
        MemberRequest::Set { node, key, url, peer, force, priority, zone, by } => {
            let settings =
                SetMember { key, node, priority, zone, address_set: url.is_some() || peer.is_some(), by, at: wall_now() };
            here.set(settings, url, peer, force).await
        }
    }
}

impl<RT: AsyncRuntime> Request<'_, RT> {
    async fn remove(&self, node: NodeId, by: String) -> Result<(), MembershipError> {
        let turn = turn(self.core, self.deadline).await?;
        self.request_removal(node, by).await?;
        drop(turn);
        self.core.reconcile.notify_one();
        self.removed(node).await
    }

    /// Records that a node shall be removed, unless that was recorded before.
    async fn request_removal(&self, node: NodeId, by: String) -> Result<(), MembershipError> {
        let state = self.core.shared.read().clone();
        let membership = state.membership();
        if membership.removed_node(node).is_some() || membership.removal(node).is_some() {
            return Ok(());
        }
        let mut sight = self.sight();
        if membership.join(node).is_none() {
            require_member(&sight, node)?;
        }
        if let Some((new, _)) = membership.replacement_of(node) {
            return Err(in_progress(format!("node {new} is replacing node {node}")));
        }
        if sight.view.voters.contains(&node) {
            sight = self.sight_of_the_answering(node).await;
            let remaining = remaining_voters(&sight, node)?;
            require_health(sight.view.health_on_the_way_to(&remaining))?;
        }
        tracing::info!(node, "removing node {node}, as {by} requested");
        let other_voters = sight.view.voters_without(node).into_iter().collect();
        let request = RequestRemoval { node, ids_through: sight.ids_through(), by, at: wall_now(), other_voters };
        self.propose(Command::RequestRemoval(request)).await
    }

    /// Waits until a node is removed.
    async fn removed(&self, node: NodeId) -> Result<(), MembershipError> {
        let core = self.core;
        let deposed = core.until(|metrics| (leadership_in(metrics) != Some(self.leadership)).then_some(()));
        let removed = async {
            loop {
                // First the progress, then the state: no change in between is missed.
                let progress = core.shared.progress.get();
                if core.shared.read().membership().removed_node(node).is_some() {
                    return Some(());
                }
                core.progressed(|now| now.revision > progress.revision).await?;
            }
        };
        tokio::select! {
            biased;
            removed = RT::timeout_at(self.deadline, removed) => match removed {
                Ok(Some(())) => Ok(()),
                Ok(None) => Err(MembershipError::NoLeader),
                Err(_) => {
                    let why = plan::removal(&self.sight().view, node).err();
                    let why = why.map_or_else(String::new, |why| format!(": {why}"));
                    Err(MembershipError::Unfinished { what: format!("the removal of node {node}{why}") })
                }
            },
            // The next leader goes on.
            _ = deposed => Err(MembershipError::NoLeader),
        }
    }

    async fn promote(&self, node: NodeId) -> Result<Made, MembershipError> {
        self.change_members(node, other_change, |sight| {
            let view = &sight.view;
            if view.voters.contains(&node) {
                return Ok(None);
            }
            let seen = view.seen(node);
            if !seen.is_close() {
                return Err(MembershipError::NotCaughtUp { node, lag: seen.lag.filter(|_| seen.healthy) });
            }
            // A node that was admitted has its place.
            if view.voters_to_be() >= usize::from(VOTERS_MAX) {
                return Err(MembershipError::TooMany { what: "voters".to_owned(), max: u64::from(VOTERS_MAX) });
            }
            let mut voters = view.voters.clone();
            voters.insert(node);
            require_health(view.health_on_the_way_to(&voters))?;
            Ok(Some(ChangeMembers::AddVoterIds(BTreeSet::from([node]))))
        })
        .await
    }

    async fn demote(&self, node: NodeId) -> Result<Made, MembershipError> {
        if node == self.core.id && self.sight().view.voters.contains(&node) {
            return self.step_down(node).await;
        }
        self.change_members(node, other_change, |sight| {
            let view = &sight.view;
            if !view.voters.contains(&node) {
                return Ok(None);
            }
            if view.learners_to_be() >= usize::from(LEARNERS_MAX) {
                return Err(MembershipError::TooMany { what: "learners".to_owned(), max: u64::from(LEARNERS_MAX) });
            }
            remaining_voters(sight, node)?;
            require_health(view.health_on_the_way_to(&view.voters_without(node)))?;
            Ok(Some(ChangeMembers::RemoveVoters(BTreeSet::from([node]))))
        })
        .await
    }

    /// The leader itself is to lose its vote: it hands over, and the next leader makes the change.
    async fn step_down(&self, node: NodeId) -> Result<Made, MembershipError> {
        let sight = self.sight_of_the_answering(node).await;
        remaining_voters(&sight, node)?;
        let voters = sight.view.voters_without(node);
        require_health(sight.view.health_on_the_way_to(&voters))?;
        Err(self.hand_over(&sight, "this node becomes a learner").await)
    }
}

/// The other voters, without those that are being removed. Fails if there are none.
fn remaining_voters(sight: &Sight, node: NodeId) -> Result<BTreeSet<NodeId>, MembershipError> {
    let others = sight.view.voters_without(node);
    let remaining: BTreeSet<NodeId> = others.difference(&sight.view.removals).copied().collect();
    match others.first() {
        None => Err(MembershipError::LastVoter { node }),
        Some(other) if remaining.is_empty() => {
            Err(in_progress(format!("node {other} is being removed, and no other voter would remain")))
        }
        Some(_) => Ok(remaining),
    }
}

pub(super) fn require_health(health: Health) -> Result<(), MembershipError> {
    let Health { voters, healthy, needed } = health;
    if health.is_enough() { Ok(()) } else { Err(MembershipError::WouldLoseQuorum { voters, healthy, needed }) }
}
