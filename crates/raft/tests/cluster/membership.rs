//! Members that change: nodes join, replace others, and are removed.

mod addresses;
mod identity;

use super::*;
use fairhold_raft::{JoinPhase, JoinRefusal, JoinRequest, JoinSecret, MemberRequest, MembersView, MembershipError, wall_now};
use fairhold_state::command::{CreateJoinToken, JoinTokenFault};
use fairhold_types::{ClusterVersion, JoinTokenNumber, MemberRole};

/// A join token, as an operator gets it.
#[derive(Clone)]
struct Token {
    number: JoinTokenNumber,
    secret: JoinSecret,
}

fn once(role: MemberRole, replaces: Option<NodeId>) -> CreateJoinToken {
    CreateJoinToken {
        key: None,
        secret_hash: [0; 32],
        role,
        replaces,
        standing: false,
        up_to: None,
        expires_at: Some(WallMillis(wall_now().0 + 60_000)),
        by: "tests".to_owned(),
        at: wall_now(),
    }
}

impl Cluster {
    async fn create_token(&self, at: NodeId, request: CreateJoinToken) -> Token {
        let secret = JoinSecret::random();
        let command = Command::CreateJoinToken(CreateJoinToken { secret_hash: secret.hash(), ..request });
        let answer = self.node(at).propose(command, soon()).await.unwrap();
        let Ok(Outcome::JoinTokenCreated { number, repeated: false }) = answer.result else { panic!("{answer:?}") };
        Token { number, secret }
    }

    /// The request of a new machine. Its number makes its addresses and its data directory.
    fn join_request(&self, at: NodeId, token: &Token, machine: u64) -> JoinRequest {
        JoinRequest {
            token: token.number,
            secret: token.secret.clone(),
            cluster: self.node(at).state().cluster().unwrap(),
            incarnation: Incarnation(u128::from(machine) * 100),
            url: format!("http://n{machine}:1"),
            address: format!("n{machine}:2"),
            version: None,
            supports: SupportedVersions::OWN,
        }
    }

    /// Admits the next machine at a node, without starting it. It has the number of its id, so that the network finds
    /// it.
    async fn admit(&mut self, at: NodeId, token: &Token, machine: u64) -> Joined {
        let joined = self.net.join(at, self.join_request(at, token, machine)).await.unwrap();
        assert_eq!(joined.id, machine, "each id is given once, in order");
        self.disks.insert(joined.id, Disk::new(u128::from(machine) * 100));
        self.joined.insert(joined.id, joined.clone());
        joined
    }

    /// Lets the next machine join, and waits until it has its role.
    async fn join(&mut self, at: NodeId, request: CreateJoinToken, machine: u64) {
        let token = self.create_token(at, request).await;
        self.admit(at, &token, machine).await;
        self.start(machine).await;
        self.members_until(at, |view| view.joins.is_empty()).await;
        self.node(machine).formed().await.unwrap();
    }

    /// Waits until the members, as a node lists them, satisfy a condition.
    async fn members_until(&self, at: NodeId, there: impl Fn(&MembersView) -> bool) -> MembersView {
        loop {
            let view = self.node(at).members_view(soon()).await;
            if there(&view) {
                return view;
            }
            // Another look after the next change, or a while later: not every change has a revision.
            let next = self.node(at).read(State::revision).next();
            self.node(at).wait_for_revision(next, after(Duration::from_millis(50))).await.ok();
        }
    }

    async fn remove(&self, at: NodeId, node: NodeId) -> Result<(), MembershipError> {
        self.node(at).change_member(MemberRequest::Remove { node, by: "tests".to_owned() }.decided_by(None), soon()).await
    }

    async fn set(
        &self,
        at: NodeId,
        node: NodeId,
        (peer, force): (Option<&str>, bool),
        priority: Option<u8>,
    ) -> Result<(), MembershipError> {
        self.set_within(at, node, (peer, force), priority, soon()).await
    }

