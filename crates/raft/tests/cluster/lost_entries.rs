//! A node whose storage went back in time.

use super::{Cluster, opened, soon};
use fairhold_raft::{FatalReason, LostEntries, MemberStatus};
use fairhold_types::NodeId;

/// What one node knows of another one.
fn known(cluster: &Cluster, by: NodeId, of: NodeId) -> MemberStatus {
    let status = cluster.node(by).status();
    status.members.into_iter().find(|member| member.id == of).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_lost_what_it_had_acknowledged_says_so_and_takes_no_part() {
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
    // Its last acknowledgement may be under way yet.
    while known(&cluster, leader, node).lag != Some(0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(known(&cluster, leader, node).lost_entries, None);
    cluster.stop(node).await;
    let newest = cluster.disks.insert(node, older).unwrap();

    cluster.start(node).await;
    let FatalReason::LostEntries(lost) = cluster.node(node).stopped().await else { panic!("it must say what it lost") };
    assert_eq!((lost.node, lost.leader, lost.count()), (node, leader, 5));
    let LostEntries { acknowledged, has, .. } = lost;

    // The leader hears of it from the node itself, counts it no longer, and goes on.
    while known(&cluster, leader, node).lost_entries.is_none() {
        opened(&cluster.open_session(leader).await.unwrap());
    }
    let status = known(&cluster, leader, node);
    assert_eq!((status.lost_entries, status.matched), (Some(5), has));
    assert!(status.lag >= Some(5), "{status:?}, and it had acknowledged {acknowledged}");
    let last = opened(&cluster.open_session(leader).await.unwrap());

    // With what it had last it is a node like any other.
    cluster.stop(node).await;
    cluster.disks.insert(node, newest);
    cluster.start(node).await;
    cluster.node(node).wait_for_revision(last, soon()).await.unwrap();
    while known(&cluster, leader, node).lost_entries.is_some() {
        opened(&cluster.open_session(node).await.unwrap());
    }
}
