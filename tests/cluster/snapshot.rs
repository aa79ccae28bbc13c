//! A node that was down for a long time catches up by a snapshot, and then has the same state.

use crate::{
    client::{Answer, Call, Client},
    harness::{Cluster, LONG, NODES, all, eventually, report, run_exclusive},
    relay::Relay,
    trial,
    watching::Watching,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn changes() -> usize {
    trial::size(50_000, 200_000)
}

/// Makes a snapshot so large that its transfer takes a while.
const LARGE_VALUES: usize = 2_000;
const LARGE_VALUE_BYTES: usize = 16 * 1024;
/// How much of it arrives before its sender dies.
const PASSED_BYTES: usize = 4 * 1024 * 1024;
/// Few, so that the batches are small: the log is purged by its number of entries, and each entry can have many
/// changes.
const AT_ONCE: usize = 4;
/// Each path is written so often that the log is far longer than the state.
const PATHS: usize = 500;

async fn write_many(cluster: &Cluster, nodes: &[usize], changes: usize) {
    let left = Arc::new(AtomicUsize::new(changes));
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

/// A node's view of the cluster, and how many entries its log has beyond an index.
async fn view_and_entries(client: &Client, node: usize, index: u64) -> (Answer, u64) {
    let view = view(client, node).await;
    let entries = view.number("last_log_index") - index;
    (view, entries)
}

/// The digests of all nodes, once all are at one revision.
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
fn a_node_that_missed_many_changes_catches_up_by_a_snapshot_and_has_the_same_digest() {
    run_exclusive(3 * LONG, async {
        let mut cluster = Cluster::start().await;
        let [away, other] = cluster.followers().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let session = client.open_session("30m", "in the snapshot").await;
        let held = client.acquire("kept", &format!("session={}", session.id)).await;
        let queued = Call::post("/v1/locks/kept?ttl=30m").with("prefer", "respond-async");
        let queued = client.send(&queued).await.expect_status(202);
        let past = client.acquire("held-before", "ttl=60s").await;
        client.release(&past.id).await;
        cluster.nodes[away].kill().await;
        let left_at = view(&client, leader).await.number("last_log_index");

        let started = Instant::now();
        write_many(&cluster, &[leader, other], changes()).await;
        let (of_leader, entries) = view_and_entries(&client, leader, left_at).await;
        report(&format!("{} changes in {entries} entries in {:.1?}", changes(), started.elapsed()));
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
        // The changes after that snapshot may have been enough for another snapshot by now.
        assert!(cluster.nodes[away].log_text().contains(ARRIVED), "it has received the leader's snapshot");
        let received = view(&client, away).await;
        assert!(received.number("snapshot_index") >= newest, "{}", received.text);

        // It cannot report the events that it missed. It reports that, and continues with all later ones.
        let gone = Watching::try_open(&client, away, &format!("from={left_at}")).await.expect("the node runs");
        let oldest = gone.expect_err("it was down").expect_problem(410, "compacted").number("oldest");
        let after = client.write(&Call::put("/v1/nodes/bulk-1", "after")).await.number("revision");
        let mut reported = Vec::new();
        for node in 0..NODES {
            let from = oldest.max(after - 1);
            reported.push(Watching::open(&client, node, &format!("from={from}")).await.lines_until(after).await);
        }
        assert!(!reported[0].is_empty() && reported.iter().all(|each| *each == reported[0]), "{reported:?}");

        let local = |path: &str| Call::get(&format!("{path}{}consistency=local", if path.contains('?') { '&' } else { '?' }));
        for node in 0..NODES {
            let queue = client.send_to(node, &local("/v1/locks/kept/queue")).await.expect("it runs").expect_status(200);
            let numbers: Vec<u64> =
                queue.json["items"].as_array().expect("items").iter().map(|item| crate::client::whole(item, "number")).collect();
            assert_eq!(numbers, [held.number, queued.number("number")], "node {}", node + 1);
            let history =
                client.send_to(node, &local("/v1/locks/held-before/history")).await.expect("it runs").expect_status(200);
            let tokens: Vec<_> = history.json["items"].as_array().expect("items").iter().map(|item| &item["token"]).collect();
            assert_eq!(tokens, [&past.token], "node {}", node + 1);
        }
        let client = cluster.client(away);
        client.release(&held.id).await;
        let next = client.send(&Call::get(&format!("/v1/grants/{}?wait=10s", queued.string("id")))).await;
        assert_eq!(next.expect_status(200).json["state"], "held");
        client.write(&Call::put("/v1/nodes/bulk-0", "after")).await;
        assert_eq!(client.value("bulk-0").await, "after", "it participates again");
    });
}

/// The start and the end of a snapshot transfer in a node's log.
const BEGINS: &str = "receiving a snapshot from the leader";
const ARRIVED: &str = "installed a snapshot from the leader";

/// The id of the node whose snapshot transfer started last.
fn last_sender(log: &str) -> Option<usize> {
    let line = log.lines().rfind(|line| line.contains(BEGINS))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("from=")?.parse().ok())
}

#[test]
fn a_node_whose_leader_dies_during_a_snapshot_gets_one_from_the_next_leader() {
    run_exclusive(3 * LONG, async {
        let mut cluster = Cluster::start().await;
        let [away, _] = cluster.followers().await;
        cluster.nodes[away].kill().await;
        let living = [(away + 1) % NODES, (away + 2) % NODES];
        let left = Arc::new(AtomicUsize::new(LARGE_VALUES));
        let writers = (0..AT_ONCE).map(|writer| {
            let (client, left) = (cluster.client(living[writer % 2]), left.clone());
            tokio::spawn(async move {
                let one_less = |left: usize| left.checked_sub(1);
                while let Ok(number) = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
                    client.write(&Call::put(&format!("/v1/nodes/large-{number}"), vec![b'x'; LARGE_VALUE_BYTES])).await;
                }
            })
        });
        all(writers.collect()).await;
        write_many(&cluster, &living, trial::size(25_000, 200_000)).await;
        for node in living {
            let take = Call::post("/v1/cluster/snapshot").with("fairhold-timeout", "60s").within(LONG);
            cluster.client(node).send_to(node, &take).await.expect("the node runs").expect_status(200);
        }

        let relay = Relay::in_front_of(&mut cluster.nodes[away], PASSED_BYTES).await;
        cluster.nodes[away].start();
        let begins = || async { (relay.is_blocking() && cluster.nodes[away].log_text().contains(BEGINS)).then_some(()) };
        eventually("the transfer of a snapshot has started, and stops half-way", LONG, begins).await;
        // The leader may have changed during the writes.
        let leader = cluster.leader().await;
        let sender = last_sender(&cluster.nodes[away].log_text());
        assert_eq!(sender, Some(cluster.nodes[leader].id), "it comes from the leader");
        cluster.nodes[leader].kill().await;
        assert!(!cluster.nodes[away].log_text().contains(ARRIVED), "the rest of it was held back");
        report(&format!("killed when a part of a snapshot of {LARGE_VALUES} values had arrived"));
        relay.open();

        cluster.node_ready(away).await;
        let log = cluster.nodes[away].log_text();
        assert!(log.contains(ARRIVED), "it participates, with a snapshot: {log}");
        let next = last_sender(&log);
        report(&format!("the killed leader had the id {sender:?}; the next snapshot came from {next:?}"));
        assert_ne!(next, sender, "it received one from another node");
        cluster.restart(leader).await;
        let digests = digests(&cluster.client(away)).await;
        assert!(digests.iter().all(|each| *each == digests[0]), "{digests:?}");
    });
}
