//! Answers in pages: the client reads all pages, or one page if the caller wants only one.

use crate::{
    SECOND,
    server::{Action, RecordedRequest, Server, problem},
};
use fairhold_client::Lost;
use fairhold_types::{GrantNumber, SessionNumber};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const REVISION: &str = "fairhold-revision: 7\r\n";

fn contender(number: u64) -> Value {
    json!({"number": number, "session": 40, "state": "queued", "position": number, "mode": "exclusive", "permits": 1,
        "owner": "o", "since": "now", "queued_at": "now"})
}

/// Three pages. Each names the next one.
fn page_of(request: &RecordedRequest) -> (u64, Value) {
    match request.line.split_once("cursor=").map_or("", |(_, cursor)| &cursor[..2]) {
        "" => (1, json!("c2")),
        "c2" => (2, json!("c3")),
        _ => (3, Value::Null),
    }
}

fn pages(request: &RecordedRequest) -> Action {
    let (page, next) = page_of(request);
    let item = contender(page);
    let body = match &request.line {
        line if line.starts_with("GET /v1/locks/a/queue") => {
            json!({"lock": "a", "items": [item], "holder_count": 1, "queue_length": 2, "next_cursor": next})
        }
        line if line.starts_with("GET /v1/locks/a?") => {
            json!({"lock": "a", "holders": [item], "holder_count": 3, "queue_length": 0, "limit": 5, "next_cursor": next})
        }
        line if line.starts_with("GET /v1/grants?") => {
            let (mut item, blocker) = (item, json!({"number": 7, "owner": "ci-7"}));
            item["lock"] = json!("a");
            item["waits_for"] = blocker;
            json!({"items": [item], "next_cursor": next})
        }
        line if line.starts_with("GET /v1/elections?") => {
            let leader = json!({"number": page, "owner": "o"});
            let leads = json!({"election": "a", "leader": leader, "value": "v", "token": page, "waiting": 2});
            let item = if page == 3 { json!({"election": "b", "waiting": 0}) } else { leads };
            json!({"items": [item], "next_cursor": next})
        }
        _ => session(&[page], &[page], next),
    };
    Action::Answer(200, REVISION, body)
}

fn session(grants: &[u64], nodes: &[u64], next: Value) -> Value {
    let grant = |number: &u64| json!({"number": number, "lock": format!("lock-{number}"), "state": "held", "token": number});
    let grants: Vec<Value> = grants.iter().map(grant).collect();
    let nodes: Vec<String> = nodes.iter().map(|node| format!("/n/{node}")).collect();
    json!({"number": 40, "ttl": "30s", "anonymous": false, "opened_at": "now", "grants": grants, "grant_count": 3,
        "ephemeral_nodes": nodes, "ephemeral_count": 3, "next_cursor": next})
}

#[tokio::test]
async fn all_pages_of_a_queue_a_lock_and_a_session_are_read() {
    let server = Server::start(|request, _| pages(request)).await;
    let client = server.client(10 * SECOND);
    let queue = client.locks().queue("a").await.unwrap();
    assert_eq!(queue.value.iter().map(|item| item.position).collect::<Vec<_>>(), [1, 2, 3]);
    let newer = client.locks().next_queue("a", Some(queue.revision), SECOND).await.unwrap().unwrap();
    assert_eq!(newer.value, queue.value);
    let lock = client.locks().get("a").await.unwrap().value;
    assert_eq!((lock.holders.len(), lock.next_cursor), (3, None));
    let session = client.sessions().get(SessionNumber(40)).await.unwrap().unwrap();
    assert_eq!((session.grants.len(), session.ephemeral_nodes.len(), session.next_cursor), (3, 3, None));
    let lines: Vec<String> = server.recorded("GET /v1/sessions/40?").into_iter().map(|request| request.line).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("limit=1000")).count(), 3, "{lines:?}");
}

