//! Regressions: fixed scenarios instead of seeds. Each reproduces a fault that was once found.

mod acts;
mod disconnects;
#[cfg(feature = "failpoints")]
mod failpoints;
mod looks;
mod members;
mod one_node;
#[cfg(feature = "failpoints")]
mod revocations;
mod streams;

use crate::{coverage::Coverage, host::HostRuntime, plan::ScenarioPlan, world::World};
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

/// Runs a scenario on a cluster of one node, which leads.
fn on_one_node<F: Future<Output = ()>>(scenario: impl FnOnce(Node<HostRuntime>) -> F) {
    let mut runtime = HostRuntime::with_seed(1);
    runtime.block_on(async {
        let world = World::new(&ScenarioPlan::without_faults(1), Coverage::default());
        world.start(1);
        while world.leader().is_none() {
            SimRuntime::sleep(Duration::from_millis(10)).await;
        }
        let running = world.running(1).expect("it leads");
        scenario(running.node).await;
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
fn a_change_during_the_start_of_a_watch_comes_after_its_first_bookmark() {
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
                    WatchItem::Changes(received) => {
                        assert_eq!((bookmark, received[0].revision), (Some(begun), changed), "{begin:?}");
                        break;
                    }
                    other @ (WatchItem::CredentialExpires(_) | WatchItem::GoAway(_) | WatchItem::Failed(..)) => {
                        panic!("{other:?}")
                    }
                }
            }
        }
    });
}

#[test]
fn a_digest_computed_in_parts_equals_the_digest_of_the_whole_state() {
    disconnects::on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
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
fn a_watch_without_matching_changes_gets_a_bookmark_after_ten_seconds() {
    on_one_node(|node| async move {
        let read = ReadOptions { freshness: Freshness::Linearizable, timeout: TIMEOUT };
        let scope = WatchFilter::Subtree(Path::parse("/watched").unwrap());
        let mut watch = node.watch(vec![scope], WatchStart::Now, read).await.unwrap();
        let Some(WatchItem::Bookmark(_)) = watch.next().await else { panic!("it starts with a bookmark") };
        for path in ["/one", "/two", "/three"] {
            let begun = SimInstant::now();
            SimRuntime::sleep(Duration::from_secs(1)).await;
            let elsewhere = put(&node, path).await;
            let received = watch.next().await;
            let Some(WatchItem::Bookmark(at)) = received else { panic!("{received:?}") };
            assert_eq!(at, elsewhere);
            let after = SimInstant::now() - begun;
            assert!((BOOKMARK_EVERY..BOOKMARK_EVERY + Duration::from_secs(1)).contains(&after), "after {after:?}");
        }
    });
}

/// The disks of all nodes stall, for example because the nodes share one. This must not cost the leader its leadership:
/// an election writes to the same disks, so it only makes the pause longer.
#[test]
fn a_stall_of_all_disks_keeps_the_leader() {
    disconnects::on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.running(world.leader().unwrap()).unwrap();
        let led = leader.replica.leadership();
        let stall = Duration::from_secs(2);
        world.ids().into_iter().for_each(|id| world.disk(id).unwrap().slow_down(stall));
        let begun = SimInstant::now();
        put(&leader.node, "/during-the-stall").await;
        assert!(SimInstant::now() - begun >= stall, "the disks did not stall");
        assert!(led.is_some());
        assert_eq!(leader.replica.leadership(), led);
    });
}
