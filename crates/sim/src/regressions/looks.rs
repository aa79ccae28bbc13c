//! What open pages ask again and again.

use super::{
    disconnects::{TIMEOUT, call, lock, on_three_nodes},
    on_one_node,
    one_node::{SECOND, fresh, take},
};
use crate::{host::HostRuntime, plan::ScenarioPlan};
use fairhold_node::{
    Node,
    api::{AcquireCall, Acquired, Freshness, MemberAnswer, MemberLook, ReadOptions},
};
use fairhold_state::{
    listing::{LockQuery, LockSort},
    waits::WaitsQuery,
};
use fairhold_types::NodeId;
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

const LOCAL: ReadOptions = ReadOptions { freshness: Freshness::Local, timeout: TIMEOUT };

async fn queue(node: &Node<HostRuntime>, number: u128, name: &str) {
    let later = AcquireCall { respond_async: true, ..call(number, name, Duration::ZERO) };
    let answer = node.acquire(later).await.unwrap().value;
    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
}

/// The rows of the tree of waits.
async fn rows(node: &Node<HostRuntime>, query: &WaitsQuery) -> usize {
    node.waits(query, TIMEOUT).await.unwrap().tree.rows.len()
}

/// How many wait, by the first page of the locks.
async fn waiting(node: &Node<HostRuntime>, sort: LockSort, read: ReadOptions) -> usize {
    waiting_in(node, "", sort, read).await
}

/// The same, of the locks whose names have that part.
async fn waiting_in(node: &Node<HostRuntime>, part: &str, sort: LockSort, read: ReadOptions) -> usize {
    let query = LockQuery { part: part.to_owned(), sort, limit: 10, ..LockQuery::default() };
    node.locks(&query, read).await.unwrap().value.items.iter().map(|entry| entry.waiting).sum()
}

#[test]
fn callers_share_an_answer_for_a_second_and_another_question_has_its_own() {
    on_one_node(async |node| {
        let all = WaitsQuery { limit: 10, ..WaitsQuery::default() };
        let of_lock = WaitsQuery { lock: Some(lock("a")), ..all.clone() };
        take(&node, 1, "a").await;
        assert_eq!(rows(&node, &all).await, 0);
        assert_eq!(waiting(&node, LockSort::LongestWait, LOCAL).await, 0);
        assert_eq!(waiting_in(&node, "A", LockSort::Name, LOCAL).await, 0);
        queue(&node, 2, "a").await;
        assert_eq!((rows(&node, &all).await, rows(&node, &of_lock).await), (0, 2));
        assert_eq!(waiting(&node, LockSort::LongestWait, LOCAL).await, 0, "it shares the first answer");
        assert_eq!(waiting_in(&node, "A", LockSort::Name, LOCAL).await, 0, "a search by name shares it too");
        assert_eq!(waiting_in(&node, "a", LockSort::LongestWait, LOCAL).await, 1, "another search has its own");
        for (sort, read) in [(LockSort::LongestWait, fresh()), (LockSort::Waiters, LOCAL), (LockSort::Name, LOCAL)] {
            assert_eq!(waiting(&node, sort, read).await, 1, "{sort:?} {read:?}");
        }
        SimRuntime::sleep(SECOND).await;
        assert_eq!(rows(&node, &all).await, 2);
        assert_eq!(waiting(&node, LockSort::LongestWait, LOCAL).await, 1);
        assert_eq!(waiting_in(&node, "A", LockSort::Name, LOCAL).await, 1);
    });
}

/// Looks at a node's overview each second, until it shows a member in this way.
async fn look_until(
    node: &Node<HostRuntime>,
    member: NodeId,
    within: Duration,
    holds: impl Fn(&MemberLook) -> bool,
) -> MemberLook {
    let begun = SimInstant::now();
    loop {
        let overview = node.overview(TIMEOUT).await.unwrap();
        if let Some(look) = overview.looks.get(&member).filter(|look| holds(look)) {
            return look.clone();
        }
        assert!(SimInstant::now() - begun < within, "member {member} is shown as {:?}", overview.looks);
        SimRuntime::sleep(SECOND).await;
    }
}

/// A follower knows nothing from the leader about the others, and the leader is one of them.
#[test]
fn a_follower_shows_a_leader_that_died_as_unreachable_with_what_it_last_said() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.leader().unwrap();
        let follower = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let node = world.running(follower).unwrap().node;
        // At first, the cluster has no version yet.
        let alive = look_until(&node, leader, 20 * SECOND, |look| look.reachable).await;
        let MemberAnswer { at: alive_at, clock, report: said } = alive.said.unwrap();
        assert!(said.ready && said.applied.is_some() && said.log_entries > 0, "{said:?}");
        assert!(clock.is_some(), "its clock is compared");
        let all = node.overview(TIMEOUT).await.unwrap();
        assert_eq!(all.looks.keys().copied().collect::<Vec<_>>(), [1, 2, 3], "it shows itself too");
        assert_eq!(all.looks[&follower].said.as_ref().unwrap().clock, None, "it does not compare its clock with itself");

        assert!(world.crash(leader));
        let dead = look_until(&node, leader, 5 * SECOND, |look| !look.reachable).await;
        let MemberAnswer { at: last_at, report: last, .. } = dead.said.clone().unwrap();
        assert!(last_at >= alive_at && last.started_at == said.started_at, "{dead:?} after {said:?} at {alive_at:?}");
        SimRuntime::sleep(2 * SECOND).await;
        assert_eq!(look_until(&node, leader, SECOND, |look| !look.reachable).await, dead, "it says nothing new");

        world.start(leader);
        let back = look_until(&node, leader, 20 * SECOND, |look| look.reachable).await;
        assert!(back.said.unwrap().report.applied >= last.applied);
    });
}

#[test]
fn a_caller_after_a_while_without_any_sees_no_old_answer() {
    on_three_nodes(&ScenarioPlan::without_faults(3), async |world| {
        let leader = world.leader().unwrap();
        let follower = world.ids().into_iter().find(|id| *id != leader).unwrap();
        let node = world.running(follower).unwrap().node;
        look_until(&node, leader, 20 * SECOND, |look| look.reachable).await;
        assert!(world.crash(leader));
        SimRuntime::sleep(11 * SECOND).await;
        let overview = node.overview(TIMEOUT).await.unwrap();
        assert!(!overview.looks[&leader].reachable, "{:?}", overview.looks);
    });
}
