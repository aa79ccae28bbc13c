//! What a holder can do with a grant: bound it, hold it again, change its mode.

use crate::{
    SECOND,
    server::{Action, CLUSTER, RecordedRequest, Server, held, problem},
};
use fairhold_client::{Error, Lost};
use fairhold_types::{Code, duration};
use futures_util::future::poll_immediate;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A server of one session whose grants all have the same number, and its answer to an upgrade.
fn granting(request: &RecordedRequest, upgrade: Action) -> Action {
    match &request.line {
        line if line.contains("/upgrade ") => upgrade,
        line if line.starts_with("POST /v1/sessions ") => {
            let id = "0123456789abcdef0123456789abcdef";
            Action::Answer(201, "", json!({"id": id, "number": 40, "ttl": "30s", "expires_in": "30s"}))
        }
        line if line.starts_with("POST /v1/locks") || line.contains("/downgrade ") => held(request),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        line if line.starts_with("PUT") => problem(412, "stale_token"),
        _ => Action::Hang,
    }
}

fn upgraded(request: &RecordedRequest, token: u64) -> Action {
    let Action::Answer(status, headers, mut grant) = held(request) else { unreachable!("it answers") };
    grant["token"] = json!(token);
    Action::Answer(status, headers, grant)
}

#[tokio::test]
async fn a_lock_with_a_longest_hold_is_lost_before_the_cluster_ends_it() {
    let server = Server::start(|request, _| granting(request, Action::Hang)).await;
    let client = server.client(10 * SECOND);
    let before = Instant::now();
    let guard = client.lock("a").max_hold(SECOND).await.unwrap();
    assert!(guard.left().unwrap() < SECOND);
    assert_eq!(guard.lost().await, Lost::Expired);
    let after = before.elapsed();
    assert!(after >= SECOND / 2 && after < SECOND + SECOND / 2, "it was lost after {after:?}");
    assert_eq!(guard.token(), Err(Error::Lost(Lost::Expired)));
    assert_eq!(server.recorded("POST /v1/locks")[0].body["max_hold"], "1s");
    assert!(matches!(client.lock("a").max_hold(SECOND / 2).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn each_further_hold_has_its_own_id_and_is_released_separately() {
    let server = Server::start(|request, _| granting(request, upgraded(request, 57))).await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let outer = session.lock("a").owner("o").reentrant().await.unwrap();
    let inner = session.lock("a").owner("o").reentrant().await.unwrap();
    assert_eq!(outer.token(), inner.token());
    let posts = server.recorded("POST /v1/locks");
    assert!(posts.iter().all(|post| post.body["reentrant"] == true && post.body["owner"] == "o"), "{posts:?}");
    assert_ne!(posts[0].key, posts[1].key);
    assert_eq!(inner.upgrade().await.unwrap().0, 57);
    assert_eq!(outer.token().unwrap().0, 57, "they share one grant");
    inner.release().await.unwrap();
    let deletes = server.recorded("DELETE");
    assert!(deletes.len() == 1 && deletes[0].line.contains(posts[1].key.as_ref().unwrap()), "{deletes:?}");
    assert!(outer.is_held());

    for lock in [client.lock("a").owner("o"), session.lock("a"), session.lock("a").owner("o").and("b")] {
        assert!(matches!(lock.reentrant().await, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn an_upgrade_is_repeated_with_its_key_and_the_guard_takes_its_token() {
    let server = Server::start(|request, before| match before {
        0 => granting(request, Action::Close),
        _ => granting(request, upgraded(request, 57)),
    })
    .await;
    let client = server.client(10 * SECOND);
    let guard = client.read_lock("a").await.unwrap();
    let held = guard.held().clone();
    assert_eq!(guard.token().unwrap().0, 42);
    assert_eq!(guard.upgrade().wait(30 * SECOND).await.unwrap().0, 57);
    assert_eq!((guard.token().unwrap().0, held.token().unwrap().0), (57, 57));
    let requests = server.recorded(&format!("POST /v1/grants/{}/upgrade ", guard.id()));
    assert!(requests.len() == 2 && requests[0].key.is_some() && requests[0].key == requests[1].key, "{requests:?}");
    let wait = duration::parse(requests[0].body["wait"].as_str().expect("a time")).expect("a time");
    assert!(wait > 29 * SECOND && wait <= 30 * SECOND, "{wait:?}");
    // The answer names the first token, which is older.
    guard.downgrade().await.unwrap();
    assert_eq!(guard.token().unwrap().0, 57);
    assert!(server.recorded(&format!("POST /v1/grants/{}/downgrade ", guard.id()))[0].key.is_some());
}

#[tokio::test]
async fn a_refused_upgrade_keeps_the_token_unless_the_grant_has_ended() {
    let server = Server::start(|request, before| {
        let refused = match before {
            0 => problem(409, "would_deadlock"),
            1 => problem(409, "lock_held"),
            _ if request.body["wait"] != "600s" => problem(409, "wait_timeout"),
            _ => Action::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "broken"})),
        };
        granting(request, refused)
    })
    .await;
    let client = server.client(10 * SECOND);
    let guard = client.read_lock("a").await.unwrap();
    let cycle = guard.upgrade().wait(SECOND).await.unwrap_err();
    assert!(matches!(cycle, Error::Refused { code: Some(Code::WouldDeadlock), .. }), "{cycle:?}");
    let busy = guard.upgrade().wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(busy, Error::LockHeld { .. }), "{busy:?}");
    let late = guard.upgrade().wait(Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(late, Error::WaitTimeout { .. }), "{late:?}");
    assert_eq!(guard.token().unwrap().0, 42);
    assert_eq!(guard.upgrade().await, Err(Error::Lost(Lost::Broken)));
    assert_eq!(guard.token(), Err(Error::Lost(Lost::Broken)));
    assert_eq!(guard.downgrade().await, Err(Error::Lost(Lost::Broken)));
}

#[tokio::test]
async fn a_waiting_upgrade_learns_of_a_loss_and_survives_a_refusal_of_its_old_token() {
    let server = Server::start(|request, _| granting(request, Action::Hang)).await;
    let client = server.client(10 * SECOND);
    let guard = client.read_lock("a").ttl(2 * SECOND).await.unwrap();
    let mut upgrade = guard.upgrade().into_future();
    assert!(poll_immediate(&mut upgrade).await.is_none());
    let write = guard.put("/x", "1").await;
    assert!(matches!(write, Err(Error::StaleToken { .. })), "{write:?}");
    assert!(guard.is_held(), "the upgrade may have replaced the token");
    assert_eq!(upgrade.await, Err(Error::Lost(Lost::CutOff)));

    let other = client.read_lock("a").await.unwrap();
    assert!(matches!(other.put("/x", "1").await, Err(Error::StaleToken { .. })));
    assert_eq!(other.token(), Err(Error::Lost(Lost::Fenced)));
}

/// The events of a session's watch: grant 41 is broken, and then thousands of other grants end.
fn flood() -> String {
    let ended = |number: u64, reason: &str| {
        let mut event = json!({"revision": number, "type": "ended", "lock": "a", "number": number, "session": 40});
        event["reason"] = json!(reason);
        event
    };
    let others = (1_000..3_000).map(|number| ended(number, "released"));
    std::iter::once(ended(41, "broken")).chain(others).map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn a_guard_learns_of_its_end_even_if_thousands_of_events_came_between_it_and_the_answer() {
    let server = Server::start(|request, before| match &request.line {
        line if line.starts_with("GET /v1/watch") && before == 0 => Action::Foreign(200, CLUSTER, flood()),
        line if line.starts_with("POST /v1/locks") => {
            let Action::Answer(_, _, grant) = held(request) else { unreachable!("it answers") };
            Action::Later(SECOND / 2, grant)
        }
        line if line.starts_with("GET /v1/grants/") => {
            Action::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "broken"}))
        }
        _ => granting(request, Action::Hang),
    })
    .await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let guard = session.lock("a").await.unwrap();
    let lost = tokio::time::timeout(5 * SECOND, guard.lost()).await;
    assert_eq!(lost, Ok(Lost::Broken));
    assert!(session.is_alive());
}
