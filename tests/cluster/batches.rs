//! Many calls in one request: each acts as if it were sent alone.

use crate::{
    client::{Answer, Call, Client, Session, new_key, whole},
    harness::{Cluster, NODES, SHORT, report, run_exclusive, run_parallel},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) fn batch(calls: &[Value]) -> Call {
    Call::post("/v1/batch").json(&json!({ "calls": calls }))
}

/// The statuses of a batch's calls, in order.
pub(crate) fn statuses(answer: &Answer) -> Vec<u64> {
    let answers = answer.json["answers"].as_array().unwrap_or_else(|| panic!("no answers: {answer:?}"));
    answers.iter().map(|one| whole(one, "status")).collect()
}

/// Acquires a lock `count` times in one session, by batches; each grant must be held or wait.
pub(crate) async fn take_often(client: &Client, session: &Session, lock: &str, mode: &str, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|_| new_key()).collect();
    for some in ids.chunks(256) {
        let acquire =
            |id: &String| json!({"acquire": {"id": id, "lock": lock, "session": session.id, "mode": mode, "queue": true}});
        let answer = client.send(&batch(&some.iter().map(acquire).collect::<Vec<_>>())).await.expect_status(200);
        assert!(statuses(&answer).iter().all(|status| matches!(status, 200 | 202)), "{answer:?}");
    }
    ids
}

#[test]
fn each_call_of_a_batch_is_answered_as_if_sent_alone_and_a_repeated_batch_does_nothing_twice() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(1);
        let session = client.open_session("60s", "batches").await;
        let taken = cluster.client(0).acquire("taken", "ttl=60s").await;
        let keys: Vec<String> = (0..3).map(|_| new_key()).collect();
        let acquire = |key: &str, lock: &str, queue: bool| {
            let fields = json!({"id": key, "lock": lock, "session": session.id, "queue": queue, "owner": "o"});
            json!({ "acquire": fields })
        };
        let calls = [acquire(&keys[0], "first", false), acquire(&keys[1], "taken", true), acquire(&keys[2], "taken", false)];
        let answer = client.send(&batch(&calls)).await.expect_status(200);
        let answers = answer.json["answers"].as_array().expect("answers").clone();
        let statuses: Vec<_> = answers.iter().map(|one| one["status"].as_u64().expect("a status")).collect();
        assert_eq!(statuses, [200, 202, 409], "{answer:?}");
        assert_eq!((&answers[0]["body"]["id"], &answers[0]["body"]["state"]), (&json!(keys[0]), &json!("held")));
        assert_eq!(answers[2]["body"]["code"], "lock_held");
        let shown = client.send(&Call::get(&format!("/v1/grants/{}", keys[0]))).await.expect_status(200);
        for field in ["queued_at", "held_since"] {
            assert_eq!(shown.json[field], answers[0]["body"][field], "{field}: the first answer and the state agree");
        }
        assert!(answer.revision() >= answers[0]["body"]["token"].as_u64().expect("a token"));
        let end = cluster.client(0).send(&batch(&[json!({"release": {"id": taken.id}})])).await.expect_status(200);
        assert_eq!(end.json, json!({"answers": [{"status": 204}]}));
        let waited = client.send(&Call::get(&format!("/v1/grants/{}?wait=20s", keys[1]))).await.expect_status(200);
        assert_eq!(waited.string("state"), "held", "it kept its place without a request");

        let again = cluster.client(2).send(&batch(&calls[..1])).await.expect_status(200);
        assert_eq!(again.json["answers"][0]["body"]["token"], answers[0]["body"]["token"]);
        assert_eq!(again.header("fairhold-members"), None, "only an answer to a renewal names the members");
        let end: Vec<Value> = keys[..2].iter().map(|key| json!({"release": {"id": key}})).collect();
        client.send(&batch(&end)).await.expect_status(200);
        let late = client.send(&batch(&calls[..1])).await.expect_status(200);
        assert_eq!(late.json["answers"][0]["status"], 410, "it has ended: {late:?}");
        assert_eq!(client.queue_numbers("first").await, [0_u64; 0]);
    });
}

