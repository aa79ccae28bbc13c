//! Elections over HTTP: every node reports each leader, once and in order, even to an observer that returns.

use crate::{
    access::Guarded,
    all_killed::kill_all_and_start_again,
    client::{Answer, Call, Client, Grant, whole},
    harness::{Cluster, LONG, SHORT, all, eventually, report, run_exclusive, run_parallel},
    queue::wait_for_contenders,
    trial,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, process::Stdio, time::Instant};
use tokio::process::{Child, Command};

/// Observers of the election whose leaders are killed.
const OBSERVERS: usize = 20;

/// Candidates at any time.
const CANDIDATES: usize = 3;

/// How long a leader's grant outlives its process.
const LEASE: &str = "2s";

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

/// The lines of a stream, without bookmarks, up to and including the one that matches.
async fn lines(client: &Client, node: usize, path: &str, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut response = client.stream_from(node, path, &[LINES]).await.expect("the node runs");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let (mut text, mut lines) = (Vec::new(), Vec::new());
    loop {
        text.extend_from_slice(&response.chunk().await.expect("the connection is open").expect("the stream continues"));
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Value = serde_json::from_slice(&text.drain(..=end).collect::<Vec<u8>>()).expect("JSON");
            let reached = is_last(&line);
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
fn every_node_names_the_leader_even_to_an_observer_that_returns() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        leader(&client, "primary").await.expect_problem(404, "no_leader");
        let ann = leads(&client, "primary", "value=http://a&ttl=60s&owner=ann").await;
        let reported = leader(&client, "primary").await.expect_status(200);
        assert_eq!(
            (reported.string("value"), reported.number("token"), &reported.json["leader"]["owner"]),
            ("http://a", ann.token, &"ann".into())
        );
        client.send(&Call::post("/v1/elections/primary?value=http://b")).await.expect_problem(409, "lock_held");
        let call = proclaims("primary", &ann, "http://a2");
        let first = client.send(&call).await.expect_status(200);
        assert_eq!(client.send(&call).await.expect_status(200).number("version"), first.number("version"), "the same key again");

        // Only changes of the leader count, not those of the queue.
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
        leader(&client, "primary").await.expect_problem(404, "no_leader");

        let from = format!("/v1/elections/primary?from={}", ann.token);
        let expected: Vec<Value> = vec![
            json!(["elected", "http://a", ann.token]),
            json!(["proclaimed", "http://a2", ann.token]),
            json!(["elected", "http://b", bob.number("token")]),
            json!(["vacant", null, null]),
        ];
        for node in 0..3 {
            // Not up to the revision of that answer: it may have no events, and then no line names it until the next
            // event.
            let reported = lines(&cluster.client(node), node, &from, |line| line["type"] == "vacant").await;
            let reported: Vec<Value> = reported.iter().map(|line| json!([line["type"], line["value"], line["token"]])).collect();
            assert_eq!(reported, expected, "at node {node}");
            let now = lines(&cluster.client(node), node, "/v1/elections/primary", |_| true).await;
            assert_eq!(now[0]["type"], "vacant");
        }
    });
}

/// The elections on this page: the names, and the cursor of the next page.
async fn listed(client: &Client, query: &str) -> (Vec<String>, Option<String>) {
    let page = client.send(&Call::get(&format!("/v1/elections{query}"))).await.expect_status(200);
    assert_eq!(page.header("link").is_some(), page.json["next_cursor"].is_string(), "{page:?}");
    (names(&page), page.json["next_cursor"].as_str().map(str::to_owned))
}

