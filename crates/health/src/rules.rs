//! The rules: pure functions from the result of a probe to findings, tested on invented clusters.

mod cannot_serve;
mod digests;
mod leader;
mod links;
mod membership;
mod room;
mod security;
mod upgrade;

use crate::{
    answer::{ProbedEndpoint, ProbedNode, Unanswered},
    cluster_probe::{ClusterProbe, majority},
    finding::{Finding, fail, ok, warn},
    text::{RENEW, joined},
};
use fairhold_types::{
    NodeId,
    dto::{Alarm, AlarmSeverity},
    duration,
};
use std::collections::{BTreeMap, BTreeSet};

/// A follower that is more entries behind than this is not only slow.
const LAG_MAX: u64 = 1_000;
/// The most by which clocks may differ before they mislead people, in milliseconds.
const CLOCK_DIFFERENCE_MAX: u64 = 1_000;

/// The client's words for a certificate that has expired: then starting the node does not help.
const EXPIRED: &str = "certificate of the server has expired";

/// Evaluates all rules, in the order of the report.
pub fn evaluate(seen: &ClusterProbe) -> Vec<Finding> {
    let mut findings: Vec<Finding> = seen.endpoints.iter().map(|endpoint| reachable(seen, endpoint)).collect();
    findings.extend(cannot_serve::restored_twice(seen));
    if seen.answering().next().is_none() {
        return findings;
    }
    findings.extend(seen.peers.iter().map(|(address, connected)| peer_port(address, connected)));
    findings.push(quorum(seen));
    findings.push(leader::leader(seen));
    findings.push(term(seen));
    findings.extend(followers(seen));
    findings.extend(membership::joins(seen));
    findings.extend(membership::removals(seen));
    findings.extend(membership::zones(seen));
    findings.extend(links::addresses(seen));
    findings.extend(links::round_trip(seen));
    findings.extend(links::timing(seen));
    let members = seen.members();
    for (id, (_, answer)) in seen.nodes().into_iter().filter(|(id, _)| members.is_empty() || members.contains_key(id)) {
        findings.push(ready(id, answer));
        findings.extend(clock(id, answer));
        findings.extend(room::disk(id, answer));
        findings.extend(room::open_files(id, answer));
        findings.extend(room::state(id, answer));
        findings.extend(defects(id, answer));
        findings.extend(alarms(id, answer));
        findings.extend(security::exposed(id, answer));
        findings.extend(security::certificates(id, answer).into_iter().chain(security::audit(id, answer)));
    }
    findings.push(versions(seen));
    findings.extend(upgrade::open(seen));
    findings.extend(digests::digests(seen));
    findings
}

fn reachable(seen: &ClusterProbe, endpoint: &ProbedEndpoint) -> Finding {
    const CHECK: &str = "endpoint";
    let url = &endpoint.url;
    let members = seen.members();
    let ours = seen.cluster_id();
    let node = members.iter().find(|(_, (member, _))| member == url);
    let who = node.map_or_else(|| url.clone(), |(id, _)| format!("node {id} at {url}"));
    let is_stranger = node.is_none() && !members.is_empty();
    match &endpoint.answer {
        Err(Unanswered::CannotServe(why)) => cannot_serve::cannot_serve(&who, is_stranger, why),
        Err(Unanswered::Denied(why)) => fail(
            CHECK,
            format!("{url} answers, but your credential does not allow you to see the cluster: {why}"),
            "ask an administrator for a role with `status` on cluster, such as viewer, or pass another token: \
             --auth-token-file FILE",
        ),
        Err(Unanswered::Unauthenticated(why)) => fail(
            CHECK,
            format!("{url} answers, but cannot authenticate you: {why}"),
            "pass the file with a valid token: --auth-token-file FILE",
        ),
        Err(Unanswered::Unreachable(error)) => {
            if is_stranger {
                return warn(
                    CHECK,
                    format!("{who} cannot be reached: {error}; no member has this URL"),
                    "if its machine was replaced or removed, remove the URL from -e and FAIRHOLD_ENDPOINT; otherwise correct it",
                );
            }
            let start = "start it (its log says why it ended), or repair the network between it and this machine";
            let advice = match node {
                Some(_) | None if error.contains(EXPIRED) => RENEW.to_owned(),
                Some((id, _)) if membership::is_joining(seen, *id) => {
                    format!("{start}; if its data directory is lost, give up its join: fairhold cluster remove {id}")
                }
                // Without a majority, no member can be replaced.
                Some((id, _)) if has_majority(seen) => format!("{start}; {}", replacement(*id)),
                None if endpoint.given => "start that node, or correct the URL (-e, FAIRHOLD_ENDPOINT)".to_owned(),
                Some(_) | None => start.to_owned(),
            };
            fail(CHECK, format!("{who} cannot be reached: {error}"), advice)
        }
        Ok(answer) if answer.cluster.cluster.is_none() => {
            let id = answer.cluster.id;
            let unformed = || {
                fail(
                    CHECK,
                    format!("{url} is node {id} and belongs to no cluster yet"),
                    "start every node in its list of members: the cluster forms when all of them can be reached",
                )
            };
            membership::unreached_join(seen, url, id).unwrap_or_else(unformed)
        }
        Ok(answer) if answer.cluster.cluster != ours => fail(
            CHECK,
            format!("{url} is node {} of another cluster ({})", answer.cluster.id, name(answer.cluster.cluster.as_deref())),
            format!("remove it from the endpoints: the others belong to cluster {}", name(ours.as_deref())),
        ),
        Ok(answer) if !members.is_empty() && !members.contains_key(&answer.cluster.id) => warn(
            CHECK,
            format!("{url} is node {}, which is not a member", answer.cluster.id),
            "if it is joining, wait: fairhold cluster members shows how far it is; if it was removed, leave it out of -e",
        ),
        Ok(answer) => ok(CHECK, format!("{url} is node {} ({})", answer.cluster.id, answer.cluster.role)),
    }
}

