//! Tests of the rules, each on an invented cluster.

use super::*;
use crate::{
    answer::{ClockOffset, HAS_RESTORED_STATE, NOT_ADMITTED, NodeDigest, WAITS_FOR_NODES, WAITS_FOR_SPACE},
    finding::{Grade, worst},
};
use fairhold_types::{
    ClusterVersion, MemberRole, Revision, Timing,
    dto::{
        Alarms, Cluster, ClusterTiming, ClusterUpgrade, Defect, Host, Join, JoinPhase, Member, MemberEntry, MemberTiming,
        Members, Readiness,
    },
    time::WallMillis,
};

const START: WallMillis = WallMillis(1_763_700_000_000);
const DAY: u64 = 24 * 3_600 * 1_000;

fn unreachable(why: &str) -> Result<ProbedNode, Unanswered> {
    Err(Unanswered::Unreachable(why.to_owned()))
}

fn node(id: NodeId, leader: Option<NodeId>) -> ProbedEndpoint {
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
        priority: None,
        zone: None,
        reachable: None,
        figures: None,
    };
    let cluster = Cluster {
        cluster: Some("0123456789abcdef".to_owned()),
        id,
        role: if leader == Some(id) { "leader" } else { "follower" }.to_owned(),
        term: 4,
        leader,
        leader_url: None,
        version: "0.1.0".into(),
        cluster_version: ClusterVersion(2),
        revision: Revision(9),
        last_log_index: None,
        applied_index: None,
        snapshot_index: None,
        state_bytes: 100 << 20,
        state_bytes_max: Some(1 << 30),
        grants: 0,
        audit: None,
        wakeups: 0,
        defects: Vec::new(),
        insecure: Vec::new(),
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
    let clock = Some(ClockOffset { offset: 5, uncertainty: 2 });
    let answer = ProbedNode { cluster, readiness: Some(readiness), alarms: None, clock, started_at: Some(START) };
    ProbedEndpoint { url: format!("http://n{id}:7171"), given: true, answer: Ok(answer) }
}

fn three() -> ClusterProbe {
    ClusterProbe { endpoints: (1..=3).map(|id| node(id, Some(2))).collect(), ..ClusterProbe::default() }
}

