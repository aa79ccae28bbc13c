//! Every node is restarted in turn under load, as during an upgrade, and clients see only a short silence.

use crate::{
    client::{Call, Client, Grant, new_key, whole},
    fairness::{Dice, assert_in_order},
    harness::{Cluster, LONG, NODES, all, pass_time, report, run_exclusive},
    load::{Load, count_up},
    streams::Stream,
    trial,
};
use std::{
    collections::BTreeSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

pub(crate) const LOCK: &str = "upgrade";
pub(crate) const COUNTER: &str = "upgraded";
const SEED: u64 = 0x0707_1199;

/// This many successful operations, and grants among them, show that the cluster works again.
const BUSY: usize = 60;
const BUSY_GRANTS: usize = 10;

/// The longest silence that the median restart may cause; it starts before the node gets the signal to stop.
const SILENCE: Duration = Duration::from_secs(1);

/// How often all nodes are restarted, one after the other.
fn rounds() -> usize {
    trial::size(1, 10)
}

/// Clients of each kind: queueing, writing, streaming.
fn clients() -> (usize, usize, usize) {
    trial::size((12, 2, 3), (36, 6, 8))
}

/// Queues, holds, renews, writes and releases until the load is over.
pub(crate) async fn queue(client: Client, load: Load) -> Vec<Grant> {
    let mut grants = Vec::new();
    while !load.is_over() {
        let grant = client.acquire(LOCK, "wait=10m&ttl=30s").await;
        load.room.enter(grant.token);
        load.granted();
        client.send(&Call::post(&format!("/v1/grants/{}/renew", grant.id))).await.expect_status(200);
        load.succeeded();
        count_up(&client, COUNTER, LOCK, grant.token).await;
        load.room.leave(grant.token);
        client.release(&grant.id).await;
        load.succeeded();
        grants.push(grant);
    }
    grants
}

/// Writes values in sequence until the load is over, and reads each. Also keeps a session and its lock alive.
async fn write(client: Client, load: Load, number: usize) -> usize {
    let session = client.open_session("10s", &format!("writer-{number}")).await;
    let grant = client.acquire(&format!("desk-{number}"), &format!("session={}", session.id)).await;
    let mut written = 0;
    while !load.is_over() {
        let path = format!("written-{number}");
        client.write(&Call::put(&format!("/v1/nodes/{path}"), written.to_string())).await;
        assert_eq!(client.value(&path).await, written.to_string(), "an acknowledged write");
        client.keepalive(&session).await.expect_status(200);
        load.succeeded();
        written += 1;
        pass_time(Duration::from_millis(20)).await;
    }
    assert!(client.fence_passes(&format!("desk-{number}"), grant.token).await, "the session survived");
    written
}

/// A stream that is reopened, with its key and at the next node, whenever its server stops.
struct Holder {
    urls: Vec<String>,
    lock: String,
    at: usize,
    key: String,
    stream: Stream,
}

impl Holder {
    fn open(urls: &[String], lock: &str, at: usize) -> Holder {
        let key = new_key();
        Holder { stream: begin(&urls[at % NODES], lock, &key), urls: urls.to_vec(), lock: lock.to_owned(), at, key }
    }

    /// Reconnects to the next node; the earlier stream is over, or ends when it is dropped.
    fn reconnect(&mut self) -> Stream {
        self.at += 1;
        std::mem::replace(&mut self.stream, begin(&self.urls[self.at % NODES], &self.lock, &self.key))
    }

    /// The token of the next `held`. Waits without a limit.
    async fn held(&mut self, load: &Load) -> u64 {
        loop {
            match self.stream.next_event().await {
                Some(line) if line["event"] == "held" => return whole(&line, "token"),
                Some(line) if line["event"] == "queued" => {}
                Some(line) if line["event"] == "error" => assert_eq!(line["retryable"], true, "{line}"),
                Some(line) if line["event"] == "goaway" => {
                    assert_eq!(line["id"], self.key.as_str(), "{line}");
                    load.goaways.fetch_add(1, Ordering::SeqCst);
                }
                Some(line) => {
                    let code = line["code"].as_str();
                    assert!(matches!(code, Some("shutting_down" | "no_quorum" | "deadline_exceeded")), "{line}");
                }
                // The stream has ended, or no node answered: try the next node soon.
                None => {
                    pass_time(Duration::from_millis(20)).await;
                    drop(self.reconnect());
                }
            }
        }
    }
}

fn begin(url: &str, lock: &str, key: &str) -> Stream {
    Stream::open(url, lock, "wait=10m&ttl=6s", key)
}

/// Holds its own lock by streams from start to end, and counts how often its server announced that it stops.
async fn hold_on(urls: Vec<String>, load: Load, number: usize) {
    let mut holder = Holder::open(&urls, &format!("mast-{number}"), number);
    let token = holder.held(&load).await;
    while !load.is_over() {
        let line = holder.stream.line().await.expect("a stream says why it ends");
        if line["event"] == "goaway" {
            load.goaways.fetch_add(1, Ordering::SeqCst);
            drop(holder.reconnect());
            assert_eq!(holder.held(&load).await, token, "the same grant");
        } else {
            assert_eq!(line["event"], "alive", "{line}");
        }
    }
}

/// Holds by a stream until the load is over. Some streams are reattached while they hold, and show the same token.
async fn stream(client: Client, urls: Vec<String>, load: Load, number: u64) -> Vec<Grant> {
    let (mut grants, mut dice) = (Vec::new(), Dice::new(SEED ^ (number << 32)));
    while !load.is_over() {
        let mut holder = Holder::open(&urls, LOCK, usize::try_from(dice.below(NODES as u64)).expect("small"));
        let token = holder.held(&load).await;
        load.room.enter(token);
        load.granted();
        count_up(&client, COUNTER, LOCK, token).await;
        if dice.below(2) == 0 {
            let older = holder.reconnect();
            assert_eq!(holder.held(&load).await, token, "the same grant");
            // Not sooner: a stream that ends before another one replaces it releases the lock.
            drop(older);
        }
        let seen = client.send(&Call::get(&format!("/v1/grants/{}", holder.key))).await.expect_status(200);
        assert_eq!(seen.number("token"), token);
        load.room.leave(token);
        client.release(&holder.key).await;
        load.succeeded();
        grants.push(Grant { id: holder.key, number: seen.number("number"), token });
    }
    grants
}

/// Restarts every node in turn; returns when each got the signal to stop, and the numbers in the queue at that time.
async fn restart_all(cluster: &mut Cluster, load: &Load) -> (Vec<(usize, bool, Instant)>, BTreeSet<u64>) {
    let (mut stopped, mut places) = (Vec::new(), BTreeSet::new());
    for _ in 0..rounds() {
        for node in 0..NODES {
            load.wait_until_busy(BUSY, BUSY_GRANTS).await;
            let led = cluster.leader().await == node;
            places.extend(cluster.client(node).queue_numbers(LOCK).await);
            stopped.push((node, led, Instant::now()));
            let status = cluster.nodes[node].terminate().await;
            assert!(status.success(), "node {} ended with {status}", node + 1);
            load.wait_until_busy(BUSY, BUSY_GRANTS).await;
            cluster.restart(node).await;
        }
    }
    load.wait_until_busy(BUSY, BUSY_GRANTS).await;
    (stopped, places)
}

fn report_silences(load: &Load, stopped: &[(usize, bool, Instant)], over: Instant) -> Duration {
    let ends = stopped.iter().skip(1).map(|(_, _, at)| *at).chain([over]);
    let mut silences = Vec::new();
    for ((node, led, at), end) in stopped.iter().zip(ends) {
        let silence = load.longest_silence(*at, end);
        let role = if *led { "leader" } else { "follower" };
        report(&format!("rolling restart: node {} ({role}): the longest gap was {silence:.0?}", node + 1));
        silences.push(silence);
    }
    silences.sort();
    let (median, longest) = (silences[silences.len() / 2], silences[silences.len() - 1]);
    report(&format!("rolling restart: {} restarts, longest gap {longest:.0?}, median {median:.0?}", silences.len()));
    median
}

#[test]
fn a_rolling_restart_under_load_loses_no_place_and_grants_nothing_twice() {
    run_exclusive(trial::size(LONG, LONG * 3), async {
        let mut cluster = Cluster::start().await;
        let (client, load) = (cluster.client(0), Load::default());
        client.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let (queuing, writing, streaming) = clients();
        let urls: Vec<String> = cluster.nodes.iter().map(|node| node.url.clone()).collect();
        let mut holding: Vec<_> = (0..queuing).map(|number| tokio::spawn(queue(cluster.client(number), load.clone()))).collect();
        holding.extend(
            (0..streaming).map(|number| tokio::spawn(stream(cluster.client(number), urls.clone(), load.clone(), number as u64))),
        );
        let writers: Vec<_> =
            (0..writing).map(|number| tokio::spawn(write(cluster.client(number), load.clone(), number))).collect();

        let holding_on: Vec<_> = (0..NODES).map(|number| tokio::spawn(hold_on(urls.clone(), load.clone(), number))).collect();
        let (stopped, places) = restart_all(&mut cluster, &load).await;
        let over = Instant::now();
        load.end();
        let mut grants: Vec<Grant> = all(holding).await.into_iter().flatten().collect();
        let written: usize = all(writers).await.into_iter().sum();
        all(holding_on).await;

        let median = report_silences(&load, &stopped, over);
        let goaways = load.goaways.load(Ordering::SeqCst);
        report(&format!("rolling restart: {} grants of one lock, {written} values written, {goaways} goaways", grants.len()));
        assert_in_order(&mut grants);
        let counter = client.value(COUNTER).await;
        let last = grants.last().map_or(0, |grant| grant.token);
        assert_eq!(counter, format!("{} {last}", grants.len()), "each grant counted once");
        let granted: BTreeSet<u64> = grants.iter().map(|grant| grant.number).collect();
        let lost: Vec<&u64> = places.difference(&granted).collect();
        assert!(lost.is_empty(), "these were in the queue before a restart, and were never granted: {lost:?}");
        assert!(places.len() > rounds() * NODES * queuing / 2, "too few waited when nodes were stopped: {}", places.len());
        assert!(goaways >= NODES, "the streams that keep holding got a goaway: {goaways}");
        assert!(median <= SILENCE, "the median of the longest gaps is {median:?}");
    });
}
