//! The timing profile suits the round trips between the nodes, and a new cluster gets the one of its nodes.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, NODES, NodeProcess, eventually, free_port, pass_time, program, run_exclusive},
    members::CHANGED_WITHIN,
    upgrade::baseline,
    without::BASELINES,
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// How long a request takes from one node to another: too long for `metro`. Four times as long suits `wan`, so the first
/// heartbeats, which open connections, do not matter.
const WAY: Duration = Duration::from_millis(32);

/// Delays what the other nodes send to these nodes, which do not run yet, until the result is dropped.
async fn move_apart(nodes: &mut [NodeProcess]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for node in nodes {
        let node_address = format!("127.0.0.1:{}", free_port());
        node.flags.extend(["--peer-listen".to_owned(), node_address.clone()]);
        let listener = TcpListener::bind(&node.peer_address).await.expect("its node does not run");
        tasks.spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                let Ok(node) = TcpStream::connect(&node_address).await else { continue };
                let ((from_peer, mut to_peer), (mut from_node, to_node)) = (peer.into_split(), node.into_split());
                tokio::spawn(forward_late(from_peer, to_node));
                tokio::spawn(async move { tokio::io::copy(&mut from_node, &mut to_peer).await });
            }
        });
    }
    tasks
}

async fn forward_late(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        pass_time(WAY).await;
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

#[test]
fn a_profile_that_is_too_fast_for_the_round_trips_is_refused_unless_it_is_forced() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        let _distance = move_apart(&mut cluster.nodes).await;
        for node in &mut cluster.nodes {
            node.flags.extend(["--timing", "wan"].map(str::to_owned));
            node.start();
        }
        cluster.ready().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let timing = Call::get("/v1/cluster/timing");
        eventually("the leader knows the round trips", CHANGED_WITHIN, || async {
            let shown = client.send_to(leader, &timing).await.expect("the node runs").expect_status(200);
            (shown.json["fits"] == "wan" && shown.json["timing"] == "wan").then_some(())
        })
        .await;

        let set = |change: Value| Call::patch("/v1/cluster/settings").key(&new_key()).json(&change);
        for index in 0..NODES {
            for fast in ["metro", "lan"] {
                let refused = client.send_to(index, &set(json!({ "timing": fast }))).await.expect("the node runs");
                let refused = refused.expect_problem(409, "timing_too_fast");
                assert!(refused.string("detail").contains("Set wan"), "a follower asks the leader: {refused:?}");
            }
        }
        let settings = client.send(&Call::get("/v1/cluster/settings")).await.expect_status(200);
        assert_eq!(settings.string("timing"), "wan");
        client.send(&set(json!({ "timing": "global" }))).await.expect_status(200);
        client.send(&set(json!({ "timing": "wan" }))).await.expect_status(200);

        let command = ["cluster", "set", "timing=metro", "-e", &cluster.nodes[leader].url];
        let refused = program().args(command).output().await.expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("fairhold cluster timing") && said.contains("--force"), "{said}");
        let forced = program().args(command).arg("--force").output().await.expect("it runs");
        assert!(forced.status.success(), "{forced:?}");
        let settings = client.send(&Call::get("/v1/cluster/settings")).await.expect_status(200);
        assert_eq!(settings.string("timing"), "metro");
    });
}

#[test]
fn a_cluster_of_version_1_gets_the_timing_profile_of_its_nodes_when_it_is_upgraded() {
    let Some(older) = BASELINES.or_without(baseline("1")) else { return };
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            older.clone_into(&mut node.program);
            node.start();
        }
        cluster.ready().await;
        cluster.expect_elections(NODES, "while two profiles are at work, an election may be needless");
        for index in 0..NODES {
            assert!(cluster.nodes[index].terminate().await.success());
            let node = &mut cluster.nodes[index];
            node.program = PathBuf::from(env!("CARGO_BIN_EXE_fairhold"));
            node.flags = ["--timing", "metro"].map(str::to_owned).to_vec();
            cluster.restart(index).await;
        }
        let client = cluster.client(0);
        for node in &cluster.nodes {
            assert!(!node.data.join("TIMING").exists(), "node {} keeps a profile that nobody has set", node.id);
        }
        let finalize = ["cluster", "upgrade", "finalize", "-e", &cluster.nodes[0].url];
        eventually("the members have introduced themselves, and the upgrade is finalized", CHANGED_WITHIN, || async {
            let finalized = program().args(finalize).output().await.expect("it runs");
            finalized.status.success().then_some(())
        })
        .await;
        eventually("the cluster has the profile of its nodes", CHANGED_WITHIN, || async {
            let settings = client.send(&Call::get("/v1/cluster/settings")).await.expect_status(200);
            (settings.string("timing") == "metro").then_some(())
        })
        .await;
        for node in &cluster.nodes {
            let is_kept = || async { node.data.join("TIMING").exists().then_some(()) };
            eventually("the node keeps the profile for its next start", CHANGED_WITHIN, is_kept).await;
            assert!(!node.log_text().contains("restart this node"), "it uses the profile already");
        }
    });
}
