//! Locks and sessions are listed page by page, and the pages stay consistent while locks come and go.

use crate::{
    batches::take_often,
    client::{Call, Client, whole},
    commands::{at, output_of},
    harness::{Cluster, SHORT, run_parallel},
};

/// The names on this page and all later ones, by the links from page to page.
async fn follow(client: &Client, first: &str, field: &str) -> Vec<String> {
    follow_list(client, first, "items", field).await
}

/// The same for another list than `items`.
async fn follow_list(client: &Client, first: &str, list: &str, field: &str) -> Vec<String> {
    let (mut path, mut names) = (first.to_owned(), Vec::new());
    loop {
        let page = client.send(&Call::get(&path)).await.expect_status(200);
        let entries = page.json[list].as_array().unwrap_or_else(|| panic!("no {list}: {page:?}"));
        names.extend(
            entries.iter().map(|entry| if field.is_empty() { entry } else { &entry[field] }.to_string().replace('"', "")),
        );
        let link = page.header("link").map(str::to_owned);
        assert_eq!(link.is_some(), page.json["next_cursor"].is_string(), "{page:?}");
        let Some(link) = link else { return names };
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        next.unwrap_or_else(|| panic!("no link: {link}")).clone_into(&mut path);
    }
}

#[test]
fn locks_are_listed_page_by_page_while_they_come_and_go() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut grants = Vec::new();
        for name in ["jobs%2Fa", "jobs%2Fb", "jobs%2Fc", "jobs%2Fd", "other"] {
            grants.push(client.acquire(name, "ttl=60s").await);
        }
        let names = ["jobs/a", "jobs/b", "jobs/c", "jobs/d"];
        assert_eq!(follow(&client, "/v1/locks?prefix=jobs%2F&limit=1", "lock").await, names);
        assert_eq!(follow(&cluster.client(1), "/v1/locks?limit=2", "lock").await.len(), 5);

        // The last item of the page is gone by the time of the next page.
        let page = client.send(&Call::get("/v1/locks?state=held&limit=2")).await.expect_status(200);
        assert_eq!(page.items()[1]["lock"], "jobs/b");
        client.release(&grants[1].id).await;
        client.acquire("jobs%2Faa", "ttl=60s").await;
        let rest = format!("/v1/locks?state=held&cursor={}", page.string("next_cursor"));
        assert_eq!(follow(&client, &rest, "lock").await, ["jobs/c", "jobs/d", "other"]);
        assert_eq!(follow(&client, "/v1/locks?state=idle", "lock").await, ["jobs/b"]);
        client.send(&Call::get(&rest.replace("state", "sort=waiters&state"))).await.expect_problem(400, "bad_request");

        for lock in ["other", "other", "jobs%2Fc"] {
            let waits = Call::post(&format!("/v1/locks/{lock}?ttl=60s")).with("prefer", "respond-async");
            client.send(&waits).await.expect_status(202);
        }
        let first = follow(&client, "/v1/locks?sort=waiters&limit=2", "lock").await;
        assert_eq!((first.len(), &first[..2]), (6, &["other".to_owned(), "jobs/c".to_owned()][..]));
        let page = client.send(&Call::get("/v1/locks?state=queued&sort=longest_wait&limit=1")).await.expect_status(200);
        let item = &page.items()[0];
        assert_eq!((item["lock"].as_str(), &item["holders"], &item["queue_length"]), (Some("other"), &1.into(), &2.into()));
        assert_eq!((item["state"].as_str(), item["mode"].as_str()), (Some("held"), Some("exclusive")));
        assert!(item["since"].is_string() && item["waiting_since"].is_string() && item["last_token"].is_u64(), "{item}");
    });
}

