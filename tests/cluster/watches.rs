//! Watches, and reads that wait: what a client can rely on.

use crate::{
    client::{Answer, Call, Client, whole},
    harness::{Cluster, NODES, SHORT, all, run_parallel},
    watching::Watching,
};
use serde_json::json;
use std::time::{Duration, Instant};

pub(crate) async fn put(client: &Client, path: &str) -> u64 {
    client.write(&Call::put(&format!("/v1/nodes/{path}?parents"), "x")).await.number("revision")
}

/// A cluster that keeps few events, after many of them. Returns the revision of the first, which no node keeps.
pub(crate) async fn after_many_events() -> (Cluster, u64) {
    let cluster = Cluster::start_with(&["--event-ring-bytes", "65536"]).await;
    let early = put(&cluster.client(0), "a").await;
    let writers = (0..8).map(|writer| {
        let client = cluster.client(writer);
        tokio::spawn(async move {
            for _ in 0..100 {
                put(&client, &format!("busy-{writer}")).await;
            }
        })
    });
    all(writers.collect()).await;
    (cluster, early)
}

#[test]
fn a_watch_reports_events_of_what_it_names_and_no_others() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let before = put(&client, "jobs/old").await;
        let mut one = Watching::open(&client, 0, "path=/jobs/a").await;
        let mut children = Watching::open(&client, 1, "path=/jobs&children").await;
        let mut below = Watching::open(&client, 2, "path=/jobs&recursive").await;
        let mut lock = Watching::open(&client, 1, "lock=deploy").await;
        let owner = client.open_session("60s", "owner").await;
        let mut of_session = Watching::open(&client, 2, &format!("session={}", owner.number)).await;
        for watching in [&mut one, &mut children, &mut below, &mut lock, &mut of_session] {
            assert!(whole(&watching.expect("bookmark").await, "revision") >= before, "where it starts");
        }
        let created = put(&client, "jobs/a").await;
        let deeper = put(&client, "jobs/a/b").await;
        let changed = put(&client, "jobs/a").await;
        put(&client, "jobsworth").await;
        let grant = client.acquire("deploy", "owner=ci-7&ttl=30s").await;
        client.release(&grant.id).await;
        let end = put(&client, "jobs/end").await;

        let new = json!({"revision": created, "type": "created", "path": "/jobs/a"});
        let again = json!({"revision": changed, "type": "changed", "path": "/jobs/a", "version": 1});
        let last = json!({"revision": end, "type": "created", "path": "/jobs/end"});
        assert_eq!([one.next_event().await, one.next_event().await], [new.clone(), again.clone()]);
        let seen = [children.next_event().await, children.next_event().await, children.next_event().await];
        assert_eq!(seen, [new.clone(), again.clone(), last.clone()]);
        let deep = json!({"revision": deeper, "type": "created", "path": "/jobs/a/b"});
        assert_eq!(
            [below.next_event().await, below.next_event().await, below.next_event().await, below.next_event().await],
            [new, deep, again, last]
        );
        let session = lock.next_event().await["session"].clone();
        assert_eq!(session, grant.number, "the first line is that of the queue");
        let held = json!({"revision": grant.token, "type": "granted", "lock": "deploy", "number": grant.number,
            "token": grant.token, "session": session, "owner": "ci-7"});
        assert_eq!(lock.next_event().await, held);
        let ended = lock.next_event().await;
        assert_eq!((&ended["type"], &ended["reason"]), (&json!("ended"), &json!("released")), "{ended}");
        let own = client.acquire("report", &format!("session={}", owner.id)).await;
        client.release(&own.id).await;
        let reported = [of_session.next_event().await, of_session.next_event().await, of_session.next_event().await];
        let reported =
            reported.map(|line| (line["type"].clone(), line["lock"].clone(), line["number"].clone(), line["session"].clone()));
        let of = |kind: &str| (json!(kind), json!("report"), json!(own.number), json!(owner.number));
        assert_eq!(reported, [of("queued"), of("granted"), of("ended")], "the events of its grants, and no others");
        assert!(!ended.to_string().contains(&grant.id) && !held.to_string().contains(&grant.id), "no id is shown");
    });
}

