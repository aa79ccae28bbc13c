//! The client against a scripted server: what it repeats, with which key, and what the caller gets.

mod backups;
mod batches;
#[cfg(feature = "blocking")]
mod blocking;
mod foreign_servers;
mod grants;
mod members;
mod pages;
mod raw_calls;
mod reads;
mod renewals;
mod server;

use fairhold_client::{Client, Code, Error, Lost, margin};
use futures_util::future::poll_immediate;
use serde_json::{Value, json};
use server::{Action, Server, held, problem};
use std::{
    pin::pin,
    time::{Duration, Instant},
};

fn written() -> Action {
    Action::Answer(201, "", json!({"path": "/x", "version": 0, "revision": 7}))
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_write_is_repeated_with_the_same_key_and_respects_retry_after() {
    let server = Server::start(|_, before| match before {
        0 => Action::Close,
        1 => Action::Answer(503, "retry-after: 1\r\n", json!({"code": "no_quorum", "detail": "d"})),
        2 => Action::Answer(504, "", json!({"code": "deadline_exceeded", "detail": "d", "outcome": "unknown"})),
        _ => written(),
    })
    .await;
    let client = server.client(20 * SECOND);
    let start = Instant::now();
    let written = client.nodes().put("/x", "1").await.unwrap();
    assert_eq!(written.revision.0, 7);
    assert!(start.elapsed() >= SECOND, "the client ignored Retry-After: {:?}", start.elapsed());
    let keys: Vec<_> = server.recorded("PUT").into_iter().map(|request| request.key.unwrap()).collect();
    assert_eq!(keys, vec![keys[0].clone(); 4], "four attempts of one request");
    client.nodes().put("/x", "1").await.unwrap();
    assert_ne!(server.recorded("PUT")[4].key.as_ref(), Some(&keys[0]), "another request has another key");
}

#[tokio::test]
async fn an_unknown_outcome_is_distinguished_from_nothing_happened() {
    let breaks = Server::start(|_, _| Action::Close).await;
    let unknown = breaks.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    let Error::OutcomeUnknown { key: Some(key), .. } = unknown else { panic!("{unknown:?}") };
    assert_eq!(breaks.recorded("PUT")[0].key, Some(key.to_string()));
    let read = breaks.client(SECOND / 2).nodes().get("/x").await.unwrap_err();
    assert!(matches!(read, Error::Unavailable { .. }), "a read does nothing: {read:?}");

    let none = Server::start(|_, _| problem(503, "no_quorum")).await;
    let surely_not = none.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(surely_not, Error::Unavailable { .. }) && surely_not.is_retryable(), "{surely_not:?}");
    let busy = Server::start(|_, _| problem(429, "rate_limited")).await;
    let busy = busy.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy:?}");
    let nobody = Client::builder().endpoint("http://127.0.0.1:1").timeout(SECOND / 2).build().unwrap();
    let nobody = nobody.nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(nobody, Error::Unavailable { .. }), "{nobody:?}");
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let server = Server::start(|request, _| match request.line.starts_with("POST") {
        true => problem(409, "lock_held"),
        false => problem(412, "version_mismatch"),
    })
    .await;
    let client = server.client(10 * SECOND);
    assert!(matches!(client.lock("a").try_now().await, Err(Error::LockHeld { .. })));
    assert!(matches!(client.nodes().put("/x", "1").version(3).await, Err(Error::VersionMismatch { .. })));
    assert!(matches!(client.lock("a//b").await, Err(Error::Invalid(_))));
    client.settled().await;
    assert_eq!(server.requests.lock().unwrap().len(), 2, "the client repeated nothing and had nothing to take back");
}

#[tokio::test]
async fn the_reason_of_a_refusal_for_now_is_known_until_a_change_succeeds() {
    let server = Server::start(|request, before| match &request.line {
        line if line.starts_with("POST /v1/locks") && before == 0 => problem(503, "disk_low"),
        line if line.starts_with("GET") => Action::Answer(200, "fairhold-revision: 9\r\nfairhold-version: 0\r\n", json!(1)),
        line if line.starts_with("PUT") => written(),
        _ => Action::Hang,
    })
    .await;
    let client = server.client(10 * SECOND);
    assert_eq!(client.contact().refusal, None);
    {
        let mut acquire = pin!(client.lock("a").into_future());
        tokio::select! {
            _ = acquire.as_mut() => panic!("no server grants it"),
            posts = server.wait_for_requests("POST /v1/locks", 2) => assert_eq!(posts[0].key, posts[1].key),
        }
    }
    client.nodes().get("/x").await.unwrap().unwrap();
    let refusal = client.contact().refusal.unwrap();
    assert_eq!((refusal.code, refusal.detail.as_str()), (Some(Code::DiskLow), "scripted"), "a read changes nothing");
    client.nodes().put("/x", "1").await.unwrap();
    assert_eq!(client.contact().refusal, None);
}

#[tokio::test]
async fn the_refusal_of_a_credential_is_known_until_a_change_succeeds() {
    let server = Server::start(|_, before| if before == 0 { problem(401, "unauthenticated") } else { written() }).await;
    let client = server.client(10 * SECOND);
    let refused = client.nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(refused, Error::Refused { status: 401, .. }), "{refused:?}");
    assert_eq!(client.contact().refusal.unwrap().code, Some(Code::Unauthenticated));
    client.nodes().put("/x", "1").await.unwrap();
    assert_eq!(client.contact().refusal, None);
}

