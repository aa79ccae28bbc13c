//! A copy of a node's data directory runs beside its original.

use crate::{Cluster, soon};
use fairhold_raft::peer::{Lane, Requester};
use fairhold_types::NodeId;

/// The boot number of a copy's process. All processes of these clusters have the number 1.
const COPY: u64 = 2;

/// Hands the leadership over, and waits until every other node follows the new leader.
async fn hand_over(cluster: &Cluster, to: NodeId, followers: &[NodeId]) {
    let leader = cluster.leader_among(1..=3).await;
    // A new leader may not have an answer from every node yet.
    while cluster.node(leader).hand_over(to, None, None, soon()).await.is_err() {
        cluster.open_session(leader).await.unwrap();
    }
    cluster.leader_among([to]).await;
    for follower in followers {
        while cluster.node(*follower).status().leader != Some(to) {
            tokio::task::yield_now().await;
        }
    }
}

/// While no node leads, nobody but a voter can tell a copy from its original, and the term and the node of a vote do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_gets_no_vote_while_its_original_answers() {
    let cluster = Cluster::form_new(3, 1_000).await;
    let first = cluster.leader_among(1..=3).await;
    let others = cluster.others(first);
    let (candidate, voter) = (others[0], others[1]);
    // The voter never receives this request for its vote from the original, nor anything else in that term.
    let path = (candidate, voter, Lane::Heartbeat);
    cluster.net.disconnect(candidate, voter);
    cluster.net.record(path);
    hand_over(&cluster, candidate, &[first]).await;
    let request = cluster.net.first_recorded(path).unwrap();
    hand_over(&cluster, first, &[candidate, voter]).await;
    cluster.net.reconnect(candidate, voter);

    let service = cluster.node(voter).service();
    let answer = |boot| service.serve(Requester { node: candidate, boot, lane: Lane::Heartbeat }, request.clone());
    let to_copy = answer(COPY).await;
    cluster.net.isolate(candidate);
    let to_successor = answer(COPY).await;
    cluster.net.heal(candidate);
    let to_original = answer(1).await;

    // A leader is certainly the original.
    hand_over(&cluster, candidate, &[first, voter]).await;
    let refusal = answer(COPY).await;
    assert_eq!(to_copy, refusal, "the original answers at the address of the member");
    assert_ne!(to_successor, refusal, "nobody answers there: the member may have restarted with another address");
    assert_eq!(to_original, refusal, "another process of this node has used the term");
}