/// What to do if a node cannot come back.
fn replacement(id: NodeId) -> String {
    format!("if its machine or its data directory is lost, replace it: fairhold cluster replace {id}")
}

fn name(cluster: Option<&str>) -> &str {
    cluster.map_or("none", |id| id.get(..8).unwrap_or(id))
}

fn peer_port(address: &str, connected: &Result<(), String>) -> Finding {
    match connected {
        Ok(()) => ok("peer", format!("{address} accepts connections")),
        Err(error) => warn(
            "peer",
            format!("the peer port {address} accepts no connections from this machine: {error}"),
            "if the node runs, check that the firewall admits the other nodes to that port (it need not admit this machine)",
        ),
    }
}

/// Whether a majority of the voters answers.
fn has_majority(seen: &ClusterProbe) -> bool {
    let (nodes, voters) = (seen.nodes(), seen.voters());
    voters.iter().filter(|id| nodes.contains_key(id)).count() >= majority(voters.len())
}

fn quorum(seen: &ClusterProbe) -> Finding {
    let members = seen.members();
    let voters = seen.voters();
    let needed = majority(voters.len());
    let up: Vec<NodeId> = seen.nodes().into_keys().filter(|id| voters.contains(id)).collect();
    let text = format!("{} of {} voting nodes answer; a majority is {needed}", up.len(), voters.len());
    let down: Vec<String> = voters.iter().filter(|id| !up.contains(id)).map(ToString::to_string).collect();
    if members.is_empty() {
        return fail(
            "quorum",
            "no node has a list of members",
            "start every node in the list of members: the cluster forms by itself",
        );
    }
    if up.len() < needed {
        let advice = format!(
            "start the nodes that do not answer ({}), or repair the network to them: until then the cluster grants no \
             locks and accepts no writes. If a majority of the machines is lost: docs/drills/two-of-three-are-lost.md",
            down.join(", ")
        );
        return fail("quorum", text, advice);
    }
    if up.len() == needed && !down.is_empty() {
        let advice = format!(
            "start the nodes that do not answer ({}), repair the network to them, or replace their machines (fairhold cluster \
             replace N): if they are down, one more failure would stop the service",
            down.join(", ")
        );
        return fail("quorum", text, advice);
    }
    if voters.len().is_multiple_of(2) {
        let advice = if voters.len() == 2 {
            "two voters survive no failure: add a third one (fairhold cluster invite)"
        } else {
            "an even number of voters survives no more failures than one voter fewer: add one (fairhold cluster invite) or \
             remove one (fairhold cluster remove N)"
        };
        return warn("quorum", text, advice);
    }
    ok("quorum", text)
}

