//! Which nodes talk with each other while members change, and which ones must end.

use super::*;
use fairhold_types::Timing;

/// A node that was away while every other member was replaced knows none of the members, and not even their number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_accepts_a_leader_that_joined_while_it_was_away() {
    let (mut cluster, leader, away) = without_a_follower().await;
    let other = (1..=3).find(|id| *id != leader && *id != away).unwrap();
    cluster.open_session(leader).await.unwrap();
    cluster.join(other, once(MemberRole::Voter, None), 4).await;
    cluster.join(other, once(MemberRole::Voter, None), 5).await;
    assert_eq!(cluster.remove(4, leader).await, Ok(()));
    assert_eq!(cluster.remove(4, other).await, Ok(()));
    cluster.stop(leader).await;
    cluster.stop(other).await;
    let revision = opened(&cluster.open_session(4).await.unwrap());

    // Its data directory is bound to the cluster.
    let bound_to = cluster.node(4).state().cluster().unwrap();
    let joined = Joined { id: away, cluster: bound_to, role: MemberRole::Voter, members: Vec::new() };
    cluster.joined.insert(away, joined);
    cluster.start(away).await;
    cluster.node(away).wait_for_revision(revision, soon()).await.unwrap();
    let view = cluster.members_until(away, |view| view.from_leader).await;
    assert_eq!(voters(&view), [away, 4, 5]);
    // Its vote counts.
    cluster.stop(4).await;
    opened(&cluster.open_session(5).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_removed_before_its_first_log_entry_is_told() {
    let mut cluster = Cluster::form_new(3).await;
    let token = cluster.create_token(1, once(MemberRole::Voter, None)).await;
    cluster.admit(1, &token, 4).await;
    assert_eq!(cluster.remove(2, 4).await, Ok(()));
    cluster.start(4).await;
    let reason = cluster.node(4).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id: 4, .. }), "{reason:?}");
    assert_eq!(cluster.node(4).status().last_log_index, None, "it receives nothing");
}

/// The address of the member leads to the original. The copy can only dial.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_running_node_ends_and_the_original_continues() {
    let mut cluster = Cluster::form_new(3).await;
    let leader = cluster.leader_among(1..=3).await;
    let copied = cluster.others(leader)[0];
    let disk = cluster.disks[&copied].copy();
    let original = cluster.nodes.remove(&copied).unwrap();
    let known = cluster.disks.insert(copied, disk).unwrap();
    cluster.start(copied).await;
    cluster.net.plug_in(copied, original.service());

    let copy = cluster.nodes.insert(copied, original).unwrap();
    let reason = copy.stopped().await;
    assert_eq!(reason, FatalReason::Duplicate { id: copied, by: leader });
    assert_eq!(known.incarnation, cluster.disks[&copied].incarnation);
    opened(&cluster.open_session(copied).await.unwrap());
    cluster.node(copied).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.leader_among(1..=3).await, leader, "the copy disturbs nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_restarts_again_and_again_is_no_copy() {
    let mut cluster = Cluster::form_new(3).await;
    let leader = cluster.leader_among(1..=3).await;
    let restarted = cluster.others(leader)[0];
    for _ in 0..5 {
        cluster.stop(restarted).await;
        cluster.start(restarted).await;
        opened(&cluster.open_session(restarted).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_cluster_gets_the_timing_profile_of_its_nodes() {
    let cluster = Cluster::tuned(3, 1_000, |config| *config = config.clone().with_timing(Timing::Metro)).await;
    let node = cluster.node(2);
    while node.timing() != Timing::Metro {
        node.wait_for_revision(node.read(State::revision).next(), soon()).await.unwrap();
    }
    opened(&cluster.open_session(2).await.unwrap());
}
