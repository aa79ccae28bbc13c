//! The tree over HTTP, at followers and at the leader: values, kinds, listings, transactions, and automatic removal.

use crate::{
    client::{Answer, Call, Client, whole},
    harness::{Cluster, LONG, NODES, SHORT, eventually, report, run_parallel},
    trial,
};
use fairhold_types::limits::{CONTAINER_EMPTY_MAX, NODES_REMOVED_MAX, TRANSACTION_STEPS_MAX};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GONE_WITHIN: Duration = Duration::from_secs(30);

fn node(path: &str) -> String {
    format!("/v1/nodes/{path}")
}

async fn put(client: &Client, path: &str, value: &str) -> Answer {
    client.write(&Call::put(&node(path), value)).await
}

fn txn(body: &Value) -> Call {
    Call::post("/v1/txn").json(body)
}

async fn items(client: &Client, path: &str) -> Value {
    client.send(&Call::get(&node(path))).await.expect_status(200).json["items"].clone()
}

async fn versions_guard_a_node(client: &Client, at: &str) {
    let path = node(at);
    let new = Call::put(&path, "1").with("if-none-match", "*");
    let made = client.send(&new).await.expect_status(201);
    assert_eq!((made.header("etag"), made.number("version")), (Some("\"0\""), 0));
    client.send(&Call::put(&path, "2").with("if-none-match", "*")).await.expect_problem(412, "version_mismatch");
    let second = client.send(&Call::put(&path, "2").with("if-match", "\"0\"")).await.expect_status(200);
    assert_eq!(second.header("etag"), Some("\"1\""));
    let stale = client.send(&Call::put(&path, "3").with("if-match", "\"0\"")).await.expect_problem(412, "version_mismatch");
    assert_eq!(stale.json["current_version"], 1);
    client.send(&Call::put(&path, "3").with("if-match", "*")).await.expect_status(200);
    let missing = Call::put(&node(&format!("{at}-missing")), "x").with("if-match", "*");
    let missing = client.send(&missing).await.expect_problem(412, "version_mismatch");
    assert_eq!(missing.json["current_version"], Value::Null);

    client.send(&Call::delete(&path).with("if-match", "\"0\"")).await.expect_problem(412, "version_mismatch");
    client.send(&Call::delete(&path).with("if-none-match", "*")).await.expect_problem(400, "bad_request");
    client.send(&Call::delete(&path).with("if-match", "\"2\"")).await.expect_status(204);
    client.send(&Call::delete(&path)).await.expect_problem(404, "no_node");
}

async fn a_parent_numbers_its_children(client: &Client, at: &str) {
    let queue = node(&format!("{at}/queue"));
    client.send(&Call::post(&format!("{queue}?sequential&name=task-")).body("x")).await.expect_problem(404, "no_node");
    let call = Call::post(&format!("{queue}?sequential&name=task-&parents")).body("first");
    let first = client.send(&call).await.expect_status(201);
    assert_eq!(first.header("location"), Some(format!("{queue}/task-0000000000").as_str()));
    assert_eq!(client.send(&call).await.expect_status(201).json, first.json, "the same key is the same node");
    put(client, &format!("{at}/queue/plain"), "").await;
    let odd = client.send(&Call::post(&format!("{queue}?sequential&name=a%20%C3%A9"))).await.expect_status(201);
    assert_eq!(odd.header("location"), Some(format!("{queue}/a%20%C3%A90000000002").as_str()));
    assert_eq!(odd.string("path"), format!("/{at}/queue/a é0000000002"));
    client.send(&Call::post(&queue)).await.expect_problem(400, "bad_request");
    assert_eq!(client.value(&format!("{at}/queue/task-0000000000")).await, "first");
    client.send(&Call::delete(&queue)).await.expect_problem(409, "not_empty");
    client.send(&Call::delete(&format!("{queue}?recursive"))).await.expect_status(204);
    client.send(&Call::get(&format!("{queue}/plain"))).await.expect_problem(404, "no_node");
}

async fn listings_come_in_pages(client: &Client, at: &str) {
    for name in ["b", "a", "c é&", "a/x", "a/y"] {
        client.write(&Call::put(&format!("{}?parents", node(&format!("{at}/{}", name.replace(' ', "%20")))), "v")).await;
    }
    assert_eq!(items(client, &format!("{at}?children")).await, json!(["a", "b", "c é&"]));
    let (mut names, mut next) = (Vec::new(), Some(format!("{}?children&limit=1", node(at))));
    while let Some(url) = next {
        let page = client.send(&Call::get(&url)).await.expect_status(200);
        assert_eq!(page.header("fairhold-num-children"), Some("3"), "the parent's own stat");
        names.extend(page.json["items"].as_array().expect("items").clone());
        let link = page.header("link").map(|link| link.trim_start_matches('<').split_once('>').expect("a URL").0.to_owned());
        assert_eq!(link.is_some(), !page.json["next_cursor"].is_null());
        next = link;
    }
    assert_eq!(Value::from(names), json!(["a", "b", "c é&"]));
    let all = items(client, &format!("{at}?recursive")).await;
    assert_eq!(
        all,
        json!([format!("/{at}/a"), format!("/{at}/a/x"), format!("/{at}/a/y"), format!("/{at}/b"), format!("/{at}/c é&")])
    );
    let stats = items(client, &format!("{at}/a?children&meta")).await;
    assert_eq!((stats[0]["path"].as_str(), stats[1]["data_length"].as_u64()), (Some(format!("/{at}/a/x").as_str()), Some(1)));
    for wrong in ["?limit=1", "?children&cursor=a%2Fb", "?recursive&cursor=%2Felsewhere", "?children&limit=1001"] {
        client.send(&Call::get(&format!("{}{wrong}", node(at)))).await.expect_problem(400, "bad_request");
    }
    client.send(&Call::get(&node("nothing?children"))).await.expect_problem(404, "no_node");
}

