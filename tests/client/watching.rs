//! Watches of the client: across killed nodes, and after events are compacted.

use crate::{
    basics::client_of,
    harness::{Cluster, LONG, NODES, SHORT, report, run_exclusive, run_parallel},
};
use fairhold_client::{Client, WatchEvent, Watching};
use fairhold_types::{
    Revision,
    watch::{WatchLine, What},
};
use std::time::Duration;

/// The maximum time for an event: a later one would never arrive.
const NEXT_WITHIN: Duration = Duration::from_secs(60);

async fn next(watching: &mut Watching) -> WatchEvent {
    let reported = tokio::time::timeout(NEXT_WITHIN, watching.next()).await;
    reported.unwrap_or_else(|_| panic!("nothing within {NEXT_WITHIN:?}")).expect("it continues").expect("it is not refused")
}

/// The next event, without bookmarks.
async fn happened(watching: &mut Watching) -> WatchLine {
    loop {
        match next(watching).await {
            WatchEvent::Change(line) => return line,
            WatchEvent::Bookmark(_) => {}
            other @ (WatchEvent::Compacted { .. } | WatchEvent::Restarted | _) => panic!("{other:?}"),
        }
    }
}

/// The paths of the next `count` created nodes, in the order of their events.
async fn created(watching: &mut Watching, count: usize) -> Vec<String> {
    let mut paths = Vec::new();
    while paths.len() < count {
        let line = happened(watching).await;
        let What::NodeCreated { path } = line.what else { panic!("{line:?}") };
        paths.push(path.to_string());
    }
    paths
}

async fn create(client: &Client, from: usize, to: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for number in from..to {
        let path = format!("/feed/{number:04}");
        client.nodes().create(&path, "").await.expect("it is created");
        paths.push(path);
    }
    paths
}

#[test]
fn a_watch_reports_every_change_once_and_in_order_while_each_node_is_killed_and_restarted() {
    run_exclusive(LONG, async {
        const EACH: usize = 40;
        let mut cluster = Cluster::start().await;
        let client = client_of(&cluster);
        client.nodes().put("/feed", "").await.unwrap();
        let mut watching = client.watch().children("/feed").await.unwrap();
        let mut all = create(&client, 0, EACH).await;
        for (round, node) in (0..2 * NODES).map(|round| (round, round % NODES)) {
            // Events from before, during and after its downtime.
            let wait = created(&mut watching, EACH / 2).await;
            assert_eq!(wait, all.drain(..EACH / 2).collect::<Vec<_>>());
            cluster.nodes[node].kill().await;
            let begin = (round + 1) * EACH;
            all.extend(create(&client, begin, begin + EACH).await);
            cluster.restart(node).await;
            let reported = created(&mut watching, EACH / 2).await;
            assert_eq!(reported, all.drain(..EACH / 2).collect::<Vec<_>>());
        }
        let reported = created(&mut watching, all.len()).await;
        assert_eq!(reported, all);
        client.nodes().delete("/feed/0000").await.unwrap();
        assert!(matches!(happened(&mut watching).await.what, What::NodeDeleted { path } if path.as_str() == "/feed/0000"));
        report(&format!("{} changes over {} killed nodes: each reported once, in order", (2 * NODES + 1) * EACH, 2 * NODES));
    });
}

#[test]
fn a_watch_that_starts_with_the_current_state_continues_with_later_events() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = client_of(&cluster);
        client.nodes().put("/feed", "").await.unwrap();
        let there = create(&client, 0, 5).await;
        let guard = client.lock("deploy").owner("ci-7").await.unwrap();
        let mut watching = client.watch().tree("/feed").lock("deploy").initial().await.unwrap();
        let mut initial = Vec::new();
        let at = loop {
            match next(&mut watching).await {
                WatchEvent::Change(WatchLine { what: What::NodeThere { path, .. }, .. }) => initial.push(path.to_string()),
                WatchEvent::Change(WatchLine { what: What::ContenderThere { token, owner, .. }, .. }) => {
                    assert_eq!((token, owner.as_str()), (guard.token().ok(), "ci-7"));
                    initial.push(owner);
                }
                WatchEvent::Bookmark(at) => break at,
                other @ (WatchEvent::Change(_) | WatchEvent::Compacted { .. } | WatchEvent::Restarted | _) => {
                    panic!("{other:?}")
                }
            }
        };
        assert_eq!(initial, [&["/feed".to_owned()], &there[..], &["ci-7".to_owned()]].concat());
        guard.release().await.unwrap();
        let ended = happened(&mut watching).await;
        assert!(ended.revision > at && matches!(ended.what, What::GrantEnded { .. }), "{ended:?}");
        assert_eq!(create(&client, 5, 7).await, created(&mut watching, 2).await);
        let again = client.watch().tree("/feed").from(at).await;
        assert!(again.is_ok(), "{again:?}");
        assert!(client.watch().tree("/feed").from(Revision(1 << 40)).await.is_err(), "that revision is from another history");
        assert!(client.watch().node("a//b").await.is_err());
    });
}

#[test]
fn a_watch_finds_history_that_one_node_still_has_and_reports_history_that_is_gone() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            // The smallest possible ring, except at the last node.
            let bytes = if node.id == NODES { "67108864" } else { "65536" };
            node.flags = vec!["--event-ring-bytes".to_owned(), bytes.to_owned()];
            node.start();
        }
        cluster.ready().await;
        let client = client_of(&cluster);
        let first = client.nodes().put("/feed", "").await.unwrap().revision;
        let all = create(&client, 0, 1_500).await;
        let mut watching = client.watch().children("/feed").from(first).await.unwrap();
        assert!(matches!(happened(&mut watching).await.what, What::NodeCreated { path } if path.as_str() == "/feed"));
        assert_eq!(created(&mut watching, all.len()).await, all, "it finds the node that has it");

        let few =
            Client::builder().endpoint(&cluster.nodes[0].url).endpoint(&cluster.nodes[1].url).discover(false).build().unwrap();
        let mut watching = few.watch().children("/feed").from(first).await.unwrap();
        let WatchEvent::Compacted { oldest } = next(&mut watching).await else { panic!("neither of these has it") };
        assert!(oldest > first);
        let line = happened(&mut watching).await;
        assert_eq!(line.revision, oldest, "everything from there on is reported: {line:?}");
        drop(watching);
        let mut watching = few.watch().children("/feed").initial().await.unwrap();
        let mut there = 0;
        while !matches!(next(&mut watching).await, WatchEvent::Bookmark(_)) {
            there += 1;
        }
        assert_eq!(there, all.len() + 1);
    });
}
