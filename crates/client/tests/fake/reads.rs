//! Reads, long polls, and the calls of administrators: the end of a session, and an upgrade.

use crate::{
    SECOND,
    server::{Action, RecordedRequest, Server, problem},
};
use fairhold_client::{Client, ClusterVersion, Code, Error, Lost};
use fairhold_types::{Revision, SessionNumber, limits::TIMEOUT_MAX};
use serde_json::{Value, json};
use std::time::Duration;

/// The empty queue of the lock `a`.
fn queue(revision: &'static str) -> Action {
    Action::Answer(200, revision, json!({"lock": "a", "items": []}))
}

fn nothing_newer(revision: &'static str) -> Action {
    Action::Answer(304, revision, Value::Null)
}

/// The queries for the queue, in order.
fn queries(server: &Server) -> Vec<String> {
    let lines = server.recorded("GET /v1/locks/a/queue").into_iter().map(|request| request.line);
    lines.map(|line| line.trim_start_matches("GET /v1/locks/a/queue").trim_end_matches(" HTTP/1.1").to_owned()).collect()
}

#[tokio::test]
async fn a_long_poll_waits_in_short_requests_for_as_long_as_it_takes() {
    let server = Server::start(|request, _| match request.line.as_str() {
        _ if request.timeout > TIMEOUT_MAX => problem(400, "bad_request"),
        line if line.contains("after=9") => queue("fairhold-revision: 12\r\n"),
        line if line.contains("after=7") => nothing_newer("fairhold-revision: 9\r\n"),
        _ => queue("fairhold-revision: 7\r\n"),
    })
    .await;
    let locks = server.client(10 * SECOND).locks();
    let looked = locks.queue("a").await.unwrap();
    assert_eq!((looked.revision, looked.value.len()), (Revision(7), 0));
    let newer = locks.next_queue("a", Some(looked.revision), 600 * SECOND).await.unwrap().unwrap();
    assert_eq!(newer.revision, Revision(12));
    assert_eq!(queries(&server), ["?limit=1000", "?limit=1000&wait=10s&after=7", "?limit=1000&wait=10s&after=9"]);
}

#[tokio::test]
async fn a_long_poll_for_a_change_from_now_on_keeps_its_revision_over_retries() {
    let server = Server::start(|request, before| match (request.line.as_str(), before) {
        (line, _) if line.starts_with("GET /v1/nodes/?meta ") => Action::Answer(200, "fairhold-revision: 7\r\n", json!({})),
        (_, 0) => Action::Close,
        (_, 1) => problem(503, "no_quorum"),
        _ => queue("fairhold-revision: 8\r\n"),
    })
    .await;
    let newer = server.client(10 * SECOND).locks().next_queue("a", None, 600 * SECOND).await.unwrap().unwrap();
    assert_eq!(newer.revision, Revision(8));
    assert_eq!(queries(&server), ["?limit=1000&wait=10s&after=7"; 3]);
}

#[tokio::test]
async fn a_long_poll_ends_without_a_change_and_waits_for_a_node_that_does_not_exist() {
    let server = Server::start(|request, before| match (request.line.starts_with("GET /v1/locks/a/queue"), before) {
        (true, _) => nothing_newer("fairhold-revision: 7\r\n"),
        // The node exists from the second request on, which is the same as the first.
        (false, 0) => problem(404, "no_node"),
        (false, _) => Action::Answer(200, "fairhold-revision: 9\r\nfairhold-version: 0\r\n", json!(1)),
    })
    .await;
    let client = server.client(10 * SECOND);
    let nothing = client.locks().next_queue("a", Some(Revision(7)), Duration::ZERO).await.unwrap();
    assert_eq!((nothing, queries(&server)), (None, vec!["?limit=1000&wait=0s&after=7".to_owned()]));
    let gone = client.nodes().get_next("/x", Some(Revision(7)), 60 * SECOND).await;
    assert!(matches!(gone, Err(Error::NoNode { .. })), "it ended before the wait was over: {gone:?}");
    let there = client.nodes().get_next("/x", Some(Revision(7)), 60 * SECOND).await.unwrap().unwrap();
    assert_eq!((there.bytes, there.revision), (b"1".to_vec(), Revision(9)));
}