fn answer(seen: &mut ClusterProbe, index: usize) -> &mut ProbedNode {
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
fn an_expired_certificate_is_renewed_instead_of_starting_the_node() {
    let mut seen = three();
    for endpoint in &mut seen.endpoints {
        endpoint.answer = unreachable("the certificate of the server has expired; renew it");
    }
    assert_bad(
        &seen,
        "endpoint",
        Grade::Fail,
        "-> renew it on the machine with the authority (fairhold cert renew --ca DIR FILE)",
    );
}

#[test]
fn a_dead_node_is_named_with_its_consequences() {
    let mut seen = three();
    seen.endpoints[2].answer = unreachable("Connection refused");
    assert_bad(&seen, "endpoint", Grade::Fail, "node 3 at http://n3:7171 cannot be reached: Connection refused");
    assert_bad(&seen, "quorum", Grade::Fail, "if they are down, one more failure would stop the service");
    seen.endpoints[1].answer = unreachable("Connection refused");
    assert_bad(&seen, "quorum", Grade::Fail, "start the nodes that do not answer (2, 3)");
}

#[test]
fn a_node_that_says_why_it_cannot_serve_gets_the_step_for_that() {
    let full = format!("the file system of /data has less than 128 MiB free, which a start needs. {WAITS_FOR_SPACE}");
    let restored = format!("{HAS_RESTORED_STATE}, and {WAITS_FOR_NODES} 2, 3");
    for (why, step) in [
        (full, "free space on the disk"),
        (restored, "start the nodes that it waits for"),
        (NOT_ADMITTED.to_owned(), "fix the cause that it names"),
    ] {
        let answer = || Err(Unanswered::CannotServe(why.clone()));
        let mut seen = three();
        seen.endpoints[2].answer = answer();
        let text = format!("node 3 at http://n3:7171 answers, but cannot serve: {why} -> {step}");
        assert_bad(&seen, "endpoint", Grade::Fail, &text);
        seen.endpoints[2] = node(3, Some(2));
        seen.endpoints.push(ProbedEndpoint { url: "http://new:7171".to_owned(), given: true, answer: answer() });
        let text = format!("http://new:7171 answers, but cannot serve: {why} -> {step}");
        assert_bad(&seen, "endpoint", Grade::Warn, &text);
        assert_eq!(worst(&evaluate(&seen)), Grade::Warn, "the cluster is healthy");
    }
}

#[test]
fn several_nodes_with_a_restored_state_are_named_together() {
    let mut seen = three();
    let waits = |others: &str| Err(Unanswered::CannotServe(format!("{HAS_RESTORED_STATE}, and {WAITS_FOR_NODES} {others}")));
    seen.endpoints[0].answer = waits("2, 3");
    seen.endpoints[2].answer = waits("1, 2");
    let text = "each of http://n1:7171, http://n3:7171 has a restored state, and waits until the others are empty -> restore on";
    assert_bad(&seen, "restore", Grade::Fail, text);
    seen.endpoints[1].answer = unreachable("Connection refused");
    assert_bad(&seen, "restore", Grade::Fail, text);
    seen.endpoints[0].answer = unreachable("Connection refused");
    assert!(bad(&seen, "restore").is_empty(), "one alone waits as it should");
}

#[test]
fn a_node_that_refuses_the_look_is_not_called_unreachable() {
    let lacking = "it needs status on cluster: no rule of deployers allows status on cluster";
    let denied = Unanswered::Denied(lacking.to_owned());
    let unknown = Unanswered::Unauthenticated("the credential is not valid in this cluster".to_owned());
    for (refusal, text) in [
        (denied, format!("allow you to see the cluster: {lacking} -> ask an administrator for a role with `status` on cluster")),
        (unknown, "not valid in this cluster -> pass the file with a valid token: --auth-token-file FILE".to_owned()),
    ] {
        let endpoint = ProbedEndpoint { url: "http://n1:7171".to_owned(), given: true, answer: Err(refusal) };
        let seen = ClusterProbe { endpoints: vec![endpoint], ..ClusterProbe::default() };
        assert_bad(&seen, "endpoint", Grade::Fail, &text);
        assert!(!bad(&seen, "endpoint")[0].1.contains("cannot be reached"));
    }
}

#[test]
fn the_second_voter_is_never_to_be_removed() {
    let mut seen = three();
    seen.endpoints.truncate(2);
    (0..2).for_each(|index| answer(&mut seen, index).cluster.members.truncate(2));
    assert_bad(&seen, "quorum", Grade::Warn, "-> two voters survive no failure: add a third one (fairhold cluster invite)");
    assert!(!bad(&seen, "quorum")[0].1.contains("remove"));
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
fn a_node_whose_state_differs_from_that_of_the_majority_is_to_be_replaced() {
    let at_entry_13 = |digests: [&str; 3]| {
        let of = |(node, digest): (NodeId, &str)| NodeDigest {
            node,
            applied: Some(13),
            revision: Revision(10),
            digest: digest.to_owned(),
        };
        ClusterProbe { digests: Some((1..).zip(digests).map(of).collect()), ..three() }
    };
    let same = evaluate(&at_entry_13(["a", "a", "a"])).into_iter().find(|finding| finding.check == "digest").unwrap();
    assert_eq!((same.grade, same.seen.as_str()), (Grade::Ok, "nodes 1, 2, 3: the same state at log entry 13"));
    let odd = at_entry_13(["a", "a", "b"]);
    assert_bad(&odd, "digest", Grade::Fail, "different states at log entry 13, which must not happen: nodes 1, 2 | node 3");
    assert_bad(&odd, "digest", Grade::Fail, "The state of nodes 1, 2 has a majority, so keep it: fairhold cluster replace 3");
    let leads = "so keep it: fairhold cluster transfer-leader 1, and then fairhold cluster replace 2";
    assert_bad(&at_entry_13(["a", "b", "a"]), "digest", Grade::Fail, leads);
    assert_bad(&at_entry_13(["a", "b", "c"]), "digest", Grade::Fail, "no state has a majority. Stop your clients, and save");
    let mut silent = at_entry_13(["a", "a", "a"]);
    silent.digests.as_mut().unwrap().pop();
    assert_bad(&silent, "digest", Grade::Warn, "the state of node 3 could not be compared with that of the others");
    assert!(bad(&three(), "digest").is_empty(), "nobody has asked for it");
}

#[test]
fn nodes_that_name_a_leader_which_does_not_answer_this_machine_agree() {
    let mut seen = three();
    seen.endpoints[1].answer = unreachable("Connection refused");
    let text = "all nodes that answer name node 2 as the leader, but it does not answer this machine -> if node 2 runs, repair";
    assert_bad(&seen, "leader", Grade::Warn, text);
    seen.endpoints[1] = node(2, Some(2));
    answer(&mut seen, 1).cluster.role = "follower".to_owned();
    assert_bad(&seen, "leader", Grade::Fail, "the nodes do not agree on the leader: node 1 says 2, node 2 says 2");
}

#[test]
fn a_leader_that_the_majority_does_not_answer_is_not_ok() {
    let mut seen = three();
    seen.endpoints[0].answer = unreachable("no answer in time");
    answer(&mut seen, 1).cluster.members[0].silent_for = Some("4s".to_owned());
    assert!(bad(&seen, "leader").is_empty(), "a majority answers it");
    seen.endpoints[2].answer = unreachable("no answer in time");
    answer(&mut seen, 1).cluster.members[2].silent_for = Some("4s".to_owned());
    let text = "node 2 calls itself the leader, but the majority does not answer it: node 1, 3 -> start these nodes";
    assert_bad(&seen, "leader", Grade::Fail, text);
    // It notices within its lease, and before these times are that long.
    let mut seen = three();
    let readiness = answer(&mut seen, 1).readiness.as_mut().unwrap();
    (readiness.ready, readiness.reason) = (false, Some("there is no known leader".to_owned()));
    assert_bad(&seen, "leader", Grade::Warn, "node 2 calls itself the leader, but cannot serve: there is no known leader");
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
    answer(&mut seen, 0).clock = Some(ClockOffset { offset: -1_200, uncertainty: 199 });
    answer(&mut seen, 1).clock = Some(ClockOffset { offset: 1_200, uncertainty: 201 });
    answer(&mut seen, 2).cluster.version = "0.2.0".into();
    assert_eq!(bad(&seen, "clock").len(), 1, "network delay may explain the other difference");
    assert_bad(
        &seen,
        "clock",
        Grade::Warn,
        "node 1's clock is 1200 ms behind this machine's (±199 ms) -> set the clocks by NTP. Locks do not depend on \
         them, but tokens and certificates expire by them",
    );
    let text = "nodes run different versions: 0.1.0 on node 1, 2; 0.2.0 on node 3 -> finish the upgrade node by node";
    assert_bad(&seen, "version", Grade::Warn, text);
    let same = evaluate(&three()).into_iter().find(|finding| finding.check == "version").unwrap();
    assert_eq!(same.seen, "all nodes that answer run fairhold 0.1.0; the cluster has version 2");
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
    let endpoint = ProbedEndpoint { url: "http://x:1".to_owned(), given: true, answer: unreachable("Connection refused") };
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
    let text = "for node 2: http://n2:7171,moved:7271 (on node 1); http://n2:7171,n2:7271 (on node 2, 3) -> set the addresses";
    assert_bad(&seen, "addresses", Grade::Warn, text);
    assert_eq!(bad(&seen, "addresses").len(), 1);
}

#[test]
fn a_given_url_of_a_replaced_machine_is_only_a_warning() {
    let mut seen = three();
    let gone = ProbedEndpoint { url: "http://old:7171".to_owned(), given: true, answer: unreachable("Connection refused") };
    seen.endpoints.push(gone);
    assert_bad(&seen, "endpoint", Grade::Warn, "http://old:7171 cannot be reached: Connection refused; no member has this URL");
    assert_eq!(worst(&evaluate(&seen)), Grade::Warn);
}

#[test]
fn a_node_that_is_no_member_is_only_mentioned() {
    let mut seen = three();
    let mut removed = node(4, Some(2));
    if let Ok(answer) = &mut removed.answer {
        answer.readiness.as_mut().unwrap().ready = false;
    }
    seen.endpoints.push(removed);
    assert_bad(&seen, "endpoint", Grade::Warn, "http://n4:7171 is node 4, which is not a member");
    assert_eq!(worst(&evaluate(&seen)), Grade::Warn, "whether it is ready does not matter");
}

/// Three voters as the leader lists them.
fn listed(seen: &mut ClusterProbe) -> &mut Members {
    let member = |id: NodeId| MemberEntry {
        id,
        url: format!("http://n{id}:7171"),
        peer: format!("n{id}:7271"),
        role: if id == 2 { "leader" } else { "follower" }.to_owned(),
        priority: 50,
        zone: None,
        lag: None,
        silent_for: None,
        removal: None,
    };
    seen.begun_at = WallMillis(START.0 + DAY);
    let members = (1..=3).map(member).collect();
    let listed = Members { members, joins: Vec::new(), removed: Vec::new(), joint: false, from_leader: true };
    seen.details.members.insert(listed)
}

#[test]
fn a_join_that_takes_over_ten_minutes_is_a_warning_with_the_way_out() {
    let join = |minutes: u64| {
        let mut seen = three();
        let requested_at = WallMillis(START.0 + DAY - minutes * 60_000).to_rfc3339();
        listed(&mut seen).joins.push(Join {
            id: 4,
            url: "http://n4:7171".to_owned(),
            peer: "n4:7271".to_owned(),
            role: MemberRole::Voter,
            replaces: Some(1),
            phase: JoinPhase::CatchingUp,
            lag: Some(1_200),
            waits_for: None,
            requested_at,
        });
        seen
    };
    assert_eq!(bad(&join(10), "join"), []);
    let text = "node 4 at http://n4:7171 began to join 11m ago: it is 1200 log entries behind the leader -> check that node 4";
    assert_bad(&join(11), "join", Grade::Warn, text);
    assert_bad(&join(11), "join", Grade::Warn, "to give up the join: fairhold cluster remove 4");
    let mut silent = join(11);
    silent.details.members.as_mut().unwrap().joins[0].waits_for = Some("it does not answer the leader".to_owned());
    assert_bad(&silent, "join", Grade::Warn, "began to join 11m ago: it does not answer the leader -> ");
}

#[test]
fn a_node_that_has_joined_with_a_wrong_address_is_not_told_to_form_a_cluster() {
    let mut seen = three();
    let mut new = node(4, None);
    new.answer.as_mut().unwrap().cluster.cluster = None;
    seen.endpoints.push(new);
    assert_bad(&seen, "endpoint", Grade::Fail, "http://n4:7171 is node 4 and belongs to no cluster yet -> start every node");
    let requested_at = WallMillis(START.0 + DAY).to_rfc3339();
    listed(&mut seen).joins.push(Join {
        id: 4,
        url: "http://wrong:7171".to_owned(),
        peer: "wrong:7271".to_owned(),
        role: MemberRole::Voter,
        replaces: None,
        phase: JoinPhase::CatchingUp,
        lag: None,
        waits_for: None,
        requested_at,
    });
    let text = "http://n4:7171 is node 4, which joins with --advertise http://wrong:7171,wrong:7271, and the leader has not";
    assert_bad(&seen, "endpoint", Grade::Warn, text);
    assert_bad(&seen, "endpoint", Grade::Warn, "fairhold cluster set-member 4 --url http://n4:7171 --peer HOST:PORT");
}

#[test]
fn a_removal_that_waits_is_a_warning() {
    let mut seen = three();
    listed(&mut seen).members[0].removal = Some("waits: node 3 does not answer".to_owned());
    assert_bad(&seen, "removal", Grade::Warn, "node 1 is to be removed: waits: node 3 does not answer");
    listed(&mut seen).members[0].removal = Some("in progress".to_owned());
    assert_eq!(bad(&seen, "removal"), []);
}

#[test]
fn a_zone_whose_failure_stops_the_service_is_a_warning() {
    let zones = |zones: [Option<&str>; 3]| {
        let mut seen = three();
        for (member, zone) in listed(&mut seen).members.iter_mut().zip(zones) {
            member.zone = zone.map(str::to_owned);
        }
        seen
    };
    assert_bad(&zones([Some("a"), Some("b"), Some("a")]), "zones", Grade::Warn, "2 of 3 voters are in zone a (node 1, 3)");
    assert_bad(&zones([Some("a"), None, Some("a")]), "zones", Grade::Warn, "if zone a fails, the cluster has no majority");
    for fine in [[Some("a"), Some("b"), Some("c")], [None, None, None], [Some("a"), None, None]] {
        assert_eq!(bad(&zones(fine), "zones"), [], "{fine:?}");
    }
    let mut with_learner = zones([Some("a"), Some("b"), Some("a")]);
    with_learner.details.members.as_mut().unwrap().members[0].role = "learner".to_owned();
    assert_eq!(bad(&with_learner, "zones"), [], "a learner does not vote");
}

#[test]
fn a_timing_profile_that_does_not_suit_the_round_trips_is_a_warning() {
    let with_median = |timing: Timing, p50: &str, p99: &str| {
        let mut seen = three();
        let member = |id: NodeId, voter: bool, (p50, p99): (&str, &str)| MemberTiming {
            id,
            voter,
            round_trip: None,
            round_trip_p50: Some(p50.to_owned()),
            round_trip_p99: Some(p99.to_owned()),
        };
        let members = vec![member(1, true, (p50, p99)), member(3, true, ("1ms", "1ms")), member(4, false, ("280ms", "290ms"))];
        seen.details.timing = Some(ClusterTiming { timing, fits: None, members, from_leader: true });
        seen
    };
    let timing = |timing, p99| with_median(timing, p99, p99);
    let text = "the timing profile is lan, for round trips up to 10 ms; node 1 needs up to 28 ms";
    assert_bad(&timing(Timing::Lan, "28ms"), "timing", Grade::Warn, text);
    assert_bad(&timing(Timing::Lan, "28ms"), "timing", Grade::Warn, "fairhold cluster set timing=metro");
    assert_bad(&timing(Timing::Global, "301ms"), "timing", Grade::Warn, "no profile suits that");
    assert_eq!(bad(&timing(Timing::Metro, "28ms"), "timing"), []);
    assert_eq!(bad(&timing(Timing::Wan, "1ms"), "timing"), [], "a slower profile than necessary works");
    assert_eq!(bad(&with_median(Timing::Lan, "1ms", "52ms"), "timing"), [], "the first heartbeats to a new node were slow");
    assert_bad(&with_median(Timing::Lan, "7ms", "52ms"), "timing", Grade::Warn, text);
}

#[test]
fn a_slow_majority_is_judged_by_the_heartbeat_of_the_timing_profile() {
    let mut seen = three();
    for member in [0, 2] {
        answer(&mut seen, 1).cluster.members[member].round_trip = Some("140ms".to_owned());
    }
    let known = |timing: Timing| Some(ClusterTiming { timing, fits: None, members: Vec::new(), from_leader: true });
    seen.details.timing = known(Timing::Wan);
    assert_eq!(bad(&seen, "round_trip"), []);
    seen.details.timing = known(Timing::Metro);
    assert_bad(&seen, "round_trip", Grade::Warn, "near 100 ms no leader lasts");
}

#[test]
fn a_node_that_leaves_a_port_unprotected_is_a_warning() {
    let mut seen = three();
    answer(&mut seen, 1).cluster.insecure = vec!["open_peers".to_owned(), "plain_clients".to_owned(), "more".to_owned()];
    let findings = evaluate(&seen);
    let found: Vec<&Finding> = findings.iter().filter(|finding| finding.check == "insecure").collect();
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding.grade, Grade::Warn);
    assert_eq!(finding.seen, "node 2 runs with --insecure: other nodes need not authenticate, clients use plain text, more");
}

#[test]
fn an_audit_log_that_loses_entries_is_a_warning_and_one_that_cannot_be_written_a_failure() {
    for (status, grade, text) in [
        ("{\"entries_lost\":0}", Grade::Ok, "node 1 writes its audit log"),
        ("{\"entries_lost\":7}", Grade::Warn, "node 1 writes its audit log; it has lost 7 entries since its start"),
        ("{\"entries_lost\":0,\"fault\":\"/a: full\"}", Grade::Fail, "node 1 cannot write its audit log: /a: full"),
    ] {
        let mut seen = three();
        let host = &mut answer(&mut seen, 0).readiness.as_mut().unwrap().host;
        host.audit = Some(serde_json::from_str(status).unwrap());
        let findings = evaluate(&seen);
        let found: Vec<&Finding> = findings.iter().filter(|finding| finding.check == "audit").collect();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.grade, finding.seen.as_str()), (grade, text));
    }
}

