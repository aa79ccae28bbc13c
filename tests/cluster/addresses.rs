//! A cluster whose machines change their addresses. No wrong address ends the service.

use crate::{
    client::{Call, Client},
    harness::{Cluster, LONG, SHORT, free_port, run_exclusive, run_parallel},
    members::{CANNOT_TAKE_PART, patch, rows, view},
    strangers::clone_of,
};
use serde_json::{Value, json};
use tokio::process::Command;

/// Writes that the copy of a node lacks.
const WRITES: usize = 20;

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

/// The address of a member for its peers, as the leader lists it.
async fn peer_address(client: &Client, id: usize) -> Value {
    let view = view(client).await;
    rows(&view, "members").iter().find(|member| member["id"] == id).expect("the member")["peer"].clone()
}

/// Copies a follower, starts the copy elsewhere, and tries to move the member there. The copy lacks the last writes.
async fn assert_does_not_move_to_a_copy(cluster: &mut Cluster, other_is_down: bool) {
    let leader = cluster.leader().await;
    let [original, other] = cluster.followers().await;
    let client = cluster.client(leader);
    let copy = clone_of(cluster, original).await;
    for number in 0..WRITES {
        client.write(&Call::put(&format!("/v1/nodes/later-{number}"), "x")).await;
    }
    if other_is_down {
        cluster.nodes[other].kill().await;
    }
    let (id, before) = (cluster.nodes[original].id, cluster.nodes[original].peer_address.clone());
    let flags = &cluster.nodes[copy].flags;
    let address = flags[flags.iter().position(|flag| flag == "--peer-listen").expect("it listens elsewhere") + 1].clone();

    // It runs for about ten leases until it ends. The leader greets it until it answers.
    cluster.nodes[copy].start();
    let refused = client.send(&patch(id, &json!({ "peer": address }))).await.expect_problem(409, "wrong_node");
    let says = [format!("node {id} has two processes"), before.clone(), address, "stop the one that is to go".to_owned()];
    says.iter().for_each(|what| assert!(refused.string("detail").contains(what), "{what} is not in {refused:?}"));
    client.write(&Call::put("/v1/nodes/after", "x")).await;
    assert_eq!(cluster.client(original).value("after").await, "x", "the original still takes part");
    assert_eq!(peer_address(&client, id).await, before.as_str());
    let status = cluster.nodes[copy].exited().await;
    assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "{}", cluster.nodes[copy].log_text());
    if other_is_down {
        cluster.restart(other).await;
    }
}

#[test]
fn a_member_does_not_move_to_a_copy_of_its_disk_while_it_answers() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        assert_does_not_move_to_a_copy(&mut cluster, false).await;
    });
}

#[test]
fn a_member_that_the_majority_needs_does_not_move_to_a_copy_of_its_disk() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        assert_does_not_move_to_a_copy(&mut cluster, true).await;
    });
}

#[test]
fn a_leader_hands_over_before_its_own_address_changes() {
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (id, client) = (cluster.nodes[leader].id, cluster.client(leader));
        cluster.expect_elections(1, "a leader hands over before its own address changes");
        let (_, port) = cluster.nodes[leader].peer_address.rsplit_once(':').expect("a port");
        let address = format!("localhost:{port}");
        let change = patch(id, &json!({ "peer": address }));
        client.once(&change).await.expect_status(200);
        assert_ne!(cluster.leader().await, leader, "another node has checked the address");
        assert_eq!(peer_address(&client, id).await, address.as_str());
        client.once(&change).await.expect_status(200);
        client.write(&Call::put("/v1/nodes/after", "x")).await;
        assert_eq!(client.value("after").await, "x", "it follows at its new address");
    });
}

#[test]
fn a_leader_does_not_lead_at_an_address_that_nobody_reaches() {
    run_parallel(LONG, async {
        let mut cluster = Cluster::start().await;
        cluster.expect_elections(3, "a leader hands over before its own address changes, each time");
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let nowhere = format!("127.0.0.1:{}", free_port());
        let refused = patch(cluster.nodes[leader].id, &json!({ "peer": nowhere }));
        client.send(&refused).await.expect_problem(409, "not_caught_up");
        client.write(&Call::put("/v1/nodes/after", "refused")).await;
        assert_eq!(client.value("after").await, "refused", "its address is the same");

        let leader = cluster.leader().await;
        let [other, _] = cluster.followers().await;
        let (id, client) = (cluster.nodes[leader].id, cluster.client(other));
        client.send(&patch(id, &json!({ "peer": nowhere, "force": true }))).await.expect_status(200);
        client.write(&Call::put("/v1/nodes/after", "forced")).await;
        assert_eq!(client.value("after").await, "forced", "the others serve");
        assert_eq!(peer_address(&client, id).await, nowhere.as_str());

        let back = json!({ "peer": cluster.nodes[leader].peer_address });
        client.send(&patch(id, &back)).await.expect_status(200);
        cluster.node_ready(leader).await;
        assert_eq!(cluster.client(leader).value("after").await, "forced");
    });
}