#[test]
fn tree_nodes_are_guarded_numbered_and_listed_at_every_server() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for index in 0..NODES {
            let (client, at) = (cluster.client(index), format!("at-{index}"));
            versions_guard_a_node(&client, &format!("{at}-guarded")).await;
            a_parent_numbers_its_children(&client, &at).await;
            listings_come_in_pages(&client, &at).await;
        }
        let client = cluster.client(0);
        client.send(&Call::put(&node("locks/mine"), "x")).await.expect_problem(403, "denied");
        client.send(&Call::delete(&node(""))).await.expect_problem(403, "denied");
    });
}

#[test]
fn a_transaction_is_done_as_a_whole_or_names_the_refused_step() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let [follower, _] = cluster.followers().await;
        let client = cluster.client(follower);
        let grant = client.acquire("deploy", "ttl=60s").await;
        put(&client, "jobs", "").await;
        let call = txn(&json!({
            "if": [{"path": "/jobs", "version": 0}, {"path": "/jobs/1", "exists": false},
                   {"fence": {"lock": "deploy", "token": grant.token}}],
            "then": [{"create": {"path": "/jobs/1", "value": "ready"}},
                     {"set": {"path": "/jobs/1", "value_base64": "AP8=", "version": 0}},
                     {"create": {"path": "/jobs", "sequential": true, "name": "log-"}},
                     {"check": {"path": "/jobs/1", "version": 1}},
                     {"put": {"path": "/jobs/state", "value": "é"}}, {"delete": {"path": "/jobs/state"}}],
        }));
        let done = client.send(&call).await.expect_status(200);
        assert_eq!(done.json["succeeded"], true);
        let expected = json!([
            {"create": {"path": "/jobs/1"}},
            {"set": {"path": "/jobs/1", "version": 1}},
            {"create": {"path": "/jobs/log-0000000001"}},
            {"check": {"path": "/jobs/1", "version": 1}},
            {"put": {"path": "/jobs/state", "created": true, "version": 0}},
            {"delete": {"path": "/jobs/state", "count": 1}},
        ]);
        assert_eq!(done.json["results"], expected);
        let revision = done.number("revision");
        let again = client.send(&call).await.expect_status(200);
        assert_eq!((&again.json["results"], again.json["succeeded"].as_bool()), (&expected, Some(true)), "the same key, once");
        let stat = client.send(&Call::get("/v1/nodes/jobs/1?meta")).await.expect_status(200);
        assert_eq!((stat.number("czxid"), stat.number("mzxid"), stat.number("data_length")), (revision, revision, 2));

        let refused = txn(&json!({"then": [{"put": {"path": "/jobs/2"}}, {"create": {"path": "/jobs/1"}}]}));
        let refused = client.send(&refused).await.expect_problem(409, "node_exists");
        assert_eq!(refused.json["failed"], json!({"in": "then", "index": 1}));
        client.send(&Call::get("/v1/nodes/jobs/2")).await.expect_problem(404, "no_node");
        let stale = json!({"if": [{"path": "/jobs", "exists": true}, {"path": "/jobs/1", "version": 7}], "then": []});
        let stale = client.send(&txn(&stale)).await.expect_problem(412, "version_mismatch");
        assert_eq!((&stale.json["failed"], &stale.json["current_version"]), (&json!({"in": "if", "index": 1}), &json!(1)));
        client.release(&grant.id).await;
        let otherwise = json!({"if": [{"fence": {"lock": "deploy", "token": grant.token}}],
                               "then": [{"delete": {"path": "/jobs/1"}}],
                               "else": [{"put": {"path": "/jobs/late", "value": "1"}}]});
        let otherwise = client.send(&txn(&otherwise)).await.expect_status(200);
        assert_eq!(
            (otherwise.json["succeeded"].as_bool(), whole(&otherwise.json["results"][0]["put"], "version")),
            (Some(false), 0)
        );

        let puts = |count: usize| json!({"then": vec![json!({"put": {"path": "/jobs/many", "value": "x"}}); count]});
        client.send(&txn(&puts(1_000))).await.expect_status(200);
        client.send(&txn(&puts(1_001))).await.expect_problem(400, "bad_request");
        for (wrong, named) in [
            (json!({"then": [{"put": {"path": "/a", "vlaue": "x"}}]}), "vlaue"),
            (json!({"then": [{"put": {"path": "/a", "ttl": "never"}}]}), "then[0]"),
            (json!({"if": [{"path": "/a"}]}), "if[0]"),
        ] {
            let answer = client.send(&txn(&wrong)).await.expect_problem(400, "bad_request");
            assert!(answer.string("detail").contains(named), "{answer:?}");
        }
    });
}

