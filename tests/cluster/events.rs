//! Recent events: the same as those of a watch, as pages.

use crate::{
    access::Guarded,
    client::{Answer, Call, Client, whole},
    harness::{Cluster, NODES, SHORT, run_parallel},
    watches::{after_many_events, put},
    watching::Watching,
};
use serde_json::{Value, json};

async fn page(client: &Client, node: usize, query: &str) -> Answer {
    client.send_to(node, &Call::get(&format!("/v1/events?{query}"))).await.expect("the node runs")
}

/// The events of a listing, page by page, the newest first. `between` is written after each page.
async fn listed(client: &Client, node: usize, query: &str, between: Option<&str>) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(client, node, &format!("{query}{cursor}")).await.expect_status(200);
        events.extend_from_slice(page.items());
        let Some(next) = page.json["next_cursor"].as_str() else { return events };
        cursor = format!("&cursor={next}");
        if let Some(path) = between {
            put(client, path).await;
        }
    }
}

/// The events of a watch of everything from a revision to the first event of another one, the newest first.
async fn watched(client: &Client, from: u64, to: u64) -> Vec<Value> {
    let mut watching = Watching::open(client, 0, &format!("from={from}")).await;
    let mut events = Vec::new();
    loop {
        let event = watching.next_event().await;
        let is_last = whole(&event, "revision") == to;
        events.insert(0, event);
        if is_last {
            return events;
        }
    }
}

#[test]
fn pages_have_each_event_of_a_watch_once_at_every_node() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = put(&client, "feed/start").await;
        for number in 0..10 {
            // Several events in one revision.
            put(&client, &format!("feed/{number}/a/b/c")).await;
        }
        let owner = client.open_session("60s", "owner").await;
        let held = client.acquire("deploy", &format!("session={}&owner=ci-7", owner.id)).await;
        client.acquire("orders%2F42", "ttl=60s").await;
        client.release(&held.id).await;
        let last = put(&client, "feed/end").await;
        let expected = watched(&client, first, last).await;
        assert!(expected.len() > 45, "{expected:?}");

        let range = format!("after={}&before={}", first - 1, last + 1);
        for node in 0..NODES {
            for limit in [1, 3, 1_000] {
                let events = listed(&client, node, &format!("{range}&limit={limit}"), None).await;
                assert_eq!(events, expected, "node {node}, limit {limit}");
            }
        }
        let open = format!("after={}&limit=4", first - 1);
        assert_eq!(listed(&client, 1, &open, Some("later")).await, expected, "new events do not move the pages");

        let newest = page(&client, 2, &format!("{range}&limit=5")).await.expect_status(200);
        assert_eq!((newest.items(), newest.number("skipped")), (&expected[..5], expected.len() as u64 - 5));
        assert!(newest.number("oldest") <= first, "{newest:?}");
        assert!(newest.number("revision") >= last && newest.number("revision") == newest.revision());
        assert!(!newest.text.contains(&held.id) && !newest.text.contains(&owner.id), "no secret id is shown");

        let of_session = |event: &Value| event["session"] == json!(owner.number);
        let of_orders = |event: &Value| event["lock"].as_str().is_some_and(|lock| lock.starts_with("ord"));
        let select = |selects: &dyn Fn(&Value) -> bool| -> Vec<Value> {
            let selected: Vec<Value> = expected.iter().filter(|event| selects(event)).cloned().collect();
            assert!(!selected.is_empty());
            selected
        };
        for (filter, wanted) in [
            ("lock=deploy".to_owned(), select(&|event| event["lock"] == "deploy")),
            ("prefix=ord".to_owned(), select(&of_orders)),
            (format!("session={}", owner.number), select(&of_session)),
            ("type=granted".to_owned(), select(&|event| event["type"] == "granted")),
            ("type=granted&prefix=ord".to_owned(), select(&|event| of_orders(event) && event["type"] == "granted")),
        ] {
            assert_eq!(listed(&client, 1, &format!("{range}&{filter}&limit=2"), None).await, wanted, "{filter}");
        }
    });
}

