//! Every node reports the past holders of a lock, page by page, even after all nodes were killed.

use crate::{
    access::Guarded,
    all_killed::kill_all_and_start_again,
    client::{Answer, Call, Client, new_key},
    commands::{at, output_of},
    harness::{Cluster, LONG, SHORT, eventually, pass_time, run_exclusive, run_parallel},
};

async fn history(client: &Client, query: &str) -> Vec<serde_json::Value> {
    client.send(&Call::get(&format!("/v1/locks/crane/history{query}"))).await.expect_status(200).items().to_vec()
}

fn tokens(items: &[serde_json::Value]) -> Vec<u64> {
    items.iter().map(|item| item["token"].as_u64().unwrap_or_else(|| panic!("no token: {item}"))).collect()
}

#[test]
fn the_history_of_a_lock_is_newest_first_and_answers_any_point_in_time() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = client.acquire("crane", "ttl=60s&owner=ann").await;
        client.release(&first.id).await;
        let second = client.acquire("crane", "ttl=60s&owner=bob").await;
        let order = Call::delete("/v1/locks/crane/holders?reason=stuck").key(&new_key());
        client.send(&order).await.expect_status(204);
        let third = client.acquire("crane", "ttl=60s&owner=cy").await;

        let newest_first = [third.token, second.token, first.token];
        for node in 0..3 {
            let found = history(&cluster.client(node), "").await;
            assert_eq!(tokens(&found), newest_first, "at node {node}");
            let owners: Vec<_> = found.iter().map(|item| (item["owner"].as_str(), item["ended"].as_str())).collect();
            let expected = [(Some("cy"), None), (Some("bob"), Some("broken")), (Some("ann"), Some("released"))];
            assert_eq!(owners, expected);
            assert_eq!(found[1]["reason"], "stuck");
            assert!(found[1]["by"].as_str().is_some_and(|by| !by.is_empty()) && found[0].get("to").is_none(), "{found:?}");
            assert!(found.iter().all(|item| item.get("id").is_none()), "an id is a secret: {found:?}");
            for (index, token) in newest_first.iter().enumerate() {
                let then = history(&cluster.client(node), &format!("?at={token}")).await;
                assert_eq!(tokens(&then), [*token], "at revision {token}");
                // Two grants may have held it in sequence within one millisecond; at least one did.
                let from = found[index]["from"].as_str().expect("a time");
                let now_or_never = found[index]["to"].as_str() == Some(from);
                let then = history(&cluster.client(node), &format!("?at={from}")).await;
                assert!(now_or_never || tokens(&then).contains(token), "at {from}: {then:?}");
            }
        }
        assert!(history(&client, "?at=1").await.is_empty(), "it had no holder at revision 1");
        client.send(&Call::get("/v1/locks/crane/history?at=noon")).await.expect_problem(400, "bad_request");

        let page = client.send(&Call::get("/v1/locks/crane/history?limit=2")).await.expect_status(200);
        assert_eq!(tokens(page.items()), newest_first[..2]);
        assert!(page.header("link").is_some_and(|link| link.ends_with("rel=\"next\"")), "{page:?}");
        let rest = history(&client, &format!("?limit=2&cursor={}", page.string("next_cursor"))).await;
        assert_eq!(tokens(&rest), newest_first[2..]);

        let lock = client.send(&Call::get("/v1/locks/crane")).await.expect_status(200);
        let counted = &lock.json["statistics"];
        assert_eq!((&counted["waited"]["count"], &counted["held"]["count"]), (&3.into(), &2.into()), "{counted}");
        assert_eq!((&counted["released"], &counted["broken"], &counted["hand_overs"]), (&1.into(), &1.into(), &0.into()));
    });
}

