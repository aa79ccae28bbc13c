//! A node's counters match its work.

use super::{Cluster, opened, soon};
use fairhold_metrics::{Format, registry, text};
use fairhold_raft::Replica;
use openraft_rt_tokio::TokioRuntime;

/// The value of one of the node's metrics; zero if it is missing.
fn figure(node: &Replica<TokioRuntime>, name: &str) -> f64 {
    let mut registry = registry();
    node.register_metrics(&mut registry);
    let shown = text(&registry, Format::Plain).unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_counts_what_it_applied_answered_and_stored() {
    let cluster = Cluster::form(1, 20).await;
    let node = cluster.node(1);
    let steps = figure(node, "fairhold_raft_apply_steps_total");
    let answered = figure(node, "fairhold_raft_proposal_seconds_count");
    let refused = fairhold_state::command::Command::EndSession {
        session: fairhold_types::SessionNumber(999),
        by: String::new(),
        reason: String::new(),
        at: fairhold_types::time::WallMillis(0),
    };
    for _ in 0..60 {
        opened(&cluster.open_session(1).await.unwrap());
    }
    assert!(node.propose(refused, soon()).await.unwrap().result.is_err());
    let applied = figure(node, "fairhold_raft_apply_steps_total") - steps;
    assert!(applied >= 60.0, "{applied} steps for 60 sessions");
    // A rejection by the state machine is an answer too.
    assert_eq!(figure(node, "fairhold_raft_proposal_seconds_count") - answered, 61.0);
    cluster.disks[&1].snapshots.until(|bytes| bytes > 0).await;
    while figure(node, "fairhold_raft_snapshots_total{origin=\"built\"}") < 1.0 {
        tokio::task::yield_now().await;
    }
}
