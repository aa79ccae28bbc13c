//! A large tree: its memory, that its snapshots delay no client, and how soon a restarted node is ready.

use crate::{
    client::{Answer, Call, Client},
    harness::{Cluster, LONG, NODES, all, report, run_exclusive},
    procfs::Usage,
    trial,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Nodes below one parent, created by one transaction.
pub(crate) const BRANCH: usize = 1_000;
const VALUE_BYTES: usize = 100;
/// Concurrent transactions while the tree grows.
const GROWERS: usize = 4;
/// Clients that write small values in sequence while snapshots are taken.
const WRITERS: usize = 4;
/// How long they write without a snapshot, for comparison: about as long as three snapshots take. During this time the
/// disks finish the remaining work from the growth of the tree.
const QUIET: Duration = Duration::from_secs(10);
/// How long a snapshot may take.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(120);
/// How much a snapshot may add to the 99th percentile of the writes.
const PAUSE_MAX: Duration = Duration::from_millis(50);

pub(crate) fn branches() -> usize {
    trial::size(20, 1_000)
}

/// Makes the whole tree, and returns how long that took.
pub(crate) async fn grow(cluster: &Cluster) -> Duration {
    let (started, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let growers = (0..GROWERS).map(|grower| {
        let (client, next) = (cluster.client(grower % NODES), next.clone());
        tokio::spawn(async move {
            let value = "v".repeat(VALUE_BYTES);
            loop {
                let branch = next.fetch_add(1, Relaxed);
                if branch >= branches() {
                    return;
                }
                let node = |leaf: usize| {
                    let path =
                        if leaf == 0 { format!("/branch-{branch:04}") } else { format!("/branch-{branch:04}/leaf-{leaf:04}") };
                    json!({"create": {"path": path, "value": value}})
                };
                let then: Vec<Value> = (0..BRANCH).map(node).collect();
                client.write(&Call::post("/v1/txn").json(&json!({"then": then}))).await;
            }
        })
    });
    all(growers.collect()).await;
    started.elapsed()
}

/// Clients that write continuously, and record the start and the duration of each write.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<(Instant, Duration)>>>,
}

impl Writers {
    pub(crate) fn start(cluster: &Cluster) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..WRITERS).map(|writer| {
            let (client, stop) = (cluster.client(writer % NODES), stop.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                while !stop.load(Relaxed) {
                    let begun = Instant::now();
                    let path = format!("/v1/nodes/branch-{:04}/leaf-{:04}", took.len() % branches(), writer + 1);
                    client.write(&Call::put(&path, "w".repeat(VALUE_BYTES))).await;
                    took.push((begun, begun.elapsed()));
                }
                took
            })
        });
        let tasks = tasks.collect();
        Writers { stop, tasks }
    }

    pub(crate) async fn end(self) -> Vec<(Instant, Duration)> {
        self.stop.store(true, Relaxed);
        all(self.tasks).await.concat()
    }
}

/// The durations of writes, from the fastest to the slowest, and when the slowest started.
pub(crate) struct Took(Vec<Duration>, Duration);

impl Took {
    /// The writes that overlap this period.
    pub(crate) fn between(writes: &[(Instant, Duration)], from: Instant, to: Instant) -> Took {
        let mut under_way: Vec<_> = writes.iter().filter(|(begun, took)| *begun < to && *begun + *took > from).collect();
        under_way.sort_unstable_by_key(|(_, took)| *took);
        assert!(under_way.len() >= trial::size(1, 100), "too few writes to say anything: {}", under_way.len());
        let slowest = under_way[under_way.len() - 1].0.saturating_duration_since(from);
        Took(under_way.iter().map(|(_, took)| *took).collect(), slowest)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (count, max) = (self.0.len(), self.0[self.0.len() - 1]);
        let (p50, p99, at) = (self.0[count / 2], self.p99(), self.1);
        write!(f, "{count} writes, p50 {p50:.1?}, p99 {p99:.1?}, slowest {max:.1?}, {at:.1?} after the start")
    }
}

