//! A node that was away for long catches up by a snapshot and then has the same state.

use crate::{
    client::{Answer, Call, Client},
    harness::{Cluster, LONG, NODES, all, alone, eventually, report},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const CHANGES: usize = 50_000;
/// So few that the batches are small: the log is purged by the number of its entries, of which each can have many changes.
const AT_ONCE: usize = 4;
/// Each node is written so often that the log is far longer than the state.
const PATHS: usize = 500;

async fn write_many(cluster: &Cluster, nodes: &[usize]) {
    let left = Arc::new(AtomicUsize::new(CHANGES));
    let writers = (0..AT_ONCE).map(|writer| {
        let (client, left) = (cluster.client(nodes[writer % nodes.len()]), left.clone());
        tokio::spawn(async move {
            let one_less = |left: usize| left.checked_sub(1);
            while let Ok(number) = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
                client.write(&Call::put(&format!("/v1/nodes/bulk-{}", number % PATHS), number.to_string())).await;
            }
        })
    });
    all(writers.collect()).await;
}

async fn digest(client: &Client, node: usize) -> Answer {
    client.send_to(node, &Call::get("/v1/cluster?digest")).await.expect("the node runs").expect_status(200)
}

async fn view(client: &Client, node: usize) -> Answer {
    client.send_to(node, &Call::get("/v1/cluster")).await.expect("the node runs").expect_status(200)
}

/// What a node says of the cluster, and how many entries its log has beyond an index.
async fn view_and_entries(client: &Client, node: usize, index: u64) -> (Answer, u64) {
    let view = view(client, node).await;
    let entries = view.number("last_log_index") - index;
    (view, entries)
}

/// The digests of all nodes, once they are of one revision.
async fn digests(client: &Client) -> Vec<(u64, String)> {
    eventually("all nodes have the same revision", Duration::from_secs(90), || async {
        let mut all = Vec::new();
        for node in 0..NODES {
            let answer = digest(client, node).await;
            all.push((answer.number("digest_revision"), answer.string("digest").to_owned()));
        }
        all.iter().all(|(revision, _)| *revision == all[0].0).then_some(all)
    })
    .await
}

#[test]
fn a_node_that_was_down_for_fifty_thousand_changes_catches_up_by_a_snapshot_and_has_the_same_digest() {
    alone(LONG, async {
        let mut cluster = Cluster::start().await;
        let [away, other] = cluster.followers().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let session = client.open_session("30m", "in the snapshot").await;
        let held = client.acquire("kept", &format!("session={}", session.id)).await;
        let queued = Call::post("/v1/locks/kept?ttl=30m").with("prefer", "respond-async");
        let queued = client.send(&queued).await.expect_status(202);
        cluster.nodes[away].kill().await;
        let left_at = view(&client, leader).await.number("last_log_index");

        let started = Instant::now();
        write_many(&cluster, &[leader, other]).await;
        let (of_leader, entries) = view_and_entries(&client, leader, left_at).await;
        report(&format!("{CHANGES} changes in {entries} entries in {:.1?}", started.elapsed()));
        let newest = of_leader.json["snapshot_index"].as_u64().expect("a snapshot was taken meanwhile");
        assert!(
            newest > left_at + entries / 2,
            "the snapshot at {newest} is too old to have the log purged, of {entries} entries"
        );

        let started = Instant::now();
        cluster.restart(away).await;
        let digests = digests(&client).await;
        report(&format!("caught up {:.1?} after the start; digests {digests:?}", started.elapsed()));
        assert!(digests.iter().all(|each| *each == digests[0]), "{digests:?}");
        // The leader takes a new one for who is far behind, so it is compared with what the leader has now.
        let (sent, received) = (view(&client, leader).await, view(&client, away).await);
        assert_eq!(received.json["snapshot_index"], sent.json["snapshot_index"], "it has the leader's snapshot");
        assert!(received.number("snapshot_index") >= newest, "{}", received.text);

        let local = |path: &str| Call::get(&format!("{path}{}consistency=local", if path.contains('?') { '&' } else { '?' }));
        for node in 0..NODES {
            let queue = client.send_to(node, &local("/v1/locks/kept/queue")).await.expect("it runs").expect_status(200);
            let numbers: Vec<u64> =
                queue.json["items"].as_array().expect("items").iter().map(|item| crate::client::whole(item, "number")).collect();
            assert_eq!(numbers, [held.number, queued.number("number")], "node {}", node + 1);
        }
        let client = cluster.client(away);
        client.release(&held.id).await;
        let next = client.send(&Call::get(&format!("/v1/grants/{}?wait=10s", queued.string("id")))).await;
        assert_eq!(next.expect_status(200).json["state"], "held");
        client.write(&Call::put("/v1/nodes/bulk-0", "after")).await;
        assert_eq!(client.value("bulk-0").await, "after", "it takes part again");
    });
}
