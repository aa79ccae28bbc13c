//! Rules about the network between the nodes: addresses and round trips.

use crate::{
    doctor::finding::{Finding, ok, warn},
    probe::ClusterProbe,
};
use fairhold_types::{NodeId, duration};
use std::{collections::BTreeMap, time::Duration};

/// Half a heartbeat interval. With round trips near a whole interval, the leader changes again and again.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(25);

/// How long a majority takes to answer the leader.
pub(super) fn round_trip(seen: &ClusterProbe) -> Option<Finding> {
    const CHECK: &str = "round_trip";
    let nodes = seen.nodes();
    let (_, answer) = nodes.values().find(|(_, answer)| answer.cluster.role == "leader")?;
    let voters = answer.cluster.members.iter().filter(|member| member.role != "learner");
    let count = voters.clone().count();
    let known = |text: &Option<String>| duration::parse(text.as_deref()?).ok();
    let mut took: Vec<Duration> = voters.filter_map(|member| known(&member.round_trip)).collect();
    took.sort_unstable();
    // The leader itself is part of the majority.
    let took = *took.get((count / 2).checked_sub(1)?)?;
    let text = format!("a majority takes {} ms to answer a heartbeat", took.as_millis());
    Some(if took > ROUND_TRIP_MAX {
        warn(CHECK, text, "move the nodes closer together: near 50 ms no leader lasts, and the cluster cannot serve")
    } else {
        ok(CHECK, text)
    })
}

/// Whether all nodes have the same addresses for each member. A node uses the addresses of its own configuration.
pub(super) fn addresses(seen: &ClusterProbe) -> Vec<Finding> {
    let nodes = seen.nodes();
    let mut by_member: BTreeMap<NodeId, BTreeMap<(&str, &str), Vec<NodeId>>> = BTreeMap::new();
    for (by, (_, answer)) in &nodes {
        for member in &answer.cluster.members {
            by_member.entry(member.id).or_default().entry((&member.url, &member.peer)).or_default().push(*by);
        }
    }
    let differing = by_member.into_iter().filter(|(_, addresses)| addresses.len() > 1).map(|(id, addresses)| {
        let say = |((url, peer), by): ((&str, &str), Vec<NodeId>)| format!("{url},{peer} (on node {})", joined(&by));
        let lists: Vec<String> = addresses.into_iter().map(say).collect();
        warn(
            "addresses",
            format!("the nodes were started with different addresses for node {id}: {}", lists.join("; ")),
            "restart every node with the same list of members, one node at a time",
        )
    });
    differing.collect()
}

fn joined(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
