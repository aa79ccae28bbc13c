//! A client that disconnects leaves the queue; a server that stops drops no waiter.

use crate::{
    client::{Call, Client, Grant},
    fairness::{Dice, Room, assert_in_order},
    harness::{Cluster, LONG, NODES, SHORT, all, eventually, report, run_exclusive},
    pace::assert_within,
    queue::wait_for_contenders,
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A waiter whose client has disconnected leaves within this time.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

const WAITERS: usize = 50;

/// Waits until the lock has at most `count` contenders, and returns how long that took.
async fn shrunk(client: &Client, lock: &str, count: usize, since: Instant) -> Duration {
    eventually(&format!("{count} contenders of {lock}"), Duration::from_secs(20), || async {
        (client.queue(lock).await.len() == count).then_some(())
    })
    .await;
    since.elapsed()
}

#[test]
fn a_client_that_disconnects_while_waiting_leaves_the_queue_within_a_second() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        for node in 0..NODES {
            let client = cluster.client(node);
            let lock = format!("pier-{node}");
            let holder = client.acquire(&lock, "ttl=60s").await;
            let leaves = {
                let (client, call) = (client.clone(), Call::post(&format!("/v1/locks/{lock}?wait=60s")));
                tokio::spawn(async move { client.once(&call).await })
            };
            wait_for_contenders(&client, &lock, 2).await;
            leaves.abort();
            let took = shrunk(&client, &lock, 1, Instant::now()).await;
            report(&format!("a disconnected waiter of node {} was out of the queue after {took:.0?}", node + 1));
            assert_within(&client, &format!("leaving the queue at node {}", node + 1), took, LEFT_WITHIN).await;
            assert_eq!(client.holders(&lock).await, [holder.number]);
        }
    });
}

/// Requests a lock on its own connection, which can be closed.
async fn ask(url: &str, path: &str) -> TcpStream {
    ask_with(url, path, "").await
}

/// The same with a header line, which includes its line end.
pub(crate) async fn ask_with(url: &str, path: &str, header: &str) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("the server takes connections");
    let request = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{header}Content-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request can be sent");
    stream
}

/// Half-closes, and reads on only to learn whether an answer was in flight: the id of a grant, if one was sent. To the
/// server, this client has disconnected.
async fn hang_up(mut stream: TcpStream) -> Option<String> {
    stream.shutdown().await.expect("a connection can be closed");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server closes the connection too");
    let (_, body) = answer.split_once("\r\n\r\n")?;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let grant: Value = serde_json::from_str(body).expect("JSON");
    Some(grant["id"].as_str().expect("an id").to_owned())
}

#[test]
fn a_client_that_disconnects_at_the_moment_of_its_grant_blocks_nothing() {
    const ROUNDS: usize = 60;
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let mut dice = Dice::new(0x60a7);
        let (mut answered, mut longest) = (0, Duration::ZERO);
        // How long after the release the grant comes, in microseconds. It depends on the machine, so the test searches
        // for it.
        let mut instant = 1_500;
        for round in 0..ROUNDS {
            let (client, releaser) = (cluster.client(round), cluster.client(round / NODES));
            let holder = client.acquire("turnstile", "ttl=60s").await;
            let leaves = ask(&cluster.nodes[round % NODES].url, "/v1/locks/turnstile?wait=60s&ttl=60s").await;
            wait_for_contenders(&client, "turnstile", 2).await;
            let release = tokio::spawn(async move { releaser.release(&holder.id).await });
            // A finer wait than a timer's.
            let (begun, moment) = (Instant::now(), Duration::from_micros(instant / 2 + dice.below(instant)));
            while begun.elapsed() < moment {
                tokio::task::yield_now().await;
            }
            let left = Instant::now();
            if let Some(granted) = hang_up(leaves).await {
                answered += 1;
                instant = (instant * 4 / 5).max(20);
                client.release(&granted).await;
            } else {
                instant = (instant * 5 / 4).min(1_000_000);
            }
            let next = client.send(&Call::post("/v1/locks/turnstile?wait=5s")).await;
            assert_eq!(next.status, 200, "round {round}: the grant was not delivered, but blocks the lock: {next:?}");
            let next = Grant::from_answer(&next);
            let waited = left.elapsed();
            longest = longest.max(waited);
            assert_within(&client, &format!("round {round}: the wait of the next client"), waited, LEFT_WITHIN).await;
            client.release(&next.id).await;
            release.await.expect("the release");
        }
        report(&format!(
            "disconnected while granted: {ROUNDS} rounds, {answered} answered before; \
             the next client waited at most {longest:.0?}"
        ));
        assert!((1..ROUNDS).contains(&answered), "all moments were before the grant, or all after it: the test proves nothing");
    });
}