#[test]
fn ephemeral_nodes_and_ttl_nodes_are_removed_automatically() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(1);
        let session = client.open_session("60s", "owner").await;
        let own = |path: &str| Call::put(&format!("{}?session={}", node(path), session.id), "x");
        client.send(&own("mine")).await.expect_status(201);
        client.send(&own("mine/child")).await.expect_problem(409, "ephemeral_parent");
        client.send(&Call::put(&node("lasting"), "x")).await.expect_status(201);
        client.send(&own("lasting")).await.expect_problem(409, "node_exists");
        let sequential = format!("{}?sequential&session={}", node("lasting"), session.id);
        client.send(&Call::post(&sequential)).await.expect_status(201);
        client
            .send(&Call::put(&format!("{}?session={:032x}", node("nobodys"), 7), "x"))
            .await
            .expect_problem(404, "session_not_found");
        let shown = client.send(&Call::get(&format!("/v1/sessions/{}", session.number))).await.expect_status(200);
        assert_eq!(shown.json["ephemeral_nodes"], json!(["/lasting/0000000000", "/mine"]));
        assert_eq!(shown.number("ephemeral_count"), 2);
        let stat = client.send(&Call::get(&node("mine?meta"))).await.expect_status(200);
        assert_eq!(stat.number("ephemeral_owner"), session.number);
        client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
        for gone in ["mine", "lasting/0000000000"] {
            cluster.client(2).send(&Call::get(&node(gone))).await.expect_problem(404, "no_node");
        }

        let short = client.open_session("1s", "short").await;
        client.send(&Call::put(&format!("{}?session={}", node("short"), short.id), "x")).await.expect_status(201);
        client.send(&Call::put(&format!("{}?ttl=1s&parents", node("timed/out")), "x")).await.expect_status(201);
        client.send(&Call::put(&format!("{}?container", node("holder")), "x")).await.expect_status(201);
        for gone in ["short", "timed/out"] {
            let client = cluster.client(0);
            eventually("a node is gone", GONE_WITHIN, || async {
                (client.send(&Call::get(&node(gone))).await.status == 404).then_some(())
            })
            .await;
        }
        client.send(&Call::get(&node("timed"))).await.expect_status(200);
        client.send(&Call::get(&node("holder"))).await.expect_status(200);
    });
}

/// Creates a folder with this many nodes below it.
async fn grow(client: &Client, folder: &str, below: usize) {
    let paths: Vec<String> =
        std::iter::once(folder.to_owned()).chain((0..below).map(|leaf| format!("{folder}/{leaf}"))).collect();
    for some in paths.chunks(TRANSACTION_STEPS_MAX) {
        let then: Vec<Value> = some.iter().map(|path| json!({"create": {"path": path}})).collect();
        client.write(&txn(&json!({"then": then}))).await;
    }
}

#[test]
fn a_recursive_delete_removes_up_to_ten_thousand_nodes_in_one_step_or_none() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        grow(&client, "/large", NODES_REMOVED_MAX).await;
        let delete = || Call::delete(&format!("{}?recursive", node("large")));
        let refused = client.once(&delete()).await.expect_problem(413, "too_large");
        assert_eq!(refused.number("limit"), NODES_REMOVED_MAX as u64);
        let stat = client.send(&Call::get(&node("large?meta"))).await.expect_status(200);
        assert_eq!(stat.number("num_children"), NODES_REMOVED_MAX as u64, "nothing was removed");
        client.send(&Call::delete(&node("large/0"))).await.expect_status(204);
        let before = stat.revision();
        let removed = client.send(&delete()).await.expect_status(204);
        assert_eq!(removed.revision(), before + 2, "the removal is one change");
        for index in 0..NODES {
            let read = cluster.client(index).once(&Call::get(&node("large/1"))).await;
            read.expect_problem(404, "no_node");
        }
    });
}

#[test]
fn a_container_is_removed_some_time_after_its_last_child_but_not_before_its_first() {
    if !trial::size(false, true) {
        report("in the long form only: a container is removed a minute after its last child");
        return;
    }
    run_parallel(LONG, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(1);
        for container in ["never-used", "used"] {
            client.send(&Call::put(&format!("{}?container", node(container)), "x")).await.expect_status(201);
        }
        client.send(&Call::put(&node("used/child"), "x")).await.expect_status(201);
        client.send(&Call::delete(&node("used/child"))).await.expect_status(204);
        let begun = Instant::now();
        eventually("the container is gone", LONG, || async {
            (client.send(&Call::get(&node("used"))).await.status == 404).then_some(())
        })
        .await;
        report(&format!("a container was removed {:.1?} after its last child", begun.elapsed()));
        assert!(begun.elapsed() >= CONTAINER_EMPTY_MAX, "not before its time");
        client.send(&Call::get(&node("never-used"))).await.expect_status(200);
    });
}