#[test]
fn a_reader_that_passes_the_last_revision_misses_nothing_at_any_node() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = put(&client, "start").await;
        let mut after = first;
        let mut seen = Vec::new();
        let mut last = first;
        let paths = (0..30).map(|number| format!("feed/{number}/x")).chain(["end".to_owned()]);
        for (number, path) in paths.enumerate() {
            last = put(&client, &path).await;
            let newer = page(&client, number % NODES, &format!("after={after}&limit=1000")).await.expect_status(200);
            assert_eq!(newer.json["next_cursor"], Value::Null, "{newer:?}");
            drop(seen.splice(0..0, newer.items().iter().cloned()));
            assert!(newer.number("revision") >= last, "the answer reflects the write: {newer:?}");
            after = newer.number("revision");
        }
        assert_eq!(seen, watched(&client, first + 1, last).await);
        let far = format!("after={}", after + 1_000_000);
        page(&client, 1, &far).await.expect_problem(400, "bad_request");
    });
}

#[test]
fn events_that_are_not_kept_are_refused_with_the_oldest_revision() {
    run_parallel(SHORT, async {
        let (cluster, early) = after_many_events().await;
        let client = cluster.client(0);
        for node in 0..NODES {
            let gone = page(&client, node, &format!("after={early}")).await.expect_problem(410, "compacted");
            let oldest = gone.number("oldest");
            assert!(oldest > early, "{gone:?}");
            for query in [format!("before={oldest}"), format!("cursor={early}-1"), format!("after={}", oldest - 2)] {
                let gone = page(&client, node, &query).await.expect_problem(410, "compacted");
                assert_eq!(gone.number("oldest"), oldest, "{query}");
            }
            let events = listed(&client, node, &format!("after={}&limit=50", oldest - 1), None).await;
            assert_eq!(whole(events.last().expect("an event"), "revision"), oldest, "the oldest revision is kept");
            assert_eq!(listed(&client, node, "limit=1000", None).await, events, "without a range, the pages end there");
        }
    });
}

#[test]
fn a_caller_sees_only_the_events_that_it_may_watch() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let nobody = guarded.user("nobody").await;
        let session = root.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        for lock in ["secret", "deploy%2Fa"] {
            root.acquire(lock, "ttl=60s").await.expect_status(200);
        }
        for path in ["hidden", "app/ci/x"] {
            root.send(Call::put(&format!("/v1/nodes/{path}?parents"), "x")).await.expect_status(201);
        }
        let every = root.send(Call::get("/v1/events")).await.expect_status(200);
        for shown in ["\"secret\"", "\"deploy/a\"", "\"/hidden\"", "\"/app/ci/x\"", "\"opened\""] {
            assert!(every.text.contains(shown), "{shown}: {every:?}");
        }
        assert!(!every.text.contains(session.string("id")), "no secret id is shown");
        let own = ci.send(Call::get("/v1/events")).await.expect_status(200);
        let may_watch =
            |event: &Value| event["lock"] == "deploy/a" || event["path"].as_str().is_some_and(|path| path.starts_with("/app/ci"));
        assert!(own.text.contains("\"deploy/a\"") && own.text.contains("\"/app/ci/x\""), "{own:?}");
        assert!(own.items().iter().all(may_watch), "{own:?}");
        let all_kept = format!("/v1/events?after={}&limit=1", own.number("oldest") - 1);
        let counted = ci.send(Call::get(&all_kept)).await.expect_status(200);
        assert_eq!(counted.number("skipped"), own.items().len() as u64 - 1, "what is hidden is not counted");
        for seen in own.items() {
            let revision = &seen["revision"];
            let of_revision = own.items().iter().filter(|event| event["revision"] == *revision).count();
            let page = ci.send(Call::get(&format!("/v1/events?before={}&limit=1", whole(seen, "revision") + 1))).await;
            let Some(cursor) = page.expect_status(200).json["next_cursor"].as_str().map(str::to_owned) else { continue };
            assert_eq!(cursor, format!("{revision}-{}", of_revision - 1), "a cursor counts what is hidden");
        }
        for query in ["lock=secret", "type=opened", "session=1", "prefix=sec"] {
            let hidden = ci.send(Call::get(&format!("/v1/events?{query}"))).await.expect_status(200);
            assert!(hidden.items().iter().all(may_watch), "{query}: {hidden:?}");
        }
        let none = nobody.send(Call::get("/v1/events")).await.expect_status(200);
        assert_eq!((&none.json["items"], &none.json["next_cursor"]), (&json!([]), &Value::Null), "{none:?}");
        root.client.send(&Call::get("/v1/events")).await.expect_problem(401, "unauthenticated");
    });
}