#[test]
fn a_watch_starts_with_the_current_state_or_at_any_kept_revision() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut written = Vec::new();
        for number in 0..300 {
            written.push((put(&client, &format!("jobs/{number:03}")).await, format!("/jobs/{number:03}")));
        }
        put(&client, "other").await;
        let held = client.acquire("deploy", "owner=ci-7&ttl=30s").await;
        let now = put(&client, "jobs/000").await;
        for node in 0..NODES {
            let mut watching = Watching::open(&client, node, "path=/jobs&recursive&lock=deploy&initial").await;
            let first = watching.expect("initial").await;
            assert_eq!(first, json!({"revision": now, "type": "initial", "path": "/jobs", "version": 0}), "node {node}");
            for (index, (_, path)) in written.iter().enumerate() {
                let there = json!({"revision": now, "type": "initial", "path": path, "version": u8::from(index == 0)});
                assert_eq!(watching.expect("initial").await, there);
            }
            let there = watching.expect("initial").await;
            assert_eq!((&there["lock"], &there["state"]), (&json!("deploy"), &json!("held")), "{there}");
            assert_eq!(whole(&there, "token"), held.token);
            assert_eq!(watching.expect("bookmark").await["revision"], now);

            let mut watching = Watching::open(&client, node, &format!("path=/jobs&recursive&from={}", written[7].0)).await;
            for (revision, path) in &written[7..] {
                assert_eq!(watching.expect("created").await, json!({"revision": revision, "type": "created", "path": path}));
            }
            assert_eq!(whole(&watching.expect("changed").await, "revision"), now);
            watching.expect("bookmark").await;
            // The next revision does not exist yet, but may be requested.
            let mut next = Watching::open(&client, node, &format!("path=/jobs/next-{node}&from={}", now + 1)).await;
            next.expect("bookmark").await;
        }
        let far = format!("from={}", now + 1_000);
        for node in 0..NODES {
            let refused = Watching::try_open(&client, node, &far).await.expect("the node runs").expect_err("too far");
            refused.expect_problem(400, "bad_request");
        }
    });
}

#[test]
fn an_event_source_continues_after_its_last_event_id() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = put(&client, "feed/a").await;
        let second = put(&client, "feed/b").await;
        // The watched node knows of both writes, so its first bookmark comes after them.
        client.send_to(1, &Call::get("/v1/nodes/feed/b")).await.expect("it runs").expect_status(200);
        let last_id = (first - 1).to_string();
        let headers = [("accept", "text/event-stream"), ("last-event-id", last_id.as_str())];
        let mut response = client.stream_from(1, "/v1/watch?path=/feed&recursive&initial", &headers).await.expect("it runs");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        // The first write created the parent too: two events at one revision, of which only the last has the id.
        let wanted = format!(
            "data: {{\"revision\":{first},\"type\":\"created\",\"path\":\"/feed\"}}\n\n\
             id: {first}\ndata: {{\"revision\":{first},\"type\":\"created\",\"path\":\"/feed/a\"}}\n\n\
             id: {second}\ndata: {{\"revision\":{second},\"type\":\"created\",\"path\":\"/feed/b\"}}\n\n"
        );
        let mut text = String::new();
        while text.len() <= wanted.len() || !text.ends_with("\n\n") {
            let chunk = tokio::time::timeout(Duration::from_secs(20), response.chunk()).await.expect("it continues");
            text.push_str(&String::from_utf8_lossy(&chunk.expect("the connection is open").expect("it continues")));
        }
        let bookmark = text.strip_prefix(&wanted).unwrap_or_else(|| panic!("{text}"));
        // The last node may have reported its capacity after the second write: that is a revision too.
        let reached = bookmark.strip_prefix("id: ").and_then(|rest| rest.split_once('\n'));
        let reached: u64 = reached.and_then(|(id, _)| id.parse().ok()).unwrap_or_else(|| panic!("{bookmark}"));
        assert!(reached >= second, "{bookmark}");
        assert_eq!(bookmark, format!("id: {reached}\ndata: {{\"revision\":{reached},\"type\":\"bookmark\"}}\n\n"));
    });
}

