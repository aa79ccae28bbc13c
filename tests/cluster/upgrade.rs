//! A cluster is upgraded from the program of an older cluster version, node by node and under load: there, back again,
//! there once more, and to its end. `./fairhold build-baseline` builds the older program.

use crate::{
    client::{Answer, Call, Client, Grant, new_key},
    fairness::assert_in_order,
    harness::{Cluster, LONG, NODES, READY_WITHIN, all, eventually, program, report, run_exclusive},
    load::Load,
    members::{assert_same_state, ids, settled},
    membership::count_writes,
    rolling_restart::{COUNTER, LOCK, queue},
    without::BASELINES,
};
use rustix::process::Signal;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// Programs of older cluster versions: a version and a commit in each line.
const LIST: &str = include_str!("../upgrade/BASELINES");
const BUSY: usize = 60;
const BUSY_GRANTS: usize = 10;
const QUEUING: usize = 6;
const WRITERS: usize = 4;

/// The program of a cluster version, in the target folder.
pub(crate) fn baseline(version: &str) -> Result<PathBuf, String> {
    let own = Path::new(env!("CARGO_BIN_EXE_fairhold"));
    let target = own.parent().and_then(Path::parent).expect("the program is in a folder of the target folder");
    let path = target.join(format!("baseline-{version}/fairhold"));
    if path.is_file() { Ok(path) } else { Err(format!("there is no {}: run ./fairhold build-baseline", path.display())) }
}

/// Restarts every node in turn with a program, while clients work.
async fn roll(cluster: &mut Cluster, load: &Load, to: &Path) {
    for index in 0..NODES {
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        let begun = Instant::now();
        let status = cluster.nodes[index].terminate().await;
        assert!(status.success(), "node {} ended with {status}", cluster.nodes[index].id);
        to.clone_into(&mut cluster.nodes[index].program);
        cluster.restart(index).await;
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        let silence = load.longest_silence(begun, Instant::now());
        report(&format!("upgrade: node {} runs {}: the longest gap was {silence:.0?}", index + 1, to.display()));
    }
}

/// The cluster's version, as every node that tells one reports it. The older program has no such field.
async fn versions(client: &Client) -> Vec<Option<u64>> {
    let mut all = Vec::new();
    for node in 0..NODES {
        let shown = client.send_to(node, &Call::get("/v1/cluster")).await.expect("the node runs").expect_status(200);
        all.push(shown.json["cluster_version"].as_u64());
    }
    all
}

/// At cluster version 1, the calls of version 2 are refused with advice.
async fn assert_too_early(client: &Client) {
    let token = Call::post("/v1/cluster/join-tokens").json(&json!({}));
    client.send(&token).await.expect_problem(409, "needs_upgrade");
    let timing = Call::patch("/v1/cluster/settings").key(&new_key()).json(&json!({"timing": "metro"}));
    client.send(&timing).await.expect_problem(409, "needs_upgrade");
    client.send(&Call::delete("/v1/cluster/members/3")).await.expect_problem(409, "needs_upgrade");
}

/// At cluster version 1, a node asks the others nothing that an older program does not know.
async fn assert_asks_nothing_new(client: &Client) {
    let session = client.open_session("60s", "early").await;
    let show = Call::get(&format!("/v1/sessions/{}", session.number));
    let mut heard = 0;
    for node in 0..NODES {
        let shown = client.send_to(node, &show).await.expect("the node runs").expect_status(200);
        heard += usize::from(!shown.json["heard_ago"].is_null());
    }
    // The leader need not ask.
    assert!(heard <= 1, "{heard} nodes tell when the leader heard of the session");
    for node in 0..NODES {
        let shown = client.send_to(node, &Call::get("/v1/overview")).await.expect("the node runs").expect_status(200);
        let members = shown.json["members"].as_array().expect("members");
        assert_eq!(members.len(), NODES, "{shown:?}");
        assert!(members.iter().all(|member| member["reachable"].is_null() && member["figures"].is_null()), "{shown:?}");
    }
}

#[test]
fn a_cluster_goes_to_a_newer_program_back_again_and_to_the_next_version_under_load() {
    let Some(older) = BASELINES.or_without(baseline("1")) else { return };
    let newer = PathBuf::from(env!("CARGO_BIN_EXE_fairhold"));
    run_exclusive(2 * LONG, async {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            older.clone_into(&mut node.program);
            node.start();
        }
        cluster.ready().await;
        let (client, load) = (cluster.client(0), Load::default());
        client.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let held = client.acquire("held-through", "ttl=10m").await;
        let queuing: Vec<_> = (0..QUEUING).map(|number| tokio::spawn(queue(cluster.client(number), load.clone()))).collect();
        let writing = (0..WRITERS).map(|number| tokio::spawn(count_writes(cluster.client(number), load.clone(), number)));
        let writing: Vec<_> = writing.collect();

        roll(&mut cluster, &load, &newer).await;
        assert_eq!(versions(&client).await, [Some(1); NODES], "only an operator raises the version");
        assert_too_early(&client).await;
        assert_asks_nothing_new(&client).await;
        roll(&mut cluster, &load, &older).await;
        assert_eq!(versions(&client).await, [None; NODES]);
        roll(&mut cluster, &load, &newer).await;
        let url = &cluster.nodes[0].url;
        let finalize = program().args(["cluster", "upgrade", "finalize", "-e", url]).output().await.expect("it runs");
        assert!(finalize.status.success(), "{finalize:?}");
        load.wait_until_busy(BUSY, BUSY_GRANTS).await;
        assert_eq!(versions(&client).await, [Some(2); NODES]);

        load.end();
        let mut grants: Vec<Grant> = all(queuing).await.into_iter().flatten().collect();
        let written = all(writing).await;
        report(&format!("upgrade: {} grants of {LOCK}, {} writes", grants.len(), written.iter().sum::<u64>()));
        assert_in_order(&mut grants);
        let last = grants.last().map_or(0, |grant| grant.token);
        assert_eq!(client.value(COUNTER).await, format!("{} {last}", grants.len()), "each grant counted once");
        for (number, count) in written.iter().enumerate() {
            assert_eq!(client.value(&format!("written-{number}")).await, (count - 1).to_string());
        }
        assert!(client.fence_passes("held-through", held.token).await);
        assert_same_state(&client, &[0, 1, 2]).await;
        there_is_no_way_back(&mut cluster, &older, &newer).await;
    });
}