#[test]
fn a_certificate_is_a_warning_before_its_end_and_then_a_failure() {
    let grade = |urgency: &str, fault: Option<&str>| {
        let mut seen = three();
        let status =
            serde_json::json!({"port": "clients", "urgency": urgency, "not_after": "2027-01-01T00:00:00.000Z", "fault": fault});
        let host = &mut answer(&mut seen, 0).readiness.as_mut().unwrap().host;
        host.certificates = vec![serde_json::from_value(status).unwrap()];
        let findings = evaluate(&seen);
        let found: Vec<&Finding> = findings.iter().filter(|finding| finding.check == "certificate").collect();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.seen.starts_with("node 1's certificate for clients is valid until 2027-01-01"), "{finding:?}");
        finding.grade
    };
    assert_eq!(grade("valid", None), Grade::Ok);
    assert_eq!(grade("renew_soon", None), Grade::Warn);
    assert_eq!((grade("renew_now", None), grade("expired", None)), (Grade::Fail, Grade::Fail));
    assert_eq!(grade("valid", Some("node.crt cannot be read")), Grade::Fail);
}

#[test]
fn an_upgrade_that_is_open_for_over_a_week_is_a_warning() {
    let upgrade = |days: u64, blockers: &[&str]| {
        let mut seen = three();
        seen.begun_at = WallMillis(START.0 + days * DAY);
        let blockers: Vec<String> = blockers.iter().map(|text| (*text).to_owned()).collect();
        seen.details.upgrade = Some(ClusterUpgrade {
            cluster_version: ClusterVersion(1),
            next: Some(ClusterVersion(2)),
            ready: blockers.is_empty(),
            members: Vec::new(),
            blockers,
        });
        seen
    };
    assert_eq!(bad(&upgrade(7, &[]), "upgrade"), []);
    let text = "the upgrade to cluster version 2 is open, and no node was restarted for 8d -> every node supports it: fairhold \
                cluster upgrade finalize 2.";
    assert_bad(&upgrade(8, &[]), "upgrade", Grade::Warn, text);
    assert_bad(&upgrade(8, &["node 3 runs 0.1.0: restart it"]), "upgrade", Grade::Warn, "finish it: node 3 runs 0.1.0");
    let mut finished = upgrade(8, &[]);
    finished.details.upgrade.as_mut().unwrap().next = None;
    assert_eq!(bad(&finished, "upgrade"), []);
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

#[test]
fn the_alarms_of_a_node_are_shown_with_what_to_do() {
    let alarm = |name: &str, severity| Alarm {
        alarm: name.to_owned(),
        severity,
        since: "2027-01-01T00:00:00.000Z".to_owned(),
        seen: "what was seen".to_owned(),
        advice: "what to do".to_owned(),
    };
    let mut seen = three();
    answer(&mut seen, 1).alarms = Some(Alarms { id: 2, alarms: Vec::new() });
    assert_eq!(bad(&seen, "alarm"), []);
    let alarms = vec![alarm("disk_slow", AlarmSeverity::Warning), alarm("no_quorum", AlarmSeverity::Critical)];
    answer(&mut seen, 1).alarms = Some(Alarms { id: 2, alarms });
    let text = "node 2 raises the alarm disk_slow since 2027-01-01T00:00:00.000Z: what was seen -> what to do";
    assert_bad(&seen, "alarm", Grade::Warn, text);
    assert_bad(&seen, "alarm", Grade::Fail, "the alarm no_quorum");
}
