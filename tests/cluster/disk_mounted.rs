//! A file system that is really full: a small one, mounted for one node, by root.

use crate::{
    confined::{MIB, Mount},
    disk_full::{Load, assert_same_everywhere, ended, waits_for_room},
    harness::{Cluster, LONG, alone, eventually, report},
    without::MOUNTS,
};
use std::time::{Duration, Instant};

const SIZE_MIB: u64 = 400;
/// Enough to run with, too little to be left without a warning.
const LOW_MIB: u64 = 100;

#[test]
fn a_mounted_file_system_fills_up_under_the_leader() {
    alone(LONG, async {
        let mut cluster = Cluster::plan();
        let folder = cluster.nodes[0].data.with_extension("mount");
        let Some(mount) = MOUNTS.or_without(Mount::memory_at(&folder, SIZE_MIB)) else { return };
        cluster.nodes[0].move_to(&folder.join("data"));
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        // Until the node with the small disk leads.
        while cluster.leader().await != 0 {
            let leader = cluster.leader().await;
            cluster.nodes[leader].terminate().await;
            cluster.restart(leader).await;
        }
        let load = Load::start(&cluster, 50_000);
        load.more(20).await;
        cluster.expects_elections(1, "a node with little room hands over");
        mount.leave(LOW_MIB * MIB);
        let started = Instant::now();
        eventually("the leader hands over", Duration::from_secs(20), || async { (cluster.leader().await != 0).then_some(()) })
            .await;
        report(&format!("little room is left: another node leads after {:.1?}", started.elapsed()));
        load.silence();
        mount.leave(0);
        let data = cluster.nodes[0].data.display().to_string();
        ended(&mut cluster, 0, &["No space left on device", "Free at least", &data]).await;
        load.more(50).await;
        let silence = load.silence();
        cluster.nodes[0].start();
        waits_for_room(&cluster, 0).await;
        mount.make_room();
        let room = Instant::now();
        cluster.node_ready(0).await;
        report(&format!("mounted and full: the longest silence {silence:.0?}, back {:.1?} after there was room", room.elapsed()));
        let written = load.end().await;
        written.assert_there(&cluster.client(0)).await;
        assert_same_everywhere(&cluster).await;
        cluster.nodes[0].kill().await;
        drop(mount);
    });
}