#[test]
fn a_batched_renewal_keeps_its_grant_alive_and_is_refused_for_a_session() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "batches").await;
        let owned = client.acquire("owned", &format!("session={}", session.id)).await;
        let alone = client.acquire("alone", "ttl=60s").await;
        let ended = client.acquire("ended", "ttl=60s").await;
        client.release(&ended.id).await;
        let renew = |id: &str| json!({"renew": {"id": id}});
        for node in 0..3 {
            let calls = [renew(&alone.id), renew(&owned.id), renew(&ended.id), renew(&new_key())];
            let answer = cluster.client(node).send(&batch(&calls)).await.expect_status(200);
            let codes: Vec<_> = (0..4).map(|call| answer.json["answers"][call]["body"]["code"].as_str()).collect();
            assert_eq!(codes, [None, Some("session_owned"), Some("grant_gone"), Some("grant_not_found")], "{answer:?}");
            let renewed = &answer.json["answers"][0];
            let fields = ["id", "ttl", "expires_in"].map(|field| renewed["body"][field].as_str().unwrap_or_default());
            assert_eq!((&renewed["status"], fields), (&json!(200), [&*alone.id, "60s", "60s"]));
            let by_itself = cluster.client(node).send(&Call::post(&format!("/v1/grants/{}/renew", alone.id))).await;
            assert_eq!((by_itself.string("id"), by_itself.string("ttl")), (&*alone.id, "60s"), "{by_itself:?}");
            let members = answer.header("fairhold-members");
            assert!(members.is_some() && members == by_itself.header("fairhold-members"), "{answer:?} {by_itself:?}");
        }
    });
}

#[test]
fn a_batch_with_an_invalid_call_is_refused_before_any_call_starts() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "batches").await;
        let good = json!({"acquire": {"id": new_key(), "lock": "first", "session": session.id}});
        for wrong in [
            json!({"acquire": {"id": new_key(), "lock": "a//b", "session": session.id}}),
            json!({"acquire": {"id": new_key(), "lock": "second", "ttl": "10s"}}),
            json!({"release": {}}),
        ] {
            let refused = client.send(&batch(&[good.clone(), wrong])).await.expect_status(400);
            assert!(refused.string("detail").starts_with("calls[1]: "), "{refused:?}");
        }
        assert_eq!(client.queue_numbers("first").await, [0_u64; 0]);
    });
}

#[test]
fn locks_acquired_and_released_in_one_batch_are_held_and_then_free() {
    const PAIRS: usize = 128;
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let session = cluster.client(0).open_session("60s", "pairs").await;
        for node in 0..NODES {
            let client = cluster.client(node);
            for round in 0..10 {
                let pair = |number: usize| {
                    let (id, lock) = (new_key(), format!("pairs/{node}/{round}/{number}"));
                    [json!({"acquire": {"id": id, "lock": lock, "session": session.id}}), json!({"release": {"id": id}})]
                };
                let calls: Vec<Value> = (0..PAIRS).flat_map(pair).collect();
                let answer = client.send(&batch(&calls)).await.expect_status(200);
                assert_eq!(statuses(&answer), [200, 204].repeat(PAIRS), "round {round} at node {}", node + 1);
            }
        }
        let left = cluster.client(0).send(&Call::get(&format!("/v1/sessions/{}", session.number))).await.expect_status(200);
        assert_eq!((left.number("grant_count"), left.json["grants"].as_array().map(Vec::len)), (0, Some(0)));
    });
}

#[test]
fn a_position_behind_ten_thousand_readers_is_reported_as_fast_as_one_behind_ten() {
    const ASKED: usize = 128;
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(cluster.leader().await);
        let mut took = Vec::new();
        for readers in [10, 10_000] {
            let session = client.open_session("60s", "readers").await;
            let lock = format!("book/{readers}").replace('/', "%2F");
            let name = format!("book/{readers}");
            take_often(&client, &session, &name, "shared", readers).await;
            let begun = Instant::now();
            let ids = take_often(&client, &session, &name, "exclusive", ASKED).await;
            took.push(begun.elapsed());
            let last = client.send(&Call::get(&format!("/v1/grants/{}", ids[ASKED - 1]))).await.expect_status(200);
            assert_eq!(last.number("position"), (readers + ASKED) as u64);
            let before = client.send(&Call::get(&format!("/v1/grants/{}", ids[ASKED - 2]))).await.expect_status(200);
            assert_eq!(whole(&last.json["waits_for"], "number"), before.number("number"), "{last:?}");
            let shown = client.send(&Call::get(&format!("/v1/locks/{lock}"))).await.expect_status(200);
            assert_eq!((shown.number("holder_count"), shown.number("queue_length")), (readers as u64, ASKED as u64));
            assert_eq!(shown.json["holders"].as_array().map(Vec::len), Some(readers.min(100)));
        }
        report(&format!("{ASKED} places reported behind ten readers in {:.0?}, behind ten thousand in {:.0?}", took[0], took[1]));
        assert!(took[1] < took[0] * 5 + Duration::from_millis(100), "{took:?}");
    });
}
