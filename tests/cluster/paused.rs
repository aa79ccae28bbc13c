//! A cluster that is paused and resumed ends no session because of that.

use crate::{
    client::{Call, Client},
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    queue::wait_for_contenders,
};
use rustix::process::Signal;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const TTL: &str = "5s";
const RENEW_EVERY: Duration = Duration::from_secs(1);
const PAUSED_FOR: Duration = Duration::from_secs(20);
const SESSIONS: usize = 10;

/// After this many renewals since the pause, each client has outlived its ttl more than twice.
const RENEWALS_AFTER: u64 = 12;

/// State that the renewing tasks share with the test.
#[derive(Debug, Default)]
struct RenewalState {
    renewed: AtomicU64,
    over: AtomicBool,
}

/// Renews until it is stopped; if a node does not answer, retries later, like any client.
async fn keep_renewing(client: Client, path: String, renewing: Arc<RenewalState>) {
    for turn in 0_usize.. {
        if renewing.over.load(Ordering::SeqCst) {
            return;
        }
        let call = Call::post(&path).within(RENEW_EVERY * 3);
        if let Ok(answer) = client.send_to(turn % NODES, &call).await {
            assert!(matches!(answer.status, 200 | 503 | 504), "{path}: {answer:?}");
            if answer.status == 200 {
                renewing.renewed.fetch_add(1, Ordering::SeqCst);
            }
        }
        pass_time(RENEW_EVERY).await;
    }
}

#[test]
fn no_renewed_session_ends_after_all_nodes_were_paused_for_twenty_seconds() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut paths = Vec::new();
        for number in 0..SESSIONS {
            let session = client.open_session(TTL, &format!("sleeper-{number}")).await;
            client.acquire(&format!("bed-{number}"), &format!("session={}", session.id)).await;
            paths.push(format!("/v1/sessions/{}/keepalive", session.id));
        }
        let alone = client.acquire("sofa", &format!("ttl={TTL}")).await;
        paths.push(format!("/v1/grants/{}/renew", alone.id));
        let each: Vec<Arc<RenewalState>> = paths.iter().map(|_| Arc::default()).collect();
        let tasks: Vec<_> = paths
            .into_iter()
            .zip(&each)
            .map(|(path, renewing)| tokio::spawn(keep_renewing(cluster.client(0), path, renewing.clone())))
            .collect();
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("sofa", "wait=10m&ttl=60s").await })
        };
        let place = wait_for_contenders(&client, "sofa", 2).await;

        for node in &cluster.nodes {
            node.signal(Signal::STOP);
        }
        pass_time(PAUSED_FOR).await;
        for node in &cluster.nodes {
            node.signal(Signal::CONT);
        }
        let woken = Instant::now();
        let before: Vec<u64> = each.iter().map(|renewing| renewing.renewed.load(Ordering::SeqCst)).collect();
        eventually("every client renewed often since the pause", Duration::from_secs(60), || async {
            assert!(!tasks.iter().any(tokio::task::JoinHandle::is_finished), "a renewed session has ended");
            let since = each.iter().zip(&before).map(|(renewing, then)| renewing.renewed.load(Ordering::SeqCst) - then);
            since.min().is_some_and(|least| least >= RENEWALS_AFTER).then_some(())
        })
        .await;
        report(&format!(
            "after {PAUSED_FOR:?} of sleep every client renewed {RENEWALS_AFTER} times within {:.1?}",
            woken.elapsed()
        ));
        for renewing in &each {
            renewing.over.store(true, Ordering::SeqCst);
        }
        all(tasks).await;

        assert!(client.fence_passes("sofa", alone.token).await);
        client.release(&alone.id).await;
        let next = waiting.await.expect("the waiter's task");
        assert_eq!(Some(next.number), place[1]["number"].as_u64(), "a waiter kept its place");
    });
}
