//! Rules about the network between the nodes: addresses, round trips and the timing profile.

use crate::{
    cluster_probe::ClusterProbe,
    finding::{Finding, ok, warn},
    round_trips::longest,
    text::joined,
};
use fairhold_types::{NodeId, Timing, dto::MemberTiming, duration};
use std::{collections::BTreeMap, time::Duration};

/// How long a majority takes to answer the leader.
pub(super) fn round_trip(seen: &ClusterProbe) -> Option<Finding> {
    const CHECK: &str = "round_trip";
    let (_, _, answer) = seen.leader()?;
    let voters = answer.cluster.members.iter().filter(|member| member.role != "learner");
    let count = voters.clone().count();
    let mut took: Vec<Duration> = voters.filter_map(|member| parsed(member.round_trip.as_deref())).collect();
    took.sort_unstable();
    // The leader itself is part of the majority.
    let took = *took.get((count / 2).checked_sub(1)?)?;
    let text = format!("a majority takes {} ms to answer a heartbeat", took.as_millis());
    let heartbeat = seen.details.timing.as_ref().map_or(Timing::Lan, |known| known.timing).heartbeat();
    // With round trips near a whole interval, the leader changes again and again.
    Some(if took > heartbeat / 2 {
        let advice = "move the nodes closer together, or choose a slower timing profile (docs/guides/regions.md): near";
        warn(CHECK, text, format!("{advice} {} ms no leader lasts, and the cluster cannot serve", heartbeat.as_millis()))
    } else {
        ok(CHECK, text)
    })
}

fn parsed(text: Option<&str>) -> Option<Duration> {
    duration::parse(text?).ok()
}

/// Whether the timing profile suits the longest round trip between the leader and a voter.
pub(super) fn timing(seen: &ClusterProbe) -> Option<Finding> {
    const CHECK: &str = "timing";
    let known = seen.details.timing.as_ref()?;
    let voters = known.members.iter().filter(|member| member.voter);
    let round_trips =
        |member: &MemberTiming| (member.id, parsed(member.round_trip_p50.as_deref()), parsed(member.round_trip_p99.as_deref()));
    let (took, id) = longest(voters.map(round_trips))?;
    let timing = known.timing;
    let max = timing.round_trip_max().as_millis();
    let took_ms = took.as_micros().div_ceil(1_000);
    let text = format!("the timing profile is {timing}, for round trips up to {max} ms; node {id} needs up to {took_ms} ms");
    Some(match Timing::for_round_trip(took) {
        // A slower profile than necessary works: it only takes longer to replace a dead leader.
        Some(fits) if fits <= timing => ok(CHECK, text),
        Some(fits) => warn(
            CHECK,
            text,
            format!("choose the profile that suits it, then restart each node: fairhold cluster set timing={fits}"),
        ),
        None => warn(CHECK, text, format!("no profile suits that: repair the network to node {id}, or move the node closer")),
    })
}

/// Whether all nodes have the same addresses for each member. A node uses the addresses of its own configuration, until
/// the cluster has set others.
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
            "set the addresses in the cluster, which then count on every node: fairhold cluster set-member N --url … --peer …",
        )
    });
    differing.collect()
}
