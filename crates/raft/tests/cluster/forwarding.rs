//! Commands that a follower forwards to a leader that vanishes.

use super::{Cluster, open_session, opened, soon};
use fairhold_raft::{
    error::{ProposeError, UnknownReason},
    peer::Lane,
};
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;

/// Two batches are on the way to a leader whose machine vanishes: no connection ends. Once another node leads, new
/// commands do not wait for the answers that may still come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_forwarded_to_a_vanished_leader_do_not_delay_those_for_the_next_one() {
    let cluster = Cluster::form(3, 1_000).await;
    let old = cluster.leader_among(1..=3).await;
    let others = cluster.others(old);
    let follower = others[0];
    opened(&cluster.open_session(follower).await.unwrap());

    cluster.net.hold_requests(old);
    let mut forwarded = Vec::new();
    for batch in 1..=2 {
        let node = cluster.node(follower).clone();
        forwarded.push(TokioRuntime::spawn(async move { node.propose(open_session(), soon()).await }));
        cluster.net.requests_held((follower, old, Lane::Forward), batch).await;
    }
    cluster.leader_among(others).await;

    opened(&cluster.open_session(follower).await.unwrap());
    assert!(forwarded.iter().all(|forwarded| !forwarded.is_finished()), "an answer may still come");
    for forwarded in forwarded {
        assert_eq!(forwarded.await.unwrap(), Err(ProposeError::Unknown(UnknownReason::Deposed)));
    }
    cluster.net.heal(old);
}