/// After the end of the upgrade the older program does not start, and harms nothing. Members can be changed.
async fn there_is_no_way_back(cluster: &mut Cluster, older: &Path, newer: &Path) {
    let index = cluster.follower().await;
    let client = cluster.client(cluster.leader().await);
    for _ in 0..2 {
        if cluster.nodes[index].runs() {
            assert!(cluster.nodes[index].terminate().await.success());
        }
        older.clone_into(&mut cluster.nodes[index].program);
        cluster.nodes[index].start();
        let status = cluster.nodes[index].exited().await;
        let log = cluster.nodes[index].log_text();
        assert!(!status.success(), "it started: {log}");
        report(&format!("upgrade: the older program ended with {status}: {}", log.lines().last().unwrap_or_default()));
        client.write(&Call::put("/v1/nodes/meanwhile", "x")).await;
    }
    newer.clone_into(&mut cluster.nodes[index].program);
    cluster.restart(index).await;
    assert_eq!(cluster.client(index).value("meanwhile").await, "x");
    assert_same_state(&client, &[0, 1, 2]).await;

    let joined = cluster.join(&json!({})).await;
    assert_eq!(cluster.nodes[joined].id, NODES + 1, "ids go on after those of the first version");
    assert_eq!(ids(&settled(&client).await, "members"), [1, 2, 3, 4]);
}

/// A cluster of version 1 whose nodes run the newer program, and which is ready for version 2.
async fn open_upgrade(older: &Path, newer: &Path) -> Cluster {
    let mut cluster = Cluster::plan();
    for node in &mut cluster.nodes {
        older.clone_into(&mut node.program);
        node.start();
    }
    cluster.ready().await;
    for index in 0..NODES {
        assert!(cluster.nodes[index].terminate().await.success());
        newer.clone_into(&mut cluster.nodes[index].program);
        cluster.restart(index).await;
    }
    let client = cluster.client(0);
    eventually("every member supports the next version", READY_WITHIN, || async {
        let status = client.send(&Call::get("/v1/cluster/upgrade")).await.expect_status(200);
        (status.json["ready"] == true).then_some(())
    })
    .await;
    cluster
}

async fn finalize(client: &Client) -> Answer {
    client.send(&Call::post("/v1/cluster/upgrade/finalize").json(&json!({ "to": 2 }))).await
}

#[test]
fn an_upgrade_is_not_finalized_while_a_member_is_paused_or_down_even_for_a_moment() {
    let Some(older) = BASELINES.or_without(baseline("1")) else { return };
    let newer = PathBuf::from(env!("CARGO_BIN_EXE_fairhold"));
    run_exclusive(LONG, async {
        let mut cluster = open_upgrade(&older, &newer).await;
        let leader = cluster.leader().await;
        let (client, index) = (cluster.client(leader), (leader + 1) % NODES);
        let blocker = format!("node {} does not answer the leader: start it", cluster.nodes[index].id);
        let assert_refused = |answer: Answer| {
            let refused = answer.expect_problem(409, "not_all_upgraded");
            assert!(refused.string("detail").contains(&blocker), "{refused:?}");
        };

        cluster.nodes[index].signal(Signal::STOP);
        let refused = finalize(&client).await;
        cluster.nodes[index].signal(Signal::CONT);
        assert_refused(refused);
        cluster.node_ready(index).await;

        cluster.nodes[index].kill().await;
        assert_refused(finalize(&client).await);
        let shown = client.send(&Call::get("/v1/cluster")).await.expect_status(200);
        assert_eq!(shown.json["cluster_version"], 1, "{shown:?}");

        cluster.restart(index).await;
        eventually("the upgrade is finalized", READY_WITHIN, || async {
            let answer = finalize(&client).await;
            assert!([200, 409].contains(&answer.status), "{answer:?}");
            (answer.status == 200).then_some(())
        })
        .await;
        eventually("every node has the version", READY_WITHIN, || async {
            (versions(&client).await == [Some(2); NODES]).then_some(())
        })
        .await;
    });
}

#[test]
fn every_baseline_has_a_version_and_a_commit() {
    assert!(!LIST.is_empty() && LIST.ends_with('\n'));
    for line in LIST.lines() {
        let (version, commit) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(version.parse::<u16>().is_ok(), "{line:?}");
        assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line:?}");
    }
}
