//! Tests of the rules, each on an invented cluster.

use super::*;
use crate::doctor::finding::{Grade, worst};
use crate::probe::Clock;
use fairhold_types::{
    Revision,
    dto::{Cluster, Defect, Host, Member, Readiness},
};

fn node(id: NodeId, leader: Option<NodeId>) -> Endpoint {
    let member = |other: NodeId| Member {
        id: other,
        url: format!("http://n{other}:7171"),
        peer: format!("n{other}:7271"),
        role: if leader == Some(other) { "leader" } else { "follower" }.to_owned(),
        match_index: None,
        lag: (leader == Some(id)).then_some(0),
        silent_for: None,
        round_trip: (leader == Some(id) && other != id).then(|| "2ms".to_owned()),
        lost_entries: None,
        state_bytes_max: Some(1 << 30),
    };
    let cluster = Cluster {
        cluster: Some("0123456789abcdef".to_owned()),
        id,
        role: if leader == Some(id) { "leader" } else { "follower" }.to_owned(),
        term: 4,
        leader,
        leader_url: None,
        version: "0.1.0".into(),
        revision: Revision(9),
        last_log_index: None,
        applied_index: None,
        snapshot_index: None,
        state_bytes: 100 << 20,
        state_bytes_max: Some(1 << 30),
        grants: 0,
        wakeups: 0,
        defects: Vec::new(),
        digest: None,
        digest_revision: None,
        members: (1..=3).map(member).collect(),
    };
    let host = Host {
        disk_free_bytes: Some(100 << 30),
        disk_bytes: Some(200 << 30),
        open_files: Some(100),
        open_files_max: Some(65_536),
        ..Host::default()
    };
    let readiness =
        Readiness { ready: true, reason: None, shutting_down: false, leader: None, revision: Revision(9), warning: None, host };
    let answer = NodeAnswer { cluster, readiness: Some(readiness), clock: Some(Clock { offset: 5, uncertainty: 2 }) };
    Endpoint { url: format!("http://n{id}:7171"), given: true, answer: Ok(answer) }
}

fn three() -> ClusterProbe {
    ClusterProbe { endpoints: (1..=3).map(|id| node(id, Some(2))).collect(), ..ClusterProbe::default() }
}

fn answer(seen: &mut ClusterProbe, index: usize) -> &mut NodeAnswer {
    seen.endpoints[index].answer.as_mut().unwrap()
}

/// The findings of a check that are not ok.
fn bad(seen: &ClusterProbe, check: &str) -> Vec<(Grade, String)> {
    let findings = evaluate(seen).into_iter().filter(|finding| finding.check == check && finding.grade != Grade::Ok);
    findings.map(|finding| (finding.grade, format!("{} -> {}", finding.seen, finding.advice.unwrap()))).collect()
}

#[track_caller]
fn assert_bad(seen: &ClusterProbe, check: &str, grade: Grade, text: &str) {
    let bad = bad(seen, check);
    assert!(bad.iter().any(|(found, message)| *found == grade && message.contains(text)), "{check}: {bad:?}");
    assert!(worst(&evaluate(seen)) >= grade);
}

#[test]
fn every_check_of_a_healthy_cluster_is_ok() {
    let findings = evaluate(&three());
    assert_eq!(worst(&findings), Grade::Ok, "{findings:?}");
    let checks: BTreeSet<_> = findings.iter().map(|finding| finding.check).collect();
    for check in
        ["endpoint", "quorum", "leader", "term", "follower", "round_trip", "ready", "clock", "disk", "open_files", "version"]
    {
        assert!(checks.contains(check), "{check} is missing");
    }
}

#[test]
fn a_dead_node_is_named_with_its_consequences() {
    let mut seen = three();
    seen.endpoints[2].answer = Err("Connection refused".to_owned());
    assert_bad(&seen, "endpoint", Grade::Fail, "node 3 at http://n3:7171 cannot be reached: Connection refused");
    assert_bad(&seen, "quorum", Grade::Fail, "one more failure would stop the service");
    seen.endpoints[1].answer = Err("Connection refused".to_owned());
    assert_bad(&seen, "quorum", Grade::Fail, "start the nodes that are down (2, 3)");
}

