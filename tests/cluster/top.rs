//! What a person does with `fairhold top`: searches, opens pages, copies the command that breaks a lock.

use crate::{
    access::Guarded,
    client::Call,
    commands::{at, output_of},
    harness::{Cluster, SHORT, eventually, report, run_exclusive, write_secret},
    queue::wait_for_contenders,
    terminal::{self, Terminal},
};
use serde_json::{Value, json};
use std::path::Path;
use tokio::process::Command;

const FAIRHOLD: &str = env!("CARGO_BIN_EXE_fairhold");

/// Waits until a text is not on the screen any more.
async fn screen_without(top: &Terminal, text: &str) -> String {
    let what = format!("{text} is gone");
    eventually(&what, SHORT, || async {
        let screen = terminal::screen(&top.text());
        (!screen.contains(text)).then_some(screen)
    })
    .await
}

#[test]
fn a_lock_is_searched_opened_and_broken_by_the_copied_command() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        client.acquire("orders%2F42", "ttl=90s&owner=first").await;
        client.acquire("zebra", "ttl=90s&owner=second").await;
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("zebra", "wait=90s&ttl=90s&owner=third").await })
        };
        wait_for_contenders(&client, "zebra", 2).await;
        let mut top = Terminal::start(FAIRHOLD, &["top", "-e", &cluster.nodes[0].url], &[]);
        top.screen_with(&["orders/42", "zebra", "sorted by longest_wait", "revision "]).await;

        top.keys("/zeb");
        top.screen_with(&["search: zeb_", "orders/42"]).await;
        top.keys("\x7f\x7f\x7ford\r");
        top.screen_with(&["search ord", "orders/42"]).await;
        screen_without(&top, "zebra").await;
        top.keys("\x1b");
        top.screen_with(&["orders/42", "zebra"]).await;

        top.keys("w");
        let screen = top.screen_with(&["■ second", "blocks 1", "▸ third", "for zebra, place 2"]).await;
        report(&format!("fairhold top, waits:\n{screen}"));
        top.keys("u\r");
        let screen = top.screen_with(&["zebra: held by second for ", "1 waiting", "third", "HISTORY", "to break it: "]).await;
        report(&format!("fairhold top, a lock:\n{screen}"));
        let copied = screen.split("to break it: ").nth(1).and_then(|rest| rest.lines().next()).expect("a command");
        let folder = Path::new(FAIRHOLD).parent().expect("a folder").display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        let broken = Command::new("bash").args(["-c", copied]).env("PATH", path).output().await.expect("a shell");
        assert_eq!(broken.status.code(), Some(0), "{copied}: {broken:?}");
        waiting.await.expect("the waiter's task");
        top.screen_with(&["zebra: held by third for ", "0 waiting", "broken", "WHY"]).await;

        top.keys("e");
        top.screen_with(&["REVISION", "granted", "queued", "orders/42", "third"]).await;
        top.keys("w");
        top.screen_with(&["nobody waits for anybody"]).await;
        top.keys("c");
        top.screen_with(&[&cluster.nodes[2].url, " problems "]).await;
        top.keys("p");
        top.screen_with(&["PAUSED"]).await;
        top.keys("?");
        let help = top.screen_with(&["go back to the list"]).await;
        assert!(!help.contains("PAUSED"), "{help}");
        top.keys("q");
        assert_eq!(top.child.wait().await.expect("it ends").code(), Some(0));
    });
}

#[test]
fn a_user_who_may_see_locks_but_not_the_cluster_sees_locks() {
    run_exclusive(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let rules = json!({ "rules": ["inspect locks:**"] });
        guarded.file().send(Call::put("/v1/access/roles/lookers", "").json(&rules)).await.expect_status(200);
        guarded.bind("lookers", "user:looker").await;
        let looker = guarded.user("looker").await;
        root.acquire("zebra", "ttl=90s&owner=first").await.expect_status(200);
        let file = guarded.cluster.folder().join("looker");
        write_secret(&file, &looker.token);
        let file = file.to_str().expect("a name in UTF-8");
        let url = &guarded.cluster.nodes[0].url;
        let mut top = Terminal::start(FAIRHOLD, &["top", "-e", url, "--auth-token-file", file], &[]);
        top.screen_with(&["refused: ", "zebra", "first", "sorted by longest_wait"]).await;
        top.keys("q");
        assert_eq!(top.child.wait().await.expect("it ends").code(), Some(0));
    });
}

#[test]
fn the_cells_of_top_are_those_of_the_list() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for (lock, owner) in [("alpha", "first"), ("beta", "second"), ("gamma", "third")] {
            client.acquire(lock, &format!("ttl=90s&owner={owner}")).await;
        }
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("gamma", "wait=90s&owner=fourth").await })
        };
        wait_for_contenders(&client, "gamma", 2).await;
        let listed = output_of(&at(&cluster, 0, &["locks", "ls", "--sort", "longest_wait", "-o", "json"]).await, 0);
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        let mut top = Terminal::start(FAIRHOLD, &["top", "-e", &cluster.nodes[0].url], &[]);
        let screen = top.screen_with(&["alpha", "beta", "gamma", "fourth"]).await;
        let rows: Vec<Vec<&str>> = screen.lines().map(|line| line.split_whitespace().collect()).collect();
        let begin = rows.iter().position(|row| row.starts_with(&["LOCK", "STATE"])).expect("the list's headings") + 1;
        let items = listed["items"].as_array().expect("items");
        assert_eq!(items.len(), 3, "{listed}");
        for (item, row) in items.iter().zip(&rows[begin..]) {
            let text = |field: &str| item[field].as_str().unwrap_or("-").to_owned();
            let since = text("waiting_since");
            let since = since.split_once('.').map_or(since.clone(), |(seconds, _)| format!("{seconds}Z"));
            // How long it has been held, and how long is usual, differ between the two looks.
            let expected = [text("lock"), text("state"), text("owner"), item["queue_length"].to_string(), since];
            assert_eq!([row[0], row[1], row[2], row[5], row[6]], expected.each_ref().map(String::as_str), "{screen}");
        }
        top.keys("q");
        assert_eq!(top.child.wait().await.expect("it ends").code(), Some(0));
        waiting.abort();
    });
}