#[test]
fn locks_are_found_by_a_part_of_their_names_and_by_their_owners() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = client.acquire("jobs%2FNightly", "ttl=60s&owner=ci-1").await;
        client.release(&first.id).await;
        let session = client.open_session("60s", "finder").await;
        client.acquire("jobs%2FNightly", &format!("session={}&owner=ci-7", session.id)).await;
        client.acquire("builds%2Fnightly", "ttl=60s&owner=ci-8").await;
        client.acquire("other", "ttl=60s&owner=ci-7").await;
        let waits = Call::post("/v1/locks/builds%2Fnightly?ttl=60s&owner=ci-7").with("prefer", "respond-async");
        client.send(&waits).await.expect_status(202);

        for node in 0..3 {
            let client = cluster.client(node);
            for limit in [1, 2, 100] {
                for (query, wanted) in [
                    ("match=NIGHT", vec!["builds/nightly", "jobs/Nightly"]),
                    ("match=nightly&prefix=jobs", vec!["jobs/Nightly"]),
                    ("match=nightly&sort=waiters", vec!["builds/nightly", "jobs/Nightly"]),
                    ("match=nowhere", vec![]),
                    ("owner=ci-7", vec!["builds/nightly", "jobs/Nightly", "other"]),
                    ("owner=ci-7&state=queued", vec!["builds/nightly"]),
                    ("owner=ci-7&match=s%2Fn", vec!["builds/nightly", "jobs/Nightly"]),
                    ("owner=ci-8", vec!["builds/nightly"]),
                    ("owner=ci-1", vec![]),
                    ("owner=ci", vec![]),
                ] {
                    let path = format!("/v1/locks?{query}&limit={limit}");
                    assert_eq!(follow(&client, &path, "lock").await, wanted, "{path} at node {node}");
                }
            }
        }

        // The times of two holds may be the same.
        let held = client.send(&Call::get("/v1/locks?sort=held_for")).await.expect_status(200);
        let order: Vec<_> = held.items().iter().map(|item| (item["since"].as_str(), item["lock"].as_str())).collect();
        assert!(order.len() == 3 && order.is_sorted() && order.iter().all(|(since, _)| since.is_some()), "{held:?}");
        let row = |name: &str| {
            let row = held.items().iter().find(|item| item["lock"] == name).unwrap_or_else(|| panic!("no {name}: {held:?}"));
            (row["holder"].clone(), row["usual_hold"].clone())
        };
        let (holder, usual) = row("jobs/Nightly");
        assert_eq!((holder["owner"].as_str(), whole(&holder, "session")), (Some("ci-7"), session.number));
        assert!(holder["number"].is_u64() && usual.is_string(), "{holder} {usual}");
        let (holder, usual) = row("other");
        assert!(holder["number"].is_u64() && holder.get("session").is_none() && usual.is_null(), "{holder} {usual}");

        let search = ["locks", "ls", "--match", "NIGHT", "--owner", "ci-8", "--sort", "held-for"];
        let shown = output_of(&at(&cluster, 1, &search).await, 0);
        assert!(shown.starts_with("builds/nightly\theld\tci-8\t") && shown.lines().count() == 1, "{shown}");
    });
}

#[test]
fn sessions_are_listed_page_by_page() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut numbers = Vec::new();
        for _ in 0..3 {
            numbers.push(client.open_session("60s", "listed").await.number.to_string());
        }
        assert_eq!(follow(&client, "/v1/sessions?limit=1", "number").await, numbers);
        assert_eq!(follow(&client, "/v1/sessions?limit=3", "number").await, numbers);
    });
}

