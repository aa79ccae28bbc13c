//! A command that makes the state machine panic, on every node and after every restart, does not end the cluster. Only
//! builds with planted bugs have this test.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, NODES, eventually, run_exclusive},
};
use std::time::Duration;
use tokio::process::Command;

const SERVED_AGAIN_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn every_node_skips_a_command_with_a_planted_panic_and_the_cluster_continues() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            node.environment = vec![("FAIRHOLD_PLANTED_PANIC".to_owned(), "boom".into())];
            node.start();
        }
        cluster.ready().await;
        cluster.expect_elections(2 * NODES, "each node panics twice at the command, and starts again both times");
        let client = cluster.client(0);
        let held = client.acquire("before", "ttl=10m").await;
        let pids: Vec<u32> = cluster.nodes.iter().map(|node| node.pid()).collect();

        let key = new_key();
        let boom = Call::post("/v1/locks/boom?ttl=10m").key(&key).within(SERVED_AGAIN_WITHIN);
        assert!(client.send_to(0, &boom).await.is_err(), "the connection breaks: each node starts again");
        for node in 0..NODES {
            eventually("the command is left out", SERVED_AGAIN_WITHIN, || async {
                let answer = client.send_to(node, &Call::get("/v1/cluster").within(Duration::from_secs(1))).await.ok()?;
                answer.json["defects"][0]["left_out"].as_bool().filter(|left_out| *left_out)
            })
            .await;
        }
        cluster.ready().await;

        // The earlier state is present, in the same processes, and the same request is now refused at once.
        assert_eq!(cluster.nodes.iter().map(|node| node.pid()).collect::<Vec<_>>(), pids);
        assert!(client.fence_passes("before", held.token).await);
        for node in 0..NODES {
            let refused = client.send_to(node, &boom).await.expect("it is answered").expect_problem(500, "internal");
            assert_eq!(refused.string("outcome"), "none");
            assert!(refused.string("detail").contains("fingerprint"), "{}", refused.text);
        }
        let after = client.acquire("after", "ttl=10m").await;
        assert!(after.token > held.token);

        // All nodes have the same state, even one that reads its log again, and an operator is informed.
        let index = cluster.leader().await;
        assert!(cluster.nodes[index].terminate().await.success());
        cluster.restart(index).await;
        let mut digests = Vec::new();
        for node in 0..NODES {
            let path = "/v1/cluster?digest";
            client.send_to(node, &Call::get("/v1/locks/after")).await.expect("it is answered").expect_status(200);
            digests.push(client.send_to(node, &Call::get(path)).await.expect("it is answered").string("digest").to_owned());
        }
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_fairhold"));
        let doctor = doctor.args(["doctor", "-e", &cluster.nodes[0].url]).env_remove("FAIRHOLD_ENDPOINT").kill_on_drop(true);
        let findings = String::from_utf8(doctor.output().await.expect("fairhold doctor runs").stdout).expect("text");
        assert!(findings.contains("skipped a command that panicked: Acquire"), "{findings}");
    });
}
