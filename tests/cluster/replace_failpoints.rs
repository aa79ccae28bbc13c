//! The leader crashes at each step of a change of the members, and the next one carries the change to its end. Only
//! builds with the feature `failpoints` have this test.

use crate::{
    client::Call,
    harness::{Cluster, LONG, NODES, Origin, eventually, report, run_exclusive},
    members::{CHANGED_WITHIN, assert_same_state, create_token, ids, settled},
};
use serde_json::{Value, json};
use std::time::Instant;

/// The steps that a leader takes when a node joins as a voter, or replaces a member. Another step, `raft.member.flatten`,
/// follows only a crash between two entries of one change: the simulator reaches it.
const STEPS: [(&str, bool); 7] = [
    ("raft.join.admit", false),
    ("raft.join.added", false),
    ("raft.join.promote", false),
    ("raft.join.settle", false),
    ("raft.join.added", true),
    ("raft.member.swap", true),
    ("raft.join.settle", true),
];

/// Lets a node lead that crashes at a step, and returns its index.
async fn lead_to_crash(cluster: &mut Cluster, step: &str) -> usize {
    let chosen = cluster.follower().await;
    assert!(cluster.nodes[chosen].terminate().await.success(), "{step}");
    cluster.nodes[chosen].environment = vec![("FAIRHOLD_FAILPOINTS".to_owned(), format!("{step}=crash").into())];
    cluster.restart(chosen).await;
    let (client, to) = (cluster.client(0), cluster.nodes[chosen].id);
    eventually("it leads", CHANGED_WITHIN, || async {
        if cluster.leader().await != chosen {
            client.send(&Call::post("/v1/cluster/leader").json(&json!({ "to": to }))).await;
        }
        (cluster.leader().await == chosen).then_some(())
    })
    .await;
    chosen
}

#[test]
fn a_change_of_the_members_survives_a_crash_of_the_leader_at_each_failpoint() {
    run_exclusive(2 * LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        cluster.expect_elections(2 * STEPS.len(), "a leader crashes at its failpoint, and a replaced leader hands over");
        for (round, (step, replaces)) in STEPS.into_iter().enumerate() {
            client.write(&Call::put(&format!("/v1/nodes/kept-{round}"), step)).await;
            let chosen = lead_to_crash(&mut cluster, step).await;
            let replaced = cluster.follower().await;
            let wish: Value = if replaces { json!({ "replaces": cluster.nodes[replaced].id }) } else { json!({}) };
            let token = create_token(&client, &wish).await;
            let begun = Instant::now();
            let joining = cluster.start_joining(token.string("token"), None);
            while !cluster.nodes[chosen].has_exited() {
                assert!(begun.elapsed() < CHANGED_WITHIN, "the leader does not reach {step}");
                client.write(&Call::put("/v1/nodes/meanwhile", step)).await;
            }
            cluster.nodes[chosen].environment.clear();
            cluster.admitted(joining).await;
            // The others go on without it, and it comes back.
            cluster.restart(chosen).await;
            let shown = settled(&client).await;
            cluster.node_ready(joining).await;
            cluster.nodes[joining].origin = Origin::Directory;
            report(&format!("crashed at {step}: done after {:.1?}, members {:?}", begun.elapsed(), ids(&shown, "members")));
            if replaces {
                cluster.ends_as_removed(replaced).await;
            } else {
                // Back to three, by the same node.
                cluster.remove(joining).await;
            }
            assert_eq!(cluster.running_members().len(), NODES, "{step}");
            assert_same_state(&client, &cluster.running_members()).await;
            for (earlier, (value, _)) in STEPS.iter().enumerate().take(round + 1) {
                assert_eq!(client.value(&format!("kept-{earlier}")).await, *value, "{step}");
            }
        }
    });
}