#[test]
fn no_leader_differs_from_disagreement_about_the_leader() {
    let leaderless = ClusterProbe { endpoints: (1..=3).map(|id| node(id, None)).collect(), ..ClusterProbe::default() };
    assert_bad(&leaderless, "leader", Grade::Fail, "there is no leader");
    let two = ClusterProbe { endpoints: vec![node(1, Some(1)), node(2, Some(2)), node(3, Some(2))], ..ClusterProbe::default() };
    assert_bad(&two, "leader", Grade::Fail, "node 1 says 1, node 2 says 2");
    let mut late = three();
    answer(&mut late, 0).cluster.leader = None;
    answer(&mut late, 0).cluster.term = 3;
    assert_bad(&late, "leader", Grade::Warn, "node 1 says none");
    assert_bad(&late, "term", Grade::Warn, "different terms: 3, 4");
}

#[test]
fn a_node_of_another_cluster_is_reported_but_not_counted() {
    let mut seen = three();
    let mut stranger = node(3, Some(3));
    stranger.url = "http://other:7171".to_owned();
    if let Ok(answer) = &mut stranger.answer {
        answer.cluster.cluster = Some("fedcba9876543210".to_owned());
        answer.cluster.version = "9.9.9".into();
    }
    seen.endpoints.push(stranger);
    assert_bad(&seen, "endpoint", Grade::Fail, "http://other:7171 is node 3 of another cluster (fedcba98)");
    for check in ["leader", "version", "quorum"] {
        assert_eq!(bad(&seen, check), [], "{check}");
    }
}

#[test]
fn the_leaders_view_of_the_others_is_reported() {
    let mut seen = three();
    answer(&mut seen, 1).cluster.members[0].lag = Some(1_001);
    answer(&mut seen, 1).cluster.members[2].silent_for = Some("3500ms".to_owned());
    assert_bad(&seen, "follower", Grade::Warn, "node 1 is 1001 log entries behind");
    assert_bad(&seen, "follower", Grade::Fail, "node 3 has not answered the leader for 3 s");
    answer(&mut seen, 1).cluster.members[2].lost_entries = Some(17);
    assert_bad(&seen, "follower", Grade::Fail, "node 3 has lost 17 log entries that it had acknowledged and does not take part");
}

#[test]
fn disks_open_files_clocks_and_versions_are_checked() {
    let host = |change: fn(&mut Host)| {
        let mut seen = three();
        change(&mut answer(&mut seen, 0).readiness.as_mut().unwrap().host);
        seen
    };
    assert_bad(&host(|host| host.disk_free_bytes = Some(1 << 30)), "disk", Grade::Warn, "1024 MiB free");
    assert_bad(&host(|host| host.disk_free_bytes = Some(1 << 20)), "disk", Grade::Fail, "free space");
    assert_eq!(bad(&host(|host| host.disk_free_bytes = Some(2 << 30)), "disk").len(), 1, "1 % of the disk");
    assert_bad(&host(|host| host.open_files_max = Some(1_024)), "open_files", Grade::Warn, "100 of 1024");
    assert_bad(&host(|host| host.open_files = Some(60_000)), "open_files", Grade::Fail, "LimitNOFILE");
    let mut seen = three();
    answer(&mut seen, 0).clock = Some(Clock { offset: -1_200, uncertainty: 199 });
    answer(&mut seen, 1).clock = Some(Clock { offset: 1_200, uncertainty: 201 });
    answer(&mut seen, 2).cluster.version = "0.2.0".into();
    assert_eq!(bad(&seen, "clock").len(), 1, "network delay may explain the other difference");
    assert_bad(
        &seen,
        "clock",
        Grade::Warn,
        "node 1's clock is 1200 ms behind this machine's (±199 ms) -> set the clocks by NTP. Locks do not depend",
    );
    assert_bad(&seen, "version", Grade::Warn, "node 3 0.2.0");
}

