//! A file system that is really full: a small one, mounted for a node. Needs root.

use crate::{
    client::Call,
    confined::{MIB, Mount},
    disk_full::{Load, assert_same_everywhere, ended, waits_for_room},
    harness::{Cluster, LONG, eventually, program, report, run_exclusive},
    lock_command::{assert_code, fairhold},
    without::MOUNTS,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

const SIZE_MIB: u64 = 450;
/// Free space that is enough to run, but low enough for a warning.
const LOW_MIB: u64 = 100;
/// Free space with which a node does not hand over, but with which the leader refuses writes if a majority has no more.
const REFUSED_MIB: u64 = 200;
/// Bytes of a value.
const LARGE: usize = 10_000;
const SMALL: usize = 100;

/// A cluster whose first node has its data on a small file system. `None` if nothing can be mounted here.
async fn with_a_mounted_node() -> Option<(Cluster, Mount)> {
    let mut cluster = Cluster::plan();
    let folder = cluster.nodes[0].data.with_extension("mount");
    let mount = MOUNTS.or_without(Mount::memory_at(&folder, SIZE_MIB))?;
    cluster.nodes[0].move_to(&folder.join("data"));
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.ready().await;
    Some((cluster, mount))
}

#[test]
fn a_leader_on_a_full_file_system_ends_and_returns() {
    run_exclusive(LONG, async {
        let Some((mut cluster, mount)) = with_a_mounted_node().await else { return };
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

#[test]
fn a_command_that_waits_while_the_disks_of_a_majority_are_full_says_so() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        let mut mounts = Vec::new();
        for node in &mut cluster.nodes[..2] {
            let folder = node.data.with_extension("mount");
            let Some(mount) = MOUNTS.or_without(Mount::memory_at(&folder, SIZE_MIB)) else { return };
            node.move_to(&folder.join("data"));
            mounts.push(mount);
        }
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        for mount in &mounts {
            mount.leave(REFUSED_MIB * MIB);
        }
        let client = cluster.client(2);
        eventually("the leader refuses writes", Duration::from_secs(20), || async {
            (client.once(&Call::put("/v1/nodes/any", "x")).await.code() == "disk_low").then_some(())
        })
        .await;
        // Both nodes without space say so, though nearly half of their small disks is free.
        for node in 0..2 {
            eventually("the node raises the alarm", Duration::from_secs(20), || async {
                let answer = client.send_to(node, &Call::get("/v1/cluster/alarms")).await.ok()?;
                let mut alarms = answer.json["alarms"].as_array().expect("a list").iter();
                alarms.any(|alarm| alarm["alarm"] == "disk" && alarm["severity"] == "critical").then_some(())
            })
            .await;
            let ready = client.send_to(node, &Call::get("/readyz?verbose")).await.expect("it runs").expect_status(200);
            assert!(ready.string("warning").contains("the cluster refuses writes"), "{ready:?}");
        }
        let mut waits = fairhold(&cluster.nodes[2].url, &["dock", "--", "echo", "held"]).spawn().expect("it starts");
        let mut stderr = BufReader::new(waits.stderr.take().expect("a pipe"));
        let mut printed = String::new();
        while !printed.contains("(disk_low)") {
            assert!(stderr.read_line(&mut printed).await.expect("it can be read") > 0, "it ended: {printed}");
        }
        assert!(printed.contains("fairhold: waiting for dock: the cluster refuses the request for now: "), "{printed}");
        assert!(printed.contains(": too few nodes have free disk space") && printed.ends_with("; trying again\n"), "{printed}");
        for mount in &mounts {
            mount.make_room();
        }
        stderr.read_to_string(&mut printed).await.expect("it can be read");
        let output = waits.wait_with_output().await.expect("it ends");
        assert_code(&output, 0, "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n");
        assert_eq!(printed.matches("disk_low").count(), 1, "it says so once: {printed}");
        for node in &mut cluster.nodes[..2] {
            node.kill().await;
        }
        drop(mounts);
    });
}

#[test]
fn the_data_of_a_survivor_on_a_full_or_read_only_disk_is_read_from_a_copy() {
    run_exclusive(LONG, async {
        let Some((mut cluster, mount)) = with_a_mounted_node().await else { return };
        let data = cluster.nodes[0].data.clone();
        cluster.client(1).write(&Call::put("/v1/nodes/config", "green")).await;
        cluster.nodes[0].kill().await;
        let inspect = |data: PathBuf| async move {
            program().args(["backup", "inspect", "--data"]).arg(data).output().await.expect("it runs")
        };
        mount.leave(0);
        let full = inspect(data.clone()).await;
        mount.forbid_writes();
        let read_only = inspect(data.clone()).await;
        for refused in [full, read_only] {
            assert_code(&refused, 1, "copy the directory to a disk with free space that you can write to");
        }
        let copy = cluster.folder().join("copy");
        let copied = tokio::process::Command::new("cp").arg("-a").arg(&data).arg(&copy).status().await;
        assert!(copied.expect("cp runs").success());
        let shown = inspect(copy).await;
        assert_code(&shown, 0, "");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("a stopped node"), "{shown:?}");
        drop(mount);
    });
}
