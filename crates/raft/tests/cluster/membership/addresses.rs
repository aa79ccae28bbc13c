//! The addresses of members, and the node that checks them.

use super::*;

/// Enough for a refusal: the leader greets for all of it but two seconds.
const BRIEF: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_gets_another_address_if_no_other_node_answers_there() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let [moving, other] = cluster.others(leader)[..] else { unreachable!("three nodes") };
    cluster.net.add_address(other, "elsewhere:2");
    let wrong = MembershipError::WrongNode { address: "elsewhere:2".to_owned(), found: Some(other) };
    assert_eq!(cluster.set(leader, moving, (Some("elsewhere:2"), true), None).await, Err(wrong));
    let nobody = MembershipError::NotAnswering { address: "nowhere:2".to_owned() };
    assert_eq!(cluster.set(other, moving, (Some("nowhere:2"), false), None).await, Err(nobody));
    let used = format!("n{other}:2");
    let in_use = MembershipError::AddressInUse { address: used.clone(), node: other };
    assert_eq!(cluster.set(other, moving, (Some(&used), true), None).await, Err(in_use));
    let bad = cluster.set(other, moving, (Some("0.0.0.0:2"), true), Some(200)).await;
    assert!(matches!(bad, Err(MembershipError::BadRequest(_))), "{bad:?}");

    cluster.net.add_address(moving, "moved:2");
    assert_eq!(cluster.set(moving, moving, (Some("moved:2"), false), Some(80)).await, Ok(()));
    let row = |view: &MembersView| view.members.iter().find(|row| row.id == moving).cloned().unwrap();
    let view = cluster.members_until(leader, |view| row(view).peer == "moved:2").await;
    assert_eq!((row(&view).priority, row(&view).voter), (80, true));
    cluster.node(moving).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.set(leader, moving, (Some("nowhere:2"), true), None).await, Ok(()), "with force");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hands_over_before_its_own_address_changes() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let at = cluster.others(leader)[0];
    cluster.net.add_address(leader, "moved:2");
    assert_eq!(cluster.set(leader, leader, (Some("moved:2"), false), None).await, Ok(()), "one request suffices");
    let next = cluster.leader_among(cluster.others(leader)).await;
    let row = |view: &MembersView| view.members.iter().find(|row| row.id == leader).cloned().unwrap();
    let view = cluster.members_until(next, |view| row(view).peer == "moved:2").await;
    assert!(view.from_leader && row(&view).voter && !row(&view).leader, "{view:?}");
    let revision = opened(&cluster.open_session(at).await.unwrap());
    cluster.node(leader).wait_for_revision(revision, soon()).await.unwrap();

    let same = cluster.node(next).leadership();
    assert_eq!(cluster.set(at, next, (Some(&format!("n{next}:2")), false), Some(50)).await, Ok(()));
    assert_eq!(cluster.node(next).leadership(), same, "nothing changes, so it goes on leading");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_does_not_lead_at_an_address_that_only_it_reaches() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let at = cluster.others(leader)[0];
    cluster.net.add_private_address(leader, "private:2");
    let nobody = MembershipError::NotAnswering { address: "private:2".to_owned() };
    let refused = cluster.set_within(at, leader, (Some("private:2"), false), None, after(BRIEF)).await;
    assert_eq!(refused, Err(nobody));
    let revision = opened(&cluster.open_session(at).await.unwrap());
    cluster.node(leader).wait_for_revision(revision, soon()).await.unwrap();

    let leader = cluster.leader_among(1..=3).await;
    let others = cluster.others(leader);
    assert_eq!(cluster.set(others[0], leader, (Some("nowhere:2"), true), None).await, Ok(()), "with force");
    cluster.leader_among(others.clone()).await;
    let revision = opened(&cluster.open_session(others[0]).await.unwrap());
    for other in others {
        cluster.node(other).wait_for_revision(revision, soon()).await.unwrap();
    }
}

/// Nobody can lead in its place, and nobody else decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_voter_moves_to_an_address_where_it_answers() {
    let cluster = Cluster::form_new(1, 1_000).await;
    let lost = Err(MembershipError::WouldLoseQuorum { voters: 1, healthy: 0, needed: 1 });
    assert_eq!(cluster.set(1, 1, (Some("nowhere:2"), true), None).await, lost);
    let nobody = Err(MembershipError::NotAnswering { address: "nowhere:2".to_owned() });
    assert_eq!(cluster.set_within(1, 1, (Some("nowhere:2"), false), None, after(BRIEF)).await, nobody);
    cluster.net.add_address(1, "moved:2");
    assert_eq!(cluster.set(1, 1, (Some("moved:2"), false), None).await, Ok(()));
    opened(&cluster.open_session(1).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_with_a_wrong_address_continues_once_that_is_corrected() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let token = cluster.create_token(1, once(MemberRole::Voter, None)).await;
    let wrong = JoinRequest { address: "nowhere:2".to_owned(), ..cluster.join_request(1, &token, 4) };
    let joined = cluster.net.join(1, wrong).await.unwrap();
    assert_eq!(joined.id, 4);
    cluster.disks.insert(4, Disk::new(400));
    cluster.joined.insert(4, joined);
    cluster.start(4).await;
    cluster.members_until(1, |view| learners(view) == [4]).await;
    assert_eq!(cluster.set(2, 4, (Some("n4:2"), false), None).await, Ok(()));
    let view = cluster.members_until(1, |view| view.joins.is_empty()).await;
    assert_eq!(voters(&view), [1, 2, 3, 4]);
    opened(&cluster.open_session(4).await.unwrap());
}