#[test]
fn a_queue_is_listed_page_by_page_while_it_moves() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "queued").await;
        let readers = take_often(&client, &session, "book", "shared", 3).await;
        let writers = take_often(&client, &session, "book", "exclusive", 5).await;
        let behind = take_often(&client, &session, "book", "shared", 2).await;
        let all = client.queue_numbers("book").await;
        let numbers = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>();
        for limit in [1, 2, 3, 100] {
            let path = format!("/v1/locks/book/queue?limit={limit}");
            assert_eq!(follow(&cluster.client(limit), &path, "number").await, numbers(&all), "{limit} at a time");
            let positions: Vec<String> = (1..=10).map(|position| position.to_string()).collect();
            assert_eq!(follow(&client, &path, "position").await, positions, "{limit} at a time");
        }
        let whole_queue = client.queue("book").await;
        let by_pages = follow(&client, "/v1/locks/book/queue?limit=1", "waits_for").await;
        let waits_for: Vec<String> = whole_queue.iter().map(|item| item["waits_for"].to_string().replace('"', "")).collect();
        assert_eq!(by_pages, waits_for, "each page names what each entry waits for");
        assert_eq!(follow_list(&client, "/v1/locks/book?limit=2", "holders", "number").await, numbers(&all[..3]));

        // The last locks of a page are released, and some before and after them.
        let page = client.send(&Call::get("/v1/locks/book/queue?limit=5")).await.expect_status(200);
        assert_eq!((page.number("holder_count"), page.number("queue_length")), (3, 7));
        for id in [&readers[1], &writers[0], &writers[1], &writers[2]] {
            client.release(id).await;
        }
        let rest = format!("/v1/locks/book/queue?cursor={}", page.string("next_cursor"));
        assert_eq!(follow(&client, &rest, "number").await, numbers(&all[6..]));
        assert_eq!(follow(&client, &rest, "position").await, ["3", "4", "5", "6"], "fewer are ahead");
        let holders = client.send(&Call::get("/v1/locks/book?limit=1")).await.expect_status(200);
        client.release(&readers[0]).await;
        let rest = format!("/v1/locks/book?cursor={}", holders.string("next_cursor"));
        assert_eq!(follow_list(&client, &rest, "holders", "number").await, numbers(&all[2..3]));
        for (path, cursor) in [("queue", "41"), ("queue", "queued-41"), ("", "held-41")] {
            let path = format!("/v1/locks/book/{path}?cursor={cursor}").replace("/?", "?");
            client.send(&Call::get(&path)).await.expect_problem(400, "bad_request");
        }
        assert_eq!(behind.len(), 2);
    });
}

#[test]
fn the_property_of_a_session_is_listed_page_by_page_while_it_changes() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "owner").await;
        let several = Call::post("/v1/locks").json(&serde_json::json!({
            "locks": [{"name": "several/a"}, {"name": "several/b"}, {"name": "several/c"}], "session": session.id,
        }));
        client.acquire_with(&several).await;
        let singles = take_often(&client, &session, "book", "shared", 20).await;
        for number in 0..4 {
            let path = format!("/v1/nodes/node-{number}?session={}", session.id);
            client.send(&Call::put(&path, "")).await.expect_status(201);
        }
        let path = format!("/v1/sessions/{}", session.number);
        let shown = client.send(&Call::get(&path)).await.expect_status(200);
        assert_eq!((shown.number("grant_count"), shown.number("ephemeral_count")), (21, 4));
        assert_eq!(shown.json["next_cursor"], serde_json::Value::Null, "ordinary sizes are on one page");
        let grants = follow_list(&client, &path, "grants", "lock").await;
        assert_eq!((grants.len(), &grants[..4]), (23, &["several/a", "several/b", "several/c", "book"].map(str::to_owned)[..]));
        for limit in [1, 2, 7] {
            let path = format!("{path}?limit={limit}");
            assert_eq!(follow_list(&cluster.client(1), &path, "grants", "lock").await, grants, "{limit} at a time");
            let nodes = follow_list(&client, &path, "ephemeral_nodes", "").await;
            assert_eq!(nodes, ["/node-0", "/node-1", "/node-2", "/node-3"], "{limit} at a time");
        }
        let page = client.send(&Call::get(&format!("{path}?limit=5"))).await.expect_status(200);
        let last = whole(&page.json["grants"][4], "number");
        client.release(&singles[1]).await;
        client.release(&singles[2]).await;
        let rest = format!("{path}?cursor={}", page.string("next_cursor"));
        let rest = follow_list(&client, &rest, "grants", "number").await;
        assert!(
            rest.len() == 17 && rest.iter().all(|number| number.parse::<u64>().is_ok_and(|number| number > last)),
            "{rest:?}"
        );

        let listed = client.send(&Call::get("/v1/sessions")).await.expect_status(200);
        let row = listed.items().iter().find(|row| whole(row, "number") == session.number).expect("it is listed");
        let counts = [&row["grants"], &row["ephemeral_nodes"]].map(|list| list.as_array().map(Vec::len));
        assert_eq!((counts, whole(row, "grant_count")), ([Some(16), Some(4)], 19), "{row}");
        let rest = format!("{path}?cursor={}", row["next_cursor"].as_str().expect("there is more"));
        assert_eq!(follow_list(&client, &rest, "grants", "lock").await.len(), 21 - 16);
    });
}
