//! Several locks in one step: all or nothing, with one position in every queue.

use crate::{
    client::{Call, Grant},
    harness::{Cluster, SHORT, run_parallel},
    queue::wait_for_contenders,
};
use serde_json::json;

fn take(locks: &[&str], wait: &str) -> Call {
    let locks: Vec<_> = locks.iter().map(|name| json!({ "name": name })).collect();
    Call::post("/v1/locks").json(&json!({ "locks": locks, "wait": wait, "ttl": "60s" }))
}

#[test]
fn crossing_requests_are_granted_one_after_the_other_each_with_all_or_nothing() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = client.send(&take(&["left", "right"], "0s")).await.expect_status(200);
        let grant = Grant::from_answer(&first);
        assert_eq!(first.json["locks"], json!([{"name": "left", "mode": "exclusive"}, {"name": "right", "mode": "exclusive"}]));
        client.send(&take(&["middle", "right"], "0s")).await.expect_problem(409, "lock_held");
        assert_eq!(client.queue_numbers("middle").await, [0_u64; 0], "the free lock was not acquired");

        let crossing = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.send(&take(&["right", "left"], "60s")).await })
        };
        wait_for_contenders(&client, "left", 2).await;
        wait_for_contenders(&client, "right", 2).await;
        for lock in ["left", "right"] {
            assert!(client.fence_passes(lock, grant.token).await, "{lock}: both have the same token");
        }
        client.release(&grant.id).await;
        let crossing = Grant::from_answer(&crossing.await.expect("its task").expect_status(200));
        for lock in ["left", "right"] {
            assert!(client.fence_passes(lock, crossing.token).await && !client.fence_passes(lock, grant.token).await);
            assert_eq!(client.holders(lock).await, [crossing.number]);
        }
    });
}

#[test]
fn the_refusal_of_a_request_for_several_locks_names_the_problem() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let many: Vec<_> = (0..65).map(|index| json!({ "name": format!("lock-{index}") })).collect();
        for (body, says) in [
            (json!({}), "locks"),
            (json!({ "locks": [] }), "different locks"),
            (json!({ "locks": [{ "name": "a" }, { "name": "a" }] }), "different locks"),
            (json!({ "locks": [{ "name": "a", "mood": "shared" }] }), "mood"),
            (json!({ "locks": [{ "name": "a//b" }] }), "locks"),
            (json!({ "locks": many }), "at most 64"),
            (json!({ "locks": [{ "name": "a" }], "limit": 2 }), "limit"),
        ] {
            let refused = client.send(&Call::post("/v1/locks").json(&body)).await.expect_problem(400, "bad_request");
            assert!(refused.string("detail").contains(says), "{}", refused.text);
        }
        client.send(&Call::post("/v1/locks").json(&json!({ "locks": &many[1..] }))).await.expect_status(200);
    });
}
