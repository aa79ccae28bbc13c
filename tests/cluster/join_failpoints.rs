//! A node that joins applies the history of its cluster, in which rights were not enforced yet. Only builds with the feature
//! `failpoints` have this test: they can slow the node down.

use crate::{
    access::Guarded,
    client::Call,
    harness::{LONG, run_exclusive},
};
use serde_json::json;
use std::{collections::BTreeMap, time::Instant};

/// How many entries the log has before rights are enforced.
const EARLIER: usize = 60;

#[test]
fn a_node_that_joins_shows_nothing_before_it_knows_that_rights_are_enforced() {
    run_exclusive(LONG, async {
        let mut guarded = Guarded::start().await;
        let anyone = guarded.cluster.client(0);
        for number in 0..EARLIER {
            anyone.write(&Call::put(&format!("/v1/nodes/kept-{number}"), "secret")).await;
        }
        let created = guarded.file().send(Call::post("/v1/cluster/join-tokens").json(&json!({}))).await.expect_status(201);
        guarded.enforce().await;

        let joining = guarded.cluster.add_node(created.string("token"), None);
        let node = &mut guarded.cluster.nodes[joining];
        node.environment = vec![("FAIRHOLD_FAILPOINTS".to_owned(), "raft.apply.begin=delay:200ms".into())];
        node.start();
        let client = guarded.cluster.client(0);
        let read = Call::get("/v1/nodes/kept-0?consistency=local");
        let (begun, mut answers) = (Instant::now(), BTreeMap::new());
        while !answers.contains_key(&401) {
            assert!(begun.elapsed() < LONG / 2, "the node never asks for a token: {answers:?}");
            // It has no port at first.
            let Ok(answer) = client.send_to(joining, &read).await else { continue };
            assert!([401, 503].contains(&answer.status), "after {answers:?}: {answer:?}");
            *answers.entry(answer.status).or_insert(0) += 1;
        }
        assert!(answers.contains_key(&503), "the node was never behind: {answers:?}");
    });
}
