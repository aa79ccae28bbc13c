//! A session owns what is acquired with it, and only its owner knows its id.

use crate::{
    client::{Answer, Call, Grant, whole},
    harness::{Cluster, NODES, SHORT, eventually, run_parallel},
    queue::wait_for_contenders,
};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long ago the leader heard from a session, if the answer says so.
fn heard_ago(answer: &Answer) -> Option<Duration> {
    answer.json["heard_ago"].as_str().map(|text| fairhold_types::duration::parse(text).expect("a duration"))
}

#[test]
fn a_closed_session_releases_everything_that_it_owns_at_once() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "owner").await;
        let holds = client.acquire("first", &format!("session={}", session.id)).await;
        let other = cluster.client(1).acquire("second", "ttl=60s").await;
        let waits = Call::post(&format!("/v1/locks/second?session={}", session.id)).with("prefer", "respond-async");
        let waits = cluster.client(2).send(&waits).await.expect_status(202);
        let next = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("first", "wait=60s").await })
        };
        wait_for_contenders(&client, "first", 2).await;

        let close = Call::delete(&format!("/v1/sessions/{}", session.id));
        cluster.client(2).send(&close).await.expect_status(204);
        let next = next.await.expect("the next waiter's task");
        assert!(next.token > holds.token, "{next:?} after {holds:?}");
        assert_eq!(client.queue_numbers("second").await, [other.number], "its waiting grant is gone too");
        for id in [holds.id.as_str(), waits.string("id")] {
            client.send(&Call::get(&format!("/v1/grants/{id}"))).await.expect_problem(410, "grant_gone");
        }
        client.keepalive(&session).await.expect_problem(410, "session_expired");
    });
}

#[test]
fn listings_show_numbers_and_names_but_no_ids() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "listed").await;
        let grant = client.acquire("shown", &format!("session={}&owner=somebody", session.id)).await;
        let paths = [
            "/v1/sessions".to_owned(),
            format!("/v1/sessions/{}", session.number),
            format!("/v1/sessions/{}", session.id),
            "/v1/locks/shown".to_owned(),
            "/v1/locks/shown/queue".to_owned(),
            "/v1/cluster".to_owned(),
        ];
        for path in &paths {
            for node in 0..NODES {
                let answer = cluster.client(node).send(&Call::get(path)).await.expect_status(200);
                assert!(!answer.text.contains(&session.id), "{path}: a session's id is a secret: {}", answer.text);
                assert!(!answer.text.contains(&grant.id), "{path}: a grant's id is a secret: {}", answer.text);
            }
        }
        let shown = client.send(&Call::get(&paths[1])).await;
        assert_eq!((shown.number("number"), shown.string("name")), (session.number, "listed"));
        let owned = shown.json["grants"].as_array().expect("grants");
        assert_eq!(owned.iter().map(|owned| whole(owned, "number")).collect::<Vec<_>>(), [grant.number]);
        for node in &cluster.nodes {
            let log = node.log_text();
            assert!(!log.contains(&session.id) && !log.contains(&grant.id), "no id is in the log of node {}", node.id);
        }
    });
}

#[test]
fn one_call_keeps_many_sessions_alive_and_lists_those_that_have_ended() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut lives = Vec::new();
        for number in 0..5 {
            lives.push(client.open_session("60s", &format!("many-{number}")).await.id);
        }
        let ended = client.open_session("60s", "ended").await.id;
        client.send(&Call::delete(&format!("/v1/sessions/{ended}"))).await.expect_status(204);
        let unknown = "0".repeat(32);
        let ids: Vec<&String> = lives.iter().chain([&ended, &unknown]).collect();
        for node in 0..NODES {
            let call = Call::post("/v1/sessions/keepalive").json(&json!({ "ids": ids }));
            let answer = cluster.client(node).send(&call).await.expect_status(200);
            assert_eq!((&answer.json["renewed"], &answer.json["expired"]), (&json!(lives), &json!([ended, unknown])));
            assert_eq!(answer.json["ttls"], json!(vec!["60s"; lives.len()]));
            let one = cluster.client(node).send(&Call::post(&format!("/v1/sessions/{}/keepalive", lives[0]))).await;
            let fields = ["id", "ttl", "expires_in"].map(|field| one.string(field).to_owned());
            assert_eq!(fields, [lives[0].as_str(), "60s", "60s"], "it names what it kept alive");
        }
    });
}

#[test]
fn a_grant_of_a_named_session_needs_that_session_and_accepts_no_own_ttl() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "owner").await;
        let with_ttl = Call::post(&format!("/v1/locks/owned?session={}&ttl=5s", session.id));
        client.send(&with_ttl).await.expect_problem(400, "bad_request");
        let grant = Grant::from_answer(&client.send(&Call::post(&format!("/v1/locks/owned?session={}", session.id))).await);
        let renew = Call::post(&format!("/v1/grants/{}/renew", grant.id));
        let owned = client.send(&renew).await.expect_problem(409, "session_owned");
        assert_eq!(owned.number("session"), session.number, "it says which session to renew: {owned:?}");
        client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
        let late = Call::post(&format!("/v1/locks/owned?session={}", session.id));
        let late = client.send(&late).await;
        assert!(matches!((late.status, late.code()), (404, "session_not_found") | (410, "session_expired")), "{late:?}");
    });
}

#[test]
fn every_node_tells_when_the_leader_heard_from_a_session_but_a_local_read_does_not_ask_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "heard").await;
        let path = format!("/v1/sessions/{}", session.number);
        let (show, local) = (Call::get(&path), Call::get(&format!("{path}?consistency=local")));
        let heard_at_least = async |node: usize, least: Duration| {
            eventually("the leader tells when it heard from the session", Duration::from_secs(20), || async {
                let answer = cluster.client(node).send(&show).await.expect_status(200);
                heard_ago(&answer).filter(|heard| *heard >= least)
            })
            .await
        };
        let opening = Duration::from_millis(500);
        for node in 0..NODES {
            heard_at_least(node, opening).await;
        }
        let sent = Instant::now();
        client.keepalive(&session).await.expect_status(200);
        for node in 0..NODES {
            let heard = heard_at_least(node, Duration::ZERO).await;
            assert!(heard <= sent.elapsed(), "node {node}: {heard:?} ago, before the keepalive");
        }

        let leader = cluster.leader().await;
        for node in 0..NODES {
            let answer = cluster.client(node).once(&local).await.expect_status(200);
            assert_eq!(heard_ago(&answer).is_some(), node == leader, "node {node} of leader {leader}: {answer:?}");
        }
        let listed = client.send(&Call::get("/v1/sessions")).await.expect_status(200);
        assert!(listed.text.contains("\"heard\"") && !listed.text.contains("heard_ago"), "only for one session: {listed:?}");

        let next = cluster.nodes[(leader + 1) % NODES].id;
        client.send(&Call::post("/v1/cluster/leader").json(&json!({ "to": next }))).await.expect_status(200);
        for node in 0..NODES {
            let answer = cluster.client(node).send(&show).await.expect_status(200);
            assert_eq!(heard_ago(&answer), None, "the new leader has not heard from the session: {answer:?}");
        }
        client.keepalive(&session).await.expect_status(200);
        for node in 0..NODES {
            heard_at_least(node, Duration::ZERO).await;
        }
    });
}
