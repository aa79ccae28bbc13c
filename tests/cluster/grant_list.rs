//! Every node lists what an owner or a session holds and waits for, over all locks, without any id.

use crate::{
    access::Guarded,
    client::{Answer, Call, Client, Session, whole},
    commands::{at, output_of},
    harness::{Cluster, SHORT, run_parallel},
};
use serde_json::{Value, json};

/// An entry as `lock owner state`.
fn line(item: &Value) -> String {
    let text = |field: &str| item[field].as_str().unwrap_or_else(|| panic!("no {field}: {item}"));
    format!("{} {} {}", text("lock"), text("owner"), text("state"))
}

/// The entries that match, in pages of that many.
async fn all(client: &Client, query: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.send(&Call::get(&format!("/v1/grants?{query}&limit={limit}{cursor}"))).await.expect_status(200);
        assert!(page.items().len() <= limit, "{page:?}");
        found.extend(page.items().iter().map(line));
        assert_eq!(page.header("link").is_some(), page.json["next_cursor"].is_string(), "{page:?}");
        match page.json["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

async fn queue(client: &Client, lock: &str, parameters: &str) -> Answer {
    let call = Call::post(&format!("/v1/locks/{lock}?{parameters}")).with("prefer", "respond-async");
    client.send(&call).await.expect_status(202)
}

/// ann holds ships/a without a named session, and waits for crane behind bob. With a session, bob holds crane, and cy holds dock
/// and stock with one grant. Returns the session, and the ids of all grants.
async fn port(client: &Client) -> (Session, Vec<String>) {
    let session = client.open_session("10m", "worker-3").await;
    let of_session = format!("session={}", session.id);
    let ann = client.acquire("ships%2Fa", "ttl=10m&owner=ann").await;
    let bob = client.acquire("crane", &format!("{of_session}&owner=bob")).await;
    let locks = json!({
        "locks": [{ "name": "stock" }, { "name": "dock", "mode": "shared" }], "owner": "cy", "session": session.id,
    });
    let cy = client.acquire_with(&Call::post("/v1/locks").json(&locks)).await;
    let waits = queue(client, "crane", "ttl=10m&owner=ann").await;
    (session, vec![ann.id, bob.id, cy.id, waits.string("id").to_owned()])
}

#[test]
fn grants_are_listed_by_owner_session_and_state_at_every_node() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let (session, ids) = port(&client).await;
        let of_session = format!("session={}", session.number);
        for node in 0..3 {
            let client = cluster.client(node);
            for limit in [1, 2, 100] {
                for (query, wanted) in [
                    ("", vec!["ships/a ann held", "crane bob held", "stock cy held", "dock cy held", "crane ann queued"]),
                    ("sort=since&owner=ann", vec!["ships/a ann held", "crane ann queued"]),
                    (
                        "sort=lock",
                        vec!["crane bob held", "crane ann queued", "dock cy held", "ships/a ann held", "stock cy held"],
                    ),
                    ("owner=nobody", vec![]),
                    (of_session.as_str(), vec!["crane bob held", "stock cy held", "dock cy held"]),
                    ("session=999999", vec![]),
                    ("prefix=s", vec!["ships/a ann held", "stock cy held"]),
                    ("state=queued", vec!["crane ann queued"]),
                    ("state=held&prefix=crane&sort=lock", vec!["crane bob held"]),
                    ("state=cooling", vec![]),
                ] {
                    assert_eq!(all(&client, query, limit).await, wanted, "?{query} at node {node} in pages of {limit}");
                }
            }
            let page = client.send(&Call::get("/v1/grants")).await.expect_status(200);
            assert!(ids.iter().chain([&session.id]).all(|id| !page.text.contains(id.as_str())), "an id is a secret: {page:?}");
            // The entries say the same as the queues of their locks.
            let queue = client.queue("crane").await;
            let listed: Vec<Value> = page.items().iter().filter(|item| item["lock"] == "crane").cloned().collect();
            assert_eq!((queue.len(), listed.len()), (2, 2), "{page:?}");
            for (item, entry) in listed.iter().zip(&queue) {
                for field in
                    ["number", "session", "owner", "state", "token", "mode", "permits", "since", "queued_at", "waits_for"]
                {
                    assert_eq!(item[field], entry[field], "{field} of {item}");
                }
            }
            assert_eq!((listed[0].get("position"), &listed[1]["position"]), (None, &2.into()));
            assert_eq!(listed[1]["waits_for"], json!({ "number": whole(&listed[0], "number"), "owner": "bob" }));
        }
        client.release(&ids[1]).await;
        assert_eq!(all(&client, "owner=ann", 100).await, ["ships/a ann held", "crane ann held"]);
    });
}

