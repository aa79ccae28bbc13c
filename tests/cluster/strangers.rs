//! A node that could lose acknowledged writes is kept out, with a message that says what to do.

use crate::{
    client::{Call, Client},
    harness::{Cluster, LONG, NodeProcess, SHORT, eventually, run_exclusive, run_parallel},
};
use std::{fs, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const NODES_WRITTEN: usize = 100;
const LOGGED_WITHIN: Duration = Duration::from_secs(30);

/// Waits for a line of a node's log that contains all these words, and starts after this many bytes.
async fn log_line(node: &NodeProcess, after: usize, words: &[&str]) -> String {
    eventually(&format!("node {} logs a line with {words:?}", node.id), LOGGED_WITHIN, || async {
        let log = node.log_text();
        log[after.min(log.len())..].lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    })
    .await
}

async fn write_some(client: &Client) {
    for number in 0..NODES_WRITTEN {
        client.write(&Call::put(&format!("/v1/nodes/precious-{number}"), number.to_string())).await;
    }
}

async fn assert_all_there(client: &Client) {
    for number in 0..NODES_WRITTEN {
        assert_eq!(client.value(&format!("precious-{number}")).await, number.to_string());
    }
}

async fn is_ready(client: &Client, node: usize) -> bool {
    let call = Call::get("/readyz").within(Duration::from_secs(1));
    client.send_to(node, &call).await.is_ok_and(|answer| answer.status == 200)
}

#[test]
fn a_node_with_a_wiped_data_directory_is_kept_out_with_advice() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [wiped, other] = cluster.followers().await;
        let client = cluster.client(leader);
        write_some(&client).await;
        cluster.nodes[wiped].kill().await;
        fs::remove_dir_all(&cluster.nodes[wiped].data).expect("its data can be removed");
        let log_before = cluster.nodes[wiped].log_text().len();
        cluster.nodes[wiped].start();
        let line = log_line(&cluster.nodes[wiped], log_before, &["data directory", "remove", "add it again"]).await;
        assert!(line.contains(&format!("node {}", wiped + 1)), "it names the node: {line}");
        assert_eq!(cluster.nodes[wiped].exited().await.code(), Some(1), "it ends by itself");
        assert!(!is_ready(&client, wiped).await, "a wiped node is not ready");

        // If the wiped node's vote counted, it and one other node could elect a leader without the acknowledged writes.
        cluster.nodes[leader].kill().await;
        let write = Call::put("/v1/nodes/precious-0", "lost").with("fairhold-timeout", "3s");
        let refused = cluster.client(other).once(&write).await;
        assert!(matches!(refused.status, 503 | 504), "one node and a wiped one are no quorum: {refused:?}");
        assert!(!is_ready(&client, wiped).await);

        cluster.restart(leader).await;
        cluster.leader().await;
        let unknown = client.value("precious-0").await;
        assert!(unknown == "0" || (refused.status == 504 && unknown == "lost"), "precious-0 is {unknown}");
        client.write(&Call::put("/v1/nodes/precious-0", "0")).await;
        assert_all_there(&client).await;
        assert_all_there(&cluster.client(other)).await;
    });
}

#[test]
fn a_node_of_another_cluster_is_kept_out_with_advice() {
    run_exclusive(LONG, async {
        let mut ours = Cluster::start().await;
        let mut theirs = Cluster::start().await;
        write_some(&ours.client(0)).await;
        let [ours_out, other] = ours.followers().await;
        for node in &mut theirs.nodes {
            node.kill().await;
        }
        ours.nodes[ours_out].kill().await;
        let own = ours.nodes[ours_out].data.clone();
        let log_before = ours.nodes[ours_out].log_text().len();
        ours.nodes[ours_out].move_to(&theirs.nodes[ours_out].data);
        ours.nodes[ours_out].start();
        let line = log_line(&ours.nodes[ours_out], log_before, &["belongs to cluster", "--member", "--data"]).await;
        assert!(line.contains("cluster"), "{line}");
        assert!(!is_ready(&ours.client(0), ours_out).await, "a node of another cluster is not ready here");
        assert_all_there(&ours.client(other)).await;
        ours.client(other).write(&Call::put("/v1/nodes/later", "x")).await;

        if !ours.nodes[ours_out].has_exited() {
            ours.nodes[ours_out].kill().await;
        }
        ours.nodes[ours_out].move_to(&own);
        ours.restart(ours_out).await;
        assert_all_there(&ours.client(ours_out)).await;
        assert_eq!(ours.client(ours_out).value("later").await, "x");
    });
}

#[test]
fn a_peer_of_another_wire_version_is_refused_with_advice() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for node in &cluster.nodes {
            let mut stream = TcpStream::connect(&node.peer_address).await.expect("the peer port is open");
            stream.write_all(b"FAIRHOLD\xff\xff").await.expect("bytes can be sent");
            let mut preamble = [0; 10];
            stream.read_exact(&mut preamble).await.expect("the node reports its version");
            assert_eq!(preamble[..8], *b"FAIRHOLD");
            // Like a node of that version, which then notices that it cannot continue.
            drop(stream);
            let line = log_line(node, 0, &["peer protocol 65535", "run versions of fairhold"]).await;
            assert!(line.contains("WARN"), "the operator must see it: {line}");
        }
        assert_eq!(cluster.client(0).write(&Call::put("/v1/nodes/fine", "x")).await.status, 201);
    });
}