#[test]
fn a_watch_of_compacted_history_is_refused_before_the_first_byte_with_the_oldest_revision() {
    run_parallel(SHORT, async {
        let (cluster, early) = after_many_events().await;
        let client = cluster.client(0);
        for node in 0..NODES {
            let gone = Watching::try_open(&client, node, &format!("from={early}")).await.expect("the node runs");
            let gone = gone.expect_err("it is not kept").expect_problem(410, "compacted");
            let oldest = gone.number("oldest");
            assert!(oldest > early, "{gone:?}");
            let first = Watching::open(&client, node, &format!("from={oldest}")).await.line().await.expect("a line");
            assert_eq!(whole(&first, "revision"), oldest, "the oldest revision that the answer names is kept: {first}");
        }
    });
}

#[test]
fn a_watch_continues_at_another_node_after_its_own_stops() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut watching = Watching::open(&client, 0, "path=/a&recursive").await;
        watching.expect("bookmark").await;
        let first = put(&client, "a").await;
        assert_eq!(whole(&watching.next_event().await, "revision"), first);
        assert!(cluster.nodes[0].terminate().await.success());
        let goaway = watching.next_event().await;
        assert_eq!((&goaway["type"], whole(&goaway, "revision") >= first), (&json!("goaway"), true), "{goaway}");
        assert_eq!(watching.line().await, None, "goaway is the last line");
        let client = cluster.client(1);
        let second = put(&client, "a").await;
        let from = whole(&goaway, "revision") + 1;
        let mut watching = Watching::open(&client, 1, &format!("path=/a&recursive&from={from}")).await;
        assert_eq!(watching.next_event().await, json!({"revision": second, "type": "changed", "path": "/a", "version": 1}));
    });
}

/// The answer to a long poll, and how long it took.
async fn polled(client: &Client, node: usize, path: &str) -> (Answer, Duration) {
    let started = Instant::now();
    let answer = client.send_to(node, &Call::get(path)).await.expect("the node runs");
    (answer, started.elapsed())
}

#[test]
fn a_read_waits_until_something_newer_exists() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for node in 0..NODES {
            let (path, lock) = (format!("/v1/nodes/poll-{node}"), format!("/v1/locks/poll-{node}"));
            let first = put(&client, &format!("poll-{node}")).await;
            // Nothing newer: not modified, at once or when the wait is over.
            let (answer, _) = polled(&client, node, &format!("{path}?after={first}")).await;
            let seen = answer.expect_status(304).revision();
            assert!(seen >= first);
            let (answer, took) = polled(&client, node, &format!("{path}?wait=300ms&after={first}")).await;
            assert!(answer.expect_status(304).text.is_empty() && took >= Duration::from_millis(300), "{took:?}");
            // Something newer: at once.
            let (answer, _) = polled(&client, node, &format!("{path}?wait=60s&after={}", first - 1)).await;
            assert_eq!(answer.expect_status(200).text, "x");
            // A change ends the wait, whether or not the request names a revision; so does a change of a lock.
            let waiting = [format!("{path}?wait=60s&after={seen}"), format!("{path}?wait=60s"), format!("{path}-new?wait=60s")];
            let waiting = waiting.into_iter().chain([format!("{lock}?wait=60s"), format!("{lock}/queue?wait=60s")]);
            let waiting = waiting.map(|path| {
                let client = client.clone();
                tokio::spawn(async move { polled(&client, node, &path).await.0 })
            });
            let waiting: Vec<_> = waiting.collect();
            // Except for the request that names a revision, they may start to wait after these writes.
            let writes = async {
                loop {
                    put(&client, &format!("poll-{node}")).await;
                    put(&client, &format!("poll-{node}-new")).await;
                    let grant = client.acquire(&format!("poll-{node}"), "ttl=30s").await;
                    client.release(&grant.id).await;
                    crate::harness::pass_time(Duration::from_millis(50)).await;
                }
            };
            let answers = tokio::select! {
                biased;
                answers = all(waiting) => answers,
                () = writes => unreachable!("the writes never stop"),
            };
            for answer in answers {
                assert!(answer.expect_status(200).revision() > seen);
            }
            let far = format!("{path}?wait=1s&after={}", seen + 1_000_000);
            polled(&client, node, &far).await.0.expect_problem(400, "bad_request");
            polled(&client, node, &format!("/v1/nodes/missing-{node}?wait=100ms")).await.0.expect_problem(404, "no_node");
        }
    });
}