#[test]
fn a_named_session_or_respond_async_keeps_the_place_without_a_connection() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("depot", "ttl=60s").await;
        let session = client.open_session("60s", "patient").await;
        let of_session = Call::post(&format!("/v1/locks/depot?wait=60s&session={}", session.id));
        let leaves = {
            let (client, call) = (cluster.client(1), of_session.clone());
            tokio::spawn(async move { client.once(&call).await })
        };
        let first = wait_for_contenders(&client, "depot", 2).await;
        leaves.abort();
        assert!(leaves.await.is_err(), "it did not get the lock");
        let asynchronous = Call::post("/v1/locks/depot?ttl=60s").with("prefer", "respond-async");
        let queued = cluster.client(2).send(&asynchronous).await.expect_status(202);
        let location = queued.header("location").expect("a Location").to_owned();
        assert_eq!((location, queued.string("state")), (format!("/v1/grants/{}", queued.string("id")), "queued"));
        let anonymous = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.once(&Call::post("/v1/locks/depot?wait=60s")).await })
        };
        wait_for_contenders(&client, "depot", 4).await;
        anonymous.abort();
        shrunk(&client, "depot", 3, Instant::now()).await;

        client.release(&holder.id).await;
        let grant = cluster.client(2).acquire_with(&of_session).await;
        assert_eq!(grant.number, first[1]["number"].as_u64().expect("a number"), "it kept its place");
        client.release(&grant.id).await;
        let held = client.send(&Call::get(&format!("/v1/grants/{}?wait=10s", queued.string("id")))).await;
        assert_eq!(Grant::from_answer(&held).number, queued.number("number"));
    });
}

/// Stops a node with fifty waiters by SIGTERM; their clients retry at other nodes, with their keys.
async fn stop_a_node_with_waiters(cluster: &mut Cluster, stopped: usize) {
    let lock = format!("terminal-{stopped}");
    let (observer, room) = (cluster.client(stopped + 1), Room::default());
    let holder = observer.acquire(&lock, "ttl=120s").await;
    let mut waiting = Vec::new();
    for _ in 0..WAITERS {
        let (client, room) = (cluster.client(stopped), room.clone());
        let call = Call::post(&format!("/v1/locks/{lock}?wait=10m&ttl=60s"));
        waiting.push(tokio::spawn(async move {
            let grant = client.acquire_with(&call).await;
            room.enter(grant.token);
            room.leave(grant.token);
            client.release(&grant.id).await;
            grant
        }));
    }
    wait_for_contenders(&observer, &lock, WAITERS + 1).await;
    let places = observer.queue_numbers(&lock).await;

    let status = cluster.nodes[stopped].terminate().await;
    assert!(status.success(), "node {} ended with {status}", stopped + 1);
    assert_eq!(observer.queue_numbers(&lock).await, places, "a server that stops drops no waiter from a queue");
    observer.release(&holder.id).await;
    let mut grants = all(waiting).await;
    assert_in_order(&mut grants);
    let numbers: Vec<u64> = grants.iter().map(|grant| grant.number).collect();
    assert_eq!(numbers, places[1..], "every waiter got the lock in its old place");
    cluster.restart(stopped).await;
}

#[test]
fn a_stopped_follower_loses_none_of_its_fifty_waiters() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let [follower, _] = cluster.followers().await;
        stop_a_node_with_waiters(&mut cluster, follower).await;
    });
}

#[test]
fn a_stopped_leader_loses_none_of_its_fifty_waiters() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        stop_a_node_with_waiters(&mut cluster, leader).await;
    });
}