async fn take_snapshot(client: Client, node: usize) -> (Answer, Duration) {
    let begun = Instant::now();
    let call = Call::post("/v1/cluster/snapshot").with("fairhold-timeout", "120s").within(SNAPSHOT_WITHIN);
    let answer = client.send_to(node, &call).await.expect("the node runs").expect_status(200);
    (answer, begun.elapsed())
}

async fn snapshot_index(cluster: &Cluster, node: usize) -> u64 {
    let view = cluster.client(node).send_to(node, &Call::get("/v1/cluster")).await.expect("the node runs");
    view.expect_status(200).json["snapshot_index"].as_u64().unwrap_or(0)
}

/// Takes snapshots of each node in turn while clients write; the leader's last, so that it finds no work already done.
async fn snapshots_delay_no_client(cluster: &Cluster) {
    let leader = cluster.leader().await;
    let writers = Writers::start(cluster);
    let mut spans = BTreeMap::new();
    let quiet = Instant::now();
    crate::harness::pass_time(QUIET).await;
    spans.insert("no snapshot".to_owned(), (quiet, Instant::now()));
    for step in 1..=NODES {
        let node = (leader + step) % NODES;
        let (before, from) = (snapshot_index(cluster, node).await, Instant::now());
        let (answer, took) = take_snapshot(cluster.client(node), node).await;
        assert!(answer.number("snapshot_index") > before, "a new one: {}", answer.text);
        let role = if node == leader { "the leader" } else { "a follower" };
        report(&format!("node {}, {role}: its snapshot was stored after {took:.1?}", node + 1));
        spans.insert(format!("snapshot of node {}, {role}", node + 1), (from, Instant::now()));
    }
    let writes = writers.end().await;
    let span = |name: &str| Took::between(&writes, spans[name].0, spans[name].1);
    let quiet = span("no snapshot");
    for name in spans.keys() {
        let took = span(name);
        report(&format!("{name}: {took}"));
        if trial::size(false, true) {
            let more = took.p99().saturating_sub(quiet.p99());
            assert!(more < PAUSE_MAX, "{name}: the 99th percentile of the writes grew by {more:?}");
        }
    }
}

#[test]
fn a_large_tree_costs_little_its_snapshots_delay_no_client_and_it_survives_a_restart() {
    run_exclusive(3 * LONG, async {
        let mut cluster = Cluster::start().await;
        let before = Usage::of_all(&cluster.nodes);
        let took = grow(&cluster).await;
        let nodes = branches() * BRANCH;
        report(&format!("{nodes} nodes of {VALUE_BYTES} bytes made in {took:.1?}, by transactions of {BRANCH}"));
        for (index, (before, after)) in before.iter().zip(Usage::of_all(&cluster.nodes)).enumerate() {
            let each = (after.resident - before.resident) * 1024.0 * 1024.0 / nodes as f64;
            let (node, from, to) = (index + 1, before.resident, after.resident);
            report(&format!("node {node}: {from:.0} MiB in RAM before, {to:.0} after: {each:.0} bytes a node of the tree"));
        }
        snapshots_delay_no_client(&cluster).await;
        for (index, usage) in Usage::of_all(&cluster.nodes).iter().enumerate() {
            report(&format!("node {}: {:.0} MiB in RAM after its snapshot", index + 1, usage.resident));
        }

        let [follower, _] = cluster.followers().await;
        cluster.nodes[follower].terminate().await;
        let begun = Instant::now();
        cluster.restart(follower).await;
        report(&format!("a node that was stopped cleanly: ready {:.1?} after its start", begun.elapsed()));
        cluster.nodes[follower].kill().await;
        let begun = Instant::now();
        cluster.restart(follower).await;
        report(&format!("a node that was killed: ready {:.1?} after its start", begun.elapsed()));
        let resident = Usage::of(&cluster.nodes[follower]).resident;
        report(&format!("it has {resident:.0} MiB in RAM then"));

        let client = cluster.client(follower);
        let last = format!("branch-{:04}/leaf-{:04}", branches() - 1, BRANCH - 1);
        assert_eq!(client.value(&last).await, "v".repeat(VALUE_BYTES), "a value that was never rewritten");
        let branch = client.send(&Call::get("/v1/nodes/branch-0000?meta")).await.expect_status(200);
        assert_eq!(branch.number("num_children"), BRANCH as u64 - 1);
    });
}