#[test]
fn a_node_that_cannot_serve_is_reported_with_its_reason() {
    let mut seen = three();
    let readiness = answer(&mut seen, 0).readiness.as_mut().unwrap();
    (readiness.ready, readiness.reason) = (false, Some("there is no known leader".to_owned()));
    assert_bad(&seen, "ready", Grade::Fail, "node 1 cannot serve: there is no known leader");
    seen.peers.insert("n1:7271".to_owned(), Err("Connection refused".to_owned()));
    assert_bad(&seen, "peer", Grade::Warn, "n1:7271");
}

#[test]
fn if_nothing_answers_that_is_the_only_finding() {
    let endpoint = Endpoint { url: "http://x:1".to_owned(), given: true, answer: Err("Connection refused".to_owned()) };
    let seen = ClusterProbe { endpoints: vec![endpoint], ..ClusterProbe::default() };
    assert_eq!(evaluate(&seen).len(), 1);
    assert_bad(&seen, "endpoint", Grade::Fail, "correct the URL");
}

#[test]
fn a_panic_is_reported_whether_or_not_the_command_was_skipped() {
    let defect = |left_out| {
        let mut seen = three();
        answer(&mut seen, 1).cluster.defects.push(Defect {
            log_index: 812,
            left_out,
            kind: "Acquire".to_owned(),
            fingerprint: "00000000000000ff".to_owned(),
            message: "index out of bounds".to_owned(),
            version: "0.1.0".to_owned(),
        });
        seen
    };
    assert_bad(&defect(true), "defects", Grade::Warn, "skipped a command that panicked: Acquire 00000000000000ff, log entry 812");
    assert_bad(&defect(false), "defects", Grade::Warn, "but not when it tried again");
}

#[test]
fn nodes_with_different_addresses_for_a_member_are_named() {
    let mut seen = three();
    answer(&mut seen, 0).cluster.members[1].peer = "moved:7271".to_owned();
    let text = "for node 2: http://n2:7171,moved:7271 (on node 1); http://n2:7171,n2:7271 (on node 2, 3) -> restart every node";
    assert_bad(&seen, "addresses", Grade::Warn, text);
    assert_eq!(bad(&seen, "addresses").len(), 1);
}

#[test]
fn a_slow_majority_is_a_warning() {
    let mut seen = three();
    answer(&mut seen, 1).cluster.members[0].round_trip = Some("40ms".to_owned());
    assert!(bad(&seen, "round_trip").is_empty(), "one fast follower is enough for a majority");
    answer(&mut seen, 1).cluster.members[2].round_trip = Some("26ms".to_owned());
    assert_bad(&seen, "round_trip", Grade::Warn, "a majority takes 26 ms to answer a heartbeat");
}

#[test]
fn a_nearly_full_state_is_a_warning_that_names_the_smallest_node() {
    let mut seen = three();
    let state = |seen: &ClusterProbe| evaluate(seen).into_iter().find(|finding| finding.check == "state").unwrap();
    assert_eq!(state(&seen).grade, Grade::Ok);
    assert_eq!(state(&seen).seen, "node 1 has a state of 100 MiB, 9 % of its budget of 1024 MiB");
    let cluster = &mut answer(&mut seen, 0).cluster;
    (cluster.state_bytes, cluster.state_bytes_max) = (80 << 20, Some(100 << 20));
    cluster.members[2].state_bytes_max = Some(100 << 20);
    let found = state(&seen);
    assert_eq!(found.grade, Grade::Warn);
    assert!(found.advice.unwrap().ends_with("to node 3, which has the smallest budget"), "{}", found.seen);
    answer(&mut seen, 0).cluster.state_bytes = 79 << 20;
    assert_eq!(state(&seen).grade, Grade::Ok);
}
