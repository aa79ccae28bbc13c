//! More load than a node can take: the excess is refused at once and never executed, and no session expires.

use crate::{
    client::{Call, Client, Session},
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    trial,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// Writers of large values at one node: together they send more bytes than its proposal queue admits.
const WRITERS: usize = 100;
const VALUE_BYTES: usize = 1024 * 1024;
const SESSIONS: usize = 9;
const TTL: Duration = Duration::from_secs(10);

fn lasts() -> Duration {
    Duration::from_secs(trial::size(8, 60))
}

#[derive(Debug, Clone, Default)]
struct Flood {
    over: Arc<AtomicBool>,
    /// Set once the last writer is done.
    ebbed: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    other: Arc<AtomicUsize>,
}

/// Writes large values in sequence, without a pause after a refusal.
async fn write(client: Client, number: usize, flood: Flood) {
    let value = vec![b'x'; VALUE_BYTES];
    while !flood.over.load(SeqCst) {
        let answer = client.once(&Call::put(&format!("/v1/nodes/flood-{}", number % 8), value.clone())).await;
        match (answer.status, answer.code()) {
            (200 | 201, _) => drop(flood.written.fetch_add(1, SeqCst)),
            (503, "overloaded") => {
                assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
                assert_eq!((answer.string("outcome"), &answer.json["retryable"]), ("none", &true.into()), "{answer:?}");
                flood.refused.fetch_add(1, SeqCst);
                pass_time(Duration::from_millis(50)).await;
            }
            (503 | 504, _) => drop(flood.other.fetch_add(1, SeqCst)),
            _ => panic!("{answer:?}"),
        }
    }
}

/// Keeps a session and its lock alive; returns the longest keepalive.
async fn keep_alive(client: Client, session: Session, flood: Flood) -> Duration {
    let mut longest = Duration::ZERO;
    while !flood.ebbed.load(SeqCst) {
        let begun = Instant::now();
        client.keepalive(&session).await.expect_status(200);
        longest = longest.max(begun.elapsed());
        pass_time(TTL / 6).await;
    }
    longest
}

#[test]
fn a_flood_of_writes_expires_no_session() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        cluster.leader().await;
        cluster.expect_elections(5, "on a busy machine, the flood of large values delays heartbeats");
        let mut held = Vec::new();
        for number in 0..SESSIONS {
            let client = cluster.client(number);
            let session = client.open_session(&format!("{}s", TTL.as_secs()), "").await;
            let grant = client.acquire(&format!("kept-{number}"), &format!("session={}", session.id)).await;
            held.push((session, grant));
        }
        let flood = Flood::default();
        let keeping: Vec<_> = held
            .iter()
            .enumerate()
            .map(|(number, (session, _))| tokio::spawn(keep_alive(cluster.client(number), session.clone(), flood.clone())))
            .collect();
        let writing: Vec<_> = (0..WRITERS).map(|number| tokio::spawn(write(cluster.client(0), number, flood.clone()))).collect();
        eventually("something is refused", Duration::from_secs(60), || async { (flood.refused.load(SeqCst) > 0).then_some(()) })
            .await;
        pass_time(lasts()).await;
        // Calls that end grants or sessions are served before writes.
        let (client, begun) = (cluster.client(0), Instant::now());
        let (session, grant) = held.pop().expect("one of them");
        client.release(&grant.id).await;
        let released = begun.elapsed();
        flood.over.store(true, SeqCst);
        all(writing).await;
        flood.ebbed.store(true, SeqCst);
        let longest = all(keeping).await.into_iter().max().expect("sessions");
        let count = |counter: &AtomicUsize| counter.load(SeqCst);
        report(&format!(
            "a flood of {} writers: {} MiB written, {} refused as excess, {} otherwise; the longest keepalive took \
             {longest:.0?}, a release {released:.0?}",
            WRITERS,
            count(&flood.written),
            count(&flood.refused),
            count(&flood.other)
        ));
        client.keepalive(&session).await.expect_status(200);
        for (number, (session, grant)) in held.iter().enumerate() {
            client.keepalive(session).await.expect_status(200);
            assert!(client.fence_passes(&format!("kept-{number}"), grant.token).await, "kept-{number} was lost");
        }
        assert!(count(&flood.written) > 0, "part of the flood is served");
        for node in 0..NODES {
            assert!(!cluster.nodes[node].has_exited(), "node {} has ended", node + 1);
        }
    });
}
