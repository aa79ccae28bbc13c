//! What a deposed leader may still answer if old answers of its followers arrive late and one by one.

use super::{Cluster, after, open_session, opened, soon};
use fairhold_raft::{
    error::{NotProposed, ReadError},
    peer::Lane,
};
use fairhold_state::State;
use openraft::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use std::time::Duration;

/// How long the read waits at the old leader: longer than the whole test, and shorter than the leader's own time limit
/// for an answer.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// How long the write waits at the old leader, which has no majority.
const WRITE_LIMIT: Duration = Duration::from_millis(50);

/// Both followers have accepted an entry, and their answers are in flight when the leader is cut off. A new leader
/// acknowledges a write. Then the old leader receives a read, and the two answers arrive one after the other. The first
/// one commits the entry there, so a request that only carries the new commit index follows on the other follower's
/// lane. That request never arrives, and it ends with the same entry as the request that is answered next. So the
/// second answer proves only that the old leader still led when it sent the *first* request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_answer_proves_nothing_about_a_newer_request_that_ends_with_the_same_entry() {
    let cluster = Cluster::form(3, 1_000).await;
    let old = cluster.leader_among(1..=3).await;
    let others = cluster.others(old);
    let [first, second] = [others[0], others[1]].map(|follower| (old, follower, Lane::Append));
    opened(&cluster.open_session(old).await.unwrap());
    let last_of = |node| cluster.node(node).status().last_log_index;
    let before = last_of(old);

    cluster.net.hold_answers(old);
    let write = TokioRuntime::spawn({
        let node = cluster.node(old).clone();
        async move { node.propose(open_session(), soon()).await }
    });
    while others.iter().any(|follower| last_of(*follower) <= before) {
        tokio::task::yield_now().await;
    }
    cluster.net.all_answered(first).await;
    cluster.net.all_answered(second).await;
    cluster.net.hold_requests(old);

    let next = cluster.leader_among(others.clone()).await;
    let acknowledged = opened(&cluster.open_session(next).await.unwrap());

    let read = TokioRuntime::spawn({
        let node = cluster.node(old).clone();
        async move { node.read_barrier(after(READ_LIMIT)).await.map(|()| node.read(State::revision)) }
    });
    // The write takes the same path through the old leader, behind the read.
    let refused = cluster.node(old).propose(open_session(), after(WRITE_LIMIT)).await;
    assert!(refused.is_err(), "{refused:?}");

    cluster.net.release_answers(first);
    let before = opened(&write.await.unwrap().unwrap());
    assert!(before < acknowledged, "{before} and {acknowledged}");
    cluster.net.requests_held(second, 1).await;
    cluster.net.release_answers(second);

    let answered = read.await.unwrap();
    assert_eq!(answered, Err(ReadError::NotServed(NotProposed::NoLeader)), "revision {acknowledged} was acknowledged before");

    // The old leader works again once its cable is healed.
    cluster.net.heal(old);
    cluster.node(old).read_barrier(soon()).await.unwrap();
    assert!(cluster.node(old).read(State::revision) >= acknowledged);
}