/// A retry makes no room: a request for a lock without a time limit must not be retried for ever.
#[tokio::test]
async fn a_full_state_is_an_error_at_once_and_is_not_retried() {
    let server = Server::start(|_, _| problem(429, "state_full")).await;
    let client = server.client(10 * SECOND);
    let start = Instant::now();
    for error in [client.lock("a").await.unwrap_err(), client.nodes().put("/x", "1").await.unwrap_err()] {
        assert!(matches!(&error, Error::StateFull { detail, .. } if detail == "scripted") && !error.is_retryable(), "{error:?}");
    }
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    client.settled().await;
    assert_eq!(server.requests.lock().unwrap().len(), 2, "the client repeated nothing");
}

#[tokio::test]
async fn a_broken_acquire_is_repeated_with_its_key_and_an_ended_one_with_a_new_key() {
    let server = Server::start(|request, before| match before {
        0 => Action::Close,
        1 => Action::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "expired"})),
        _ => held(request),
    })
    .await;
    let guard = server.client(10 * SECOND).lock("a").await.unwrap();
    assert_eq!(guard.token().unwrap().0, 42);
    let keys: Vec<_> = server.recorded("POST /v1/locks").into_iter().map(|request| request.key.unwrap()).collect();
    assert_eq!((keys.len(), keys[0] == keys[1], keys[1] == keys[2]), (3, true, false));
    assert_eq!(server.recorded("POST /v1/locks")[0].body["ttl"], "30s");
}

#[tokio::test]
async fn a_guard_whose_renewals_get_no_answer_is_lost_before_its_ttl_and_released() {
    let server = Server::start(|request, _| match &request.line {
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    })
    .await;
    let client = server.client(10 * SECOND);
    let before = Instant::now();
    let guard = client.lock("a").ttl(2 * SECOND).await.unwrap();
    assert_eq!(guard.lost().await, Lost::CutOff);
    let after = before.elapsed();
    assert!(after <= 2 * SECOND - margin(2 * SECOND) + SECOND / 2, "it was lost only after {after:?}");
    assert_eq!(guard.token(), Err(Error::Lost(Lost::CutOff)));
    let renewals = server.recorded("POST /v1/grants");
    assert!(renewals.len() >= 2, "the client tries a hanging node again: {renewals:?}");
    drop(guard);
    assert_eq!(server.wait_for_requests("DELETE", 1).await.len(), 1);
}

#[tokio::test]
async fn work_under_a_lock_is_dropped_when_the_lock_is_lost() {
    let server = Server::start(|request, _| match &request.line {
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "broken"})),
    })
    .await;
    let work = server.client(10 * SECOND).lock("a").ttl(SECOND).run(|_| std::future::pending::<()>()).await;
    assert_eq!(work, Err(Error::Lost(Lost::Broken)));
}

#[tokio::test]
async fn a_silent_node_is_left_for_another_with_the_same_key() {
    let silent = Server::start(|_, _| Action::Hang).await;
    let server = Server::start(|request, _| held(request)).await;
    let mut posts_at_silent = 0;
    // The client tries the nodes in turn, so one of two calls starts with the silent one.
    let client = Client::builder().endpoint(&silent.url).endpoint(&server.url).discover(false).build().unwrap();
    for _ in 0..2 {
        let guard = client.lock("a").ttl(2 * SECOND).await.unwrap();
        let keys = server.recorded("POST /v1/locks");
        let requests = silent.recorded("POST /v1/locks");
        if requests.len() > posts_at_silent {
            posts_at_silent = requests.len();
            assert_eq!(requests[posts_at_silent - 1].key, keys[keys.len() - 1].key);
        }
        guard.forget();
    }
    assert!(posts_at_silent > 0, "the client never tried the silent node");
}

#[tokio::test]
async fn an_acquire_dropped_before_its_answer_is_taken_back_and_one_never_sent_is_not() {
    let server = Server::start(|request, before| match &request.line {
        line if line.starts_with("POST") => Action::Hang,
        // The first attempts to take it back fail.
        _ if before < 2 => Action::Close,
        _ => Action::Answer(204, "", Value::Null),
    })
    .await;
    let client = server.client(10 * SECOND);
    drop(client.lock("a").into_future());
    client.settled().await;
    assert!(server.requests.lock().unwrap().is_empty());

    let mut acquire = client.lock("a").into_future();
    assert!(poll_immediate(&mut acquire).await.is_none());
    {
        let mut acquire = pin!(&mut acquire);
        tokio::select! {
            _ = acquire.as_mut() => panic!("no server answers"),
            posts = server.wait_for_requests("POST /v1/locks", 1) => assert_eq!(posts.len(), 1),
        }
    }
    drop(acquire);
    client.settled().await;
    let key = server.recorded("POST /v1/locks")[0].key.clone().unwrap();
    let deletes = server.recorded("DELETE");
    assert_eq!(deletes.len(), 3, "{deletes:?}");
    assert!(deletes.iter().all(|request| request.line.contains(&key)));
}