fn names(page: &Answer) -> Vec<String> {
    let items = page.json["items"].as_array().unwrap_or_else(|| panic!("no items: {page:?}"));
    items.iter().map(|item| item["election"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn elections_are_listed_page_by_page_with_their_leaders() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        client.acquire("mutex", "ttl=10m").await;
        assert_eq!(listed(&client, "").await, (Vec::new(), None), "a lock is no election");
        let ann = leads(&client, "app%2Fa", "value=http://a&ttl=10m&owner=ann").await;
        let left = leads(&client, "app%2Fb", "value=http://b&ttl=10m").await;
        leads(&client, "cron", "ttl=10m&owner=carl").await;
        for _ in 0..2 {
            let waits = Call::post("/v1/elections/app%2Fa?value=http://c&ttl=10m").with("prefer", "respond-async");
            client.send(&waits).await.expect_status(202);
        }
        client.send(&proclaims("app%2Fa", &ann, "http://a2")).await.expect_status(200);
        client.release(&left.id).await;

        let all = ["app/a", "app/b", "cron"].map(str::to_owned);
        for node in 0..3 {
            let (first, cursor) = listed(&cluster.client(node), "?limit=2").await;
            let (rest, last) = listed(&cluster.client(node), &format!("?limit=2&cursor={}", cursor.expect("more"))).await;
            assert_eq!(([first, rest].concat(), last), (all.to_vec(), None), "at node {node}");
        }
        assert_eq!(listed(&client, "?prefix=app%2F").await, (all[..2].to_vec(), None));
        assert_eq!(listed(&client, "?prefix=app%2F&limit=2").await, (all[..2].to_vec(), None), "a full page may be the last");
        assert_eq!(listed(&client, "?prefix=none").await, (Vec::new(), None));
        for query in ["limit=0", "limit=1001", "cursor=00", "cursor=x", "sort=name"] {
            client.send(&Call::get(&format!("/v1/elections?{query}"))).await.expect_problem(400, "bad_request");
        }

        let page = cluster.client(1).send(&Call::get("/v1/elections")).await.expect_status(200);
        let [led, vacant, empty] = [0_usize, 1, 2].map(|index| &page.json["items"][index]);
        let shown = leader(&cluster.client(1), "app%2Fa").await.expect_status(200);
        assert_eq!((&led["value"], &led["token"], &led["waiting"]), (&"http://a2".into(), &ann.token.into(), &2.into()));
        for field in ["number", "owner", "since", "token"] {
            assert!(!led["leader"][field].is_null() && led["leader"][field] == shown.json["leader"][field], "{led}");
        }
        assert_eq!(vacant, &json!({ "election": "app/b", "waiting": 0 }));
        assert_eq!((&empty["value"], &empty["leader"]["owner"]), (&"".into(), &"carl".into()));
    });
}

#[test]
fn a_page_of_elections_ends_early_if_their_values_are_long() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let value = "x".repeat(4_096);
        let all: Vec<String> = (0..66).map(|number| format!("e{number:02}")).collect();
        for name in &all {
            let stand = Call::post(&format!("/v1/elections/{name}")).json(&json!({ "value": value, "ttl": "10m" }));
            client.send(&stand).await.expect_status(200);
        }
        let (first, cursor) = listed(&client, "?limit=1000").await;
        assert_eq!(first, all[..64], "256 KiB of values");
        let (rest, last) = listed(&client, &format!("?limit=1000&cursor={}", cursor.expect("more"))).await;
        assert_eq!((rest, last), (all[64..].to_vec(), None));
        let (exact, cursor) = listed(&client, "?limit=64").await;
        assert_eq!((exact.len(), cursor.is_some()), (64, true));
    });
}

#[test]
fn a_list_of_elections_has_only_those_that_the_caller_may_inspect() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let none = guarded.user("without-role").await;
        for name in ["aside", "deploy%2Fa", "deploy%2Fb", "deployed", "secret"] {
            let stand = Call::post(&format!("/v1/elections/{name}?value=x&ttl=60s"));
            root.send(stand).await.expect_status(200);
        }
        let (mut seen, mut query) = (Vec::new(), "?limit=1".to_owned());
        loop {
            let page = ci.send(Call::get(&format!("/v1/elections{query}"))).await.expect_status(200);
            assert!(!page.text.contains("secret"), "{page:?}");
            seen.extend(names(&page));
            let Some(cursor) = page.json["next_cursor"].as_str() else { break };
            query = format!("?limit=1&cursor={cursor}");
        }
        assert_eq!(seen, ["deploy/a", "deploy/b"]);
        assert_eq!(names(&root.send(Call::get("/v1/elections")).await.expect_status(200)).len(), 5);
        let hidden = none.send(Call::get("/v1/elections")).await.expect_status(200);
        assert_eq!((names(&hidden).len(), &hidden.json["next_cursor"]), (0, &Value::Null));
    });
}

#[test]
fn a_name_is_a_lock_or_an_election_and_both_survive_the_kill_of_all_nodes() {
    run_exclusive(LONG, async {
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
            let reported = leader(&cluster.client(node), "primary").await.expect_status(200);
            assert_eq!((reported.string("value"), reported.number("token"), reported.number("version")), ("two", led.token, 1));
            assert_eq!(listed(&cluster.client(node), "").await, (vec!["primary".to_owned()], None), "at node {node}");
        }
        let client = cluster.client(1);
        assert!(client.fence_passes("primary", led.token).await && client.fence_passes("mutex", lock.token).await);
        client.send(&Call::post("/v1/locks/primary")).await.expect_problem(409, "kind_mismatch");
        client.send(&proclaims("primary", &led, "three")).await.expect_status(200);
        client.release(&led.id).await;
        leader(&client, "primary").await.expect_problem(404, "no_leader");
    });
}

