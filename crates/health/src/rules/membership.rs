//! Rules about changes of the members, and about the places of the voters.

use crate::{
    cluster_probe::{ClusterProbe, majority},
    finding::{Finding, ok, warn},
    text::joined,
};
use fairhold_types::{
    NodeId,
    dto::{Join, JoinPhase},
    duration,
    time::WallMillis,
};
use std::{collections::BTreeMap, time::Duration};

/// A join that takes longer is held up.
const JOIN_MAX: Duration = Duration::from_secs(600);
/// How the leader begins the status of a removal that is held up.
const WAITS: &str = "waits";
/// With fewer voters, the failure of any voter stops the service, wherever it is.
const SPREAD_VOTERS_MIN: usize = 3;

/// The joins that are not complete.
pub(super) fn joins(seen: &ClusterProbe) -> Vec<Finding> {
    let joins = seen.details.members.iter().flat_map(|members| &members.joins);
    joins.map(|one| join(one, seen.begun_at)).collect()
}

/// Whether this node has begun to join, and is not done.
pub(super) fn is_joining(seen: &ClusterProbe, id: NodeId) -> bool {
    seen.details.members.iter().flat_map(|members| &members.joins).any(|join| join.id == id)
}

/// A node that the cluster has admitted, but that has not heard of its cluster: the leader does not reach it.
pub(super) fn unreached_join(seen: &ClusterProbe, url: &str, id: NodeId) -> Option<Finding> {
    let mut joins = seen.details.members.iter().flat_map(|members| &members.joins);
    let Join { url: known, peer, .. } = joins.find(|join| join.id == id)?;
    Some(warn(
        "endpoint",
        format!("{url} is node {id}, which joins with --advertise {known},{peer}, and the leader has not reached it there yet"),
        format!(
            "if these are not its addresses, start it with the right ones, and run fairhold cluster set-member {id} --url {url} \
             --peer HOST:PORT; otherwise check that the other nodes reach {peer}"
        ),
    ))
}

fn join(join: &Join, now: WallMillis) -> Finding {
    const CHECK: &str = "join";
    let id = join.id;
    let since = WallMillis::from_rfc3339(&join.requested_at).unwrap_or(now);
    let took = Duration::from_millis(now.0.saturating_sub(since.0));
    let phase = match join.phase {
        JoinPhase::Pending => "it is not a member yet".to_owned(),
        JoinPhase::CatchingUp => match join.lag {
            Some(lag) => format!("it is {lag} log entries behind the leader"),
            None => "it has not answered the leader yet".to_owned(),
        },
        JoinPhase::Promoting => "it has caught up, and is to become a voter".to_owned(),
    };
    let status = join.waits_for.clone().unwrap_or(phase);
    let text = format!("node {id} at {} began to join {} ago: {status}", join.url, duration::rounded(took));
    if took <= JOIN_MAX {
        return ok(CHECK, text);
    }
    let advice = format!(
        "check that node {id} runs (its log says what it waits for) and that the leader reaches it at {}; to give up the join: \
         fairhold cluster remove {id}",
        join.peer
    );
    warn(CHECK, text, advice)
}

/// The removals that are not complete.
pub(super) fn removals(seen: &ClusterProbe) -> Vec<Finding> {
    let members = seen.details.members.iter().flat_map(|members| &members.members);
    let removals = members.filter_map(|member| {
        let status = member.removal.as_ref()?;
        let text = format!("node {} is to be removed: {status}", member.id);
        let advice = "repair what it waits for: the removal then continues by itself";
        Some(if status.starts_with(WAITS) { warn("removal", text, advice) } else { ok("removal", text) })
    });
    removals.collect()
}

/// Whether the failure of one zone would stop the service.
pub(super) fn zones(seen: &ClusterProbe) -> Vec<Finding> {
    const CHECK: &str = "zones";
    let Some(known) = &seen.details.members else { return Vec::new() };
    let voters: Vec<_> = known.members.iter().filter(|member| member.role != "learner").collect();
    let mut by_zone: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for voter in &voters {
        if let Some(zone) = &voter.zone {
            by_zone.entry(zone).or_default().push(voter.id);
        }
    }
    if by_zone.is_empty() || voters.len() < SPREAD_VOTERS_MIN {
        return Vec::new();
    }
    let count = voters.len();
    let zones = by_zone.len();
    let are_all_known = voters.iter().all(|voter| voter.zone.is_some());
    let critical = by_zone.into_iter().filter(|(_, ids)| count - ids.len() < majority(count)).map(|(zone, ids)| {
        warn(
            CHECK,
            format!("{} of {count} voters are in zone {zone} (node {})", ids.len(), joined(&ids)),
            format!("move voters to other zones: if zone {zone} fails, the cluster has no majority"),
        )
    });
    let critical: Vec<Finding> = critical.collect();
    if critical.is_empty() && are_all_known {
        return vec![ok(CHECK, format!("the voters are in {zones} zones, and the cluster survives the failure of any of them"))];
    }
    critical
}
