//! A state that clients fill on purpose: no node dies, requests that create something get `429 state_full`, requests
//! that free something still work, and the state survives restarts.

use crate::{
    client::{Answer, Call, Client, new_key},
    confined::{GROUP_BYTES, Group},
    harness::{Cluster, LONG, NodeProcess, SHORT, eventually, program, report, run_exclusive, run_parallel},
    procfs::Usage,
    trial,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Kinds of items that fill a state.
const KINDS: usize = 4;
/// Refusals of each kind after which the state counts as full.
const REFUSALS: usize = 20;
/// How long a refused command may take: it must not wait until its timeout.
const AT_ONCE: Duration = Duration::from_secs(20);

pub(crate) fn long_texts() -> serde_json::Value {
    let meta: BTreeMap<String, String> = (0..16).map(|key| (format!("{key:02}"), "m".repeat(60))).collect();
    json!({ "ttl": "1h", "owner": "o".repeat(250), "meta": meta })
}

/// A request that fills the state, by kind: values, locks, sessions, and transactions with remembered results.
fn filler(kind: usize, key: &str, value_bytes: usize) -> Call {
    match kind {
        0 => Call::put(&format!("/v1/nodes/value-{key}"), "v".repeat(value_bytes)),
        1 => Call::post(&format!("/v1/locks/{}{key}", "l".repeat(450))).json(&long_texts()),
        2 => {
            let mut session = long_texts();
            session["name"] = session["owner"].take();
            session.as_object_mut().expect("an object").remove("owner");
            Call::post("/v1/sessions").json(&session)
        }
        _ => {
            let puts: Vec<_> = (0..100).map(|number| json!({ "put": { "path": format!("/txn-{key}-{number}") } })).collect();
            Call::post("/v1/txn").json(&json!({ "then": puts }))
        }
    }
}

/// Fills the state with one kind of item until it refuses them persistently; returns the accepted ids.
async fn fill(client: Client, kind: usize, value_bytes: usize) -> Vec<String> {
    let (mut refused, mut taken) = (0, Vec::new());
    while refused < REFUSALS {
        let key = new_key();
        let answer = client.once(&filler(kind, &key, value_bytes)).await;
        match answer.status {
            200 | 201 => {
                taken.push(if kind == 0 { format!("value-{key}") } else { answer.json["id"].as_str().unwrap_or(&key).to_owned() })
            }
            429 => {
                assert_eq!((answer.code(), answer.json["retryable"].as_bool()), ("state_full", Some(false)), "{answer:?}");
                let detail = answer.string("advice");
                assert!(detail.contains("state_bytes") && detail.contains("--state-bytes-max"), "{detail}");
                refused += 1;
            }
            _ => assert_eq!((answer.status, answer.code()), (503, "overloaded"), "{answer:?}"),
        }
    }
    taken
}

/// The size of a node's state in bytes, and its maximum.
pub(crate) async fn budget(client: &Client) -> (u64, u64) {
    let cluster = client.once(&Call::get("/v1/cluster")).await.expect_status(200);
    (cluster.number("state_bytes"), cluster.json["state_bytes_max"].as_u64().unwrap_or_default())
}

async fn agreed(cluster: &Cluster, max: u64) {
    eventually("all nodes have that budget", Duration::from_secs(20), || async {
        for node in 0..3 {
            if budget(&cluster.client(node)).await.1 != max {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn delete(client: &Client, path: &str) -> Answer {
    client.send(&Call::delete(path)).await.expect_status(204)
}

/// The resident memory of each node, in MiB.
fn resident(nodes: &[NodeProcess]) -> Vec<f64> {
    Usage::of_all(nodes).iter().map(|usage| usage.resident.round()).collect()
}

/// Asserts what an operator sees of the full state.
async fn assert_reported(cluster: &Cluster) {
    let client = cluster.client(0);
    let ready = client.once(&Call::get("/readyz?verbose")).await.expect_status(200);
    assert!(ready.string("warning").contains("state"), "{ready:?}");
    let metrics = client.once(&Call::get("/metrics")).await.text;
    assert!(["\nfairhold_state_bytes ", "\nfairhold_state_bytes_max "].iter().all(|series| metrics.contains(series)));
    let url = &cluster.nodes[0].url;
    let doctor = program().args(["doctor", "-o", "json", "-e", url]).output().await.expect("doctor runs");
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("\"check\":\"state\"") || doctor.contains("\"check\": \"state\""), "{doctor}");
    let begun = Instant::now();
    let name = format!("{}{}", "n".repeat(400), new_key());
    let lock = program().args(["lock", "-e", url, &name, "--", "true"]).output().await.expect("lock runs");
    let message = String::from_utf8_lossy(&lock.stderr).into_owned();
    assert_eq!(lock.status.code(), Some(69), "{message}");
    assert!(message.contains("the state is full") && begun.elapsed() < AT_ONCE, "{message} after {:?}", begun.elapsed());
}

#[test]
fn a_full_state_kills_no_node_and_survives_restarts() {
    run_exclusive(LONG * 4, async {
        let (bytes, value_bytes) = trial::size((6_u64 << 20, 50_000), (GROUP_BYTES / 8, 1 << 20));
        let mut cluster = Cluster::plan();
        let groups = trial::size(false, true).then(|| Group::of_each(&mut cluster.nodes));
        for node in &mut cluster.nodes {
            node.flags = vec!["--state-bytes-max".to_owned(), bytes.to_string()];
            node.start();
        }
        cluster.ready().await;
        agreed(&cluster, bytes).await;
        let client = cluster.client(0);
        let session = client.open_session("1h", "").await;
        let held = client.acquire("held", "ttl=1h").await;
        client.write(&Call::put("/v1/nodes/kept", "a value")).await;
        let fillers = (0..KINDS).map(|kind| tokio::spawn(fill(cluster.client(kind), kind, value_bytes)));
        let taken = crate::harness::all(fillers.collect()).await;
        let (used, max) = budget(&client).await;
        assert!(used <= max && used >= max / 100 * 90, "{used} of {max}");
        for node in &mut cluster.nodes {
            assert!(!node.has_exited(), "node {} died", node.id);
        }
        let peaks = resident(&cluster.nodes);
        report(&format!(
            "{used} of {max} bytes, by {:?}; MiB of the nodes: {peaks:?}",
            taken.iter().map(Vec::len).collect::<Vec<_>>()
        ));
        assert_reported(&cluster).await;
        // Existing items keep working.
        client.keepalive(&session).await.expect_status(200);
        client.send(&Call::post(&format!("/v1/grants/{}/renew", held.id))).await.expect_status(200);
        client.write(&Call::put("/v1/nodes/kept", "a VALUE")).await;
        client.release(&held.id).await;
        // A node that starts now has to load all of it.
        cluster.nodes[2].kill().await;
        cluster.restart(2).await;
        for (kind, taken) in taken.into_iter().enumerate() {
            for id in taken {
                match kind {
                    0 => drop(delete(&client, &format!("/v1/nodes/{id}")).await),
                    1 => drop(client.release(&id).await),
                    2 => drop(delete(&client, &format!("/v1/sessions/{id}")).await),
                    _ => {
                        let deletes: Vec<_> =
                            (0..100).map(|number| json!({ "delete": { "path": format!("/txn-{id}-{number}") } })).collect();
                        client.send(&Call::post("/v1/txn").json(&json!({ "then": deletes }))).await.expect_status(200);
                    }
                }
            }
        }
        client.write(&Call::put("/v1/nodes/after", "there is room")).await;
        let (left, _) = budget(&client).await;
        report(&format!("{left} bytes are left; MiB of the nodes: {:?}", resident(&cluster.nodes)));
        assert!(left < used * 3 / 4, "{left} of {used} bytes are left");
        drop(cluster);
        drop(groups);
    });
}

/// The node with the least memory sets the budget, even if it joins later and the state is already larger than that.
#[test]
fn the_smallest_node_sets_the_budget() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start_with(&["--state-bytes-max", "8000000"]).await;
        agreed(&cluster, 8_000_000).await;
        let client = cluster.client(0);
        client.write(&Call::put("/v1/nodes/large", "v".repeat(900_000))).await;
        client.write(&Call::put("/v1/nodes/larger", "v".repeat(900_000))).await;
        cluster.nodes[2].terminate().await;
        cluster.nodes[2].flags = vec!["--state-bytes-max".to_owned(), "1500000".to_owned()];
        cluster.restart(2).await;
        agreed(&cluster, 1_500_000).await;
        client.once(&Call::put("/v1/nodes/new", "v")).await.expect_problem(429, "state_full");
        delete(&client, "/v1/nodes/large").await;
        client.write(&Call::put("/v1/nodes/new", "v")).await;
        let members = client.once(&Call::get("/v1/cluster")).await.json["members"].clone();
        let capacities: Vec<u64> =
            members.as_array().unwrap().iter().filter_map(|member| member["state_bytes_max"].as_u64()).collect();
        assert_eq!(capacities, [8_000_000, 8_000_000, 1_500_000]);
        cluster.nodes[2].terminate().await;
        cluster.nodes[2].flags.clear();
        cluster.restart(2).await;
        agreed(&cluster, 8_000_000).await;
    });
}

/// Acquires and releases new locks until the state is full; returns how many.
async fn use_each_name_once(client: Client) -> usize {
    let mut count = 0;
    loop {
        let answer = client.send(&Call::post(&format!("/v1/locks/{}{}", "n".repeat(450), new_key()))).await;
        match answer.status {
            200 => drop(client.release(answer.string("id")).await),
            _ => {
                answer.expect_problem(429, "state_full");
                return count;
            }
        }
        count += 1;
    }
}

/// An unused name is kept for ten minutes. Clients that use each name once must not lock out all others for so long.
#[test]
fn a_flood_of_single_use_names_fills_the_state_only_for_seconds() {
    run_exclusive(LONG, async {
        let bytes: u64 = 6 << 20;
        let cluster = Cluster::start_with(&["--state-bytes-max", &bytes.to_string()]).await;
        agreed(&cluster, bytes).await;
        let client = cluster.client(0);
        let kept = client.acquire("kept", "ttl=1h").await;
        let flood = (0..8).map(|number| tokio::spawn(use_each_name_once(cluster.client(number))));
        let names: usize = crate::harness::all(flood.collect()).await.into_iter().sum();
        let begun = Instant::now();
        eventually("a new lock is granted again", LONG, || async {
            let answer = client.send(&Call::post(&format!("/v1/locks/{}{}", "h".repeat(450), new_key()))).await;
            if answer.status == 200 {
                return Some(());
            }
            answer.expect_problem(429, "state_full");
            None
        })
        .await;
        report(&format!("{names} names filled the state; a new lock was granted after {:.1?}", begun.elapsed()));
        // Unused names take an eighth and the history another eighth; the ids of the grants are remembered for a
        // minute.
        eventually("most of the state is free", LONG, || async { (budget(&client).await.0 < bytes / 2).then_some(()) }).await;
        report(&format!("most of the state was free after {:.1?}", begun.elapsed()));
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
        client.release(&kept.id).await;
    });
}