#[tokio::test]
async fn a_node_that_falls_silent_during_a_long_poll_is_left_for_another_one() {
    let silent = Server::start(|_, _| Action::Hang).await;
    let server = Server::start(|_, _| queue("fairhold-revision: 8\r\n")).await;
    let both = Client::builder().endpoint(&silent.url).endpoint(&server.url).discover(false).timeout(2 * SECOND);
    let locks = both.build().unwrap().locks();
    // The client tries the nodes in turn, so one of two calls starts with the silent one.
    for _ in 0..2 {
        let newer = locks.next_queue("a", Some(Revision(7)), 2 * SECOND).await;
        assert_eq!(newer.unwrap().unwrap().revision, Revision(8));
    }
    assert_eq!(queries(&silent).len(), 1);
    let nobody = silent.client(SECOND / 2).locks().next_queue("a", Some(Revision(7)), SECOND / 10).await;
    assert!(matches!(nobody, Err(Error::Unavailable { .. })), "{nobody:?}");
}

#[tokio::test]
async fn a_session_that_is_gone_counts_as_ended_if_the_first_answer_was_lost() {
    let lost = Server::start(|_, before| if before == 0 { Action::Close } else { problem(404, "session_not_found") }).await;
    let sessions = lost.client(10 * SECOND).sessions();
    assert_eq!(sessions.end(41, "its host is gone").await, Ok(()));
    let ends: Vec<RecordedRequest> = lost.recorded("DELETE /v1/sessions/41?reason=its%20host%20is%20gone ");
    assert!(ends.len() == 2 && ends.iter().all(|request| request.key.is_none()), "{ends:?}");

    let gone = Server::start(|_, before| match before {
        0 => problem(503, "no_quorum"),
        _ => problem(404, "session_not_found"),
    })
    .await;
    let sessions = gone.client(10 * SECOND).sessions();
    assert_eq!(sessions.end(41, "").await, Err(Error::Lost(Lost::Expired)), "the first attempt did nothing");
    assert_eq!(sessions.get(SessionNumber(41)).await, Ok(None));
}

#[tokio::test]
async fn an_upgrade_is_finalized_once_and_a_blocked_one_is_refused() {
    let server = Server::start(|request, before| match (request.line.starts_with("GET"), before) {
        (true, _) => {
            let member = json!({"id": 3, "version": "0.2.0", "supports": [1, 2]});
            let body = json!({"cluster_version": 1, "next": 2, "ready": true, "members": [member], "blockers": []});
            Action::Answer(200, "", body)
        }
        // The answer to the first attempt is lost.
        (false, 0) => Action::Close,
        (false, _) => Action::Answer(200, "", json!({"cluster_version": 2, "ready": false, "members": [], "blockers": []})),
    })
    .await;
    let cluster = server.client(10 * SECOND).cluster();
    let before = cluster.upgrade().await.unwrap();
    let next = before.next.unwrap();
    assert_eq!((before.cluster_version, next, before.ready), (ClusterVersion(1), ClusterVersion(2), true));
    assert!(before.members[0].supports.is_some_and(|supports| supports.includes(next)), "{before:?}");
    let after = cluster.finalize_upgrade(next).await.unwrap();
    assert_eq!((after.cluster_version, after.next), (ClusterVersion(2), None));
    let sent = server.recorded("POST /v1/cluster/upgrade/finalize ");
    assert!(sent.len() == 2 && sent.iter().all(|one| one.key == sent[0].key && one.body == json!({"to": 2})), "{sent:?}");

    let blocked = Server::start(|_, _| problem(409, "not_all_upgraded")).await;
    let refused = blocked.client(10 * SECOND).cluster().finalize_upgrade(next).await;
    assert!(matches!(refused, Err(Error::Refused { code: Some(Code::NotAllUpgraded), .. })), "{refused:?}");
}
