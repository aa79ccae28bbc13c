//! Every changing call acts once, even if it arrives twice, late, or after the caller has undone it.
//!
//! For each changing call of the API, a paused follower delays the first attempt. The same request succeeds at another
//! server, and the caller undoes it. Then the follower resumes and the first attempt arrives: nothing may change. A
//! call of `proto/openapi.json` without a row fails the test. The test also writes the table of `docs/acts-once.md`.

#[path = "acts_once/rows.rs"]
mod rows;

use crate::{
    client::{Answer, Call, Client},
    harness::{Cluster, LONG, all, run_exclusive},
    watching::Watching,
};
use rows::{Other, Row, Stage};
use rustix::process::Signal;
use serde_json::Value;
use std::{fmt::Write, fs, time::Duration};

const PAGE: &str = "../../docs/acts-once.md";
const DESCRIPTION: &str = include_str!("../../proto/openapi.json");
/// The maximum time of a first attempt, including the follower's pause.
const ARRIVES_WITHIN: Duration = Duration::from_secs(100);
/// Runs last: it moves the leadership, and the other rows need the leader in its place.
const LAST: &str = "handOver";

/// The changing operations, as `METHOD path` and name.
fn operations() -> Vec<(String, String)> {
    let description: Value = serde_json::from_str(DESCRIPTION).expect("the description is JSON");
    let mut operations = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for method in ["post", "put", "patch", "delete"] {
            if let Some(name) = methods[method]["operationId"].as_str() {
                operations.push((format!("{} {path}", method.to_uppercase()), name.to_owned()));
            }
        }
    }
    operations.sort_by_key(|(_, name)| name == LAST);
    operations
}

/// Sends the request to a running server, shows that its key refuses another request, and undoes it.
async fn act_and_undo(client: &Client, row: &Row) {
    let done = client.send(&row.first).await;
    assert_eq!(done.status, row.done, "{}: {done:?}", row.operation);
    let again = client.send(&row.first).await;
    assert_eq!(again.status, row.again, "{} again: {again:?}", row.operation);
    match &row.other {
        Other::Refused(other) => drop(client.send(other).await.expect_problem(422, "idempotency_mismatch")),
        Other::Within(other) => {
            let answer = client.send(other).await.expect_status(200);
            assert_eq!(answer.json["answers"][0]["status"], 422, "{answer:?}");
        }
        Other::None(_) => {}
    }
    for undo in (row.undo)(&done) {
        let undone = client.send(&undo).await;
        assert!((200..300).contains(&undone.status), "{} is undone: {undone:?}", row.operation);
    }
}

/// Asserts that nothing changed after a revision, except that the sentinel was written last.
async fn assert_nothing_happened(client: &Client, at: usize, after: u64) {
    let mut watching = Watching::open(client, at, &format!("from={}", after + 1)).await;
    client.write(&Call::put("/v1/nodes/sentinel", "")).await;
    loop {
        let line = watching.raw().await.expect("the watch continues").expect("the watch continues");
        let event: Value = serde_json::from_str(&line).expect("a line of JSON");
        match (event["type"].as_str(), event["path"].as_str()) {
            (Some("bookmark"), _) => {}
            (Some("created"), Some("/sentinel")) => return,
            _ => panic!("a first try that arrived late changed something: {line}"),
        }
    }
}

#[test]
fn a_first_try_that_arrives_after_its_retry_was_undone_changes_nothing() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [awake, asleep] = cluster.followers().await;
        let url = |index: usize| cluster.nodes[index].url.clone();
        // As many callers as nodes; none of them sleeps.
        let client = cluster.client(0).of(vec![url(leader), url(awake), url(leader)]);
        let stage = Stage::new(&client, cluster.nodes[leader].id, cluster.nodes[awake].id).await;
        let mut rows = Vec::new();
        for (route, operation) in operations() {
            rows.push(stage.row(&route, &operation).await);
        }

        cluster.nodes[asleep].signal(Signal::STOP);
        let late: Vec<_> = rows.iter().map(|row| row.first.clone().within(ARRIVES_WITHIN)).collect();
        let sleeping = cluster.client(asleep);
        let late = late.into_iter().map(|call| {
            let client = sleeping.clone();
            tokio::spawn(async move { client.send_to(asleep, &call).await })
        });
        let late: Vec<_> = late.collect();
        for row in &rows {
            act_and_undo(&client, row).await;
        }
        let before = client.send(&Call::get("/v1/cluster")).await;
        let access_before = client.send(&Call::get("/v1/access")).await.expect_status(200).json;

        cluster.nodes[asleep].signal(Signal::CONT);
        let arrived: Vec<Answer> = all(late).await.into_iter().map(|answer| answer.expect("it is answered")).collect();
        for (row, answer) in rows.iter().zip(&arrived) {
            assert!(answer.status != 503, "{}: the first try was refused, so it proves nothing: {answer:?}", row.operation);
        }
        assert_nothing_happened(&client, 0, before.revision()).await;
        let after = client.send(&Call::get("/v1/cluster")).await;
        for field in ["leader", "term"] {
            assert_eq!(before.number(field), after.number(field), "the leader has changed");
        }
        // No watch shows the access data.
        assert_eq!(client.send(&Call::get("/v1/access")).await.json, access_before, "a late first try changed access data");
        assert_page(&rows);
    });
}

fn assert_page(rows: &[Row]) {
    let mut table =
        String::from("| call | what it did | what the caller did then | its key with another request |\n|---|---|---|---|\n");
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.route.clone());
    for row in rows {
        let (did, undid) = row.words;
        writeln!(table, "| `{}` | {did} | {undid} | {} |", row.route, row.other).expect("writing to a string succeeds");
    }
    let text = fs::read_to_string(PAGE).expect("the page is there");
    let (head, rest) = text.split_once("<!-- table -->\n").expect("the page marks its table");
    let (_, tail) = rest.split_once("<!-- end of table -->\n").expect("the page marks the end of its table");
    let wanted = format!("{head}<!-- table -->\n{table}<!-- end of table -->\n{tail}");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(PAGE, &wanted).expect("the page can be written");
    } else {
        assert_eq!(text, wanted, "the page differs from the tested rows: UPDATE_GOLDENFILES=1 rewrites it");
    }
}
