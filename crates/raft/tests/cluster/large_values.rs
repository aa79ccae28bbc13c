//! A log of large values: what stays of it is bounded in bytes.

use super::{Cluster, after};
use fairhold_raft::{
    ReplicaConfig,
    error::{NotProposed, ProposeError},
};
use fairhold_state::command::{Command, Lifetime, Operation, Transact};
use fairhold_types::{Path, time::WallMillis};
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use std::time::Duration;

const VALUE_BYTES: usize = 64 * 1024;
/// So many values of the log may stay behind a snapshot.
const VALUES_KEPT: u64 = 32;

/// As shipped, but for the bytes.
fn as_shipped(config: &mut ReplicaConfig) {
    let shipped = ReplicaConfig::new(config.id, config.members.clone(), config.incarnation);
    config.log_kept = shipped.log_kept;
    config.log_kept_bytes = VALUES_KEPT * VALUE_BYTES as u64;
}

pub(super) fn put(path: &str, bytes: usize) -> Command {
    let (path, value) = (Path::parse(path).unwrap(), vec![7; bytes].into());
    let then = vec![Operation::Put { path, value, parents: true, lifetime: Lifetime::Persistent }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_overwritten_again_and_again_does_not_fill_the_disk() {
    let mut cluster = Cluster::tuned(3, 100, as_shipped).await;
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
    assert!(purged.await.is_ok(), "{left:?} entries of {VALUE_BYTES} bytes are left, for one value");

    // After a start nobody knows how large the entries are that are left from before: they go with the next snapshot.
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
    assert!(purged.is_ok(), "what was left from before the start through {wanted} is still there");
}

fn delete(path: &str) -> Command {
    let then = vec![Operation::Delete { path: Path::parse(path).unwrap(), version: None, recursive: false }];
    Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: WallMillis(0) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_large_values_frees_the_disk() {
    let cluster = Cluster::form(1, 40).await;
    let (node, soon) = (cluster.node(1), after(Duration::from_secs(30)));
    let bytes = 1024 * 1024;
    for number in 0..10 {
        node.propose(put(&format!("/large/{number}"), bytes), soon).await.unwrap().result.unwrap();
    }
    node.take_snapshot(soon).await.unwrap();
    let before = cluster.disks[&1].snapshots.bytes();
    assert!(before > 10 * bytes, "the snapshot has all of them");
    for number in 0..10 {
        node.propose(delete(&format!("/large/{number}")), soon).await.unwrap().result.unwrap();
    }
    let smaller = TokioRuntime::timeout(Duration::from_secs(10), cluster.disks[&1].snapshots.until(|bytes| bytes < 1024 * 1024));
    assert!(
        smaller.await.is_ok(),
        "ten commands removed 10 MiB, and the snapshot still has {}",
        cluster.disks[&1].snapshots.bytes()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_due_while_another_is_being_saved_is_not_forgotten() {
    let cluster = Cluster::form(1, 40).await;
    let (node, snapshots, soon) = (cluster.node(1), &cluster.disks[&1].snapshots, after(Duration::from_secs(30)));
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
    assert!(smaller.await.is_ok(), "nothing is left, and the snapshot still has {} bytes", snapshots.bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_is_nearly_full_takes_what_removes_something_and_nothing_that_writes_more() {
    let cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let follower = cluster.others(leader)[0];
    let soon = after(Duration::from_secs(30));
    cluster.node(leader).propose(put("/one", 10), soon).await.unwrap().result.unwrap();

    cluster.node(leader).set_disk_low(true);
    let low = Err(ProposeError::NotProposed(NotProposed::DiskLow));
    for node in [leader, follower] {
        assert_eq!(cluster.node(node).propose(put("/two", 10), soon).await, low, "asked at node {node}");
        assert_eq!(cluster.open_session(node).await, low, "asked at node {node}");
    }
    cluster.node(follower).propose(delete("/one"), soon).await.unwrap().result.unwrap();
    cluster.node(leader).read_barrier(soon).await.unwrap();

    cluster.node(leader).set_disk_low(false);
    cluster.node(follower).propose(put("/two", 10), soon).await.unwrap().result.unwrap();
    // Another node's disk is that node's affair: what it passes on, the leader writes.
    cluster.node(follower).set_disk_low(true);
    cluster.node(follower).propose(put("/three", 10), soon).await.unwrap().result.unwrap();
}
