//! Waiters queue, and every client can see for whom each waits.

use crate::{
    access::Guarded,
    batches::take_often,
    client::{Answer, Call, Client, Grant, whole},
    harness::{Cluster, NODES, SHORT, eventually, run_parallel},
};
use serde_json::{Value, json};
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

/// The values of a field in a page of a queue.
fn shown(page: &Answer, field: &str) -> Vec<u64> {
    let items = page.json["items"].as_array().unwrap_or_else(|| panic!("no items: {page:?}"));
    items.iter().map(|item| whole(item, field)).collect()
}

#[test]
fn a_page_around_a_waiter_has_its_neighbours_at_every_node() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "queued").await;
        let holder = client.acquire("line", &format!("session={}", session.id)).await;
        take_often(&client, &session, "line", "exclusive", 11).await;
        let all = client.queue_numbers("line").await;
        let ask = async |node: usize, query: &str| {
            cluster.client(node).send(&Call::get(&format!("/v1/locks/line/queue?{query}"))).await
        };
        for node in 0..NODES {
            let page = ask(node, &format!("around={}&limit=5", all[6])).await.expect_status(200);
            assert_eq!(shown(&page, "number"), all[4..9]);
            assert_eq!(shown(&page, "position"), [5, 6, 7, 8, 9]);
            let totals = ["total", "holder_count", "queue_length"].map(|field| page.number(field));
            assert_eq!(totals, [12, 1, 11]);
            assert_eq!(whole(&page.json["items"][0]["waits_for"], "number"), all[3], "an entry of the page before");
            let next = page.header("link").and_then(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
            let next = client.send(&Call::get(next.expect("a link"))).await.expect_status(200);
            assert_eq!(shown(&next, "number"), all[9..], "the link leads on");

            let end = ask(node, "around=last&limit=3").await.expect_status(200);
            assert_eq!((shown(&end, "number"), &end.json["next_cursor"]), (all[9..].to_vec(), &Value::Null));
            let front = ask(node, &format!("around={}&limit=3", all[0])).await.expect_status(200);
            assert_eq!(shown(&front, "number"), all[..3], "a holder is in the queue too");
        }
        let empty = client.send(&Call::get("/v1/locks/free/queue?around=last")).await.expect_status(200);
        assert_eq!((&empty.json["items"], empty.number("total")), (&json!([]), 0));

        client.release(&holder.id).await;
        let gone = ask(0, &format!("around={}", all[0])).await.expect_problem(404, "grant_not_found");
        let expected = format!("grant {} neither holds line nor waits for it: show the queue without \"around\"", all[0]);
        assert_eq!(gone.string("detail"), expected);
        ask(0, &format!("around={}&cursor=queued-0-{}", all[6], all[6])).await.expect_problem(400, "bad_request");
    });
}

#[test]
fn a_queue_does_not_tell_who_holds_a_hidden_lock() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        root.acquire("hidden", "ttl=60s&owner=whisper").await.expect_status(200);
        // It is next for deploy/a, and waits for the other lock.
        let locks = json!({ "locks": [{ "name": "deploy/a" }, { "name": "hidden" }], "owner": "op", "ttl": "60s" });
        root.send(Call::post("/v1/locks").json(&locks).with("prefer", "respond-async")).await.expect_status(202);
        let call = || Call::get("/v1/locks/deploy%2Fa/queue");
        let all = root.send(call()).await.expect_status(200);
        assert_eq!(all.json["items"][0]["waits_for"]["owner"], "whisper", "{all:?}");
        let seen = ci.send(call()).await.expect_status(200);
        assert_eq!(seen.json["items"][0]["owner"], "op", "{seen:?}");
        assert!(seen.json["items"][0].get("waits_for").is_none() && !seen.text.contains("whisper"), "{seen:?}");
    });
}

#[test]
fn a_grant_of_several_locks_names_them_in_each_of_its_queues_but_not_those_that_are_hidden() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let anyone = guarded.cluster.client(0);
        anyone.acquire("deploy%2Fa", "ttl=60s").await;
        let locks = json!([{ "name": "deploy/a" }, { "name": "hidden", "mode": "shared" }]);
        let several = Call::post("/v1/locks").json(&json!({ "locks": locks, "ttl": "60s" })).with("prefer", "respond-async");
        let number = anyone.send(&several).await.expect_status(202).number("number");
        let named = json!([{ "name": "deploy/a", "mode": "exclusive" }, { "name": "hidden", "mode": "shared" }]);
        for (lock, position) in [("deploy%2Fa", 1), ("hidden", 0)] {
            let queue = anyone.queue(lock).await;
            assert_eq!((whole(&queue[position], "number"), &queue[position]["locks"]), (number, &named), "{lock}");
            assert!(queue[..position].iter().all(|item| item.get("locks").is_none()), "grants of one lock: {queue:?}");
        }

        let (root, ci) = guarded.enforce().await;
        let call = || Call::get("/v1/locks/deploy%2Fa/queue");
        let seen = root.send(call()).await.expect_status(200);
        assert_eq!(seen.json["items"][1]["locks"], named);
        let seen = ci.send(call()).await.expect_status(200);
        assert_eq!(seen.json["items"][1]["number"].as_u64(), Some(number), "{seen:?}");
        assert!(seen.json["items"][1].get("locks").is_none() && !seen.text.contains("hidden"), "{seen:?}");
    });
}
