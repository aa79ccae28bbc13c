//! A log of large values is bounded in bytes.

use super::{Cluster, after};
use fairhold_raft::{
    ReplicaConfig,
    error::{NotProposed, ProposeError},
};
use fairhold_state::command::{Answer, Command, Lifetime, Operation, Transact};
use fairhold_types::{NodeId, Path, time::WallMillis};
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use std::time::Duration;

const VALUE_BYTES: usize = 64 * 1024;
/// Number of the log's values that may stay although a snapshot covers them.
const VALUES_KEPT: u64 = 32;

/// The default configuration, except for the bytes.
fn default_but_for_bytes(config: &mut ReplicaConfig) {
    let default = ReplicaConfig::new(config.id, config.members.clone(), config.incarnation);
    config.log_kept = default.log_kept;
    config.log_kept_bytes = VALUES_KEPT * VALUE_BYTES as u64;
}

pub(super) fn put(path: &str, bytes: usize) -> Command {
    let then = vec![Operation::Put {
        path: Path::parse(path).unwrap(),
        value: vec![7; bytes].into(),
        parents: true,
        lifetime: Lifetime::Persistent,
    }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwriting_a_value_repeatedly_does_not_fill_the_disk() {
    let mut cluster = Cluster::tuned(3, 100, default_but_for_bytes).await;
    let leader = cluster.leader_among(1..=3).await;
    let soon = after(Duration::from_secs(30));
    for _ in 0..200 {
        cluster.node(leader).propose(put("/one", VALUE_BYTES), soon).await.unwrap().result.unwrap();
    }
    let purged = TokioRuntime::timeout(Duration::from_secs(10), async {
        for disk in cluster.disks.values() {
            disk.log.purged(150).await;
        }
    });
    let left: Vec<usize> = cluster.disks.values().map(|disk| disk.log.entries()).collect();
    assert!(purged.await.is_ok(), "{left:?} entries of {VALUE_BYTES} bytes remain, for one value");

    // After a start, the sizes of the remaining entries are unknown: they are purged with the next snapshot.
    let restarted = cluster.others(leader)[0];
    cluster.stop(restarted).await;
    let before = cluster.disks[&restarted].log.last_index();
    cluster.start(restarted).await;
    for _ in 0..VALUES_KEPT {
        cluster.node(leader).propose(put("/one", VALUE_BYTES), soon).await.unwrap().result.unwrap();
    }
    let snapshot = cluster.node(restarted).status().snapshot.unwrap();
    let wanted = before.min(snapshot) - 10;
    let purged = TokioRuntime::timeout(Duration::from_secs(10), cluster.disks[&restarted].log.purged(wanted)).await;
    assert!(purged.is_ok(), "the entries from before the start, through {wanted}, are still there");
}

fn delete(path: &str) -> Command {
    let then = vec![Operation::Delete { path: Path::parse(path).unwrap(), version: None, recursive: false }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_large_values_frees_the_disk() {
    let cluster = Cluster::form(1, 40).await;
    let node = cluster.node(1);
    let soon = after(Duration::from_secs(30));
    let bytes = 1024 * 1024;
    for number in 0..10 {
        node.propose(put(&format!("/large/{number}"), bytes), soon).await.unwrap().result.unwrap();
    }
    node.take_snapshot(soon).await.unwrap();
    let before = cluster.disks[&1].snapshots.bytes();
    assert!(before > 10 * bytes, "the snapshot contains all of them");
    for number in 0..10 {
        node.propose(delete(&format!("/large/{number}")), soon).await.unwrap().result.unwrap();
    }
    let smaller = TokioRuntime::timeout(Duration::from_secs(10), cluster.disks[&1].snapshots.until(|bytes| bytes < 1024 * 1024));
    assert!(
        smaller.await.is_ok(),
        "ten commands removed 10 MiB, but the snapshot still has {} bytes",
        cluster.disks[&1].snapshots.bytes()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_becomes_due_while_another_is_saved_is_taken_later() {
    let cluster = Cluster::form(1, 40).await;
    let node = cluster.node(1);
    let snapshots = &cluster.disks[&1].snapshots;
    let soon = after(Duration::from_secs(30));
    snapshots.hold(true);
    for number in 0..10 {
        node.propose(put(&format!("/large/{number}"), 1024 * 1024), soon).await.unwrap().result.unwrap();
    }
    for number in 0..10 {
        node.propose(delete(&format!("/large/{number}")), soon).await.unwrap().result.unwrap();
    }
    snapshots.hold(false);
    snapshots.until(|bytes| bytes > 0).await;
    let smaller = TokioRuntime::timeout(Duration::from_secs(10), snapshots.until(|bytes| bytes < 1024 * 1024));
    assert!(smaller.await.is_ok(), "nothing is left, but the snapshot still has {} bytes", snapshots.bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_faster_than_snapshots_are_written_refuses_more_until_one_is_written() {
    let cluster = Cluster::tuned(1, 1_000_000, |config| config.snapshot_every_bytes = 4 * 1024 * 1024).await;
    let node = cluster.node(1);
    let snapshots = &cluster.disks[&1].snapshots;
    let soon = after(Duration::from_secs(60));
    let full = Err(ProposeError::NotProposed(NotProposed::Overloaded));
    snapshots.hold(true);
    let mut taken = 0;
    while node.propose(put("/one", VALUE_BYTES), soon).await.map(|answer| answer.result.unwrap()).is_ok() {
        taken += 1;
        assert!(taken <= 100, "a snapshot of 4 MiB is due, but {taken} values of 64 KiB were accepted");
    }
    assert!(taken >= 64, "only {taken} were accepted, but a snapshot is due after 64");
    assert_eq!(node.propose(put("/one", VALUE_BYTES), soon).await, full);
    node.propose(put("/two", 10), soon).await.unwrap().result.unwrap();
    node.propose(delete("/two"), soon).await.unwrap().result.unwrap();

    snapshots.hold(false);
    snapshots.until(|bytes| bytes > 0).await;
    let again = async { while node.propose(put("/one", VALUE_BYTES), soon).await == full {} };
    assert!(
        TokioRuntime::timeout(Duration::from_secs(20), again).await.is_ok(),
        "the snapshot was written, but writes are still refused"
    );
}

const LOW: Result<Answer, ProposeError> = Err(ProposeError::NotProposed(NotProposed::DiskLow));

/// Writes the same path repeatedly until the write is refused for lack of disk space, or until it is not.
async fn written_until(cluster: &Cluster, node: NodeId, refused: bool) {
    let writes = async {
        while (cluster.node(node).propose(put("/one", 10), after(Duration::from_secs(30))).await == LOW) != refused {
            tokio::task::yield_now().await;
        }
    };
    let done = TokioRuntime::timeout(Duration::from_secs(20), writes).await;
    assert!(done.is_ok(), "writes at node {node} should be {}", if refused { "refused" } else { "done" });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_too_few_free_disks_removals_succeed_and_other_writes_are_refused() {
    let cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let first = cluster.others(leader)[0];
    let second = cluster.others(leader)[1];
    let soon = after(Duration::from_secs(60));
    cluster.node(leader).propose(put("/one", 10), soon).await.unwrap().result.unwrap();

    // One full disk stops nothing, whichever it is.
    cluster.node(leader).set_disk_low(true);
    cluster.node(first).propose(put("/two", 10), soon).await.unwrap().result.unwrap();
    cluster.node(leader).set_disk_low(false);

    // The full disks of two followers stop the leader, which has free space.
    cluster.node(first).set_disk_low(true);
    cluster.node(second).set_disk_low(true);
    written_until(&cluster, leader, true).await;
    for node in 1..=3 {
        assert_eq!(cluster.node(node).propose(put("/two", 10), soon).await, LOW, "requested at node {node}");
        assert_eq!(cluster.open_session(node).await, LOW, "requested at node {node}");
    }
    cluster.node(first).propose(delete("/one"), soon).await.unwrap().result.unwrap();
    cluster.node(leader).read_barrier(soon).await.unwrap();

    // A node with free space again sends no more reports, and that is enough.
    cluster.node(second).set_disk_low(false);
    written_until(&cluster, second, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_node_counts_as_full() {
    let (mut cluster, leader, away) = Cluster::without_a_follower(1_000).await;
    cluster.node(leader).set_disk_low(true);
    written_until(&cluster, leader, true).await;
    cluster.start(away).await;
    written_until(&cluster, leader, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hands_over_to_a_node_with_free_space() {
    let cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let first = cluster.others(leader)[0];
    let second = cluster.others(leader)[1];
    cluster.node(leader).set_disk_low(true);
    // If both have the whole log, the leader would otherwise choose the other one by its id.
    let low = first.max(second);
    let with_space = first.min(second);
    cluster.node(low).set_disk_low(true);
    written_until(&cluster, leader, true).await;
    cluster.node(leader).transfer_leadership().await;
    let leads = TokioRuntime::timeout(Duration::from_secs(20), cluster.node(with_space).leadership_change(None)).await;
    assert!(leads.is_ok_and(|leads| leads.is_some()), "node {with_space} has free space, and should lead");
}
