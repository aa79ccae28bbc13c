//! A mixed load for a long time: every client makes progress, and no node grows without limit.

use crate::{
    batches::{batch, statuses},
    client::{Call, Client, new_key},
    harness::{Cluster, LONG, NODES, pass_time, report, run_exclusive},
    metrics::value,
    procfs::Usage,
    trial,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// How much a warm node may grow in an hour, in MiB.
const GROWTH_MAX: f64 = 48.0;
/// How much disk a node may use at the end, in MiB: the log is purged behind snapshots of a small state.
const DISK_MAX: f64 = 512.0;
/// How many more files it may have open at the end than in the middle.
const FILES_MORE_MAX: usize = 64;
/// The size in bytes at which the ring of events counts as full: it has 64 MiB, and one revision is not split.
const RING_FULL: f64 = 63.0 * 1024.0 * 1024.0;
/// Changes in each transaction that fills it.
const FILLING: u64 = 1_000;
/// The total number of samples of each node.
const LOOKS: u32 = 120;
/// Each client starts a turn at this interval. A node remembers ids for a minute, so its memory follows the rate of the
/// calls. With a fixed pause between turns instead, a machine that becomes less busy looks like a growing node.
const TURN_EVERY: Duration = Duration::from_millis(100);
/// Clients of each kind.
const EACH: usize = 2;
/// Lock names that are reused.
const NAMES: u64 = 300;
/// Nodes of the tree that are written.
const PATHS: u64 = 500;

/// What a client does repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lock,
    Semaphore,
    ReadWrite,
    Session,
    Stream,
    Write,
    Read,
    /// A grant with an owner, data and a lock delay, changed with a key.
    Described,
    /// Several locks at once, one of them contended.
    Several,
    /// Sequential and ephemeral nodes, which are removed again.
    Nodes,
    Batch,
    /// A watch that starts over.
    Watch,
    /// A grant that is never released: it expires.
    Expiring,
}

const KINDS: [Kind; 13] = [
    Kind::Lock,
    Kind::Semaphore,
    Kind::ReadWrite,
    Kind::Session,
    Kind::Stream,
    Kind::Write,
    Kind::Read,
    Kind::Described,
    Kind::Several,
    Kind::Nodes,
    Kind::Batch,
    Kind::Watch,
    Kind::Expiring,
];

/// The name of a lock: usually one of a few, and in one turn of twenty a new one. The cluster forgets a lock ten
/// minutes after its last use.
fn name(kind: &str, number: u64) -> String {
    match number % 20 {
        0 => format!("soak-{kind}-{}", new_key()),
        _ => format!("soak-{kind}-{}", number % NAMES),
    }
}

/// One turn of a client.
async fn turn(kind: Kind, client: &Client, streams: &reqwest::Client, url: &str, number: u64) {
    match kind {
        Kind::Lock => {
            let grant = client.acquire(&format!("soak-{}", number % 3), "wait=60s&ttl=30s").await;
            client.release(&grant.id).await;
        }
        Kind::Semaphore => {
            let grant = client.acquire("soak-semaphore", "wait=60s&limit=3").await;
            client.release(&grant.id).await;
        }
        Kind::ReadWrite => {
            let mode = if number.is_multiple_of(4) { "exclusive" } else { "shared" };
            let grant = client.acquire("soak-book", &format!("wait=60s&mode={mode}")).await;
            client.release(&grant.id).await;
        }
        Kind::Session => {
            let session = client.open_session("30s", "soak").await;
            let grant = client.acquire("soak-owned", &format!("wait=60s&session={}", session.id)).await;
            client.keepalive(&session).await.expect_status(200);
            // Every second client leaves its grant until the session ends.
            if number.is_multiple_of(2) {
                client.release(&grant.id).await;
            }
            client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
        }
        Kind::Stream => {
            let call = streams.post(format!("{url}/v1/locks/soak-stream?hold=stream&wait=60s"));
            let mut lines = call.send().await.expect("the node runs");
            assert_eq!(lines.status(), 200);
            assert!(lines.chunk().await.expect("a line").is_some(), "it says that it is queued or held");
        }
        Kind::Write => {
            client.write(&Call::put(&format!("/v1/nodes/soak-{}", number % PATHS), "x".repeat(256))).await;
        }
        Kind::Read => {
            client.queue("soak-0").await;
            client.holders("soak-book").await;
        }
        Kind::Described => described(client, number).await,
        Kind::Several => {
            let locks = [json!({"name": format!("soak-several/{}", number % 50)}), json!({"name": "soak-common"})];
            let several = Call::post("/v1/locks").json(&json!({"locks": locks, "wait": "60s", "ttl": "30s"}));
            let grant = client.acquire_with(&several).await;
            client.release(&grant.id).await;
        }
        Kind::Nodes => nodes(client).await,
        Kind::Batch => batches(client, number).await,
        Kind::Watch => {
            let call = streams.get(format!("{url}/v1/watch?path=/&recursive&initial"));
            let mut lines = call.send().await.expect("the node runs");
            assert_eq!(lines.status(), 200);
            assert!(lines.chunk().await.expect("a line").is_some(), "it reports the current state");
        }
        Kind::Expiring => {
            client.acquire(&name("expiring", number), "ttl=1s&wait=60s").await;
        }
    }
}

