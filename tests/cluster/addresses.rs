//! A cluster whose machines change their addresses.

use crate::{
    client::Call,
    harness::{Cluster, SHORT, run_parallel},
};
use tokio::process::Command;

#[test]
fn a_cluster_with_changed_peer_addresses_serves_and_logs_the_changes() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        cluster.client(0).write(&Call::put("/v1/nodes/kept", "before")).await;
        let former: Vec<String> = cluster.nodes.iter().map(|node| node.peer_address.clone()).collect();
        for node in &mut cluster.nodes {
            assert!(node.terminate().await.success());
        }
        cluster.change_peer_ports();
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.ready().await;
        assert_eq!(cluster.client(1).value("kept").await, "before");
        cluster.client(2).write(&Call::put("/v1/nodes/kept", "after")).await;

        for (node, former) in cluster.nodes.iter().zip(&former) {
            let message = format!("node {} joined as {},{former} but this node's configuration has", node.id, node.url);
            for by in &cluster.nodes {
                assert_eq!(by.log_text().matches(&message).count(), 1, "node {} reports node {} once: {message}", by.id, node.id);
            }
        }
        let view = cluster.client(0).once(&Call::get("/v1/cluster")).await.expect_status(200);
        for (index, node) in cluster.nodes.iter().enumerate() {
            assert_eq!(view.json["members"][index]["peer"], node.peer_address.as_str(), "the address in use: {view:?}");
        }
        let doctor = Command::new(env!("CARGO_BIN_EXE_fairhold")).args(["doctor", "-e", &cluster.nodes[0].url]).output();
        let output = doctor.await.expect("fairhold doctor runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.contains("were started with different addresses"), "{text}");
        assert!(cluster.nodes.iter().all(|node| text.contains(&node.peer_address)), "{text}");
    });
}
