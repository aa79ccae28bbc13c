//! Idle sessions cost very little: memory per session, processor time per keepalive.

use crate::{
    client::{Call, Client},
    harness::{Cluster, LONG, NODES, all, pass_time, report, run_exclusive},
    metrics::{open_sessions, value},
    procfs::Usage,
    trial,
};
use serde_json::json;
use std::time::{Duration, Instant};

/// Sessions per call.
const BATCH: usize = 1_000;
/// Concurrent requests when each session is renewed by its own call.
const AT_ONCE: usize = 32;
/// The maximum memory of a session on each node: it has an id, a number, a name and two index entries.
const SESSION_KIB_MAX: f64 = 8.0;

/// One round of keepalives, in batches, at all nodes in turn.
async fn renew_in_batches(cluster: &Cluster, ids: &[String]) {
    for (number, batch) in ids.chunks(BATCH).enumerate() {
        let call = Call::post("/v1/sessions/keepalive").json(&json!({"ids": batch}));
        let answer = cluster.client(number).send(&call).await.expect_status(200);
        assert_eq!(answer.json["renewed"].as_array().map(Vec::len), Some(batch.len()), "none has expired: {}", answer.text);
    }
}

/// One round of keepalives, one by one, at all nodes.
async fn renew_singly(cluster: &Cluster, ids: &[String]) {
    let renewing = (0..AT_ONCE).map(|one| {
        let client: Client = cluster.client(one % NODES);
        let ids: Vec<String> = ids.iter().skip(one).step_by(AT_ONCE).cloned().collect();
        tokio::spawn(async move {
            for id in ids {
                client.send(&Call::post(&format!("/v1/sessions/{id}/keepalive"))).await.expect_status(200);
            }
        })
    });
    all(renewing.collect()).await;
}

/// Renews `rounds` times at this interval, and reports the processor time of each node, in percent of one core.
async fn cost(cluster: &Cluster, rounds: u32, every: Duration, ids: &[String], singly: bool) -> String {
    let (started, before) = (Instant::now(), Usage::of_all(&cluster.nodes));
    for round in 1..=rounds {
        if singly {
            renew_singly(cluster, ids).await;
        } else {
            renew_in_batches(cluster, ids).await;
        }
        pass_time((every * round).saturating_sub(started.elapsed())).await;
    }
    let (took, after) = (started.elapsed(), Usage::of_all(&cluster.nodes));
    let percent = |(after, before): (&Usage, &Usage)| 100.0 * (after.cpu - before.cpu).as_secs_f64() / took.as_secs_f64();
    let each: Vec<String> = after.iter().zip(&before).map(percent).map(|percent| format!("{percent:.1} %")).collect();
    format!("{} in {took:.1?}", each.join(", "))
}

#[test]
fn idle_sessions_cost_next_to_nothing() {
    run_exclusive(LONG * 2, async {
        let (count, rounds, every) = trial::size((500, 1, Duration::from_secs(1)), (10_000, 6, Duration::from_secs(5)));
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let alone = cost(&cluster, rounds, every, &[], false).await;
        report(&format!("processor of each node without a session: {alone}"));
        let before = Usage::of_all(&cluster.nodes);
        let started = Instant::now();
        let ids = open_sessions(&cluster, count, "60s").await;
        report(&format!("{count} sessions opened in {:.1?}; node {} leads", started.elapsed(), leader + 1));
        let batches = cost(&cluster, rounds, every, &ids, false).await;
        let after = Usage::of_all(&cluster.nodes);
        for (node, (before, after)) in before.iter().zip(&after).enumerate() {
            let each = (after.resident - before.resident) * 1024.0 / count as f64;
            let (before, after) = (before.resident, after.resident);
            report(&format!("node {}: {before:.1} MiB before, {after:.1} MiB with them, {each:.2} KiB a session", node + 1));
            assert!(count < 10_000 || each < SESSION_KIB_MAX, "{each} KiB");
        }
        report(&format!("processor of each node, keepalives every {every:?} in batches of {BATCH}: {batches}"));
        let singly = cost(&cluster, rounds, every, &ids, true).await;
        report(&format!("processor of each node, keepalives every {every:?} one by one: {singly}"));
        for node in 0..NODES {
            let page = cluster.client(node).once(&Call::get("/metrics")).await.expect_status(200).text;
            assert_eq!(value(&page, "fairhold_sessions_expired_total"), 0.0, "none has expired");
        }
    });
}
