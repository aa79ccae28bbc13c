//! A full or broken disk ends its node, with one message for an operator. The others continue, nothing acknowledged is
//! lost, and the node returns on its own once there is room.

use crate::{
    client::{Call, Client},
    disk_double::DiskDouble,
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

const WRITERS: usize = 4;
/// The size of a write-ahead log at which its memtable is flushed to a table.
const MEMTABLE_BYTES: usize = 16 * 1024 * 1024;
/// How much of a snapshot fits before the disk is full: one block, because writes past the page cache are in blocks.
const PART_OF_SNAPSHOT_BYTES: usize = 4096;
/// Writes that must succeed after a fault before the service counts as back.
const BACK_WRITES: usize = 20;
/// The longest time without a successful write around a fault: an election, and the delays of a loaded machine.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Writers that run until they are stopped, and remember every acknowledged write.
pub(crate) struct Load {
    name: String,
    over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    longest_silence: Arc<std::sync::Mutex<(Instant, Duration)>>,
    writers: Vec<JoinHandle<usize>>,
    value_bytes: usize,
}

fn value(writer: usize, number: usize, bytes: usize) -> String {
    let begin = format!("{writer}-{number} ");
    let fill = bytes.saturating_sub(begin.len());
    begin + &"x".repeat(fill)
}

impl Load {
    pub(crate) fn start(cluster: &Cluster, value_bytes: usize) -> Load {
        Load::start_named(cluster, "load", value_bytes)
    }

    /// Like `start`, but writes nodes with that name.
    pub(crate) fn start_named(cluster: &Cluster, name: &str, value_bytes: usize) -> Load {
        let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let longest_silence = Arc::new(std::sync::Mutex::new((Instant::now(), Duration::ZERO)));
        let writers = (0..WRITERS).map(|writer| {
            let (client, over, count, silence) = (cluster.client(writer), over.clone(), count.clone(), longest_silence.clone());
            let name = name.to_owned();
            tokio::spawn(async move {
                let mut written = 0;
                while !over.load(Ordering::SeqCst) {
                    let path = format!("/v1/nodes/{name}-{writer}-{written}");
                    client.write(&Call::put(&path, value(writer, written, value_bytes))).await;
                    written += 1;
                    count.fetch_add(1, Ordering::SeqCst);
                    let mut silence = silence.lock().expect("no writer panics");
                    let gap = silence.0.elapsed();
                    *silence = (Instant::now(), silence.1.max(gap));
                }
                written
            })
        });
        Load { name: name.to_owned(), writers: writers.collect(), over, count, longest_silence, value_bytes }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until this many more writes are acknowledged.
    pub(crate) async fn more(&self, writes: usize) {
        let wanted = self.count() + writes;
        eventually("writes continue", Duration::from_secs(90), || async { (self.count() >= wanted).then_some(()) }).await;
    }

    /// The longest time without an acknowledged write since the last call.
    pub(crate) fn silence(&self) -> Duration {
        let mut silence = self.longest_silence.lock().expect("no writer panics");
        std::mem::replace(&mut *silence, (Instant::now(), Duration::ZERO)).1
    }

    /// Stops the writers, and returns what each has written.
    pub(crate) async fn end(self) -> Written {
        self.over.store(true, Ordering::SeqCst);
        Written { name: self.name, counts: all(self.writers).await, value_bytes: self.value_bytes }
    }
}

/// The acknowledged writes.
pub(crate) struct Written {
    name: String,
    counts: Vec<usize>,
    value_bytes: usize,
}

impl Written {
    pub(crate) fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Asserts that all of them are present.
    pub(crate) async fn assert_there(&self, client: &Client) {
        let checks = self.counts.iter().enumerate().map(|(writer, count)| {
            let (client, count, bytes) = (client.beginning_with(writer), *count, self.value_bytes);
            let name = self.name.clone();
            tokio::spawn(async move {
                for number in 0..count {
                    let there = client.value(&format!("{name}-{writer}-{number}")).await;
                    assert!(there == value(writer, number, bytes), "acknowledged, but not there: {writer}-{number}");
                }
            })
        });
        all(checks.collect()).await;
    }
}

/// The log of a node since its last start.
fn newest_log(cluster: &Cluster, node: usize) -> String {
    let log = cluster.nodes[node].log_text();
    let start = log.rfind("starting node=").unwrap_or_else(|| panic!("node {} never started: {log}", node + 1));
    log[start..].to_owned()
}

/// Waits until a node exits on its own, and asserts how: an exit code on which a supervisor acts, and one message.
pub(crate) async fn ended(cluster: &mut Cluster, node: usize, words: &[&str]) -> Duration {
    let started = Instant::now();
    let status = cluster.nodes[node].exited().await;
    assert_eq!(status.code(), Some(1), "{status}");
    let log = newest_log(cluster, node);
    let messages: Vec<&str> = log.lines().filter(|line| line.starts_with("fairhold: ")).collect();
    assert_eq!(messages.len(), 1, "one message: {messages:?}");
    report(&format!("node {} printed: {}", node + 1, messages[0]));
    for word in words {
        assert!(messages[0].contains(word), "the message does not say `{word}`: {messages:?}");
    }
    assert!(!log.contains("panicked"), "a panic");
    started.elapsed()
}

/// Waits until a started node reports that it waits for room; asserts that it is alive, not ready, and reports it once.
pub(crate) async fn waits_for_room(cluster: &Cluster, node: usize) {
    let client = cluster.client(node);
    let verbose = Call::get("/readyz?verbose").within(Duration::from_secs(1));
    let answer =
        eventually("it answers that it waits", Duration::from_secs(30), || async { client.send_to(node, &verbose).await.ok() })
            .await;
    assert_eq!((answer.status, &answer.json["ready"]), (503, &serde_json::Value::Bool(false)), "{answer:?}");
    let reason = answer.string("reason");
    assert!(reason.contains("does not take part") && reason.contains("when there is enough space"), "{reason}");
    let at = |path: &str| Call::get(path).within(Duration::from_secs(1));
    assert_eq!(client.send_to(node, &at("/livez")).await.expect("it answers").status, 200);
    let refused = client.send_to(node, &at("/v1/locks/any")).await.expect("it answers");
    assert_eq!((refused.status, refused.json["retryable"].as_bool()), (503, Some(true)), "{refused:?}");
    assert!(refused.header("fairhold-cluster").is_some(), "its data directory names its cluster: {refused:?}");
    // During some more checks of the disk.
    pass_time(Duration::from_millis(2500)).await;
    let log = newest_log(cluster, node);
    assert_eq!(log.matches("when there is enough space").count(), 1, "not logged exactly once: {log}");
}

/// Waits until the node, whose disk is full for such files, ends and reports it; the others continue. Returns their
/// longest silence.
async fn ends_full(cluster: &mut Cluster, load: &Load, node: usize, part: &str) -> Duration {
    let data = cluster.nodes[node].data.display().to_string();
    ended(cluster, node, &["No space left on device", part, "the other nodes go on", "Free at least", &data]).await;
    load.more(BACK_WRITES).await;
    load.silence()
}

/// The node, which has ended, waits at its next start, and returns when there is room.
async fn assert_recovers(cluster: &mut Cluster, disk: &DiskDouble, load: &Load, node: usize, silence: Duration, what: &str) {
    let stopped = Instant::now();
    disk.fill(0, "/");
    cluster.nodes[node].start();
    waits_for_room(cluster, node).await;
    let room = Instant::now();
    disk.heal();
    cluster.node_ready(node).await;
    load.more(BACK_WRITES).await;
    report(&format!(
        "{what}: {} writes acknowledged so far, the longest silence {silence:.0?}, away {:.1?}, back {:.1?} after there was room",
        load.count(),
        stopped.elapsed(),
        room.elapsed(),
    ));
    assert!(silence < SILENCE_MAX, "the others did not continue: {silence:?}");
}

/// The node's disk is full for that file; the node ends, waits at its next start, and returns when there is room.
async fn fill_and_recover(cluster: &mut Cluster, disk: &DiskDouble, load: &Load, node: usize, full: (u64, &str), what: &str) {
    load.more(BACK_WRITES).await;
    load.silence();
    disk.fill(full.0, full.1);
    let silence = ends_full(cluster, load, node, full.1).await;
    assert_recovers(cluster, disk, load, node, silence, what).await;
}

/// A cluster in which each node has a disk double.
pub(crate) async fn cluster_of_doubles() -> (Cluster, Vec<DiskDouble>) {
    let mut cluster = Cluster::plan();
    let disks = cluster.nodes.iter_mut().map(DiskDouble::under).collect();
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.ready().await;
    (cluster, disks)
}

/// Asserts that all nodes have the same state.
pub(crate) async fn assert_same_everywhere(cluster: &Cluster) {
    let client = cluster.client(0);
    eventually("all nodes have one state", Duration::from_secs(60), || async {
        let mut digests = Vec::new();
        for node in 0..NODES {
            let answer = client.send_to(node, &Call::get("/v1/cluster?digest")).await.ok()?;
            digests.push(answer.json["digest"].as_str()?.to_owned());
        }
        digests.iter().all(|digest| *digest == digests[0]).then_some(())
    })
    .await;
}

#[test]
fn a_full_disk_stops_the_leader_or_a_follower_which_returns_by_itself() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        let load = Load::start(&cluster, 300);
        let leader = cluster.leader().await;
        // Only part of the write fits: the log gets a torn end.
        fill_and_recover(&mut cluster, &disks[leader], &load, leader, (5000, ".log"), "disk full at the leader").await;
        let [follower, _] = cluster.followers().await;
        fill_and_recover(&mut cluster, &disks[follower], &load, follower, (5000, ".log"), "disk full at a follower").await;
        let written = load.end().await;
        written.assert_there(&cluster.client(0)).await;
        assert_same_everywhere(&cluster).await;
    });
}

