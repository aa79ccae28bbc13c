//! A node whose data directory was replaced by an earlier copy.

use crate::{
    client::Call,
    harness::{Cluster, SHORT, eventually, run_parallel},
    members::CANNOT_TAKE_PART,
};
use serde_json::Value;
use std::{fs, path::Path, time::Duration};
use tokio::process::Command;

/// Writes after the copy was made.
const WRITES: usize = 20;
/// The time limit for a start, a heartbeat, and an exit.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

async fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().await.expect("cp runs");
    assert!(copied.success());
}

/// What the leader knows about a member.
async fn known(cluster: &Cluster, leader: usize, node: usize) -> Value {
    let view = cluster.client(leader).once(&Call::get("/v1/cluster")).await.expect_status(200);
    assert_eq!(view.json["role"], "leader", "the leader with this knowledge must not change: {view:?}");
    view.json["members"][node].clone()
}

#[test]
fn a_node_with_an_older_copy_of_its_data_ends_with_advice_and_the_others_continue() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [node, _] = cluster.followers().await;
        let client = cluster.client(leader);
        let data = cluster.nodes[node].data.clone();
        let (older, newest) = (data.with_extension("older"), data.with_extension("newest"));
        client.write(&Call::put("/v1/nodes/kept", "before")).await;
        cluster.nodes[node].terminate().await;
        copy(&data, &older).await;
        cluster.restart(node).await;
        for number in 0..WRITES {
            client.write(&Call::put(&format!("/v1/nodes/later-{number}"), "x")).await;
        }
        eventually("it has acknowledged everything", Duration::from_secs(10), || async {
            (known(&cluster, leader, node).await["lag"] == 0).then_some(())
        })
        .await;

        cluster.nodes[node].kill().await;
        fs::rename(&data, &newest).expect("it can be moved");
        copy(&older, &data).await;
        cluster.nodes[node].start();
        let id = cluster.nodes[node].id;
        let ended = tokio::time::timeout(NOTICED_WITHIN, cluster.nodes[node].exited()).await;
        assert_eq!(ended.expect("it ends by itself").code(), Some(CANNOT_TAKE_PART));
        let log = cluster.nodes[node].log_text();
        assert!(log.contains(&format!("node {id} has lost log entries that it had acknowledged")), "{log}");
        assert!(log.contains(&format!("Start node {id} with its newest data directory")), "{log}");

        // Even if another node leads by then that does not know of the loss.
        cluster.nodes[node].start();
        assert_eq!(cluster.nodes[node].exited().await.code(), Some(CANNOT_TAKE_PART));
        assert!(cluster.nodes[node].log_text().contains("must not be used any more"), "{}", cluster.nodes[node].log_text());

        let member = known(&cluster, leader, node).await;
        let lost = member["lost_entries"].as_u64().unwrap_or_else(|| panic!("{member}"));
        assert!(lost >= WRITES as u64 && member["lag"].as_u64() >= Some(lost), "{member}");
        let doctor = Command::new(env!("CARGO_BIN_EXE_fairhold")).args(["doctor", "-e", &cluster.nodes[leader].url]).output();
        let text = String::from_utf8(doctor.await.expect("fairhold doctor runs").stdout).expect("text");
        assert!(text.contains(&format!("node {id} has lost {lost} log entries that it had acknowledged")), "{text}");
        assert!(cluster.nodes[leader].log_text().contains(&format!("node {id} has lost log entries")));
        client.write(&Call::put("/v1/nodes/kept", "meanwhile")).await;

        fs::remove_dir_all(&data).expect("it can be removed");
        fs::rename(&newest, &data).expect("it can be moved");
        cluster.restart(node).await;
        assert_eq!(cluster.client(node).value("kept").await, "meanwhile");
        eventually("the leader counts it again", Duration::from_secs(10), || async {
            let member = known(&cluster, leader, node).await;
            (member["lost_entries"].is_null() && member["lag"] == 0).then_some(())
        })
        .await;
    });
}
