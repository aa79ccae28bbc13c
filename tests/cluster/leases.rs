//! A lease ends at the promised time: not earlier, and not much later.

use crate::{
    client::{Call, Client, Grant},
    harness::{Cluster, LONG, SHORT, all, pass_time, report, run_exclusive},
    pace::assert_within,
};
use serde_json::json;
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(2);

/// How much later than its ttl a lease may end.
const LATE: Duration = Duration::from_secs(1);

const LOCK_DELAY: Duration = Duration::from_secs(5);

/// The last proof of a lease: a request that was sent at the first time and answered at the second.
#[derive(Debug, Clone, Copy)]
struct Proved {
    sent: Instant,
    answered: Instant,
}

async fn timed(client: &Client, call: &Call) -> (crate::client::Answer, Proved) {
    let sent = Instant::now();
    let answer = client.once(call).await;
    (answer, Proved { sent, answered: Instant::now() })
}

/// Waits for the lock behind a holder that has stopped renewing, and asserts when the grant comes.
async fn assert_next_comes(client: &Client, lock: &str, proved: Proved, after: Duration, before: Duration) -> Grant {
    let next = client.acquire(lock, "wait=60s&ttl=60s").await;
    let now = Instant::now();
    let (least, most) = (now - proved.answered, now - proved.sent);
    report(&format!("{lock}: the next grant came between {least:.2?} and {most:.2?} after the last renewal"));
    assert!(most >= after, "{lock}: too soon, {most:?} after the last renewal was sent");
    assert_within(client, &format!("{lock}: the time from the last renewal to the next grant"), least, before).await;
    next
}

/// Holds a lock in one of the possible ways, and then stops renewing.
async fn stops_renewing(client: Client, waiting: Client, lock: &'static str, parameters: &str, delay: Duration) {
    let (answer, proved) = timed(&client, &Call::post(&format!("/v1/locks/{lock}?ttl=2s{parameters}"))).await;
    let holder = Grant::from_answer(&answer);
    let next = assert_next_comes(&waiting, lock, proved, TTL + delay, TTL + delay + LATE).await;
    assert!(next.token > holder.token, "{next:?} after {holder:?}");
    let gone = client.send(&Call::post(&format!("/v1/grants/{}/renew", holder.id))).await.expect_problem(410, "grant_gone");
    assert_eq!(gone.json["reason"], "expired", "{gone:?}");
}

#[test]
fn a_holder_that_stops_renewing_loses_the_lock_no_sooner_than_its_ttl_and_at_most_a_second_later() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let holders = (0..3).map(|node| {
            let (client, waiting) = (cluster.client(node), cluster.client(node + 1));
            let lock = ["lease-1", "lease-2", "lease-3"][node];
            tokio::spawn(stops_renewing(client, waiting, lock, "", Duration::ZERO))
        });
        all(holders.collect()).await;
    });
}

#[test]
fn a_renewal_counts_from_its_own_arrival() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let holders = (0..3).map(|node| {
            let (client, waiting) = (cluster.client(node), cluster.client(node + 1));
            tokio::spawn(async move {
                let lock = format!("renewed-{node}");
                let holder = client.acquire(&lock, "ttl=2s").await;
                let renew = Call::post(&format!("/v1/grants/{}/renew", holder.id));
                for _ in 0..3 {
                    pass_time(TTL / 2).await;
                    timed(&client, &renew).await.0.expect_status(200);
                }
                let (answer, proved) = timed(&client, &renew).await;
                answer.expect_status(200);
                assert_next_comes(&waiting, &lock, proved, TTL, TTL + LATE).await;
            })
        });
        all(holders.collect()).await;
    });
}

#[test]
fn a_named_session_without_keepalives_loses_everything_after_its_ttl() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("2s", "worker").await;
        let grants = [
            client.acquire("of-session-1", &format!("session={}", session.id)).await,
            client.acquire("of-session-2", &format!("session={}", session.id)).await,
        ];
        let renew = Call::post(&format!("/v1/grants/{}/renew", grants[0].id));
        client.send(&renew).await.expect_problem(409, "session_owned");
        let keepalive = Call::post(&format!("/v1/sessions/{}/keepalive", session.id));
        let (answer, proved) = timed(&cluster.client(1), &keepalive).await;
        answer.expect_status(200);
        let waits = ["of-session-1", "of-session-2"].map(|lock| {
            let waiting = cluster.client(2);
            tokio::spawn(async move { assert_next_comes(&waiting, lock, proved, TTL, TTL + LATE).await })
        });
        all(waits.into()).await;
        client.keepalive(&session).await.expect_problem(410, "session_expired");
        let answer = client.send(&Call::post("/v1/sessions/keepalive").json(&json!({"ids": [session.id]}))).await;
        assert_eq!(answer.expect_status(200).json["renewed"], json!([]));
    });
}

#[test]
fn the_server_keeps_a_place_alive_while_its_request_is_open() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "holder").await;
        let holder = client.acquire("long-queue", &format!("session={}", session.id)).await;
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("long-queue", "wait=60s&ttl=1s").await })
        };
        let place = crate::queue::wait_for_contenders(&client, "long-queue", 2).await;
        // The waiter's own ttl passes several times, by the clock that ends leases: other locks are acquired and expire
        // during this time.
        for round in 0..3 {
            let lock = format!("hourglass-{round}");
            client.acquire(&lock, "ttl=1s").await;
            client.acquire(&lock, "wait=60s&ttl=1s").await;
        }
        assert_eq!(client.queue("long-queue").await.len(), 2);
        client.release(&holder.id).await;
        let grant = waiting.await.expect("the waiter's task");
        assert_eq!(Some(grant.number), place[1]["number"].as_u64());
    });
}

#[test]
fn a_lock_delay_postpones_the_next_grant_after_an_expiry_but_not_after_a_release() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let late = tokio::spawn(stops_renewing(cluster.client(0), cluster.client(1), "delayed", "&lock_delay=5s", LOCK_DELAY));
        let zero =
            tokio::spawn(stops_renewing(cluster.client(1), cluster.client(2), "undelayed", "&lock_delay=0", Duration::ZERO));
        let clean = {
            let (client, waiting) = (cluster.client(2), cluster.client(0));
            tokio::spawn(async move {
                let holder = client.acquire("handed-over", "ttl=30s&lock_delay=5s").await;
                let next = tokio::spawn(async move { (waiting.acquire("handed-over", "wait=60s").await, Instant::now()) });
                crate::queue::wait_for_contenders(&client, "handed-over", 2).await;
                let released = Instant::now();
                client.release(&holder.id).await;
                let (_, granted) = next.await.expect("the next waiter's task");
                assert_within(&client, "the next grant after a clean release", granted - released, LATE).await;
            })
        };
        all(vec![late, zero, clean]).await;
    });
}

#[test]
fn a_cooling_lock_has_no_holder_and_its_token_is_invalid() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("kettle", "ttl=1s&lock_delay=5s").await;
        crate::harness::eventually("the holder expires", Duration::from_secs(5), || async {
            (!client.fence_passes("kettle", holder.token).await).then_some(())
        })
        .await;
        client.send(&Call::post("/v1/locks/kettle")).await.expect_problem(409, "lock_held");
        let write = Call::put("/v1/nodes/kettle", "x").fenced("kettle", holder.token);
        client.send(&write).await.expect_problem(412, "stale_token");
    });
}
