//! Calls that many tasks of a session make at once share one request, and stay as safe as separate requests.

use crate::{
    SECOND,
    server::{Action, RecordedRequest, Server, held, problem},
};
use fairhold_client::{Error, Guard, Session};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TASKS: usize = 3;
const SESSION: &str = "0123456789abcdef0123456789abcdef";

/// Answers everything except batches, which the script answers.
fn other_calls(request: &RecordedRequest) -> Action {
    match &request.line {
        line if line.starts_with("POST /v1/sessions ") => {
            Action::Answer(201, "", json!({"id": SESSION, "number": 40, "ttl": "30s", "expires_in": "30s"}))
        }
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    }
}

fn calls(request: &RecordedRequest) -> Vec<Value> {
    request.body["calls"].as_array().cloned().unwrap_or_default()
}

/// Grants every acquire of a batch and makes every release.
fn answers(request: &RecordedRequest) -> Vec<Value> {
    let answer = |(index, call): (usize, &Value)| match call["acquire"]["id"].as_str() {
        Some(id) => {
            let number = 41 + index;
            json!({"status": 200, "body": {"id": id, "lock": call["acquire"]["lock"], "state": "held", "token": number,
                "mode": "exclusive", "owner": "o", "number": number, "session": 40, "permits": 1, "queued_at": "now"}})
        }
        None => json!({"status": 204}),
    };
    calls(request).iter().enumerate().map(answer).collect()
}

fn done(request: &RecordedRequest) -> Action {
    Action::Answer(200, "", json!({ "answers": answers(request) }))
}

fn is_batch(request: &RecordedRequest) -> bool {
    request.line.starts_with("POST /v1/batch ")
}

async fn take(session: &Session) -> Vec<Result<Guard, Error>> {
    let names = (0..TASKS).map(|task| format!("lock-{task}"));
    join_all(names.map(|name| session.lock(&name).wait(10 * SECOND).into_future())).await
}

fn ids(request: &RecordedRequest, kind: &str) -> BTreeSet<String> {
    calls(request).iter().filter_map(|call| Some(call[kind]["id"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn simultaneous_calls_share_one_request_and_each_gets_its_own_answer() {
    let server = Server::start(|request, _| if is_batch(request) { done(request) } else { other_calls(request) }).await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let guards: Vec<Guard> = take(&session).await.into_iter().map(Result::unwrap).collect();
    for (task, guard) in guards.iter().enumerate() {
        assert_eq!((guard.lock().as_str(), guard.token().unwrap().0), (&*format!("lock-{task}"), 41 + task as u64));
    }
    let taken = server.recorded("POST /v1/batch")[0].clone();
    assert!(calls(&taken).iter().all(|call| call["acquire"]["queue"] == true), "{taken:?}");
    join_all(guards.into_iter().map(Guard::release)).await.into_iter().for_each(Result::unwrap);
    let batches = server.recorded("POST /v1/batch");
    assert_eq!(batches.len(), 2, "{batches:?}");
    assert_eq!(ids(&batches[0], "acquire"), ids(&batches[1], "release"), "each acquired grant is released");
    assert!(server.recorded("POST /v1/locks").is_empty() && server.recorded("DELETE").is_empty());
}

#[tokio::test]
async fn a_batch_without_an_answer_is_repeated_with_the_same_ids() {
    let server = Server::start(|request, before| match (is_batch(request), before) {
        (true, 0) => Action::Close,
        (true, 1) => Action::Answer(200, "", json!({"answers": []})),
        (true, 2) => problem(503, "no_quorum"),
        (true, _) => done(request),
        (false, _) => other_calls(request),
    })
    .await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let guards: Vec<Guard> = take(&session).await.into_iter().map(Result::unwrap).collect();
    let requests: BTreeSet<String> =
        server.recorded("POST /v1/batch").iter().flat_map(|request| ids(request, "acquire")).collect();
    let taken: BTreeSet<String> = guards.iter().map(|guard| guard.id().to_string()).collect();
    assert_eq!(requests, taken, "every attempt of an acquire has the same id");
}

#[tokio::test]
async fn one_call_of_a_batch_can_fail_without_the_others() {
    let server = Server::start(|request, _| {
        if !is_batch(request) {
            return other_calls(request);
        }
        let mut answers = answers(request);
        if ids(request, "acquire").len() == TASKS {
            answers[1] = json!({"status": 409, "body": {"code": "would_deadlock", "detail": "scripted"}});
        }
        Action::Answer(200, "", json!({ "answers": answers }))
    })
    .await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let taken = take(&session).await;
    assert!(taken[0].is_ok() && taken[2].is_ok(), "{taken:?}");
    assert!(matches!(taken[1], Err(Error::Refused { status: 409, .. })), "{taken:?}");
}

#[tokio::test]
async fn calls_that_a_node_refuses_as_a_batch_are_sent_one_by_one() {
    // One node has no batches, the other does not understand one of the calls.
    for (status, code) in [(404, "not_found"), (400, "bad_request")] {
        let refused =
            move |request: &RecordedRequest, _| if is_batch(request) { problem(status, code) } else { other_calls(request) };
        let server = Server::start(refused).await;
        let client = server.client(10 * SECOND);
        let session = client.session().await.unwrap();
        let taken = take(&session).await;
        assert!(taken.iter().all(Result::is_ok), "{taken:?}");
        assert_eq!(server.recorded("POST /v1/locks").len(), TASKS);
    }
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_answer_releases_what_it_may_hold() {
    let server = Server::start(|request, _| match is_batch(request) && ids(request, "release").is_empty() {
        true => Action::Hang,
        false if is_batch(request) => done(request),
        false => other_calls(request),
    })
    .await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let asking = tokio::spawn(async move { take(&session).await });
    let requests = server.wait_for_requests("POST /v1/batch", 1).await;
    asking.abort();
    let given_back = server.wait_for_requests("POST /v1/batch", 2).await;
    assert_eq!(ids(&given_back[1], "release"), ids(&requests[0], "acquire"));
    // An acquire that is still in flight acquires nothing for as long as the session lives.
    let named = calls(&given_back[1]).iter().all(|call| call["release"]["session"] == SESSION);
    assert!(named, "{:?}", given_back[1]);
}
