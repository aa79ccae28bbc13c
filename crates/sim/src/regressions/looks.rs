//! What open pages ask again and again, at one node without faults.

use super::{
    disconnects::{TIMEOUT, call, lock},
    on_one_node,
    one_node::{SECOND, fresh, take},
};
use crate::host::HostRuntime;
use fairhold_node::{
    Node,
    api::{AcquireCall, Acquired, Freshness, ReadOptions},
};
use fairhold_state::{
    listing::{LockQuery, LockSort},
    waits::WaitsQuery,
};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
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
