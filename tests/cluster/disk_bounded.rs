//! A node's disk use is bounded, however much clients write.

use crate::{
    client::Call,
    harness::{Cluster, LONG, all, report, run_exclusive},
    trial,
};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Commands between two snapshots of a node.
const SNAPSHOT_COMMANDS: u64 = 10_000;
/// Each is overwritten many times, so that the state is small and the log would be large.
const PATHS: usize = 500;
const WRITERS: usize = 16;
/// Writes between two checks of the disk.
const LOOK_EVERY: usize = 1000;
/// Two write-ahead logs with their preallocated space, tables of the kept log, two snapshots, and RocksDB's info logs.
const DISK_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// Entries kept behind a snapshot, those of two snapshots, and those that arrive while one is taken.
const LOG_ENTRIES_MAX: u64 = 1_000 + 3 * SNAPSHOT_COMMANDS;
/// RocksDB's own small files: info logs, options, manifest.
const OWN_FILES_MAX: usize = 12;

/// The bytes of all files, except those removed meanwhile, and the names of RocksDB's own small files.
fn disk_use(folder: &Path) -> (u64, Vec<String>) {
    let (mut bytes, mut own) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            let (more, names) = disk_use(&path);
            bytes += more;
            own.extend(names);
        } else {
            use std::os::unix::fs::MetadataExt as _;
            bytes += entry.metadata().map_or(0, |metadata| metadata.blocks() * 512);
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["LOG", "OPTIONS", "MANIFEST"].iter().any(|kind| name.starts_with(kind)) {
                own.push(name);
            }
        }
    }
    (bytes, own)
}

/// The largest value of a tree node.
const VALUE_BYTES: usize = 1024 * 1024;
/// The bytes that `docs/limits.md` allows in addition to three times the state.
const BESIDE_THE_STATE: u64 = 256 * 1024 * 1024;

#[test]
fn the_disk_stays_bounded_while_one_large_value_is_overwritten() {
    let changes = trial::size(400, 3_200);
    run_exclusive(LONG * 2, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut peak = vec![0; cluster.nodes.len()];
        for number in 0..changes {
            let value = vec![b'a' + u8::try_from(number % 26).expect("a letter"); VALUE_BYTES];
            client.write(&Call::put("/v1/nodes/large", value)).await;
            for (node, peak) in cluster.nodes.iter().zip(&mut peak) {
                *peak = disk_use(&node.data).0.max(*peak);
            }
        }
        let mib: Vec<u64> = peak.iter().map(|bytes| bytes >> 20).collect();
        report(&format!("{changes} values of 1 MiB over one key: at most {mib:?} MiB on the disks"));
        assert!(peak.iter().all(|bytes| *bytes < 3 * VALUE_BYTES as u64 + BESIDE_THE_STATE), "{mib:?} MiB");
        assert!(peak.iter().all(|bytes| *bytes > 32 * VALUE_BYTES as u64), "the log did contain large values: {mib:?} MiB");
    });
}

/// A transaction of the largest allowed size that changes nothing.
fn idle_transaction(number: usize) -> Call {
    let path = |step: usize| format!("/{number:04}{step:04}{}", "x".repeat(1_000));
    if number.is_multiple_of(2) {
        let conditions: Vec<_> = (0..1_000).map(|step| json!({"path": path(step), "exists": false})).collect();
        Call::post("/v1/txn").json(&json!({"if": conditions, "then": []}))
    } else {
        let checks: Vec<_> = (0..1_000).map(|step| json!({"check": {"path": path(step)}})).collect();
        Call::post("/v1/txn").json(&json!({"then": checks}))
    }
}

/// A regression test: conditions had no weight, so many such transactions made one entry that no node could read again,
/// and no snapshot freed its disk space.
#[test]
fn a_flood_of_read_only_transactions_fills_no_disk_and_leaves_a_readable_log() {
    const AT_ONCE: usize = 200;
    let rounds = trial::size(2, 16);
    run_exclusive(LONG * 2, async {
        let mut cluster = Cluster::start().await;
        let mut peak = vec![0; cluster.nodes.len()];
        for round in 0..rounds {
            let ask = |number: usize| {
                let (client, call) = (cluster.client(number), idle_transaction(round * AT_ONCE + number));
                tokio::spawn(async move { client.send(&call).await.status })
            };
            let statuses = all((0..AT_ONCE).map(ask).collect()).await;
            assert!(statuses.iter().all(|status| matches!(status, 200 | 404)), "{statuses:?}");
            for (node, peak) in cluster.nodes.iter().zip(&mut peak) {
                *peak = disk_use(&node.data).0.max(*peak);
            }
        }
        let mib: Vec<u64> = peak.iter().map(|bytes| bytes >> 20).collect();
        report(&format!("{} transactions of 1 MiB that change nothing: at most {mib:?} MiB on the disks", rounds * AT_ONCE));
        assert!(peak.iter().all(|bytes| *bytes < BESIDE_THE_STATE), "{mib:?} MiB");
        for node in 0..cluster.nodes.len() {
            assert!(!cluster.nodes[node].has_exited(), "node {} has ended", node + 1);
            cluster.nodes[node].kill().await;
            cluster.restart(node).await;
        }
        cluster.client(0).write(&Call::put("/v1/nodes/after", "all is well")).await;
    });
}

#[test]
fn the_disk_stays_bounded_under_many_small_writes() {
    let changes = trial::size(25_000, 300_000);
    run_exclusive(if changes > 100_000 { Duration::from_secs(1800) } else { LONG }, async {
        let cluster = Cluster::start().await;
        let (started, done) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let peak = Arc::new(std::sync::Mutex::new(vec![0; cluster.nodes.len()]));
        let folders: Arc<[_]> = cluster.nodes.iter().map(|node| node.data.clone()).collect();
        let writers = (0..WRITERS).map(|writer| {
            let (client, done, peak, folders) = (cluster.client(writer), done.clone(), peak.clone(), folders.clone());
            tokio::spawn(async move {
                loop {
                    let number = done.fetch_add(1, Ordering::SeqCst);
                    if number >= changes {
                        return;
                    }
                    client.write(&Call::put(&format!("/v1/nodes/bulk-{}", number % PATHS), number.to_string())).await;
                    if number % LOOK_EVERY == 0 {
                        let now: Vec<u64> = folders.iter().map(|folder| disk_use(folder).0).collect();
                        let mut peak = peak.lock().expect("no writer panics");
                        *peak = peak.iter().zip(now).map(|(old, new)| *old.max(&new)).collect();
                    }
                }
            })
        });
        all(writers.collect()).await;
        let peak = peak.lock().expect("no writer panicked").clone();
        let mib: Vec<u64> = peak.iter().map(|bytes| bytes >> 20).collect();
        report(&format!("{changes} small writes in {:.0?}: at most {mib:?} MiB on the disks", started.elapsed()));
        assert!(peak.iter().all(|bytes| *bytes < DISK_BYTES_MAX), "{peak:?} bytes");
        for (index, node) in cluster.nodes.iter().enumerate() {
            let (bytes, own) = disk_use(&node.data);
            let view = cluster.client(index).send_to(index, &Call::get("/v1/cluster")).await.expect("it runs");
            let behind = view.number("last_log_index") - view.number("snapshot_index");
            report(&format!(
                "node {}: {} KiB at the end, {} small files, {behind} entries behind the snapshot",
                node.id,
                bytes >> 10,
                own.len()
            ));
            assert!(own.len() <= OWN_FILES_MAX, "{own:?}");
            assert!(behind <= LOG_ENTRIES_MAX, "node {}: {behind} entries", node.id);
        }
    });
}
