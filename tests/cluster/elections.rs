//! Elections over HTTP: who leads is told by every node, once and in order, also to who comes back.

use crate::{
    all_killed::kill_all_and_start_again,
    client::{Answer, Call, Client, Grant},
    harness::{Cluster, LONG, SHORT, alone, together},
};
use serde_json::{Value, json};

const LINES: (&str, &str) = ("accept", "application/x-ndjson");

async fn leads(client: &Client, election: &str, parameters: &str) -> Grant {
    client.acquire_with(&Call::post(&format!("/v1/elections/{election}?{parameters}"))).await
}

async fn leader(client: &Client, election: &str) -> Answer {
    client.send(&Call::get(&format!("/v1/elections/{election}"))).await
}

fn proclaims(election: &str, grant: &Grant, value: &str) -> Call {
    Call::put(&format!("/v1/elections/{election}?grant={}&value={value}", grant.id), "")
}

/// The lines of a stream, bookmarks left out, until one of that revision or a later one.
async fn lines(client: &Client, node: usize, path: &str, until: u64) -> Vec<Value> {
    let mut response = client.stream_from(node, path, &[LINES]).await.expect("the node runs");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let (mut text, mut lines) = (Vec::new(), Vec::new());
    loop {
        text.extend_from_slice(&response.chunk().await.expect("the connection stands").expect("the stream goes on"));
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Value = serde_json::from_slice(&text.drain(..=end).collect::<Vec<u8>>()).expect("JSON");
            let reached = line["revision"].as_u64().expect("a revision") >= until;
            if line["type"] != "bookmark" {
                lines.push(line);
            }
            if reached {
                return lines;
            }
        }
    }
}

#[test]
fn who_leads_is_told_by_every_node_and_to_whoever_comes_back() {
    together(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        leader(&client, "primary").await.expect_problem(404, "no_leader");
        let ann = leads(&client, "primary", "value=http://a&ttl=60s&owner=ann").await;
        let told = leader(&client, "primary").await.expect_status(200);
        assert_eq!(
            (told.string("value"), told.number("token"), &told.json["leader"]["owner"]),
            ("http://a", ann.token, &"ann".into())
        );
        client.send(&Call::post("/v1/elections/primary?value=http://b")).await.expect_problem(409, "lock_held");
        let call = proclaims("primary", &ann, "http://a2");
        let first = client.send(&call).await.expect_status(200);
        assert_eq!(client.send(&call).await.expect_status(200).number("version"), first.number("version"), "the same key again");

        // News of the leader, and of nothing else in the line.
        let polled = client.send(&Call::get(&format!("/v1/elections/primary?after={}", first.number("revision")))).await;
        polled.expect_status(304);
        let waiting = Call::post("/v1/elections/primary?value=http://b&ttl=60s&owner=bob").with("prefer", "respond-async");
        let waiting = client.send(&waiting).await.expect_status(202);
        let queued = client.send(&Call::get(&format!("/v1/elections/primary?after={}", first.number("revision")))).await;
        queued.expect_status(304);
        let too_early = Call::put(&format!("/v1/elections/primary?grant={}&value=no", waiting.string("id")), "");
        client.send(&too_early).await.expect_problem(409, "not_leader");
        client.release(&ann.id).await;
        let newer = client.send(&Call::get(&format!("/v1/elections/primary?wait=10s&after={}", first.number("revision")))).await;
        let bob = newer.expect_status(200);
        assert_eq!(bob.string("value"), "http://b");
        client.send(&proclaims("primary", &ann, "late")).await.expect_problem(409, "not_leader");
        client.release(waiting.string("id")).await;
        let end = leader(&client, "primary").await.expect_problem(404, "no_leader").revision();

        let from = format!("/v1/elections/primary?from={}", ann.token);
        let expected: Vec<Value> = vec![
            json!(["elected", "http://a", ann.token]),
            json!(["proclaimed", "http://a2", ann.token]),
            json!(["elected", "http://b", bob.number("token")]),
            json!(["vacant", null, null]),
        ];
        for node in 0..3 {
            let told = lines(&cluster.client(node), node, &from, end).await;
            let told: Vec<Value> = told.iter().map(|line| json!([line["type"], line["value"], line["token"]])).collect();
            assert_eq!(told, expected, "at node {node}");
            let now = lines(&cluster.client(node), node, "/v1/elections/primary", 0).await;
            assert_eq!(now[0]["type"], "vacant");
        }
    });
}

#[test]
fn a_name_is_a_lock_or_an_election_and_both_outlive_the_death_of_all_nodes() {
    alone(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let lock = client.acquire("mutex", "ttl=10m").await;
        client.send(&Call::post("/v1/elections/mutex?value=x")).await.expect_problem(409, "kind_mismatch");
        leader(&client, "mutex").await.expect_problem(409, "kind_mismatch");
        let led = leads(&client, "primary", "value=one&ttl=10m").await;
        client.send(&proclaims("primary", &led, "two")).await.expect_status(200);
        client.send(&Call::post("/v1/locks/primary")).await.expect_problem(409, "kind_mismatch");
        kill_all_and_start_again(&mut cluster).await;
        for node in 0..3 {
            let told = leader(&cluster.client(node), "primary").await.expect_status(200);
            assert_eq!((told.string("value"), told.number("token"), told.number("version")), ("two", led.token, 1));
        }
        let client = cluster.client(1);
        assert!(client.fence_passes("primary", led.token).await && client.fence_passes("mutex", lock.token).await);
        client.send(&Call::post("/v1/locks/primary")).await.expect_problem(409, "kind_mismatch");
        client.send(&proclaims("primary", &led, "three")).await.expect_status(200);
        client.release(&led.id).await;
        leader(&client, "primary").await.expect_problem(404, "no_leader");
    });
}
