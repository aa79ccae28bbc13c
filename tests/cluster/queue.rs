//! Waiters queue, and every client can see for whom each waits.

use crate::{
    client::{Call, Client, Grant, whole},
    harness::{Cluster, SHORT, eventually, run_parallel},
};
use serde_json::Value;
use std::time::Duration;

/// Waits until a lock has this many contenders, including its holder, and returns them.
pub(crate) async fn wait_for_contenders(client: &Client, lock: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} contenders of {lock}"), Duration::from_secs(20), || async {
        Some(client.queue(lock).await).filter(|items| items.len() == count)
    })
    .await
}

#[test]
fn two_waiters_get_the_lock_in_order_and_the_queue_shows_why_each_waits() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let holder = client.acquire("printer", "ttl=60s&owner=alice").await;

        let first = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("printer", "wait=60s&owner=bob").await })
        };
        wait_for_contenders(&client, "printer", 2).await;
        let second = {
            let client = cluster.client(2);
            tokio::spawn(async move { client.acquire("printer", "wait=60s&owner=carol&mode=shared").await })
        };
        let items = wait_for_contenders(&client, "printer", 3).await;

        let shown: Vec<_> = items
            .iter()
            .map(|item| (item["owner"].as_str().expect("an owner"), whole(item, "position"), item["mode"].as_str()))
            .collect();
        let (exclusive, shared) = (Some("exclusive"), Some("shared"));
        assert_eq!(shown, [("alice", 1, exclusive), ("bob", 2, exclusive), ("carol", 3, shared)]);
        assert_eq!(whole(&items[0], "number"), holder.number);
        assert_eq!(items[0]["waits_for"], Value::Null, "a holder waits for no one: {}", items[0]);
        for (item, (number, owner)) in items[1..].iter().zip([(holder.number, "alice"), (whole(&items[1], "number"), "bob")]) {
            let shown = (whole(&item["waits_for"], "number"), item["waits_for"]["owner"].as_str());
            assert_eq!(shown, (number, Some(owner)), "the grant that it waits for: {item}");
            assert!(whole(item, "session") > 0, "the session's public number: {item}");
        }
        for item in &items {
            assert!(item.get("id").is_none() && !item.to_string().contains(&holder.id), "an id is a secret: {item}");
        }

        client.release(&holder.id).await;
        let first = first.await.expect("the first waiter's task");
        assert!(first.token > holder.token, "{first:?} after {holder:?}");
        assert_eq!(client.holders("printer").await, [first.number]);
        assert!(!second.is_finished(), "the second one waits for the first");
        client.release(&first.id).await;
        let second = second.await.expect("the second waiter's task");
        assert!(second.token > first.token, "{second:?} after {first:?}");
        client.release(&second.id).await;
        assert!(client.queue("printer").await.is_empty());
    });
}

#[test]
fn a_refused_request_without_a_wait_names_the_holder() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let holder = cluster.client(0).acquire("door", "owner=alice").await;
        for node in 0..3 {
            let client = cluster.client(node);
            let refused = client.send(&Call::post("/v1/locks/door")).await.expect_problem(409, "lock_held");
            assert!(refused.text.contains("alice"), "the holder: {}", refused.text);
            assert!(!refused.text.contains(&holder.id), "an id is a secret: {}", refused.text);
            client.send(&Call::post("/v1/locks/door?wait=100ms")).await.expect_problem(409, "wait_timeout");
            assert_eq!(client.queue_numbers("door").await, [holder.number], "a client that gave up has left the queue");
        }
    });
}

#[test]
fn a_reader_does_not_overtake_a_writer_and_readers_hold_together() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let reader = client.acquire("page", "mode=shared").await;
        let beside = cluster.client(1).acquire("page", "mode=shared").await;
        let mut waiting = Vec::new();
        for (standing_then, parameters) in [(3, "wait=60s"), (4, "wait=60s&mode=shared"), (5, "wait=60s&mode=shared")] {
            let asks = cluster.client(standing_then);
            let call = Call::post(&format!("/v1/locks/page?{parameters}"));
            waiting.push(tokio::spawn(async move { asks.acquire_with(&call).await }));
            wait_for_contenders(&client, "page", standing_then).await;
        }
        let mut waiting = waiting.into_iter();
        let mut next = || waiting.next().expect("three wait");
        let (writer, second, third) = (next(), next(), next());

        client.release(&reader.id).await;
        assert!(!writer.is_finished() && !second.is_finished(), "one reader still holds it");
        client.release(&beside.id).await;
        let writer: Grant = writer.await.expect("the writer's task");
        assert!(!second.is_finished() && !third.is_finished(), "the writer holds it");
        client.release(&writer.id).await;
        let (second, third) = (second.await.expect("a reader"), third.await.expect("a reader"));
        assert_eq!(second.token, third.token, "readers that are granted together share a token");
        assert_eq!(client.holders("page").await, [second.number, third.number]);
    });
}