/// A grant with every parameter of a request, upgraded and downgraded.
async fn described(client: &Client, number: u64) {
    let asked = json!({"owner": "o".repeat(200), "meta": {"why": "m".repeat(500)}, "mode": "shared", "lock_delay": "1s"});
    let grant = client.acquire_with(&Call::post(&format!("/v1/locks/{}", name("described", number))).json(&asked)).await;
    client.send(&Call::post(&format!("/v1/grants/{}/upgrade", grant.id)).key(&new_key())).await.expect_status(200);
    client.send(&Call::post(&format!("/v1/grants/{}/downgrade", grant.id)).key(&new_key())).await.expect_status(200);
    client.release(&grant.id).await;
}

/// A sequential and an ephemeral node, which are removed again.
async fn nodes(client: &Client) {
    let session = client.open_session("30s", "soak-nodes").await;
    let lasting = client.send(&Call::post("/v1/nodes/soak-queue?sequential&parents").body("task")).await.expect_status(201);
    let ephemeral = format!("/v1/nodes/soak-queue?sequential&session={}", session.id);
    client.send(&Call::post(&ephemeral)).await.expect_status(201);
    client.send(&Call::delete(&format!("/v1/nodes{}", lasting.string("path")))).await.expect_status(204);
    client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
}

/// Batches of acquires in a session, which ends with all its grants.
async fn batches(client: &Client, number: u64) {
    let session = client.open_session("30s", "soak-batch").await;
    for round in 0..4 {
        let acquire = |lock: u64| {
            let lock = format!("soak-batch/{}-{round}-{lock}", number % NAMES);
            json!({"acquire": {"id": new_key(), "lock": lock, "session": session.id}})
        };
        let calls: Vec<Value> = (0..16).map(acquire).collect();
        let answer = client.send(&batch(&calls)).await.expect_status(200);
        assert!(statuses(&answer).iter().all(|status| *status == 200), "{answer:?}");
    }
    client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
}

/// Fills the ring of events at every node. Otherwise its growth would look like a leak.
async fn fill_rings(cluster: &Cluster) {
    let started = Instant::now();
    let client = cluster.client(0);
    let then: Vec<_> = (0..FILLING).map(|number| json!({"put": {"path": format!("/soak-{}", number % PATHS)}})).collect();
    let fill = Call::post("/v1/txn").json(&json!({"then": then}));
    loop {
        let mut fullest = Vec::new();
        for node in 0..NODES {
            let page = client.send_to(node, &Call::get("/metrics")).await.expect("the node runs").expect_status(200);
            fullest.push(value(&page.text, "fairhold_watch_ring_bytes"));
        }
        if fullest.iter().all(|bytes| *bytes >= RING_FULL) {
            break report(&format!("every node's ring of events was full after {:.0?}", started.elapsed()));
        }
        for _ in 0..10 {
            client.write(&fill.clone().key(&new_key())).await;
        }
    }
}

struct Load {
    stop: Arc<AtomicBool>,
    turns: Arc<[AtomicU64; KINDS.len()]>,
    clients: JoinSet<()>,
}

impl Load {
    fn start(cluster: &Cluster) -> Load {
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::<[AtomicU64; KINDS.len()]>::default());
        let streams = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        let mut clients = JoinSet::new();
        for (index, kind) in KINDS.into_iter().enumerate() {
            for one in 0..EACH {
                let node = (index + one) % NODES;
                let (client, url, streams) = (cluster.client(node), cluster.nodes[node].url.clone(), streams.clone());
                let (stop, turns) = (stop.clone(), turns.clone());
                clients.spawn(async move {
                    while !stop.load(Relaxed) {
                        let number = turns[index].fetch_add(1, Relaxed);
                        let started = Instant::now();
                        turn(kind, &client, &streams, &url, number).await;
                        pass_time(TURN_EVERY.saturating_sub(started.elapsed())).await;
                    }
                });
            }
        }
        Load { stop, turns, clients }
    }

    fn turns(&self) -> [u64; KINDS.len()] {
        std::array::from_fn(|index| self.turns[index].load(Relaxed))
    }

    /// Panics at once if a client has failed.
    fn check(&mut self) {
        if let Some(ended) = self.clients.try_join_next() {
            panic!("a client ended before it was stopped: {ended:?}");
        }
    }

    async fn end(mut self) {
        self.stop.store(true, Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client");
        }
    }
}

