//! Regressions: fixed scenarios instead of seeds. Each is of a fault that was found once.

#[cfg(feature = "failpoints")]
mod failpoints;
mod one_node;
mod streams;
mod untold;

use crate::{host::HostRuntime, plan::StoryPlan, tally::Tally, world::World};
use fairhold_node::{
    Node,
    api::{Freshness, ReadOptions, WriteCall},
    watch::{WatchItem, WatchStart},
    watch_filter::WatchFilter,
};
use fairhold_state::{
    command::{Lifetime, Operation},
    value::Value,
};
use fairhold_types::{Path, Revision, limits::BOOKMARK_EVERY};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(3);

/// Runs something on a cluster of one, which leads.
fn on_one_node<F: Future<Output = ()>>(tale: impl FnOnce(Node<HostRuntime>) -> F) {
    let mut runtime = HostRuntime::with_seed(1);
    runtime.block_on(async {
        let world = World::new(&StoryPlan::quiet(1), Tally::default());
        world.start(1);
        while world.leader().is_none() {
            SimRuntime::sleep(Duration::from_millis(10)).await;
        }
        let running = world.running(1).expect("it leads");
        tale(running.node).await;
        assert_eq!(world.oracle.violations(), Vec::<String>::new());
    });
}

async fn put(node: &Node<HostRuntime>, path: &str) -> Revision {
    let operation = Operation::Put {
        path: Path::parse(path).unwrap(),
        value: Value::empty(),
        parents: false,
        lifetime: Lifetime::Persistent,
    };
    let key = node.new_grant_id();
    let call = WriteCall { key, operation, precondition: None, fence: None, timeout: TIMEOUT };
    node.write_node(call).await.unwrap().value.at
}

#[test]
fn a_change_that_happens_while_a_watch_begins_is_told_after_the_bookmark_with_which_it_begins() {
    on_one_node(|node| async move {
        for (path, begin) in [("/while-it-begins", WatchStart::Now), ("/while-that-begins", WatchStart::Initial)] {
            let read = ReadOptions { freshness: Freshness::Linearizable, timeout: TIMEOUT };
            let mut watch = node.watch(vec![WatchFilter::Subtree(Path::root())], begin, read).await.unwrap();
            let begun = watch.revision();
            let changed = put(&node, path).await;
            let mut bookmark = None;
            loop {
                match watch.next().await.unwrap() {
                    WatchItem::Initial(revision, _) => assert_eq!((begin, revision), (WatchStart::Initial, begun)),
                    WatchItem::Bookmark(revision) => bookmark = bookmark.or(Some(revision)),
                    WatchItem::Changes(told) => {
                        assert_eq!((bookmark, told[0].revision), (Some(begun), changed), "{begin:?}");
                        break;
                    }
                    other @ (WatchItem::GoAway(_) | WatchItem::Failed(..)) => panic!("{other:?}"),
                }
            }
        }
    });
}

#[test]
fn a_digest_that_is_made_part_by_part_is_that_of_the_whole_state() {
    untold::on_three_nodes(&StoryPlan::quiet(3), async |world| {
        let running = world.running(world.leader().unwrap()).unwrap();
        for number in 0..3_000 {
            let operation = Operation::Put {
                path: Path::parse(&format!("/node-{number}")).unwrap(),
                value: Value::from(vec![7; 512]),
                parents: false,
                lifetime: Lifetime::Persistent,
            };
            let key = running.node.new_grant_id();
            let call = WriteCall { key, operation, precondition: None, fence: None, timeout: TIMEOUT };
            running.node.write_node(call).await.unwrap();
        }
        let state = running.replica.state();
        assert!(state.snapshot_blocks().count() > 2, "it has several parts");
        assert_eq!(running.node.digest().await.unwrap().value, state.digest());
    });
}

#[test]
fn a_watch_of_something_else_hears_ten_seconds_after_its_last_bookmark_how_far_it_has_come() {
    on_one_node(|node| async move {
        let read = ReadOptions { freshness: Freshness::Linearizable, timeout: TIMEOUT };
        let scope = WatchFilter::Subtree(Path::parse("/watched").unwrap());
        let mut watch = node.watch(vec![scope], WatchStart::Now, read).await.unwrap();
        let Some(WatchItem::Bookmark(_)) = watch.next().await else { panic!("it begins with a bookmark") };
        for path in ["/one", "/two", "/three"] {
            let begun = SimInstant::now();
            SimRuntime::sleep(Duration::from_secs(1)).await;
            let elsewhere = put(&node, path).await;
            let told = watch.next().await;
            let Some(WatchItem::Bookmark(at)) = told else { panic!("{told:?}") };
            assert_eq!(at, elsewhere);
            let after = SimInstant::now() - begun;
            assert!((BOOKMARK_EVERY..BOOKMARK_EVERY + Duration::from_secs(1)).contains(&after), "after {after:?}");
        }
    });
}