#[test]
fn a_node_stops_at_a_full_disk_while_a_table_is_written_and_returns() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        let value_bytes = 200_000;
        let load = Load::start(&cluster, value_bytes);
        let [follower, _] = cluster.followers().await;
        // Part of it fits.
        disks[follower].fill(1_000_000, ".sst");
        load.more(2 * MEMTABLE_BYTES / value_bytes).await;
        fill_and_recover(&mut cluster, &disks[follower], &load, follower, (0, ".sst"), "no room for a table").await;
        let written = load.end().await;
        written.assert_there(&cluster.client(0)).await;
        assert_same_everywhere(&cluster).await;
    });
}

/// The names of a node's snapshots and of everything else in their folder.
fn in_snapshot_folder(cluster: &Cluster, node: usize) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(cluster.nodes[node].data.join("snapshot")).expect("it is there");
    entries.map(|entry| entry.expect("an entry").file_name()).collect()
}

#[test]
fn a_snapshot_that_meets_a_full_disk_leaves_nothing_behind() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        let load = Load::start(&cluster, 300);
        let [follower, _] = cluster.followers().await;
        // More than the limit set below.
        load.more(PART_OF_SNAPSHOT_BYTES / 300 * 4).await;
        let before = in_snapshot_folder(&cluster, follower);
        load.silence();
        disks[follower].fill(PART_OF_SNAPSHOT_BYTES as u64, ".snap");
        let take = Call::post("/v1/cluster/snapshot").within(Duration::from_secs(30));
        // Often the node ends before it answers.
        let answer = cluster.client(follower).send_to(follower, &take).await;
        assert!(!answer.is_ok_and(|answer| answer.status == 200), "there was no room for it");
        let silence = ends_full(&mut cluster, &load, follower, ".snap").await;
        // The next start would remove it.
        assert_eq!(in_snapshot_folder(&cluster, follower), before, "a part of a snapshot is left");
        assert_recovers(&mut cluster, &disks[follower], &load, follower, silence, "no room for a snapshot").await;
        let written = load.end().await;
        written.assert_there(&cluster.client(0)).await;
        assert_same_everywhere(&cluster).await;
    });
}

