//! A file system that is really full: a small one, mounted for one node. Needs root.

use crate::{
    client::Call,
    confined::{MIB, Mount},
    disk_full::{Load, assert_same_everywhere, ended, waits_for_room},
    harness::{Cluster, LONG, eventually, report, run_exclusive},
    without::MOUNTS,
};
use std::time::{Duration, Instant};

const SIZE_MIB: u64 = 400;
/// Free space that is enough to run, but low enough for a warning.
const LOW_MIB: u64 = 100;
/// Bytes of a value.
const LARGE: usize = 10_000;
const SMALL: usize = 100;

#[test]
fn a_leader_on_a_full_file_system_ends_and_returns() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        let folder = cluster.nodes[0].data.with_extension("mount");
        let Some(mount) = MOUNTS.or_without(Mount::memory_at(&folder, SIZE_MIB)) else { return };
        cluster.nodes[0].move_to(&folder.join("data"));
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        if cluster.leader().await != 0 {
            let call = Call::post("/v1/cluster/leader").json(&serde_json::json!({"to": 1}));
            cluster.client(0).write(&call).await.expect_status(200);
        }
        let load = Load::start(&cluster, LARGE);
        load.more(20).await;
        cluster.expect_elections(1, "a node with little room hands over");
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
        // The state must not outgrow the small disk while the node is away: from here on the test writes little.
        let large = load.end().await;
        let load = Load::start_named(&cluster, "small", SMALL);
        cluster.nodes[0].start();
        waits_for_room(&cluster, 0).await;
        mount.make_room();
        let room = Instant::now();
        cluster.node_ready(0).await;
        report(&format!("mounted and full: the longest silence {silence:.0?}, back {:.1?} after there was room", room.elapsed()));
        for written in [large, load.end().await] {
            written.assert_there(&cluster.client(0)).await;
        }
        assert_same_everywhere(&cluster).await;
        cluster.nodes[0].kill().await;
        drop(mount);
    });
}
