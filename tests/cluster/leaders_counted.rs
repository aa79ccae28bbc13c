//! The checks of `leaderships.rs` find exactly what they should.

use crate::{
    client::{Call, Client},
    harness::{Cluster, NODES, SHORT, eventually, run_parallel, signal_pid},
    leaderships::{Causes, Leadership, Span, leaderships},
};
use rustix::process::Signal;
use serde_json::json;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// Node 1 leads from 1,000 on, and node 2 from 9,000 on.
const TWO: [Leadership; 2] = [Leadership { term: 1, node: 1, since: 1_000 }, Leadership { term: 4, node: 2, since: 9_000 }];

fn ready() -> Causes {
    Causes { ready: Some(2_000), ..Causes::default() }
}

fn span(from: u64, until: u64) -> Span {
    Span { from, until: Some(until) }
}

fn complaints(causes: &Causes) -> usize {
    causes.unexplained(&TWO, NODES).len()
}

#[test]
fn leaders_are_read_from_the_logs_of_all_nodes() {
    let first = "2026-11-23T07:36:11.123456Z  INFO fairhold_raft::background::leader_log: this node leads term=3\n\
                 2026-11-23T07:36:12.000000Z  INFO fairhold_raft::background::leader_log: there is no known leader term=4\n\
                 2026-11-23T07:36:12.500999Z  INFO fairhold_raft::background::leader_log: node 2 leads term=5 leader=2\n";
    // The log of the second node lacks its lines.
    let third =
        "a leads b\n2026-11-23T07:36:11.200000Z  INFO fairhold_raft::background::leader_log: node 1 leads term=3 leader=1\n";
    let seen = leaderships(&[(1, first.to_owned()), (2, String::new()), (3, third.to_owned())]);
    let seen: Vec<_> = seen.iter().map(|one| (one.term, one.node, one.since % 100_000)).collect();
    assert_eq!(seen, [(3, 1, 71_123), (5, 2, 72_500)]);
}

#[test]
fn a_change_of_the_leader_needs_its_own_cause() {
    assert_eq!(complaints(&ready()), 1);
    let complaint = ready().unexplained(&TWO, NODES).remove(0);
    assert!(complaint.starts_with("node 1 led in term 1 for 8.0 s and lost it: node 2 leads in term 4 since "), "{complaint}");
    assert_eq!(complaints(&Causes { ready: Some(9_500), ..Causes::default() }), 0, "the cluster was being formed");
    let away = |node: usize, span: Span| Causes { absences: [(node, vec![span])].into(), ..ready() };
    assert_eq!(complaints(&away(1, span(8_500, 8_900))), 0, "the leader was paused");
    assert_eq!(complaints(&away(1, Span { from: 8_500, until: None })), 0, "the leader was killed");
    assert_eq!(complaints(&away(2, span(8_500, 8_900))), 1, "another node was paused");
    assert_eq!(complaints(&away(1, span(100, 900))), 1, "that was before it led");
    assert_eq!(complaints(&away(1, span(9_100, 9_900))), 1, "that was afterwards");
    let long_after = [TWO[0], Leadership { since: 60_000, ..TWO[1] }];
    assert_eq!(away(1, span(8_500, 8_900)).unexplained(&long_after, NODES).len(), 1, "that was long before");
    assert_eq!(away(1, Span { from: 8_500, until: None }).unexplained(&long_after, NODES).len(), 0, "no node could be elected");
    let mut both = away(2, span(3_000, 5_000));
    both.absences.insert(3, vec![span(4_000, 6_000)]);
    assert_eq!(complaints(&both), 0, "a majority was away");
    both.absences.insert(3, vec![span(5_500, 6_000)]);
    assert_eq!(complaints(&both), 1, "two were away, but not together");
}

#[test]
fn a_request_and_an_expected_election_explain_one_change_each() {
    let three = [TWO[0], TWO[1], Leadership { term: 5, node: 3, since: 9_300 }];
    let requested = Causes { requests: vec![span(8_900, 9_100)], ..ready() };
    assert_eq!(complaints(&requested), 0);
    assert_eq!(requested.unexplained(&three, NODES).len(), 1);
    assert_eq!(complaints(&Causes { requests: vec![span(9_100, 9_200)], ..ready() }), 1);
    let expected = Causes { expected: 1, ..ready() };
    assert_eq!((complaints(&expected), expected.unexplained(&three, NODES).len()), (0, 1));
}

#[test]
fn a_rival_candidate_may_depose_a_leader_only_once_and_soon() {
    let then = |since: &[u64]| {
        let later = (5..).zip(since).map(|(term, since)| Leadership { term, node: 1, since: *since });
        let leaders: Vec<Leadership> = TWO.into_iter().chain(later).collect();
        let killed = Causes { absences: [(1, vec![span(8_500, 8_700)])].into(), ..ready() };
        killed.unexplained(&leaders, NODES).len()
    };
    assert_eq!((then(&[]), then(&[9_500])), (0, 0));
    assert_eq!(then(&[9_500, 9_900]), 1, "a third leader");
    assert_eq!(then(&[10_500]), 1, "not soon");
}

#[test]
fn a_stall_of_the_machine_explains_an_election_only_if_it_lasts_for_the_lease() {
    let stalled = |stalls: &[(u64, u64)]| {
        let stalls = stalls.iter().map(|(at, late)| (*at, Duration::from_millis(*late))).collect();
        complaints(&Causes { stalls, ..ready() })
    };
    assert_eq!(stalled(&[(8_400, 350)]), 0);
    assert_eq!(stalled(&[(8_000, 160), (8_400, 160)]), 0);
    assert_eq!(stalled(&[(8_400, 250)]), 1);
    assert_eq!(stalled(&[(5_000, 1_000)]), 1, "long before");
    assert_eq!(stalled(&[(9_001, 1_000)]), 1, "afterwards");
}

#[test]
fn a_test_fails_if_a_leader_changes_without_its_doing() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        // The harness does not know of this client.
        let stranger = Client::new(cluster.nodes.iter().map(|node| node.url.clone()).collect());
        let next = (leader + 1) % NODES;
        let call = Call::post("/v1/cluster/leader").json(&json!({"to": next + 1}));
        stranger.once(&call).await.expect_status(200);
        eventually("it is in the logs", Duration::from_secs(20), || async {
            cluster.leaderships().iter().any(|one| one.node == next + 1).then_some(())
        })
        .await;
        let complaints = cluster.unexplained();
        assert!(complaints.len() == 1 && complaints[0].contains(&format!("node {} leads", next + 1)), "{complaints:?}");
        assert!(catch_unwind(AssertUnwindSafe(|| drop(cluster))).is_err(), "the end of the cluster says so");
    });
}

#[test]
fn a_test_fails_if_a_node_ends_without_its_doing() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let [follower, _] = cluster.followers().await;
        // The harness does not see this kill.
        signal_pid(cluster.nodes[follower].pid(), Signal::KILL);
        let complaints = eventually("the node has gone", Duration::from_secs(20), || {
            let complaints = cluster.unexplained();
            async move { (!complaints.is_empty()).then_some(complaints) }
        })
        .await;
        assert_eq!(complaints, [format!("node {} ended, although the test did not end it", follower + 1)]);
    });
}