/// The holds of the histories that match, as `lock owner`, in pages of that many.
async fn all(client: &Client, query: &str, limit: usize) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.send(&Call::get(&format!("/v1/history?{query}&limit={limit}{cursor}"))).await.expect_status(200);
        assert!(page.items().len() <= limit, "{page:?}");
        assert_eq!(page.number("kept_per_lock"), 1_000, "{page:?}");
        let line = |item: &serde_json::Value| {
            let text = |field: &str| item[field].as_str().unwrap_or_else(|| panic!("no {field}: {item}")).to_owned();
            format!("{} {}", text("lock"), text("owner"))
        };
        found.extend(page.items().iter().map(line));
        assert_eq!(page.header("link").is_some(), page.json["next_cursor"].is_string(), "{page:?}");
        match page.json["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[test]
fn the_history_of_all_locks_answers_a_point_in_time_and_a_window_at_every_node() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let ann = client.acquire("ships%2Fa", "ttl=60s&owner=ann").await;
        let bob = client.acquire("crane", "ttl=60s&owner=bob").await;
        client.release(&ann.id).await;
        client.send(&Call::delete("/v1/locks/crane/holders?reason=stuck").key(&new_key())).await.expect_status(204);
        let cy = client.acquire("ships%2Fa", "ttl=60s&owner=cy").await;
        let own = history(&client, "").await;

        for node in 0..3 {
            let client = cluster.client(node);
            for limit in [1, 2, 100] {
                for (query, wanted) in [
                    (String::new(), vec!["crane bob", "ships/a cy", "ships/a ann"]),
                    (format!("at={}", ann.token), vec!["ships/a ann"]),
                    (format!("at={}", bob.token), vec!["crane bob", "ships/a ann"]),
                    (format!("at={}", cy.token), vec!["ships/a cy"]),
                    ("at=2099-01-01T00:00:00Z".to_owned(), vec!["ships/a cy"]),
                    ("at=1".to_owned(), vec![]),
                    (format!("from={}&to={}", ann.token, cy.token), vec!["crane bob", "ships/a ann"]),
                    (format!("from={}", cy.token), vec!["ships/a cy"]),
                    (format!("to={}", bob.token), vec!["ships/a ann"]),
                    ("from=2000-01-01T00:00:00Z&to=2000-01-02T00:00:00Z".to_owned(), vec![]),
                    ("owner=ann".to_owned(), vec!["ships/a ann"]),
                    ("prefix=ships%2F".to_owned(), vec!["ships/a cy", "ships/a ann"]),
                    ("ended=broken".to_owned(), vec!["crane bob"]),
                    ("ended=released&owner=bob".to_owned(), vec![]),
                ] {
                    assert_eq!(all(&client, &query, limit).await, wanted, "?{query} at node {node} in pages of {limit}");
                }
            }
            // The entries are those of the lock's own history, with its name.
            let mut listed = client.send(&Call::get("/v1/history?prefix=crane")).await.expect_status(200).items().to_vec();
            let name = listed[0].as_object_mut().and_then(|item| item.remove("lock"));
            assert_eq!((name, listed), (Some("crane".into()), own.clone()), "at node {node}");
        }
        let page = client.send(&Call::get("/v1/history?at=1")).await.expect_status(200);
        assert_eq!(page.string("oldest"), client.send(&Call::get("/v1/locks/ships%2Fa/history")).await.items()[1]["to"]);
    });
}

