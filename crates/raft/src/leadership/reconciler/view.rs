//! What the leader sees: Raft's membership, what it knows about the members, and the requests in the state.

use crate::{
    base::{
        aliases::LogId,
        types::{Member, Types},
    },
    core::{
        Core,
        status::{acknowledged_at, lag_of_some_log, silent_for},
    },
    leadership::reconciler::plan::{PendingJoin, Phase, Seen, View},
};
use fairhold_state::membership::Membership;
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant, RaftMetrics};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A member that has acknowledged nothing for this many leases is not healthy.
const HEALTHY_LEASES: u32 = 2;

/// What the leader sees at one moment.
pub(crate) struct Sight {
    pub(crate) view: View,
    /// The log entry that set the members.
    pub(crate) set_by: Option<LogId>,
    /// The members.
    pub(crate) nodes: BTreeMap<NodeId, Member>,
}

impl Sight {
    /// The highest id of a member.
    pub(crate) fn ids_through(&self) -> NodeId {
        self.nodes.last_key_value().map_or(0, |(id, _)| *id)
    }
}

/// Which members count as healthy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answered<I> {
    /// A member is healthy if it has answered within the last two leases. This is enough to show its state, and to
    /// decide what to try.
    Lately,
    /// A member is healthy if it has answered a request that the leader sent at this moment or later. A member that died
    /// just before is not, so no change of the voters relies on it.
    Since(I),
}

/// Sends a heartbeat to all members, and waits until the voters and `others` have answered it, at most for a lease. A
/// member that has been silent for long is not waited for: it counts only if it answers in time. A new leader waits for
/// all: a member from which it has heard nothing yet may be healthy.
pub(crate) async fn ask<RT: AsyncRuntime>(core: &Core<RT>, others: impl IntoIterator<Item = NodeId>) -> Answered<RT::Instant> {
    let others: Vec<NodeId> = others.into_iter().collect();
    let asked_at = RT::Instant::now();
    let answered = core.until_any_metrics(|metrics| {
        let voters = metrics.membership_config.voter_ids();
        let is_new = core.links.round_trips.led_for(metrics.vote.leader_id) < core.lease * HEALTHY_LEASES;
        let is_healthy = |id, answered| is_healthy(core.lease, metrics, id, answered);
        let is_expected = |id| is_healthy(id, Answered::Lately) || (is_new && acknowledged_at(metrics, id).is_none());
        let is_awaited = |id| is_expected(id) && !is_healthy(id, Answered::Since(asked_at));
        let mut asked = voters.chain(others.iter().copied());
        (!asked.any(is_awaited)).then_some(())
    });
    // If Raft has stopped, the caller finds out.
    drop(core.raft.trigger().heartbeat().await);
    drop(RT::timeout(core.lease, answered).await);
    Answered::Since(asked_at)
}

/// Looks around. `has_caught_up` gets each learner, and whether it is close behind now.
pub(crate) fn look<RT: AsyncRuntime>(
    core: &Core<RT>,
    membership: &Membership,
    abandoned: bool,
    answered: Answered<RT::Instant>,
    mut has_caught_up: impl FnMut(NodeId, bool) -> bool,
) -> Sight {
    let mut sight = core.with_metrics(|metrics| sight(core, metrics, membership, abandoned, answered));
    for learner in &sight.view.learners {
        if let Some(seen) = sight.view.seen.get_mut(learner) {
            seen.caught_up = has_caught_up(*learner, seen.is_close());
        }
    }
    sight
}

fn sight<RT: AsyncRuntime>(
    core: &Core<RT>,
    metrics: &RaftMetrics<Types<RT>>,
    membership: &Membership,
    abandoned: bool,
    answered: Answered<RT::Instant>,
) -> Sight {
    let members = metrics.membership_config.membership();
    let configs = members.get_joint_config();
    let voters: BTreeSet<NodeId> = configs.last().cloned().unwrap_or_default();
    let nodes: BTreeMap<NodeId, Member> = members.nodes().map(|(id, member)| (*id, member.clone())).collect();
    let learners = nodes.keys().copied().filter(|id| !voters.contains(id)).collect();
    let set_by = *metrics.membership_config.log_id();
    let phase = if set_by != *metrics.committed_membership_config.log_id() {
        Phase::Uncommitted
    } else if configs.len() > 1 {
        Phase::Joint { abandoned }
    } else {
        Phase::Uniform
    };
    let seen = nodes.keys().map(|id| {
        let healthy = is_healthy(core.lease, metrics, *id, answered);
        (*id, Seen { healthy, lag: lag_of_some_log(metrics, &core.links.losses, *id), caught_up: false })
    });
    let joins = membership.joins().map(|(node, join)| {
        let is_replaced_recorded = join.replaces.is_none_or(|old| membership.removed_node(old).is_some());
        (node, PendingJoin { role: join.role, replaces: join.replaces, is_replaced_recorded })
    });
    let view = View {
        leader: core.id,
        voters,
        learners,
        phase,
        seen: seen.collect(),
        joins: joins.collect(),
        removals: membership.removals().map(|(node, _)| node).collect(),
    };
    Sight { view, set_by, nodes }
}

/// Whether a member answers this leader. The leader itself always does.
pub(crate) fn is_healthy<RT: AsyncRuntime>(
    lease: Duration,
    metrics: &RaftMetrics<Types<RT>>,
    id: NodeId,
    answered: Answered<RT::Instant>,
) -> bool {
    id == metrics.id
        || match answered {
            Answered::Lately => silent_for(metrics, id).is_some_and(|silent| silent <= lease * HEALTHY_LEASES),
            Answered::Since(asked_at) => acknowledged_at(metrics, id).is_some_and(|at| at >= asked_at),
        }
}