    async fn set_within(
        &self,
        at: NodeId,
        node: NodeId,
        (peer, force): (Option<&str>, bool),
        priority: Option<u8>,
        deadline: Instant,
    ) -> Result<(), MembershipError> {
        let request = MemberRequest::Set {
            node,
            key: None,
            url: None,
            peer: peer.map(str::to_owned),
            force,
            priority,
            zone: None,
            by: "tests".to_owned(),
        };
        self.node(at).change_member(request.decided_by(None), deadline).await
    }
}

fn voters(view: &MembersView) -> Vec<NodeId> {
    view.members.iter().filter(|row| row.voter).map(|row| row.id).collect()
}

fn learners(view: &MembersView) -> Vec<NodeId> {
    view.members.iter().filter(|row| !row.voter).map(|row| row.id).collect()
}

fn key(number: u8) -> Option<WriteKey> {
    Some(WriteKey { key: GrantId::from_ulid(u128::from(number)), fingerprint: [number; 16] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_grows_to_three() {
    let mut cluster = Cluster::form_new(1, 1_000).await;
    let before = opened(&cluster.open_session(1).await.unwrap());
    cluster.join(1, once(MemberRole::Voter, None), 2).await;
    cluster.join(2, once(MemberRole::Voter, None), 3).await;
    let view = cluster.members_until(3, |view| voters(view) == [1, 2, 3]).await;
    assert!(!view.is_joint && learners(&view).is_empty());
    let after = opened(&cluster.open_session(3).await.unwrap());
    assert!(after > before);
    cluster.node(2).wait_for_revision(after, soon()).await.unwrap();

    // Two of three suffice, also without the first node.
    cluster.stop(1).await;
    opened(&cluster.open_session(2).await.unwrap());
    // A node that joined starts again.
    cluster.stop(3).await;
    cluster.start(3).await;
    opened(&cluster.open_session(3).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_gets_a_vote_and_loses_it_on_request() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    cluster.join(2, once(MemberRole::Learner, None), 4).await;
    let view = cluster.members_until(1, |view| view.from_leader).await;
    assert_eq!((voters(&view), learners(&view)), (vec![1, 2, 3], vec![4]));
    cluster.node(4).read_barrier(soon()).await.unwrap();

    let by = "tests".to_owned();
    let promote = MemberRequest::Promote { node: 4, key: key(1), by: by.clone() };
    assert_eq!(cluster.node(4).change_member(promote.clone().decided_by(None), soon()).await, Ok(()));
    cluster.members_until(1, |view| voters(view) == [1, 2, 3, 4]).await;

    // The leader itself loses its vote: another one leads.
    let leader = cluster.leader_among(1..=4).await;
    let demote = MemberRequest::Demote { node: leader, key: key(2), by: by.clone() };
    assert_eq!(cluster.node(1).change_member(demote.decided_by(None), soon()).await, Ok(()));
    let view = cluster.members_until(1, |view| !voters(view).contains(&leader)).await;
    assert_eq!((voters(&view).len(), learners(&view)), (3, vec![leader]));

    let demote = MemberRequest::Demote { node: 4, key: key(3), by: by.clone() };
    assert_eq!(cluster.node(1).change_member(demote.decided_by(None), soon()).await, Ok(()));
    assert_eq!(
        cluster.node(1).change_member(promote.decided_by(None), soon()).await,
        Ok(()),
        "a late copy of an earlier request"
    );
    let view = cluster.members_until(1, |view| view.from_leader).await;
    assert!(learners(&view).contains(&4), "the late copy changes nothing: {view:?}");
    let missing = MemberRequest::Promote { node: 9, key: None, by };
    let error = cluster.node(1).change_member(missing.decided_by(None), soon()).await;
    assert_eq!(error, Err(MembershipError::NotMember { node: 9, members: vec![1, 2, 3, 4] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_replaced_and_its_directory_takes_no_part_any_more() {
    let (mut cluster, leader, dead) = Cluster::without_a_follower(1_000).await;
    cluster.open_session(leader).await.unwrap();
    cluster.join(leader, once(MemberRole::Voter, Some(dead)), 4).await;
    let view = cluster.members_until(leader, |view| view.from_leader).await;
    let expected: Vec<NodeId> = (1..=4).filter(|id| *id != dead).collect();
    assert_eq!((voters(&view), learners(&view)), (expected, vec![]));
    assert_eq!(view.removed.iter().map(|row| (row.id, row.by.as_str())).collect::<Vec<_>>(), [(dead, "replaced by node 4")]);

    // The old machine comes back, and hears of it.
    cluster.start(dead).await;
    let reason = cluster.node(dead).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id, .. } if id == dead), "{reason:?}");
    opened(&cluster.open_session(4).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_leader_is_replaced_while_it_leads() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let other = cluster.others(leader)[0];
    cluster.join(other, once(MemberRole::Voter, Some(leader)), 4).await;
    let view = cluster.members_until(other, |view| view.from_leader).await;
    assert!(!voters(&view).contains(&leader) && voters(&view).len() == 3, "{view:?}");
    let reason = cluster.node(leader).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id, .. } if id == leader), "{reason:?}");
    opened(&cluster.open_session(4).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_continues_a_join() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let token = cluster.create_token(leader, once(MemberRole::Voter, None)).await;
    let first = cluster.admit(leader, &token, 4).await;
    let pending = cluster.members_until(leader, |view| !view.joins.is_empty()).await;
    assert_eq!(pending.joins[0].id, 4);
    assert!(pending.joins[0].phase == JoinPhase::Pending || pending.joins[0].phase == JoinPhase::CatchingUp);
    cluster.stop(leader).await;
    let at = cluster.others(leader)[0];
    // It asks again at another node, and gets the same answer.
    assert_eq!(cluster.admit(at, &token, 4).await.id, first.id);
    cluster.start(4).await;
    let view = cluster.members_until(at, |view| view.joins.is_empty()).await;
    assert_eq!(voters(&view), [1, 2, 3, 4]);
    opened(&cluster.open_session(4).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_removed_hands_over_first_and_stops() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let at = cluster.others(leader)[0];
    assert_eq!(cluster.remove(at, leader).await, Ok(()));
    let reason = cluster.node(leader).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id, .. } if id == leader), "{reason:?}");
    let view = cluster.members_until(at, |view| view.from_leader).await;
    assert_eq!((voters(&view), view.removed[0].id, view.removed[0].by.as_str()), (cluster.others(leader), leader, "tests"));
    opened(&cluster.open_session(at).await.unwrap());
    assert_eq!(cluster.remove(at, leader).await, Ok(()), "again");

    // It is told again at its next start.
    cluster.stop(leader).await;
    cluster.start(leader).await;
    let reason = cluster.node(leader).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id, .. } if id == leader), "{reason:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_would_lose_the_quorum_is_refused() {
    let (cluster, leader, dead) = Cluster::without_a_follower(1_000).await;
    let healthy = (1..=3).find(|id| *id != leader && *id != dead).unwrap();
    // The leader cannot have noticed yet that a node is dead: it asks.
    let refused = Err(MembershipError::WouldLoseQuorum { voters: 2, healthy: 1, needed: 2 });
    assert_eq!(cluster.remove(leader, healthy).await, refused);
    assert_eq!(cluster.remove(healthy, leader).await, refused);
    assert_eq!(cluster.remove(healthy, dead).await, Ok(()));
    let members = vec![leader.min(healthy), leader.max(healthy)];
    assert_eq!(cluster.remove(healthy, 9).await, Err(MembershipError::NotMember { node: 9, members }));
    // Now two voters are left, and both are healthy.
    assert_eq!(cluster.remove(leader, healthy).await, Ok(()));
    assert_eq!(cluster.remove(leader, leader).await, Err(MembershipError::LastVoter { node: leader }));
    opened(&cluster.open_session(leader).await.unwrap());
}