#[test]
fn a_shell_shows_the_history_of_one_lock_or_of_all() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let ann = client.acquire("ships%2Fa", "ttl=60s&owner=ann").await;
        client.acquire("crane", "ttl=60s&owner=bob").await;
        client.release(&ann.id).await;
        let names = |output: &str| output.lines().filter_map(|line| line.split('\t').next()).collect::<Vec<_>>().join(" ");
        let shown = output_of(&at(&cluster, 1, &["locks", "history", "--limit", "9"]).await, 0);
        assert_eq!(names(&shown), "crane ships/a", "{shown}");
        let token = ann.token.to_string();
        let then = ["locks", "history", "--at", &token, "--owner", "ann", "--prefix", "ships/", "--ended", "released"];
        let shown = output_of(&at(&cluster, 1, &then).await, 0);
        assert!(names(&shown) == "ships/a" && shown.contains("ann") && shown.contains("released"), "{shown}");
        let shown = output_of(&at(&cluster, 1, &["locks", "history", "--from", "10m ago", "--to", "9m ago"]).await, 0);
        assert_eq!(shown, "");
        // No field of this answer counts on.
        let http = client.send(&Call::get("/v1/history?at=1")).await.expect_status(200);
        let json = output_of(&at(&cluster, 2, &["locks", "history", "--at", "1", "-o", "json"]).await, 0);
        assert_eq!(json, http.text, "the unchanged body");
        let one = output_of(&at(&cluster, 1, &["locks", "history", "ships/a"]).await, 0);
        assert_eq!(one.lines().count(), 1, "{one}");
        let mixed = at(&cluster, 1, &["locks", "history", "ships/a", "--owner", "ann"]).await;
        assert!(output_of(&mixed, 2).contains("--owner"), "{mixed:?}");
    });
}

#[test]
fn a_history_of_all_locks_at_a_bad_time_is_refused_with_what_to_write() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for (query, says) in [
            ("at=noon", "\"at\": expected a revision, or a time like 2026-"),
            ("from=03:12", "\"from\": expected a revision, or a time like 2026-"),
            ("to=2026-11-21", "\"to\": expected a revision, or a time like 2026-"),
            ("at=2026-11-21T03:12:00+01:00", "%2B"),
            ("at=7&from=7", "not both"),
            ("at=7&to=2026-11-21T03:12:00Z", "not both"),
            ("from=9&to=7", "after \"from\""),
            ("ended=lost", "\"ended\""),
            ("cursor=57-41", "\"cursor\""),
            ("limit=0", "\"limit\""),
            ("lock=crane", "\"lock\""),
        ] {
            let refused = client.send(&Call::get(&format!("/v1/history?{query}"))).await.expect_problem(400, "bad_request");
            assert!(refused.string("detail").contains(says), "?{query}: {refused:?}");
        }
    });
}

#[test]
fn a_history_of_all_locks_has_only_those_that_the_caller_may_inspect() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        for lock in ["a-secret", "deploy%2Fa", "deploy%2Fb", "z-secret"] {
            let grant = root.acquire(lock, "ttl=60s").await.expect_status(200);
            root.send(Call::delete(&format!("/v1/grants/{}", grant.string("id")))).await.expect_status(204);
        }
        let without = guarded.user("without-role").await;
        let locks =
            |page: &Answer| page.items().iter().map(|item| item["lock"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>();
        let seen = root.send(Call::get("/v1/history")).await.expect_status(200);
        assert_eq!(locks(&seen), ["a-secret", "deploy/a", "deploy/b", "z-secret"]);
        assert!(seen.json["oldest"].is_string(), "{seen:?}");
        let first = ci.send(Call::get("/v1/history?limit=1")).await.expect_status(200);
        assert_eq!((locks(&first), first.json.get("oldest")), (vec!["deploy/a".to_owned()], None), "{first:?}");
        let rest = ci.send(Call::get(&format!("/v1/history?cursor={}", first.string("next_cursor")))).await.expect_status(200);
        assert_eq!((locks(&rest), rest.json["next_cursor"].is_null()), (vec!["deploy/b".to_owned()], true), "{rest:?}");
        let none = without.send(Call::get("/v1/history")).await.expect_status(200);
        assert!(none.items().is_empty() && !none.text.contains("deploy"), "{none:?}");
    });
}

#[test]
fn history_and_statistics_survive_the_kill_of_all_nodes() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        for owner in ["ann", "bob"] {
            let grant = client.acquire("crane", &format!("ttl=60s&owner={owner}")).await;
            client.release(&grant.id).await;
        }
        let before = (history(&client, "").await, client.send(&Call::get("/v1/locks/crane")).await.json["statistics"].clone());
        assert_eq!(before.0.len(), 2);
        kill_all_and_start_again(&mut cluster).await;
        for node in 0..3 {
            let client = cluster.client(node);
            let lock = client.send(&Call::get("/v1/locks/crane")).await.expect_status(200);
            assert_eq!((history(&client, "").await, lock.json["statistics"].clone()), before, "at node {node}");
        }
    });
}

