//! Ends this node once other nodes have told it that it may never take part again, and asks them if it hears nothing.
//!
//! A voter that was removed is told at its next election. But a learner starts no election, and neither does a node
//! that knows of its removal or that was removed before it received the first log entry. A leader that hands over sends
//! nothing until another node leads, so if it is cut off meanwhile, it never learns that another one does. Such a node
//! asks, so that its operator learns why it serves nothing.

use crate::{
    base::{peer::Target, types::Types, wire::PeerRequest},
    core::{Core, status::SILENT_LEASES},
};
use fairhold_types::{ClusterId, NodeId};
use futures_util::future::join_all;
use openraft::{AsyncRuntime, Instant, RaftMetrics};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Interval at which a node that hears nothing asks the others.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Watches until Raft stops. `greeted` are the nodes to ask while this node knows no members; if this node was not part
/// of a cluster before, there are none. `bound_to` is the cluster of its data directory, if it has one.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>, greeted: Vec<Target>, bound_to: Option<ClusterId>) {
    tokio::select! {
        biased;
        () = core.stopped() => {}
        () = core.notice.noticed() => core.stop().await,
        () = ask(&core, &greeted, bound_to) => {}
    }
}

/// Asks the others whenever this node hears nothing. What the answers say about this node is recorded with each call.
async fn ask<RT: AsyncRuntime>(core: &Core<RT>, greeted: &[Target], bound_to: Option<ClusterId>) {
    let started_at = RT::Instant::now();
    let limit = ASK_EVERY.max(core.lease);
    loop {
        RT::sleep(ASK_EVERY).await;
        let targets = nodes_to_ask(core, started_at, greeted);
        // It changes nothing, and every program knows it.
        let request = PeerRequest::ReadIndex;
        let answers = join_all(targets.iter().map(|target| core.call(target, &request)));
        drop(RT::timeout(limit, answers).await);
        let ours = core.shared.read().cluster().or(bound_to);
        if let Some(ours) = ours {
            let others = core.with_metrics(needed_members);
            core.notice.check_foreign(ours, &others, RT::Instant::now());
        }
    }
}

fn nodes_to_ask<RT: AsyncRuntime>(core: &Core<RT>, started_at: RT::Instant, greeted: &[Target]) -> Vec<Target> {
    let members: BTreeMap<NodeId, Target> = core.with_metrics(|metrics| {
        let members = metrics.membership_config.nodes().filter(|(id, _)| **id != core.id);
        members.map(|(id, member)| (*id, core.addresses.target(*id, member))).collect()
    });
    let is_member = core.with_metrics(|metrics| metrics.membership_config.get_node(&core.id).is_some());
    let refusing = core.notice.refused_as_duplicate_by();
    if members.is_empty() && !is_member {
        return greeted.to_vec();
    }
    if !is_member || RT::Instant::now() > last_contact(core, started_at) + core.lease * SILENT_LEASES {
        return members.into_values().collect();
    }
    members.into_iter().filter(|(id, _)| refusing.contains(id)).map(|(_, target)| target).collect()
}

/// When this node was last in contact with its cluster: with a leader, or as the leader with a majority.
fn last_contact<RT: AsyncRuntime>(core: &Core<RT>, started_at: RT::Instant) -> RT::Instant {
    let heard_until = core.contact.quiet_since(core.lease).map_or(started_at, |quiet| quiet.max(started_at));
    if core.leadership().is_none() {
        return heard_until;
    }
    core.with_metrics(majority_answered_at).map_or(heard_until, |answered_at| answered_at.max(heard_until))
}

/// When a majority last answered this leader. A leader that is the only voter needs no answer.
fn majority_answered_at<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> Option<RT::Instant> {
    if needs_no_other(metrics) {
        return Some(RT::Instant::now());
    }
    metrics.last_quorum_acked.map(|answered_at| *answered_at)
}

/// The other members, if this node needs any of them for a majority.
fn needed_members<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> Vec<NodeId> {
    if needs_no_other(metrics) {
        return Vec::new();
    }
    metrics.membership_config.nodes().map(|(id, _)| *id).filter(|id| *id != metrics.id).collect()
}

/// Whether this node is the only voter.
fn needs_no_other<RT: AsyncRuntime>(metrics: &RaftMetrics<Types<RT>>) -> bool {
    metrics.membership_config.voter_ids().all(|voter| voter == metrics.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{
        aliases::{LeaderId, Members},
        types::Member,
    };
    use openraft::{LogId, Membership, metrics::SerdeInstant};
    use openraft_rt_tokio::TokioRuntime;
    use std::collections::BTreeSet;

    type Moment = <TokioRuntime as AsyncRuntime>::Instant;

    /// The metrics of node 1 among these voters and a learner, node 9.
    fn metrics(voters: &[NodeId], answered_at: Option<Moment>) -> RaftMetrics<Types<TokioRuntime>> {
        let mut metrics = RaftMetrics::new_initial(1);
        let nodes: BTreeMap<NodeId, Member> = voters.iter().chain(&[9]).map(|id| (*id, Member::default())).collect();
        let membership = Membership::new(vec![voters.iter().copied().collect::<BTreeSet<_>>()], nodes).unwrap();
        let log_id = LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index: 0 };
        metrics.membership_config = Arc::new(Members::new(Some(log_id), membership));
        metrics.last_quorum_acked = answered_at.map(SerdeInstant::new);
        metrics
    }

    #[test]
    fn a_leader_is_in_contact_while_a_majority_answers_or_is_itself() {
        let before = <Moment as Instant>::now();
        assert_eq!(majority_answered_at(&metrics(&[1, 2, 3], Some(before))), Some(before));
        assert_eq!(majority_answered_at(&metrics(&[1, 2, 3], None)), None, "it was just elected");
        assert!(majority_answered_at(&metrics(&[1], None)) >= Some(before), "it is the only voter");
    }

    #[test]
    fn the_only_voter_needs_no_other_member() {
        assert_eq!(needed_members(&metrics(&[1, 2], None)), [2, 9]);
        assert_eq!(needed_members(&metrics(&[2], None)), [2, 9], "this node is a learner");
        assert!(needed_members(&metrics(&[1], None)).is_empty());
    }
}
