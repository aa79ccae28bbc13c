//! A node whose storage lost entries that it had acknowledged.

use super::{Cluster, opened, soon};
use fairhold_raft::{FatalReason, LostEntries, MemberStatus};
use fairhold_types::NodeId;

/// What one node knows about another.
fn known(cluster: &Cluster, by: NodeId, of: NodeId) -> MemberStatus {
    let status = cluster.node(by).status();
    status.members.into_iter().find(|member| member.id == of).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_lost_acknowledged_entries_reports_it_and_takes_no_part() {
    let mut cluster = Cluster::form(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let node = cluster.others(leader)[0];
    let kept = opened(&cluster.open_session(leader).await.unwrap());
    cluster.node(node).wait_for_revision(kept, soon()).await.unwrap();
    cluster.stop(node).await;
    let older = cluster.disks[&node].copy();

    cluster.start(node).await;
    for _ in 0..5 {
        let lost = opened(&cluster.open_session(leader).await.unwrap());
        cluster.node(node).wait_for_revision(lost, soon()).await.unwrap();
    }
    // Its last acknowledgement may still be in flight.
    while known(&cluster, leader, node).lag != Some(0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(known(&cluster, leader, node).lost_entries, None);
    cluster.stop(node).await;
    let newest = cluster.disks.insert(node, older).unwrap();

    cluster.start(node).await;
    let FatalReason::LostEntries(lost) = cluster.node(node).stopped().await else { panic!("the reason must say what was lost") };
    assert_eq!((lost.node, lost.leader, lost.count()), (node, leader, 5));
    let LostEntries { acknowledged, has, .. } = lost;

    // The leader learns of the loss from the node itself, no longer counts it, and continues.
    while known(&cluster, leader, node).lost_entries.is_none() {
        opened(&cluster.open_session(leader).await.unwrap());
    }
    let status = known(&cluster, leader, node);
    assert_eq!((status.lost_entries, status.matched), (Some(5), has));
    assert!(status.lag >= Some(5), "{status:?}, but it had acknowledged {acknowledged}");
    let last = opened(&cluster.open_session(leader).await.unwrap());

    // With its newest data directory, it is a node like any other.
    cluster.stop(node).await;
    cluster.disks.insert(node, newest);
    cluster.start(node).await;
    cluster.node(node).wait_for_revision(last, soon()).await.unwrap();
    while known(&cluster, leader, node).lost_entries.is_some() {
        opened(&cluster.open_session(node).await.unwrap());
    }
}