/// Each of the removals alone would leave a voter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_removals_of_both_voters_at_once_one_is_refused() {
    let mut cluster = Cluster::form_new(1, 1_000).await;
    let mut older = 1;
    for newer in 2..=4 {
        cluster.join(older, once(MemberRole::Voter, None), newer).await;
        let (gone, stays, refused) = match tokio::join!(cluster.remove(older, older), cluster.remove(newer, newer)) {
            (Ok(()), Err(refused)) => (older, newer, refused),
            (Err(refused), Ok(())) => (newer, older, refused),
            both => panic!("{both:?}"),
        };
        // The second one, if the first removal was complete when the other request was decided.
        let expected = matches!(refused, MembershipError::ChangeInProgress { .. } | MembershipError::LastVoter { .. });
        assert!(expected, "{refused:?}");
        let reason = cluster.node(gone).stopped().await;
        assert!(matches!(reason, FatalReason::Removed { id, .. } if id == gone), "{reason:?}");
        let view = cluster.members_until(stays, |view| view.from_leader && voters(view) == [stays]).await;
        assert!(view.members.iter().all(|row| row.removal.is_none()), "no removal waits: {view:?}");
        opened(&cluster.open_session(stays).await.unwrap());
        older = stays;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_learner_is_told_and_a_join_can_be_given_up() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    cluster.join(1, once(MemberRole::Learner, None), 4).await;
    assert_eq!(cluster.remove(2, 4).await, Ok(()));
    let reason = cluster.node(4).stopped().await;
    assert!(matches!(reason, FatalReason::Removed { id: 4, .. }), "{reason:?}");

    let token = cluster.create_token(1, once(MemberRole::Voter, None)).await;
    cluster.admit(1, &token, 5).await;
    assert_eq!(cluster.remove(3, 5).await, Ok(()));
    let view = cluster.members_until(1, |view| view.from_leader).await;
    assert!(view.joins.is_empty() && voters(&view) == [1, 2, 3] && learners(&view).is_empty(), "{view:?}");
    let again = cluster.net.join(1, cluster.join_request(1, &token, 5)).await;
    assert_eq!(again.map(|joined| joined.id), Err(JoinRefusal::Token(JoinTokenFault::Used { node: 5 })));
    cluster.join(1, once(MemberRole::Learner, None), 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_is_refused_with_a_reason() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let token = cluster.create_token(1, once(MemberRole::Voter, None)).await;
    let good = cluster.join_request(1, &token, 4);
    let refusal = async |request: JoinRequest| cluster.net.join(2, request).await.unwrap_err();

    let other = ClusterId(good.cluster.0 ^ 1);
    let refused = refusal(JoinRequest { cluster: other, ..good.clone() }).await;
    assert_eq!(refused, JoinRefusal::OtherCluster { theirs: other, ours: good.cluster });
    let refused = refusal(JoinRequest { secret: JoinSecret::random(), ..good.clone() }).await;
    assert_eq!(refused, JoinRefusal::Token(JoinTokenFault::Unknown));
    let refused = refusal(JoinRequest { address: "n3:2".to_owned(), ..good.clone() }).await;
    assert_eq!(refused, JoinRefusal::AddressInUse { address: "n3:2".to_owned(), node: 3 });
    let refused = refusal(JoinRequest { supports: SupportedVersions::UNTOLD, ..good.clone() }).await;
    assert!(matches!(refused, JoinRefusal::Unsupported(_)), "{refused:?}");
    let refused = refusal(JoinRequest { address: "0.0.0.0:2".to_owned(), ..good.clone() }).await;
    assert!(matches!(refused, JoinRefusal::BadRequest(_)), "{refused:?}");
    let expired = CreateJoinToken { expires_at: Some(wall_now()), ..once(MemberRole::Voter, None) };
    let expired = cluster.create_token(1, expired).await;
    assert_eq!(refusal(cluster.join_request(1, &expired, 4)).await, JoinRefusal::Token(JoinTokenFault::Expired));
    let standing = CreateJoinToken { standing: true, expires_at: None, ..once(MemberRole::Voter, None) };
    let standing = cluster.create_token(1, standing).await;
    let comes_back = JoinRequest { incarnation: Incarnation(7), ..cluster.join_request(1, &standing, 2) };
    let refused = refusal(comes_back).await;
    assert!(matches!(refused, JoinRefusal::Unreplaceable { node: 2, .. }), "{refused:?}");
    assert_eq!(cluster.net.join(3, good).await.unwrap().id, 4, "the token is still good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_token_expires_by_the_clock_of_the_leader_and_not_of_the_node_that_received_the_request() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let follower = cluster.others(leader)[0];
    let now = wall_now().0;
    for wrong in [now - 7_200_000, now + 7_200_000] {
        let (at, expires_at) = (WallMillis(wrong), Some(WallMillis(wrong + 60_000)));
        let token = cluster.create_token(follower, CreateJoinToken { at, expires_at, ..once(MemberRole::Voter, None) }).await;
        let state = cluster.node(leader).state();
        let created = state.membership().token(token.number).unwrap();
        assert!((now..=wall_now().0).contains(&created.created_at.0), "{created:?}");
        assert_eq!(created.expires_at, Some(WallMillis(created.created_at.0 + 60_000)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_joined_gets_its_answer_again_only_with_the_secret_of_a_known_token() {
    let mut cluster = Cluster::form_new(1, 1_000).await;
    let token = cluster.create_token(1, once(MemberRole::Learner, None)).await;
    cluster.admit(1, &token, 2).await;
    cluster.start(2).await;
    cluster.members_until(1, |view| view.joins.is_empty()).await;
    let again = cluster.join_request(1, &token, 2);
    let answer = async |request: JoinRequest| cluster.net.join(1, request).await.map(|joined| (joined.id, joined.role));
    assert_eq!(answer(again.clone()).await, Ok((2, MemberRole::Learner)));
    let unknown = Err(JoinRefusal::Token(JoinTokenFault::Unknown));
    assert_eq!(answer(JoinRequest { secret: JoinSecret::random(), ..again.clone() }).await, unknown);
    assert_eq!(answer(JoinRequest { token: JoinTokenNumber(9), ..again.clone() }).await, unknown);
    let revoke = Command::RevokeJoinToken { number: token.number, at: wall_now() };
    assert_eq!(cluster.node(1).propose(revoke, soon()).await.unwrap().result, Ok(Outcome::Done));
    assert_eq!(answer(again).await, unknown, "its directory has its id, so it does not ask any more");

    let standing = CreateJoinToken { standing: true, up_to: Some(3), expires_at: None, ..once(MemberRole::Voter, None) };
    let standing = cluster.create_token(1, standing).await;
    assert_eq!(answer(cluster.join_request(1, &standing, 2)).await, Ok((2, MemberRole::Learner)), "a standing token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_do_not_change_before_the_cluster_is_upgraded() {
    let cluster = Cluster::tuned(3, 1_000, |config| config.program.supports = SupportedVersions::UNTOLD).await;
    cluster.open_session(1).await.unwrap();
    cluster.node(1).read_barrier(soon()).await.unwrap();
    let version = ClusterVersion(1);
    assert_eq!(cluster.remove(1, 2).await, Err(MembershipError::NeedsUpgrade { version }));
    let token = Token { number: JoinTokenNumber(1), secret: JoinSecret::random() };
    let refused = cluster.net.join(1, cluster.join_request(1, &token, 4)).await;
    assert_eq!(refused, Err(JoinRefusal::NeedsUpgrade { version }));
    assert_eq!(cluster.node(1).check_membership_version(), Err(MembershipError::NeedsUpgrade { version }));
}