/// A candidate process, which leads until it is killed.
fn candidate(cluster: &Cluster, number: usize) -> (String, Child) {
    let urls: Vec<&str> = cluster.nodes.iter().map(|node| node.url.as_str()).collect();
    let value = format!("candidate-{number}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.args(["elect", "primary", "--ttl", LEASE, "--value", &value, "-q", "--", "sleep", "600"]);
    command.env("FAIRHOLD_ENDPOINT", urls.join(",")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    (value, command.kill_on_drop(true).spawn().expect("fairhold elect starts"))
}

/// Waits for a leader with another token, and returns its token and value.
async fn next_leader(client: &Client, before: u64) -> (u64, String) {
    eventually("another candidate leads", SHORT, || async {
        let reported = leader(client, "primary").await;
        let is_new = reported.status == 200 && reported.number("token") > before;
        is_new.then(|| (reported.number("token"), reported.string("value").to_owned()))
    })
    .await
}

async fn kill(candidates: &mut BTreeMap<String, Child>, value: &str) {
    let mut process = candidates.remove(value).expect("it is a candidate");
    process.kill().await.expect("a child can be killed");
}

#[test]
fn all_observers_of_an_election_see_the_same_leaders_while_leaders_are_killed() {
    let kills = trial::size(2, 10);
    run_exclusive(LONG, async move {
        let cluster = Cluster::start().await;
        let (client, began) = (cluster.client(0), Instant::now());
        let mut to_come = (0..).map(|number| candidate(&cluster, number));
        let mut candidates: BTreeMap<String, Child> = to_come.by_ref().take(1).collect();
        let mut led = vec![next_leader(&client, 0).await];
        candidates.extend(to_come.by_ref().take(CANDIDATES - 1));
        let from = format!("/v1/elections/primary?from={}", led[0].0);
        let mut observers = Vec::new();
        let mut observe = |count: usize| {
            for _ in 0..count {
                let (node, from) = (observers.len() % 3, from.clone());
                let client = cluster.client(node);
                observers.push(tokio::spawn(async move { lines(&client, node, &from, |line| line["type"] == "vacant").await }));
            }
        };
        // Half of them watch from the start; the others join between the kills, and receive the earlier events.
        observe(OBSERVERS / 2);
        for _ in 0..kills {
            wait_for_contenders(&client, "primary", CANDIDATES).await;
            let (token, value) = led.last().expect("there was a leader from the start").clone();
            kill(&mut candidates, &value).await;
            led.push(next_leader(&client, token).await);
            candidates.extend(to_come.next());
            observe(OBSERVERS / 2 / kills);
        }
        // Kill the waiters first, so that no candidate leads after the last leader.
        let (_, last) = led.last().expect("there was a leader from the start").clone();
        let waiting: Vec<String> = candidates.keys().filter(|value| **value != last).cloned().collect();
        for value in &waiting {
            kill(&mut candidates, value).await;
        }
        wait_for_contenders(&client, "primary", 1).await;
        kill(&mut candidates, &last).await;

        let seen = all(observers).await;
        report(&format!(
            "elections: {} observers saw the same {} leaders through {kills} kills of the leader, in {:.1?}",
            seen.len(),
            led.len(),
            began.elapsed()
        ));
        assert_eq!((seen.len(), led.len()), (OBSERVERS, kills + 1));
        let reported = |line: &Value| json!([line["type"], line["token"], line["value"]]);
        let expected = led.iter().map(|(token, value)| json!(["elected", token, value]));
        let expected: Vec<Value> = expected.chain([json!(["vacant", null, null])]).collect();
        for lines in &seen {
            assert_eq!(lines.iter().map(reported).collect::<Vec<_>>(), expected, "the same leaders for all");
            assert_eq!(lines, &seen[0], "and the same lines in every other field");
            let revisions: Vec<u64> = lines.iter().map(|line| whole(line, "revision")).collect();
            assert!(revisions.is_sorted_by(|a, b| a < b), "each change has its own revision: {revisions:?}");
            for line in &lines[..led.len()] {
                assert_eq!(line["revision"], line["token"], "a leader's token is the revision of its election: {line}");
            }
        }
    });
}
