//! An upgrade that an operator finalizes.

use super::*;
use fairhold_raft::FinalizeError;
use fairhold_types::ClusterVersion;

/// Node 3 has the older program.
fn newer_except_for_one(config: &mut ReplicaConfig) {
    if config.id == 3 {
        config.program.supports = SupportedVersions::UNTOLD;
    }
}

impl Cluster {
    /// Waits until the leader counts every member as upgraded.
    async fn upgraded(&self, at: NodeId) {
        loop {
            let status = self.node(at).upgrade_status(soon()).await;
            if status.next.is_some() && status.blockers.is_empty() {
                return;
            }
            self.node(at).read_barrier(soon()).await.unwrap();
        }
    }
}

/// The status counts a member as silent later: after four leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_not_finalized_while_a_member_does_not_answer_however_short_its_silence_is() {
    let mut cluster = Cluster::form_tuned(3, 1_000, Some((500, 1_000)), newer_except_for_one).await;
    cluster.open_session(1).await.unwrap();
    cluster.stop(3).await;
    cluster.tune = |_| ();
    cluster.start(3).await;
    let leader = cluster.leader_among(1..=3).await;
    cluster.upgraded(leader).await;

    let [away, other] = cluster.others(leader)[..] else { panic!("three nodes") };
    cluster.net.isolate(away);
    for at in [leader, other] {
        let refused = cluster.node(at).finalize_upgrade(ClusterVersion(2), None, soon()).await;
        let blocker = format!("node {away} does not answer the leader: start it, or repair the network to it");
        assert_eq!(refused, Err(FinalizeError::Blocked(vec![blocker])), "asked at node {at}");
    }
    cluster.node(other).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.node(other).read(State::cluster_version), ClusterVersion(1));

    cluster.net.heal(away);
    while let Err(error) = cluster.node(leader).finalize_upgrade(ClusterVersion(2), None, soon()).await {
        assert!(matches!(error, FinalizeError::Blocked(_)), "{error}");
        cluster.node(leader).read_barrier(soon()).await.unwrap();
    }
    cluster.node(away).read_barrier(soon()).await.unwrap();
    assert_eq!(cluster.node(away).read(State::cluster_version), ClusterVersion(2));
}