#[test]
fn a_waiter_behind_a_holder_that_exceeds_its_usual_time_has_no_estimate() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let brief = client.acquire("crane", "ttl=60s").await;
        client.release(&brief.id).await;
        client.acquire("crane", "ttl=60s").await;
        let queued = Call::post("/v1/locks/crane?ttl=60s").with("prefer", "respond-async");
        client.send(&queued).await.expect_status(202);
        eventually("the waiter has no estimate", SHORT, || async {
            let queue = client.send(&Call::get("/v1/locks/crane/queue")).await.expect_status(200);
            assert!(queue.json["usual_hold"].is_string(), "{queue:?}");
            queue.json["items"][1].get("estimate").is_none().then_some(())
        })
        .await;
        let refused = client.send(&Call::post("/v1/locks/crane")).await.expect_problem(409, "lock_held");
        assert!(refused.json.get("estimate").is_none(), "{refused:?}");
    });
}

#[test]
fn a_refused_request_gets_the_grants_ahead_and_the_usual_wait() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        // The lengths of past holds predict the next one.
        let before = client.acquire("crane", "ttl=60s").await;
        let slept = std::time::Duration::from_secs(3);
        pass_time(slept).await;
        client.release(&before.id).await;
        let holder = client.acquire("crane", "ttl=60s&owner=ann&meta=%7B%22build%22:%2281%22%7D").await;
        let queued = Call::post("/v1/locks/crane?ttl=60s&owner=bob").with("prefer", "respond-async");
        let queued = client.send(&queued).await.expect_status(202);
        let refused = client.send(&Call::post("/v1/locks/crane")).await.expect_problem(409, "lock_held");
        let late = client.send(&Call::post("/v1/locks/crane?wait=100ms")).await.expect_problem(409, "wait_timeout");
        for (answer, position) in [(&queued, 2), (&refused, 3), (&late, 3)] {
            assert_eq!(answer.number("position"), position, "{answer:?}");
            let ahead = answer.json["ahead"].as_array().expect("those ahead");
            assert_eq!(ahead.len() as u64, position - 1, "{answer:?}");
            assert_eq!((&ahead[0]["owner"], &ahead[0]["meta"]["build"]), (&"ann".into(), &"81".into()), "{answer:?}");
            assert!(ahead[0]["held_for"].is_string() && ahead[0]["since"].is_string(), "{answer:?}");
            let estimate = fairhold_types::duration::parse(answer.string("estimate")).expect("a duration");
            let held = ahead[0]["held_for"].as_str().and_then(|text| fairhold_types::duration::parse(text).ok());
            let whole = estimate + held.expect("a duration");
            assert!(whole >= slept * u32::try_from(position - 1).expect("small"), "{answer:?}");
        }
        assert_eq!(refused.json["holder"]["meta"]["build"], "81");
        let queue = client.send(&Call::get("/v1/locks/crane/queue")).await.expect_status(200);
        assert!(queue.json["items"][1]["estimate"].is_string() && queue.json["items"][0].get("estimate").is_none(), "{queue:?}");
        assert!(queue.json["usual_hold"].is_string(), "{queue:?}");

        // The lock with the longest waits: only this lock had waiters.
        let idle = client.acquire("idle", "ttl=60s").await;
        client.release(&idle.id).await;
        client.release(&holder.id).await;
        client.release(queued.string("id")).await;
        for sort in ["wait", "hold", "contention"] {
            let page = client.send(&Call::get(&format!("/v1/locks?sort={sort}&limit=1"))).await.expect_status(200);
            assert_eq!(
                (&page.json["items"][0]["lock"], &page.json["items"][0]["hand_overs"]),
                (&"crane".into(), &1.into()),
                "{page:?}"
            );
        }
    });
}
