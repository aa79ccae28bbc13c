//! Raw calls: what is repeated, what counts as an answer, and streams.

use crate::{
    SECOND,
    server::{Action, Server, problem},
};
use fairhold_client::{CallEvent, Client, Error, Method, RawResponse, StatusCode};
use serde_json::{Value, json};
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

#[tokio::test]
async fn a_raw_call_is_repeated_with_its_key_and_returns_the_body_unchanged() {
    let server = Server::start(|_, before| match before {
        0 => Action::Close,
        1 => problem(503, "no_quorum"),
        _ => Action::Answer(409, "x-more: yes\r\n", json!({"code": "of_next_year", "detail": "d", "more": 1})),
    })
    .await;
    let client = server.client(10 * SECOND);
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&events);
    let note = move |event: CallEvent<'_>| {
        let text = match event {
            CallEvent::Started { .. } => "started".to_owned(),
            CallEvent::Failed { why, .. } => why.to_owned(),
            _ => "unknown".to_owned(),
        };
        recorder.lock().unwrap().push(text);
    };
    let call = client.call(Method::POST, "/v1/locks/a").query("owner", "a b").new_key().json(&json!({"ttl": "30s"}));
    let reply = call.on_event(note).send().await.unwrap();
    assert_eq!((reply.status, reply.headers["x-more"].to_str().unwrap()), (StatusCode::CONFLICT, "yes"));
    assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap()["more"], 1);
    assert!(reply.after_unknown, "the first attempt may have been carried out");
    let posts = server.recorded("POST /v1/locks/a?owner=a%20b ");
    assert!(posts.len() == 3 && posts.iter().all(|request| request.key == posts[0].key && request.key.is_some()), "{posts:?}");
    assert_eq!(posts[0].body["ttl"], "30s");
    let events = events.lock().unwrap();
    assert_eq!(events.iter().filter(|event| *event == "started").count(), 3, "{events:?}");
    assert!(events.iter().any(|event| event.contains("scripted")), "{events:?}");
}

#[tokio::test]
async fn a_raw_call_that_is_not_idempotent_is_not_repeated_after_an_unknown_outcome() {
    let server = Server::start(|_, before| if before == 0 { problem(503, "no_quorum") } else { Action::Close }).await;
    let client = server.client(10 * SECOND);
    let error = client.call(Method::POST, "/v1/x").send().await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
    assert_eq!(server.recorded("POST").len(), 2, "the first attempt did nothing");
    let error = client.call(Method::GET, "/v1/x").timeout(SECOND / 2).send().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "a read does nothing: {error:?}");
    let limited = Server::start(|_, _| problem(429, "queue_full")).await;
    let reply = limited.client(SECOND).call(Method::POST, "/v1/x").send().await.unwrap();
    assert_eq!((reply.status.as_u16(), limited.recorded("POST").len()), (429, 1));
}

#[tokio::test]
async fn all_attempts_together_wait_no_longer_than_one_would() {
    let is_first = AtomicBool::new(true);
    let server = Server::start(move |_, _| match is_first.swap(false, Ordering::SeqCst) {
        true => Action::Close,
        false => Action::Answer(304, "", Value::Null),
    })
    .await;
    let call = server.client(SECOND).call(Method::GET, "/v1/locks").flag("meta").wait(10 * SECOND);
    assert_eq!(call.send().await.unwrap().status, StatusCode::NOT_MODIFIED);
    let lines: Vec<String> = server.recorded("GET").into_iter().map(|request| request.line).collect();
    assert!(lines[0].starts_with("GET /v1/locks?meta&wait=") && lines.len() == 2, "{lines:?}");
    assert_ne!(lines[0], lines[1], "the second attempt waits only for what is left");
}

/// The token expires while the call waits, and its file has the next one by then.
#[tokio::test]
async fn a_wait_that_a_node_ends_because_of_the_token_goes_on_only_if_it_is_a_read() {
    for method in [Method::GET, Method::POST] {
        let file = std::env::temp_dir().join(format!("fairhold-raw-{method}-{}", std::process::id()));
        fs::write(&file, "first").unwrap();
        let next = file.clone();
        let is_first = AtomicBool::new(true);
        let server = Server::start(move |_, _| match is_first.swap(false, Ordering::SeqCst) {
            true => {
                fs::write(&next, "second").unwrap();
                Action::RefusedLater(SECOND / 2)
            }
            false => Action::Answer(200, "", Value::Null),
        })
        .await;
        let builder = Client::builder().endpoint(&server.url).discover(false).timeout(10 * SECOND);
        let client = builder.auth_token_file(&file).build().unwrap();
        let call = client.call(method.clone(), "/v1/locks/a").new_key().wait(10 * SECOND).attempt_timeout(SECOND / 5);
        let status = call.send().await.unwrap().status;
        fs::remove_file(&file).unwrap();
        let lines: Vec<String> = server.recorded("").into_iter().map(|request| request.line).collect();
        if method == Method::GET {
            assert_eq!((status, lines.len()), (StatusCode::OK, 2), "{lines:?}");
            assert_ne!(lines[0], lines[1], "the second attempt waits only for what is left");
        } else {
            assert_eq!((status, lines.len()), (StatusCode::UNAUTHORIZED, 1), "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_raw_call_to_foreign_servers_alone_fails_at_once() {
    let foreign = Server::start(|_, _| Action::Foreign(200, "", "<html>".to_owned())).await;
    let unformed = Server::start(|_, _| Action::Foreign(200, "fairhold-request-id: 1-abc-1\r\n", "ok".to_owned())).await;
    let client = Client::builder().endpoint(&unformed.url).discover(false).timeout(600 * SECOND).build().unwrap();
    let error = client.call(Method::GET, "/livez").endpoints([&foreign.url]).send().await.unwrap_err();
    assert!(error.to_string().contains("is not a node of this cluster"), "{error}");
    assert_eq!(client.call(Method::GET, "/livez").send().await.unwrap().body, b"ok");
    for call in [client.call(Method::GET, "v1"), client.call(Method::GET, "/v1").header("a b", "c")] {
        assert!(matches!(call.send().await, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn a_stream_is_read_line_by_line_or_chunk_by_chunk_and_a_refusal_is_whole() {
    let server = Server::start(|request, _| match request.line.contains("/refused") {
        true => problem(410, "compacted"),
        false => Action::Answer(200, "", json!("first\nsecond")),
    })
    .await;
    let client = server.client(10 * SECOND);
    let RawResponse::Reply(reply) = client.call(Method::GET, "/refused").open().await.unwrap() else { panic!("no reply") };
    assert!(reply.status == StatusCode::GONE && reply.body.starts_with(b"{"));
    let RawResponse::Stream(mut stream) = client.call(Method::GET, "/lines").open().await.unwrap() else { panic!("no stream") };
    assert!(stream.status() == StatusCode::OK && stream.headers()["content-length"] == "15");
    let mut body = Vec::new();
    while let Some(chunk) = stream.chunk(SECOND).await.unwrap() {
        body.extend(chunk);
    }
    assert_eq!(body, br#""first\nsecond""#);
    let broken = stream.line(SECOND).await.unwrap_err();
    assert!(matches!(broken, Error::Unavailable { .. }), "{broken:?}");
}
