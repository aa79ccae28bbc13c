//! A process that repeatedly crashes at one step of its work has everything acknowledged when it restarts. Only builds
//! with the feature `failpoints` have this test.

use crate::{
    client::Call,
    harness::{Cluster, LONG, NODES, run_exclusive},
};

/// Steps that each node takes, leader or not.
const STEPS: [&str; 6] =
    ["storage.log.append", "storage.log.write", "storage.log.synced", "storage.log.told", "raft.apply.begin", "raft.apply.done"];
/// How often a step is taken before the crash: right after the start, or during work.
const TIMES: [usize; 2] = [3, 60];

#[test]
fn a_process_that_crashes_at_a_failpoint_restarts_with_everything_acknowledged() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let mut written = Vec::new();
        let crashes = TIMES.iter().flat_map(|times| STEPS.map(|step| format!("{step}=crash@{times}")));
        cluster
            .expect_elections(TIMES.len() * STEPS.len(), "a leader may crash at its failpoint, which the harness notices late");
        for (round, crash) in crashes.enumerate() {
            let index = round % NODES;
            assert!(cluster.nodes[index].terminate().await.success(), "{crash}");
            cluster.nodes[index].environment = vec![("FAIRHOLD_FAILPOINTS".to_owned(), crash.into())];
            cluster.nodes[index].start();
            let client = cluster.client((index + 1) % NODES);
            while !cluster.nodes[index].has_exited() {
                let path = format!("/v1/nodes/kept-{}", written.len());
                client.write(&Call::put(&path, path.clone())).await;
                written.push(path);
            }
            cluster.nodes[index].environment.clear();
            cluster.restart(index).await;
            for path in &written {
                client.send_to(index, &Call::get(path)).await.expect("the node runs").expect_status(200);
            }
        }
    });
}