/// The growth of memory in MiB an hour, by a least-squares line through the samples.
fn slope(looks: &[(Duration, f64)]) -> f64 {
    let count = looks.len() as f64;
    let hours = |look: &(Duration, f64)| look.0.as_secs_f64() / 3_600.0;
    let (mean_x, mean_y) = (looks.iter().map(hours).sum::<f64>() / count, looks.iter().map(|look| look.1).sum::<f64>() / count);
    let above: f64 = looks.iter().map(|look| (hours(look) - mean_x) * (look.1 - mean_y)).sum();
    let below: f64 = looks.iter().map(|look| (hours(look) - mean_x).powi(2)).sum();
    above / below
}

#[test]
fn the_slope_of_a_line_is_exact() {
    let looks: Vec<_> = (0..10).map(|number| (Duration::from_secs(360 * number), 100.0 + number as f64)).collect();
    assert!((slope(&looks) - 10.0).abs() < 1e-9, "one MiB in a tenth of an hour");
}

fn show(at: &str, usage: &[Usage]) {
    for (node, usage) in usage.iter().enumerate() {
        let Usage { resident, files, disk, .. } = usage;
        report(&format!("{at}, node {}: {resident:.1} MiB in RAM, {files} open files, {disk:.1} MiB on disk", node + 1));
    }
}

fn length() -> Duration {
    let asked = std::env::var("FAIRHOLD_TRIAL_MINUTES").ok();
    let asked = asked.map(|minutes| minutes.parse::<u64>().expect("FAIRHOLD_TRIAL_MINUTES is a number of minutes"));
    let minutes = |minutes| Duration::from_secs(60 * minutes);
    trial::size(Duration::from_secs(10), minutes(asked.unwrap_or(30)))
}

#[test]
fn soak() {
    let length = length();
    run_exclusive(length + LONG, async {
        let cluster = Cluster::start().await;
        if trial::size(false, true) {
            fill_rings(&cluster).await;
        }
        let mut load = Load::start(&cluster);
        let started = Instant::now();
        let mut looks: Vec<(Duration, Vec<Usage>)> = Vec::new();
        let mut before = load.turns();
        for look in 1..=LOOKS {
            pass_time((length * look / LOOKS).saturating_sub(started.elapsed())).await;
            load.check();
            looks.push((started.elapsed(), Usage::of_all(&cluster.nodes)));
            if [LOOKS / 6, LOOKS / 2, LOOKS].contains(&look) {
                let turns = load.turns();
                report(&format!("after {:.0?}: {KINDS:?} took {turns:?} turns", started.elapsed()));
                show(&format!("{look}/{LOOKS}"), &looks[looks.len() - 1].1);
                let stuck = KINDS.iter().zip(turns.iter().zip(&before)).find(|(_, (now, before))| now <= before);
                assert_eq!(stuck, None, "every client makes progress");
                before = turns;
            }
        }
        load.end().await;
        let warm = &looks[looks.len() / 3..];
        let growth: [f64; NODES] = std::array::from_fn(|node| {
            let resident: Vec<_> = warm.iter().map(|(at, usage)| (*at, usage[node].resident)).collect();
            slope(&resident)
        });
        for (node, growth) in growth.iter().enumerate() {
            report(&format!("node {}: {growth:+.1} MiB an hour over the last two thirds", node + 1));
        }
        for (at, usage) in looks.iter().step_by(looks.len() / 12) {
            let resident: Vec<_> = usage.iter().map(|usage| format!("{:.0}", usage.resident)).collect();
            report(&format!("{at:.0?}: {} MiB in RAM", resident.join(", ")));
        }
        if trial::size(false, true) {
            let (middle, end) = (&looks[looks.len() / 2].1, &looks[looks.len() - 1].1);
            for node in 0..NODES {
                let (growth, files) = (growth[node], end[node].files);
                assert!(growth < GROWTH_MAX, "node {} grows by {growth:.1} MiB an hour", node + 1);
                assert!(files <= middle[node].files + FILES_MORE_MAX, "{files} open files after {}", middle[node].files);
                assert!(end[node].disk < DISK_MAX, "{:.0} MiB on disk", end[node].disk);
            }
        }
    });
}
