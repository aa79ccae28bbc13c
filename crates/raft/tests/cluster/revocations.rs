//! Acts outside the state that were decided by access data from before a revocation.

use super::*;
use fairhold_raft::{FinalizeError, HandoverError};
use fairhold_state::{
    access::PrincipalKey,
    command::{AccessChange, AccessGuard, AccessRequester, ActOrigin, ChangeAccess},
};
use fairhold_types::ClusterVersion;

const OPERATOR: PrincipalKey = PrincipalKey(7);
const NEXT: ClusterVersion = ClusterVersion(3);

fn give(role: &str, user: &str) -> AccessChange {
    AccessChange::Bind { role: role.parse().unwrap(), subject: user.parse().unwrap() }
}

fn take(role: &str, user: &str) -> AccessChange {
    AccessChange::Unbind { role: role.parse().unwrap(), subject: user.parse().unwrap() }
}

impl Cluster {
    /// What an operator's request carries that this node decides now.
    fn guard(&self, at: NodeId) -> AccessGuard {
        AccessGuard { access: self.node(at).state().access().revision(), principal: OPERATOR }
    }

    /// Changes the access data, and returns the guard of a request that is decided by it.
    async fn change_access(&self, at: NodeId, change: AccessChange) -> AccessGuard {
        let requester = AccessRequester { principal: ActOrigin::of_node().principal, client: String::new() };
        let command = Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: WallMillis(0) });
        let answer = self.node(at).propose(command.guarded(self.guard(at)), soon()).await.unwrap();
        assert!(answer.result.is_ok(), "{answer:?}");
        self.node(at).wait_for_revision(answer.revision, soon()).await.unwrap();
        self.guard(at)
    }

    /// Enforces rights. Then an operator's request is decided at a node, and the operator loses its role. Returns the
    /// guard of that request, and one of a request that is decided afterwards.
    async fn revoke(&self, at: NodeId) -> (AccessGuard, AccessGuard) {
        self.change_access(at, give("admin", "user:root")).await;
        self.change_access(at, give("operator", "user:op")).await;
        let admitted = self.change_access(at, AccessChange::Enable).await;
        (admitted, self.change_access(at, take("operator", "user:op")).await)
    }

    /// Raises the cluster's version, once every node has introduced itself to the leader.
    async fn finalize(&self, at: NodeId, guard: Option<AccessGuard>) -> Result<(), FinalizeError> {
        loop {
            match self.node(at).finalize_upgrade(NEXT, guard, soon()).await {
                Err(FinalizeError::Blocked(_)) => self.node(at).read_barrier(soon()).await.unwrap(),
                result => return result,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_that_was_admitted_before_a_revocation_is_not_made_after_it() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let leader = cluster.leader_among(1..=3).await;
    let leadership = cluster.node(leader).leadership();
    let [follower, to] = cluster.others(leader)[..] else { panic!("three nodes") };
    let (admitted, current) = cluster.revoke(follower).await;
    for at in [leader, follower] {
        // A request without a guard was admitted while rights were not enforced.
        for guard in [Some(admitted), None] {
            let key = WriteKey { key: GrantId::from_ulid(9), fingerprint: [9; 16] };
            let refused = cluster.node(at).hand_over(to, Some(key), guard, soon()).await;
            let is_refused = matches!(refused, Err(HandoverError::AccessChanged { revision }) if revision >= current.access);
            assert!(is_refused, "node {at}, {guard:?}: {refused:?}");
        }
    }
    assert_eq!(cluster.node(leader).leadership(), leadership);

    let key = WriteKey { key: GrantId::from_ulid(9), fingerprint: [9; 16] };
    loop {
        match cluster.node(follower).hand_over(to, Some(key), Some(current), soon()).await {
            Ok(()) => break,
            // The leader may have no answer from every node yet.
            Err(HandoverError::Silent { .. }) => cluster.node(leader).read_barrier(soon()).await.unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(cluster.leader_among([to]).await, to, "a refused request has not used its key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_was_admitted_before_a_revocation_is_not_finalized_after_it() {
    let mut cluster = Cluster::form_new(3, 1_000).await;
    cluster.tune = |config| config.program.supports = SupportedVersions(ClusterVersion(1), NEXT);
    for id in 1..=3 {
        cluster.stop(id).await;
        cluster.start(id).await;
        cluster.node(id).read_barrier(soon()).await.unwrap();
    }
    let leader = cluster.leader_among(1..=3).await;
    let follower = cluster.others(leader)[0];
    let (admitted, current) = cluster.revoke(follower).await;
    for at in [leader, follower] {
        for guard in [Some(admitted), None] {
            let refused = cluster.finalize(at, guard).await;
            let is_refused = matches!(refused, Err(FinalizeError::AccessChanged { revision }) if revision >= current.access);
            assert!(is_refused, "node {at}, {guard:?}: {refused:?}");
        }
    }
    assert_eq!(cluster.node(leader).read(State::cluster_version), ClusterVersion(2));
    assert_eq!(cluster.finalize(follower, Some(current)).await, Ok(()));
    cluster.node(follower).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.node(follower).read(State::cluster_version), NEXT);
}