#[test]
fn a_shell_lists_what_an_owner_or_a_session_holds_and_waits_for() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (session, _) = port(&cluster.client(0)).await;
        let shell = async |node: usize, words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            output_of(&at(&cluster, node, &words).await, 0)
        };
        let shown = shell(1, "grants ls --owner ann").await;
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(
            rows.iter().map(|row| (row[0], row[1], row[5])).collect::<Vec<_>>(),
            [("ships/a", "held", "ann"), ("crane", "queued", "ann")]
        );
        assert_eq!((rows[0][2], rows[1][2], rows[1][10]), ("-", "2", "bob"), "{shown}");
        let number = session.number;
        let narrow = format!("grants ls --session {number} --prefix d --state held --sort lock --limit 1");
        assert!(shell(2, &narrow).await.starts_with("dock\theld\t"), "{narrow}");
        assert_eq!(shell(1, "grants ls --owner nobody").await, "");
        let body = shell(1, "grants ls --owner cy --limit 1 -o json").await;
        assert!(body.contains(r#""lock":"stock""#) && body.contains(r#""next_cursor":""#), "{body}");
        let wrong = at(&cluster, 1, &["grants", "ls", "--state", "idle"]).await;
        assert!(output_of(&wrong, 2).contains("state"), "{wrong:?}");
    });
}

#[test]
fn a_list_of_grants_with_a_bad_parameter_is_refused_with_its_name() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let (session, _) = port(&client).await;
        let by_lock = client.send(&Call::get("/v1/grants?sort=lock&limit=1")).await.expect_status(200);
        let cursor = by_lock.string("next_cursor");
        for (query, says) in [
            (format!("session={}", session.id), "\"session\""),
            ("session=-1".to_owned(), "\"session\""),
            ("owner=a%00b".to_owned(), "\"owner\""),
            ("state=idle".to_owned(), "\"state\""),
            ("sort=name".to_owned(), "\"sort\""),
            ("limit=0".to_owned(), "\"limit\""),
            ("limit=1001".to_owned(), "\"limit\""),
            (format!("cursor={cursor}"), "\"cursor\""),
            ("cursor=57-1".to_owned(), "\"cursor\""),
            ("lock=crane".to_owned(), "\"lock\""),
        ] {
            let refused = client.send(&Call::get(&format!("/v1/grants?{query}"))).await.expect_problem(400, "bad_request");
            assert!(refused.string("detail").contains(says), "?{query}: {refused:?}");
        }
        client.send(&Call::get(&format!("/v1/grants?sort=lock&cursor={cursor}"))).await.expect_status(200);
    });
}

#[test]
fn a_list_of_grants_has_only_locks_that_the_caller_may_inspect() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        for lock in ["a-secret", "deploy%2Fa", "deploy%2Fb", "z-secret"] {
            root.acquire(lock, "ttl=60s&owner=op").await.expect_status(200);
        }
        // It is next for deploy/c, and waits for a lock that the other caller may not see.
        let locks = json!({ "locks": [{ "name": "deploy/c" }, { "name": "z-secret" }], "owner": "op", "ttl": "60s" });
        root.send(Call::post("/v1/locks").json(&locks).with("prefer", "respond-async")).await.expect_status(202);
        let without = guarded.user("without-role").await;
        let names =
            |page: &Answer| page.items().iter().map(|item| item["lock"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>();
        for sort in ["since", "lock"] {
            let everything = root.send(Call::get(&format!("/v1/grants?owner=op&sort={sort}"))).await.expect_status(200);
            assert_eq!(everything.items().len(), 6, "{everything:?}");
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let query = format!("/v1/grants?owner=op&sort={sort}&limit=1{cursor}");
                let page = ci.send(Call::get(&query)).await.expect_status(200);
                assert!(!page.text.contains("secret") && !page.text.contains("waits_for"), "{page:?}");
                seen.extend(names(&page));
                let Some(next) = page.json["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(seen, ["deploy/a", "deploy/b", "deploy/c"], "{sort}");
            let none = without.send(Call::get(&format!("/v1/grants?sort={sort}"))).await.expect_status(200);
            assert_eq!((names(&none).len(), &none.json["next_cursor"]), (0, &Value::Null));
        }
        let waits = root.send(Call::get("/v1/grants?prefix=deploy%2Fc")).await.expect_status(200);
        assert_eq!(waits.items()[0]["waits_for"]["owner"], "op", "a caller that may see the other lock: {waits:?}");
    });
}
