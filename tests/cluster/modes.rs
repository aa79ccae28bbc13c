//! A holder changes its mode in place: from exclusive to shared at once, and from shared to exclusive when it is the
//! only holder.

use crate::{
    client::{Call, whole},
    harness::{Cluster, SHORT, eventually, run_parallel},
    queue::wait_for_contenders,
};
use std::time::Duration;

#[test]
fn readers_join_a_downgraded_holder_and_its_token_stays() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let writer = client.acquire("report", "ttl=60s").await;
        let reader = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("report", "mode=shared&wait=60s").await })
        };
        wait_for_contenders(&client, "report", 2).await;

        let downgrade = Call::post(&format!("/v1/grants/{}/downgrade", writer.id));
        let shared = cluster.client(2).send(&downgrade).await.expect_status(200);
        assert_eq!((shared.string("mode"), shared.number("token")), ("shared", writer.token), "{}", shared.text);
        let reader = reader.await.expect("the reader's task");
        assert!(reader.token > writer.token, "{reader:?} after {writer:?}");
        assert_eq!(client.holders("report").await, [writer.number, reader.number]);

        // The same request again, after it was undone: it does not make the grant shared again.
        client.release(&reader.id).await;
        let upgrade = Call::post(&format!("/v1/grants/{}/upgrade", writer.id));
        let alone = client.send(&upgrade).await.expect_status(200);
        client.send(&downgrade).await.expect_status(200);
        let now = client.send(&Call::get(&format!("/v1/grants/{}", writer.id))).await.expect_status(200);
        assert_eq!((now.string("mode"), now.number("token")), ("exclusive", alone.number("token")), "{}", now.text);
        client.send(&Call::post("/v1/locks/report?mode=shared")).await.expect_problem(409, "lock_held");
        // A request with another key does.
        let again = Call::post(&format!("/v1/grants/{}/downgrade", writer.id));
        assert_eq!(client.send(&again).await.expect_status(200).string("mode"), "shared");
    });
}

#[test]
fn an_upgrade_waits_for_the_other_readers_and_gets_a_new_token() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = client.acquire("report", "mode=shared&ttl=60s&owner=first").await;
        let second = client.acquire("report", "mode=shared&ttl=60s&owner=second").await;
        let upgrade = |id: &str, wait: &str| Call::post(&format!("/v1/grants/{id}/upgrade?wait={wait}"));

        client.send(&upgrade(&first.id, "0s")).await.expect_problem(409, "lock_held");
        client.send(&upgrade(&first.id, "100ms")).await.expect_problem(409, "wait_timeout");
        let waits = {
            let (client, call) = (cluster.client(1), upgrade(&first.id, "60s"));
            tokio::spawn(async move { client.send(&call).await })
        };
        // If a second upgrade waited, each would wait for the other.
        let refused = eventually("the second upgrade is refused", Duration::from_secs(20), || async {
            let answer = client.send(&upgrade(&second.id, "0s")).await;
            Some(answer).filter(|answer| answer.code() == "would_deadlock")
        })
        .await
        .expect_problem(409, "would_deadlock");
        let owners: Vec<_> = refused.json["cycle"].as_array().expect("a cycle").iter().map(|one| &one["owner"]).collect();
        assert_eq!(owners, ["second", "first"], "{}", refused.text);
        assert!(client.fence_passes("report", first.token).await, "it still holds while it waits");

        client.release(&second.id).await;
        let alone = waits.await.expect("the upgrade's task").expect_status(200);
        assert_eq!((alone.string("mode"), whole(&alone.json, "number")), ("exclusive", first.number), "{}", alone.text);
        let token = alone.number("token");
        assert!(token > second.token, "{token} after {second:?}");
        assert!(client.fence_passes("report", token).await && !client.fence_passes("report", first.token).await);
        client.release(&first.id).await;
    });
}