#[tokio::test]
async fn all_pages_of_the_elections_are_read_or_one_if_the_caller_wants_only_one() {
    let server = Server::start(|request, _| pages(request)).await;
    let elections = server.client(10 * SECOND).elections();
    let all = elections.local().list().prefix("a/b").await.unwrap();
    let tokens: Vec<Option<u64>> = all.iter().map(|election| election.token.map(|token| token.0)).collect();
    assert_eq!((tokens, all[0].waiting), (vec![Some(1), Some(2), None], 2));
    assert!(all[2].leader.is_none() && all[2].value.is_none(), "nobody leads");
    let page = server.client(10 * SECOND).elections().list().page(2, Some("c2")).await.unwrap();
    assert_eq!((page.items.len(), page.next_cursor.as_deref()), (1, Some("c3")));
    let lines: Vec<String> = server.recorded("GET /v1/elections").into_iter().map(|request| request.line).collect();
    let expected = [
        "GET /v1/elections?prefix=a%2Fb&limit=1000&consistency=local HTTP/1.1",
        "GET /v1/elections?prefix=a%2Fb&limit=1000&cursor=c2&consistency=local HTTP/1.1",
        "GET /v1/elections?prefix=a%2Fb&limit=1000&cursor=c3&consistency=local HTTP/1.1",
        "GET /v1/elections?limit=2&cursor=c2 HTTP/1.1",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn all_pages_of_an_owners_grants_are_read_or_one_if_the_caller_wants_only_one() {
    let server = Server::start(|request, _| pages(request)).await;
    let locks = server.client(10 * SECOND).locks();
    let all = locks.grants().owner("a b").session(SessionNumber(40)).prefix("a/").state("queued").sort("lock").await.unwrap();
    let numbers: Vec<u64> = all.iter().map(|grant| grant.number.0).collect();
    assert_eq!((numbers, all[0].position, all[0].lock.as_str()), (vec![1, 2, 3], Some(1), "a"));
    assert_eq!(all[0].waits_for.as_ref().map(|other| other.owner.as_str()), Some("ci-7"));
    let page = server.client(10 * SECOND).locks().local().grants().page(2, Some("c2")).await.unwrap();
    assert_eq!((page.items.len(), page.next_cursor.as_deref()), (1, Some("c3")));
    let lines: Vec<String> = server.recorded("GET /v1/grants").into_iter().map(|request| request.line).collect();
    let query = "owner=a%20b&session=40&prefix=a%2F&state=queued&sort=lock&limit=1000";
    let expected = [
        format!("GET /v1/grants?{query} HTTP/1.1"),
        format!("GET /v1/grants?{query}&cursor=c2 HTTP/1.1"),
        format!("GET /v1/grants?{query}&cursor=c3 HTTP/1.1"),
        "GET /v1/grants?limit=2&cursor=c2&consistency=local HTTP/1.1".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn one_page_is_read_if_the_caller_wants_only_one() {
    let server = Server::start(|request, _| pages(request)).await;
    let client = server.client(10 * SECOND);
    let locks = client.locks();
    let queue = locks.queue_page("a", 2, Some("c2")).await.unwrap().value;
    assert_eq!((queue.items[0].position, queue.next_cursor.as_deref()), (2, Some("c3")));
    let lock = locks.get_page("a", 2, None).await.unwrap().value;
    assert_eq!((lock.holders.len(), lock.holder_count, lock.next_cursor.as_deref()), (1, 3, Some("c2")));
    let session = client.sessions().get_page(SessionNumber(40), 2, Some("c3")).await.unwrap().unwrap();
    assert_eq!((session.grants[0].number.0, session.next_cursor), (3, None));
    assert_eq!(server.recorded("GET").len(), 3);
}

#[tokio::test]
async fn a_page_of_a_queue_is_read_around_a_grant_that_is_in_it() {
    let answer = |request: &RecordedRequest, _: usize| {
        if request.line.contains("around=41&") { pages(request) } else { problem(404, "grant_not_found") }
    };
    let server = Server::start(answer).await;
    let locks = server.client(10 * SECOND).locks();
    let queue = locks.queue_around("a", GrantNumber(41), 7).await.unwrap().unwrap();
    assert_eq!((queue.value.items.len(), queue.value.next_cursor.as_deref()), (1, Some("c2")));
    assert!(locks.queue_around("a", GrantNumber(42), 7).await.unwrap().is_none());
    let lines: Vec<String> = server.recorded("GET").into_iter().map(|request| request.line).collect();
    let expected = [41, 42].map(|number| format!("GET /v1/locks/a/queue?around={number}&limit=7 HTTP/1.1"));
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_grant_on_a_later_page_of_its_session_does_not_count_as_ended() {
    let taken = Arc::new(AtomicBool::new(false));
    let all_taken = Arc::clone(&taken);
    let server = Server::start(move |request, _| match &request.line {
        line if line.starts_with("POST /v1/sessions ") => {
            let id = "0123456789abcdef0123456789abcdef";
            Action::Answer(201, REVISION, json!({"id": id, "number": 40, "ttl": "30s", "expires_in": "30s"}))
        }
        line if line.starts_with("POST /v1/batch ") => {
            let calls = request.body["calls"].as_array().cloned().unwrap_or_default();
            let grant = |call: &Value| {
                let (lock, id) = (call["acquire"]["lock"].clone(), call["acquire"]["id"].clone());
                let number: u64 = lock.as_str().and_then(|lock| lock.strip_prefix("lock-")?.parse().ok()).unwrap();
                json!({"status": 200, "body": {"id": id, "lock": lock, "state": "held", "token": number, "mode": "exclusive",
                    "owner": "o", "number": number, "session": 40, "permits": 1, "queued_at": "now"}})
            };
            Action::Answer(200, REVISION, json!({ "answers": calls.iter().map(grant).collect::<Vec<_>>() }))
        }
        // Once all grants are held, their events are lost: so the client reads which grants are left.
        line if line.starts_with("GET /v1/watch") && all_taken.swap(false, Ordering::SeqCst) => {
            Action::Answer(410, "", json!({"code": "compacted", "detail": "scripted", "oldest": 100}))
        }
        line if line.starts_with("GET /v1/watch") => Action::Close,
        line if line.starts_with("GET /v1/sessions/40?") && line.contains("cursor=") => {
            Action::Answer(200, REVISION, session(&[43], &[], Value::Null))
        }
        line if line.starts_with("GET /v1/sessions/40?") => Action::Answer(200, REVISION, session(&[41], &[], json!("c2"))),
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    })
    .await;
    let client = server.client(10 * SECOND);
    let session = client.session().await.unwrap();
    let names = [41, 42, 43].map(|number| format!("lock-{number}"));
    let guards = join_all(names.iter().map(|name| session.lock(name).wait(10 * SECOND).into_future())).await;
    let [first, gone, last] = <[_; 3]>::try_from(guards).unwrap().map(Result::unwrap);
    taken.store(true, Ordering::SeqCst);
    assert_eq!(gone.lost().await, Lost::Expired, "it is on no page");
    assert!(first.token().is_ok() && last.token().is_ok(), "they are on the first and the last page");
}
