//! A leader that finalizes an upgrade without an operator.

use super::*;
use fairhold_types::ClusterVersion;

/// How long all members must support the next version.
const AFTER: Duration = Duration::from_millis(1_500);

fn newer(config: &mut ReplicaConfig) {
    config.finalize_after = Some(AFTER);
}

/// Node 3 has the older program.
fn newer_except_for_one(config: &mut ReplicaConfig) {
    newer(config);
    if config.id == 3 {
        config.program.supports = SupportedVersions::UNTOLD;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_finalizes_an_upgrade_once_every_member_has_supported_it_for_long_enough() {
    let mut cluster = Cluster::tuned(3, 1_000, newer_except_for_one).await;
    cluster.open_session(1).await.unwrap();
    let node = cluster.node(1).clone();
    assert_eq!(node.read(State::cluster_version), ClusterVersion(1));
    cluster.stop(3).await;
    cluster.tune = newer;
    let upgraded_at = soon();
    cluster.start(3).await;
    while node.read(State::cluster_version) == ClusterVersion(1) {
        let next = node.read(State::revision).next();
        node.wait_for_revision(next, soon()).await.unwrap();
    }
    let passed = soon() - upgraded_at;
    assert!(passed >= AFTER, "after {passed:?}");
    assert_eq!(node.read(State::cluster_version), ClusterVersion(2));
}