/// The file of the node's own log lines is often on the full disk.
#[test]
fn a_node_that_cannot_write_its_log_lines_still_serves() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            // Every write to it fails, and a read of it never ends.
            let log = std::mem::replace(&mut node.log, "/dev/full".into());
            node.start();
            node.log = log;
        }
        cluster.ready().await;
        cluster.allow_missing_logs("that is the story");
        cluster.client(0).write(&Call::put("/v1/nodes/written", "x")).await;
        for node in &mut cluster.nodes {
            assert_eq!(node.terminate().await.code(), Some(0), "node {}", node.id);
        }
    });
}

/// The kernel reports a failed write-back once, and a second sync succeeds without the lost pages. So the node must
/// end, writes in flight must not count, and the next start must write again what it finds in the kernel's memory: the
/// power is cut after that.
#[test]
fn a_failed_sync_stops_the_leader_and_writes_in_flight_do_not_count_as_durable() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        let load = Load::start(&cluster, 300);
        load.more(BACK_WRITES).await;
        let leader = cluster.leader().await;
        load.silence();
        disks[leader].fail_sync(1, ".log");
        ended(&mut cluster, leader, &[".log", "does not count as done", "the other nodes go on"]).await;
        let (_, failed) = disks[leader].syncs();
        assert_eq!(failed, 1, "the sync failed once");
        load.more(BACK_WRITES).await;
        let silence = load.silence();
        let started = Instant::now();
        disks[leader].heal();
        cluster.restart(leader).await;
        load.more(BACK_WRITES).await;
        report(&format!("a failed sync at the leader: the longest silence {silence:.0?}, back after {:.1?}", started.elapsed()));
        assert!(silence < SILENCE_MAX, "the others did not continue: {silence:?}");
        let written = load.end().await;
        for node in &mut cluster.nodes {
            node.kill().await;
        }
        for (node, disk) in cluster.nodes.iter().zip(&disks) {
            report(&format!("the power is cut at node {}: {:?}", node.id, disk.cut_power()));
        }
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        written.assert_there(&cluster.client(0)).await;
        report(&format!("a failed sync, then a power cut: all {} acknowledged writes are there", written.total()));
        assert_same_everywhere(&cluster).await;
    });
}
