//! An administrator's settings of a lock and requests to its holders; reentrant holds and bounded holds.

use crate::{
    client::{Call, Grant, new_key, whole},
    harness::{Cluster, SHORT, eventually, run_parallel},
    queue::wait_for_contenders,
    streams::Stream,
};
use serde_json::{Value, json};
use std::time::Duration;

fn set(lock: &str, what: &Value) -> Call {
    Call::patch(&format!("/v1/locks/{lock}")).json(what)
}

#[test]
fn a_lowered_limit_ends_waiters_that_no_longer_fit_but_no_holder() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("pool", "limit=4&permits=3&ttl=60s").await;
        let asks =
            |permits: u32| Call::post(&format!("/v1/locks/pool?permits={permits}&ttl=60s")).with("prefer", "respond-async");
        let large = client.send(&asks(4)).await.expect_status(202);
        let small = client.send(&asks(2)).await.expect_status(202);

        let lowered = cluster.client(1).send(&set("pool", &json!({ "limit": 2 }))).await.expect_status(200);
        assert_eq!((lowered.number("limit"), lowered.number("queue_length")), (2, 1), "{}", lowered.text);
        assert!(client.fence_passes("pool", holder.token).await, "the holder keeps its lock");
        let ended =
            client.send(&Call::get(&format!("/v1/grants/{}", large.string("id")))).await.expect_problem(410, "grant_gone");
        assert_eq!((ended.string("reason"), ended.string("note")), ("broken", "the limit of pool was set to 2"));
        client.release(&holder.id).await;
        assert_eq!(client.holders("pool").await, [small.number("number")]);
        client.send(&Call::post("/v1/locks/pool?limit=4")).await.expect_problem(409, "limit_mismatch");

        client.send(&set("pool", &json!({ "max_waiters": 0 }))).await.expect_status(200);
        client.send(&Call::post("/v1/locks/pool?wait=10s")).await.expect_problem(429, "queue_full");
        client.send(&set("pool", &json!({}))).await.expect_problem(400, "bad_request");
        client.send(&set("pool", &json!({ "max_hold": "10ms" }))).await.expect_problem(400, "bad_request");
    });
}

#[test]
fn a_holder_over_max_hold_loses_the_lock_and_the_next_gets_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let key = new_key();
        let mut stream = Stream::open(&cluster.nodes[1].url, "crane", "ttl=60s&max_hold=1s", &key);
        let token = whole(&stream.expect("held").await, "token");
        let next = client.acquire("crane", "wait=30s").await;
        assert!(next.token > token, "{next:?} after {token}");
        let lost = stream.expect_last("lost").await;
        assert_eq!((lost["id"].as_str(), lost["reason"].as_str()), (Some(key.as_str()), Some("expired")));

        let session = client.open_session("60s", "long").await;
        client.send(&set("gate", &json!({ "max_hold": "1s" }))).await.expect_status(200);
        let held = client.acquire("gate", &format!("session={}", session.id)).await;
        let gone = eventually("the lock's bound ends it", Duration::from_secs(20), || async {
            Some(client.send(&Call::get(&format!("/v1/grants/{}", held.id))).await).filter(|answer| answer.status == 410)
        })
        .await;
        assert_eq!(gone.string("reason"), "expired");
        client.keepalive(&session).await.expect_status(200);
    });
}

#[test]
fn a_revoke_reaches_the_holders_and_ends_nothing() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let key = new_key();
        let mut stream = Stream::open(&cluster.nodes[2].url, "crane", "ttl=60s", &key);
        let token = whole(&stream.expect("held").await, "token");
        let revoke = Call::post("/v1/locks/crane/holders/revoke").json(&json!({ "reason": "an upgrade" }));
        client.send(&revoke).await.expect_status(202);
        let word = stream.expect("revoke").await;
        assert_eq!((word["id"].as_str(), word["reason"].as_str()), (Some(key.as_str()), Some("an upgrade")));
        assert!(client.fence_passes("crane", token).await, "it is still held");
        let shown = client.send(&Call::get(&format!("/v1/grants/{key}"))).await.expect_status(200);
        assert_eq!(shown.json["revoked"]["reason"], "an upgrade", "{}", shown.text);
        client.send(&Call::post("/v1/locks/nobody/holders/revoke")).await.expect_status(202);
    });
}

#[test]
fn an_owner_can_hold_a_lock_again_and_the_last_release_frees_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "worker").await;
        let parameters = format!("session={}&owner=alice&reentrant", session.id);
        let outer = client.acquire("crane", &parameters).await;
        let again = Call::post(&format!("/v1/locks/crane?{parameters}"));
        let inner = Grant::from_answer(&cluster.client(1).send(&again).await.expect_status(200));
        assert_eq!((inner.number, inner.token), (outer.number, outer.token), "one grant, one token");
        assert!(inner.id != outer.id, "each hold has an id");
        let shown = client.send(&Call::get(&format!("/v1/grants/{}", inner.id))).await.expect_status(200);
        assert_eq!((shown.number("holds"), shown.string("id")), (2, inner.id.as_str()), "{}", shown.text);
        let next = {
            let client = cluster.client(2);
            tokio::spawn(async move { client.acquire("crane", "wait=60s").await })
        };
        wait_for_contenders(&client, "crane", 2).await;
        for _ in 0..2 {
            client.release(&outer.id).await;
            assert!(
                client.fence_passes("crane", outer.token).await,
                "the inner section still holds, however often the outer one releases"
            );
        }
        client.send(&again).await.expect_status(200);
        client.release(&inner.id).await;
        let next = next.await.expect("its task");
        assert!(next.token > outer.token);
        client.send(&again).await.expect_problem(410, "grant_gone");
    });
}
