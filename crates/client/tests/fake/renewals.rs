//! Renewals: which answers count, and how renewals share requests.

use crate::{
    SECOND,
    server::{Action, RecordedRequest, Server, held, problem, renewed},
};
use fairhold_client::Guard;
use futures_util::future::{join_all, poll_immediate, select_all};
use serde_json::{Value, json};
use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// Answers everything except renewals, which the script answers.
fn other_calls(request: &RecordedRequest) -> Action {
    match &request.line {
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("POST /v1/sessions ") => {
            let id = "0123456789abcdef0123456789abcdef";
            Action::Answer(201, "", json!({"id": id, "number": 40, "ttl": "60s", "expires_in": "60s"}))
        }
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    }
}

fn is_renewal(request: &RecordedRequest) -> bool {
    ["/renew ", "/keepalive ", "/batch "].iter().any(|call| request.line.contains(call))
}

#[tokio::test]
async fn an_answer_that_does_not_name_the_grant_keeps_nothing_alive() {
    let other = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for body in [
        Value::Null,
        json!("<html>"),
        json!({}),
        json!({"expires_in": "30s", "expires_at": "then"}),
        json!({"id": other, "ttl": "30s", "expires_in": "30s", "expires_at": "then"}),
    ] {
        let answer = body.clone();
        let server = Server::start(move |request, _| match is_renewal(request) {
            true => Action::Answer(200, "", answer.clone()),
            false => other_calls(request),
        })
        .await;
        let client = server.client(10 * SECOND);
        let (started_at, guard) = (Instant::now(), client.lock("a").ttl(SECOND).await.unwrap());
        let lost = tokio::time::timeout(3 * SECOND, guard.lost()).await;
        assert!(lost.is_ok() && started_at.elapsed() < 2 * SECOND, "{body} kept it alive");
        assert!(server.recorded("POST /v1/grants").len() >= 2, "the client tries again");
    }
}

#[tokio::test]
async fn a_guard_holds_no_longer_than_the_answer_to_its_renewal_says() {
    let server = Server::start(|request, before| match is_renewal(request) {
        // Another program with the same id set a shorter timeout.
        true if before == 0 => renewed(request, "1s"),
        true => Action::Hang,
        false => other_calls(request),
    })
    .await;
    let client = server.client(10 * SECOND);
    let guard = client.lock("a").ttl(4 * SECOND).await.unwrap();
    server.wait_for_requests("POST /v1/grants", 1).await;
    let answered = Instant::now();
    guard.lost().await;
    assert!(answered.elapsed() < SECOND + SECOND / 2, "it was lost only after {:?}", answered.elapsed());
}

#[tokio::test]
async fn a_refusal_that_says_nothing_about_the_grant_does_not_end_it() {
    let server = Server::start(|request, before| match is_renewal(request) {
        true if before == 0 => Action::Answer(403, "", json!({"code": "denied", "detail": "another token"})),
        true => renewed(request, "2s"),
        false => other_calls(request),
    })
    .await;
    let client = server.client(10 * SECOND);
    let guard = client.lock("a").ttl(2 * SECOND).await.unwrap();
    server.wait_for_requests("POST /v1/grants", 3).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn the_renewals_of_many_guards_share_requests() {
    const GUARDS: usize = 300;
    // A busy server: renewals that become due meanwhile go into the next request.
    let server = Server::start(|request, _| match (is_renewal(request), renewed(request, "2s")) {
        (true, Action::Answer(_, _, body)) => Action::Later(SECOND / 20, body),
        _ => other_calls(request),
    })
    .await;
    let client = server.client(20 * SECOND);
    let taken = join_all((0..GUARDS).map(|_| client.lock("a").ttl(2 * SECOND).into_future())).await;
    let guards: Vec<Guard> = taken.into_iter().map(Result::unwrap).collect();
    let before = server.recorded("POST /v1").len();
    {
        let any = select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
        let lost = tokio::time::timeout(4 * SECOND, any).await.map(|(lost, ..)| lost);
        assert!(lost.is_err(), "a guard is lost: {lost:?}");
    }
    let (requests, renewals) = (server.recorded("POST /v1").len() - before, 5 * GUARDS);
    assert!(requests < renewals / 4, "{requests} requests for some {renewals} renewals");
    guards.into_iter().for_each(Guard::forget);
}

#[tokio::test]
async fn settled_waits_for_earlier_releases_and_not_for_later_ones() {
    let first = Arc::new(OnceLock::<String>::new());
    let of_first = Arc::clone(&first);
    let server = Server::start(move |request, before| match request.line.starts_with("DELETE") {
        // Each release is a separate request: in one batch, both would get the same answer.
        false if request.line.contains("/batch ") => problem(404, "no_route"),
        true if of_first.get().is_some_and(|id| request.line.contains(id)) => match before {
            0 => Action::Close,
            _ => Action::Answer(204, "", Value::Null),
        },
        true => Action::Hang,
        false => other_calls(request),
    })
    .await;
    let client = server.client(20 * SECOND);
    let (guard, later) = (client.lock("a").await.unwrap(), client.lock("b").await.unwrap());
    first.set(guard.id().to_string()).unwrap();
    drop(guard);
    let mut settled = pin!(client.settled());
    assert!(poll_immediate(&mut settled).await.is_none(), "it is not released yet");
    // Its release gets no answer.
    drop(later);
    tokio::time::timeout(5 * SECOND, &mut settled).await.expect("the earlier release is done");
    assert_eq!(server.recorded(&format!("DELETE /v1/grants/{}", first.get().unwrap())).len(), 2);
    let all = tokio::time::timeout(SECOND / 2, client.settled()).await;
    assert!(all.is_err(), "the other release is still running");
}
