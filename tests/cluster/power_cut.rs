//! The power fails at all nodes at once: all unsynced data is lost, but no acknowledged write.

use crate::{
    disk_full::{Load, assert_same_everywhere, cluster_of_doubles},
    harness::{LONG, report, run_exclusive},
    trial,
};
use std::time::Instant;

/// Writes acknowledged before each cut.
const WRITES: usize = 300;

const VALUE_BYTES: usize = 300;

/// The disk double detects missing syncs. Otherwise the other test would prove nothing.
#[test]
fn a_power_cut_loses_acknowledged_writes_if_the_log_is_not_synced() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        disks.iter().for_each(|disk| disk.skip_syncs(".log"));
        let load = Load::start_named(&cluster, "lost", VALUE_BYTES);
        load.more(WRITES).await;
        let total = load.end().await.total();
        for node in &mut cluster.nodes {
            node.kill().await;
        }
        let lost: Vec<u64> = disks.iter().map(|disk| disk.cut_power().bytes_lost).collect();
        report(&format!("without syncs of the log: {total} writes acknowledged, {lost:?} bytes lost by a power cut"));
        // Two nodes lose nearly all of it; the third may have been behind.
        let acknowledged = (WRITES * VALUE_BYTES) as u64;
        assert!(lost.iter().filter(|bytes| **bytes > acknowledged).count() >= 2, "{lost:?} of {acknowledged}");
    });
}

#[test]
fn everything_acknowledged_survives_a_power_cut_at_all_nodes() {
    run_exclusive(LONG, async {
        let (mut cluster, disks) = cluster_of_doubles().await;
        let mut written = Vec::new();
        // A start must not be what made the data durable, so the first cut follows a single start.
        for round in 0..trial::size(1, 10) {
            let load = Load::start_named(&cluster, &format!("cut-{round}"), VALUE_BYTES);
            load.more(WRITES).await;
            // The writers are stopped. Otherwise a node that still has power could acknowledge a write after the cut.
            written.push(load.end().await);
            for node in &cluster.nodes {
                node.signal(rustix::process::Signal::KILL);
            }
            for node in &mut cluster.nodes {
                node.exited().await;
            }
            for (node, disk) in cluster.nodes.iter().zip(&disks) {
                let (synced, _) = disk.syncs();
                let cut = disk.cut_power();
                report(&format!("power cut {round} at node {}: {synced} syncs so far, {cut:?}", node.id));
            }
            let started = Instant::now();
            for node in &mut cluster.nodes {
                node.start();
            }
            cluster.ready().await;
            for each in &written {
                each.assert_there(&cluster.client(round)).await;
            }
            let total: usize = written.iter().map(crate::disk_full::Written::total).sum();
            report(&format!("power cut {round}: ready {:.1?} after the start, all {total} writes are there", started.elapsed()));
        }
        assert_same_everywhere(&cluster).await;
    });
}
