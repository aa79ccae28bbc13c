//! Locks and sessions are listed page by page, and the pages hang together while locks come and go.

use crate::{
    client::{Answer, Call, Client},
    harness::{Cluster, SHORT, together},
};

/// The names on all pages from that one on, by the links from page to page.
async fn follow(client: &Client, first: &str, field: &str) -> Vec<String> {
    let (mut path, mut names) = (first.to_owned(), Vec::new());
    loop {
        let page = client.send(&Call::get(&path)).await.expect_status(200);
        names.extend(items(&page).iter().map(|item| item[field].to_string().trim_matches('"').to_owned()));
        let link = page.header("link").map(str::to_owned);
        assert_eq!(link.is_some(), page.json["next_cursor"].is_string(), "{page:?}");
        let Some(link) = link else { return names };
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        next.unwrap_or_else(|| panic!("no link: {link}")).clone_into(&mut path);
    }
}

fn items(page: &Answer) -> &[serde_json::Value] {
    page.json["items"].as_array().unwrap_or_else(|| panic!("no items: {page:?}"))
}

#[test]
fn locks_are_listed_page_by_page_while_they_come_and_go() {
    together(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut grants = Vec::new();
        for name in ["jobs%2Fa", "jobs%2Fb", "jobs%2Fc", "jobs%2Fd", "other"] {
            grants.push(client.acquire(name, "ttl=60s").await);
        }
        let names = ["jobs/a", "jobs/b", "jobs/c", "jobs/d"];
        assert_eq!(follow(&client, "/v1/locks?prefix=jobs%2F&limit=1", "lock").await, names);
        assert_eq!(follow(&cluster.client(1), "/v1/locks?limit=2", "lock").await.len(), 5);

        // What a page ended with is gone by the time of the next.
        let page = client.send(&Call::get("/v1/locks?state=held&limit=2")).await.expect_status(200);
        assert_eq!(items(&page)[1]["lock"], "jobs/b");
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
        let item = &items(&page)[0];
        assert_eq!((item["lock"].as_str(), &item["holders"], &item["queue_length"]), (Some("other"), &1.into(), &2.into()));
        assert_eq!((item["state"].as_str(), item["mode"].as_str()), (Some("held"), Some("exclusive")));
        assert!(item["since"].is_string() && item["waiting_since"].is_string() && item["last_token"].is_u64(), "{item}");
    });
}

#[test]
fn sessions_are_listed_page_by_page() {
    together(SHORT, async {
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
