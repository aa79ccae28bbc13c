//! Whether there is a leader, and whether the nodes agree on it.

use crate::{
    answer::{ProbedEndpoint, ProbedNode},
    cluster_probe::{ClusterProbe, majority},
    finding::{Finding, fail, ok, warn},
    text::joined,
};
use fairhold_types::{NodeId, duration};
use std::{collections::BTreeSet, time::Duration};

const CHECK: &str = "leader";
/// A member that has acknowledged nothing for longer than this does not reach the leader.
pub(super) const SILENT_MAX: Duration = Duration::from_secs(2);

pub(super) fn leader(seen: &ClusterProbe) -> Finding {
    let nodes = seen.nodes();
    let leads: Vec<NodeId> = nodes.iter().filter(|(_, (_, answer))| answer.cluster.role == "leader").map(|(id, _)| *id).collect();
    let named: BTreeSet<Option<NodeId>> = nodes.values().map(|(_, answer)| answer.cluster.leader).collect();
    let views = || {
        let say = |(id, (_, answer)): (&NodeId, &(&ProbedEndpoint, &ProbedNode))| match answer.cluster.leader {
            Some(leader) => format!("node {id} says {leader}"),
            None => format!("node {id} says none"),
        };
        nodes.iter().map(say).collect::<Vec<_>>().join(", ")
    };
    match (leads.as_slice(), named.iter().collect::<Vec<_>>().as_slice()) {
        ([leader], [Some(agreed)]) if leader == agreed => {
            let answer = nodes.get(leader).map(|(_, answer)| *answer);
            answer
                .and_then(|answer| cannot_lead(*leader, answer))
                .unwrap_or_else(|| ok(CHECK, format!("node {leader} is the leader, and all nodes that answer agree")))
        }
        ([], [None]) => fail(
            CHECK,
            "there is no leader",
            "check that a majority of the nodes runs and that they reach each other's peer ports; then they elect a leader \
             within a second",
        ),
        ([], [Some(leader)]) if !nodes.contains_key(leader) => warn(
            CHECK,
            format!("all nodes that answer name node {leader} as the leader, but it does not answer this machine"),
            format!(
                "if node {leader} runs, repair the way from this machine to its URL, or correct the URL (fairhold cluster \
                 set-member {leader} --url). If it is down, the others elect another leader: run doctor again in a second"
            ),
        ),
        ([_], _) => warn(
            CHECK,
            format!("the nodes do not agree on the leader: {}", views()),
            "an election may have just ended: run doctor again in a second",
        ),
        _ => fail(
            CHECK,
            format!("the nodes do not agree on the leader: {}", views()),
            "run doctor again in a second; if they still disagree, check that the nodes can reach each other's peer ports in \
             both directions",
        ),
    }
}

/// Why a node that calls itself the leader is none any more, or will not be one for long. Without a majority, it takes a
/// while until it says so.
fn cannot_lead(leader: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let voters: Vec<_> = answer.cluster.members.iter().filter(|member| member.role != "learner").collect();
    let is_long = |text: &str| duration::parse(text).is_ok_and(|silent| silent > SILENT_MAX);
    let silent = voters.iter().filter(|member| member.id != leader && member.silent_for.as_deref().is_some_and(is_long));
    let silent: Vec<NodeId> = silent.map(|member| member.id).collect();
    if !silent.is_empty() && voters.len() - silent.len() < majority(voters.len()) {
        return Some(fail(
            CHECK,
            format!("node {leader} calls itself the leader, but the majority does not answer it: node {}", joined(&silent)),
            "start these nodes, or repair the network between them and the leader: without a majority, no node can lead",
        ));
    }
    let readiness = answer.readiness.as_ref().filter(|readiness| !readiness.ready && !readiness.shutting_down)?;
    Some(warn(
        CHECK,
        format!(
            "node {leader} calls itself the leader, but cannot serve: {}",
            readiness.reason.as_deref().unwrap_or("no reason")
        ),
        "run doctor again in a second; if this persists, see its ready line below",
    ))
}