fn term(seen: &ClusterProbe) -> Finding {
    let terms: BTreeSet<u64> = seen.nodes().values().map(|(_, answer)| answer.cluster.term).collect();
    match terms.iter().collect::<Vec<_>>().as_slice() {
        [term] => ok("term", format!("all nodes that answer are in term {term}")),
        terms => warn(
            "term",
            format!("the nodes are in different terms: {}", terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
            "an election may be in progress: run doctor again in a second; if they still differ, look for a node that reaches \
             only some of the others",
        ),
    }
}

/// What the leader knows about the other nodes.
fn followers(seen: &ClusterProbe) -> Vec<Finding> {
    let nodes = seen.nodes();
    let Some((_, answer)) = nodes.values().find(|(_, answer)| answer.cluster.role == "leader") else { return Vec::new() };
    let others = answer.cluster.members.iter().filter(|member| member.id != answer.cluster.id);
    let findings = others.map(|member| {
        let silent = member.silent_for.as_deref().and_then(|text| duration::parse(text).ok());
        let id = member.id;
        if let Some(count) = member.lost_entries {
            return lost_entries(id, count);
        }
        match (silent, member.lag) {
            (Some(silent), _) if silent > leader::SILENT_MAX => fail(
                "follower",
                format!("node {id} has not answered the leader for {} s", silent.as_secs()),
                silent_follower(id, &member.peer, has_majority(seen)),
            ),
            (_, Some(lag)) if lag > LAG_MAX => warn(
                "follower",
                format!("node {id} is {lag} log entries behind the leader"),
                "wait if it has just started; if it does not catch up, check its disk and its network",
            ),
            (_, Some(lag)) => ok("follower", format!("node {id} is {lag} log entries behind the leader")),
            (_, None) => warn("follower", format!("node {id} has not answered the leader yet"), "run doctor again in a second"),
        }
    });
    findings.collect()
}

/// What to do about a node that does not answer the leader. Without a majority, no member can be replaced.
fn silent_follower(id: NodeId, peer: &str, has_majority: bool) -> String {
    let check = format!("check that node {id} runs, that the leader reaches it at {peer}, and that it reaches the leader");
    if has_majority { format!("{check}; {}", replacement(id)) } else { check }
}

fn lost_entries(id: NodeId, count: u64) -> Finding {
    fail(
        "follower",
        format!("node {id} has lost {count} log entries that it had acknowledged and does not take part"),
        format!("start node {id} with its newest data directory (see its log); {}", replacement(id)),
    )
}

fn ready(id: NodeId, answer: &ProbedNode) -> Finding {
    match &answer.readiness {
        Some(readiness) if readiness.ready => ok("ready", format!("node {id} can serve")),
        Some(readiness) if readiness.shutting_down => {
            warn("ready", format!("node {id} is shutting down"), "start it again when it has stopped, unless it should be down")
        }
        Some(readiness) => fail(
            "ready",
            format!("node {id} cannot serve: {}", readiness.reason.as_deref().unwrap_or("it gives no reason")),
            "see the quorum and leader lines above; a node that has just started needs a moment",
        ),
        None => fail(
            "ready",
            format!("node {id} does not report whether it can serve"),
            "run doctor again; if this persists, read the node's log",
        ),
    }
}

fn clock(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let clock = answer.clock?;
    let seen = format!(
        "node {id}'s clock is {} ms {} this machine's (±{} ms)",
        clock.offset.abs(),
        side(clock.offset),
        clock.uncertainty
    );
    Some(if clock.min_difference() > CLOCK_DIFFERENCE_MAX {
        warn(
            "clock",
            seen,
            "set the clocks by NTP. Locks do not depend on them, but tokens and certificates expire by them, and people see \
             their times",
        )
    } else {
        ok("clock", seen)
    })
}

fn side(offset: i64) -> &'static str {
    if offset < 0 { "behind" } else { "ahead of" }
}

fn defects(id: NodeId, answer: &ProbedNode) -> Option<Finding> {
    let newest = answer.cluster.defects.last()?;
    let kind = &newest.kind;
    let fingerprint = &newest.fingerprint;
    let index = newest.log_index;
    Some(if answer.cluster.defects.iter().any(|defect| defect.left_out) {
        warn(
            "defects",
            format!("node {id} skipped a command that panicked: {kind} {fingerprint}, log entry {index}: {}", newest.message),
            "this is a defect in fairhold: report it with this line and the node's log, and upgrade when there is a fix. The \
             cluster continues without that command",
        )
    } else {
        warn(
            "defects",
            format!("node {id} panicked at log entry {index}, but not when it tried again: {}", newest.message),
            "test the memory of its machine; compare the states of the nodes: fairhold doctor --digest",
        )
    })
}

/// The alarms that a node raises itself.
fn alarms(id: NodeId, answer: &ProbedNode) -> Vec<Finding> {
    let raised = answer.alarms.iter().flat_map(|known| &known.alarms);
    let finding = |alarm: &Alarm| {
        let seen = format!("node {id} raises the alarm {} since {}: {}", alarm.alarm, alarm.since, alarm.seen);
        match alarm.severity {
            AlarmSeverity::Warning => warn("alarm", seen, &*alarm.advice),
            AlarmSeverity::Critical => fail("alarm", seen, &*alarm.advice),
        }
    };
    raised.map(finding).collect()
}

fn versions(seen: &ClusterProbe) -> Finding {
    let nodes = seen.nodes();
    let mut by_version: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for (id, (_, answer)) in &nodes {
        let version: &str = answer.cluster.version.as_ref();
        by_version.entry(version).or_default().push(*id);
    }
    if let [version] = by_version.keys().collect::<Vec<_>>().as_slice() {
        let of_cluster = nodes.values().map(|(_, answer)| answer.cluster.cluster_version).max();
        let of_cluster = of_cluster.map_or_else(String::new, |known| format!("; the cluster has version {known}"));
        return ok("version", format!("all nodes that answer run fairhold {version}{of_cluster}"));
    }
    let say = |(version, ids): (&&str, &Vec<NodeId>)| format!("{version} on node {}", joined(ids));
    let text = by_version.iter().map(say).collect::<Vec<_>>().join("; ");
    warn("version", format!("nodes run different versions: {text}"), "finish the upgrade node by node")
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
