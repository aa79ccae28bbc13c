//! Which nodes talk with each other while members change, and which ones must end.

use super::*;
use fairhold_types::Timing;

/// A node that was away while every other member was replaced knows none of the members, and not even their number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_accepts_a_leader_that_joined_while_it_was_away() {
    let (mut cluster, leader, away) = Cluster::without_a_follower(1_000).await;
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
    let joined = Joined { id: away, cluster: bound_to, role: MemberRole::Voter, members: Vec::new(), timing: Timing::Lan };
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
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let token = cluster.create_token(1, once(MemberRole::Voter, None)).await;
    cluster.admit(1, &token, 4).await;
    assert_eq!(cluster.remove(2, 4).await, Ok(()));
    cluster.start(4).await;
    let reason = cluster.node(4).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id: 4, .. }), "{reason:?}");
    assert_eq!(cluster.node(4).status().last_log_index, None, "it receives nothing");
}

/// A leader that hands over sends nothing until another node leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_removed_while_it_hands_over_in_vain_is_told() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let others = cluster.others(leader);
    cluster.net.isolate(leader);
    cluster.node(leader).transfer_leadership().await;
    let next = cluster.leader_among(others).await;
    assert_eq!(cluster.remove(next, leader).await, Ok(()));
    assert!(cluster.node(leader).leadership().is_some(), "it believes that it leads");
    cluster.net.heal(leader);
    let reason = cluster.node(leader).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id, .. } if id == leader), "{reason:?}");
}

/// Starts a copy of a running node, and waits until it ends. The address of the member leads to the original, so the
/// copy can only dial.
async fn end_of_copy(cluster: &mut Cluster, copied: NodeId) -> FatalReason {
    let disk = cluster.disks[&copied].copy();
    let original = cluster.nodes.remove(&copied).unwrap();
    let own_disk = cluster.disks.insert(copied, disk).unwrap();
    cluster.start(copied).await;
    assert_eq!(cluster.disks[&copied].incarnation, own_disk.incarnation, "it is a copy");
    cluster.net.plug_in(copied, original.service());
    let copy = cluster.nodes.insert(copied, original).unwrap();
    cluster.disks.insert(copied, own_disk);
    copy.stopped().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_running_node_ends_and_the_original_continues() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let copied = cluster.others(leader)[0];
    assert_eq!(end_of_copy(&mut cluster, copied).await, FatalReason::Duplicate { id: copied, by: leader });
    opened(&cluster.open_session(copied).await.unwrap());
    cluster.node(copied).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.leader_among(1..=3).await, leader, "the copy disturbs nothing");
}

/// The followers recognize it: another process of the same node sends them the leader's messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_leader_ends_and_the_original_continues_to_lead() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(leader).leadership();
    let reason = end_of_copy(&mut cluster, leader).await;
    assert!(matches!(reason, FatalReason::Duplicate { id, by } if id == leader && by != leader), "{reason:?}");
    opened(&cluster.open_session(leader).await.unwrap());
    assert_eq!(cluster.node(leader).leadership(), leadership, "the copy disturbs nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_restarts_again_and_again_is_no_copy() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    for _ in 0..5 {
        let leader = cluster.leader_among(1..=3).await;
        for restarted in [cluster.others(leader)[0], leader] {
            cluster.stop(restarted).await;
            cluster.start(restarted).await;
            opened(&cluster.open_session(restarted).await.unwrap());
        }
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
    let token = cluster.create_token(2, once(MemberRole::Voter, None)).await;
    let joined = cluster.net.join(2, cluster.join_request(2, &token, 4)).await.unwrap();
    assert_eq!((joined.id, joined.timing), (4, Timing::Metro), "a node that joins starts with it");
}
