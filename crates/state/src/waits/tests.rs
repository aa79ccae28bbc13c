//! Tests of `waits`.

use super::*;
use crate::{
    command::{Acquire, Command, Owner},
    request_for_tests::{acquire_in, open_session},
};
use fairhold_types::{GrantId, Mode, SessionId, limits::WAIT_HOLDS_MAX};

/// A state, and the next grant id.
struct World {
    state: State,
    ids: u128,
}

fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

fn session(number: u128) -> SessionId {
    SessionId(number)
}

impl World {
    fn new(sessions: u128) -> World {
        let mut state = State::new();
        for number in 1..=sessions {
            assert!(state.apply(&open_session(session(number))).answer.result.is_ok());
        }
        World { state, ids: 0 }
    }

    /// Acquires these locks for an owner in its session, or waits for them.
    fn acquire(&mut self, of: u128, owner: &str, locks: &[&str]) {
        self.take(of, owner, locks, Mode::Exclusive);
    }

    fn take(&mut self, of: u128, owner: &str, locks: &[&str], mode: Mode) {
        self.ids += 1;
        let acquire = Acquire {
            owner: Owner { text: owner.to_owned(), given: true },
            at: WallMillis(u64::try_from(self.ids).unwrap() * 1_000),
            ..acquire_in(session(of), GrantId::from_ulid(self.ids << 64), locks, mode)
        };
        let applied = self.state.apply(&Command::Acquire(acquire)).answer.result;
        assert!(applied.is_ok(), "{applied:?}");
    }

    fn tree(&self, query: &WaitsQuery, step: usize) -> WaitTree {
        let mut walk = self.state.wait_walk();
        while !walk.visit(step) {}
        walk.finish(query)
    }

    fn lines(&self, query: &WaitsQuery) -> Vec<String> {
        lines(&self.tree(query, 1))
    }
}

fn all() -> WaitsQuery {
    WaitsQuery { limit: 100, ..WaitsQuery::default() }
}

fn lines(tree: &WaitTree) -> Vec<String> {
    let line = |row: &WaitRow| {
        let waits = row.waits.as_ref().map_or_else(String::new, |waits| format!(" {}@{}", waits.lock.as_str(), waits.position));
        let holds: Vec<_> = row.holds.iter().map(|held| format!("{}:{}", held.lock.as_str(), held.waiting)).collect();
        let blocks = if row.depth == 0 { format!(" blocks {}", row.blocks) } else { String::new() };
        let repeated = if row.repeated { " again" } else { "" };
        format!("{}{}{waits} [{}]{blocks}{repeated}", "-".repeat(row.depth), row.owner, holds.join(","))
    };
    tree.rows.iter().map(line).collect()
}

/// ci-7 holds deploy and stock. ci-9 waits for deploy and holds orders, for which two others wait.
fn jam() -> World {
    let mut world = World::new(6);
    world.acquire(1, "ci-7", &["deploy"]);
    world.acquire(1, "ci-7", &["stock"]);
    world.acquire(2, "ci-9", &["orders"]);
    world.acquire(2, "ci-9", &["deploy"]);
    world.acquire(3, "batch", &["stock"]);
    world.acquire(4, "w1", &["orders"]);
    world.acquire(5, "w2", &["orders"]);
    world.acquire(6, "alone", &["quiet"]);
    world
}

#[test]
fn the_tree_begins_with_those_that_wait_for_nobody() {
    let world = jam();
    let wanted = [
        "ci-7 [deploy:1,stock:1] blocks 4",
        "-ci-9 deploy@2 [orders:2]",
        "--w1 orders@2 []",
        "--w2 orders@3 []",
        "-batch stock@2 []",
    ];
    assert_eq!(world.lines(&all()), wanted);
    let tree = world.tree(&all(), 1_000);
    assert_eq!(tree, world.tree(&all(), 1), "the size of a step does not matter");
    assert!(tree.complete && tree.left_out == 0);
    assert_eq!(tree.rows[0].blocks_since, Some(WallMillis(4_000)), "ci-9 has waited longest");
    assert_eq!(tree.rows[0].holds[0].since, WallMillis(1_000));
    assert!(tree.rows[0].holds[0].token.is_some());
}

#[test]
fn a_query_shows_the_way_up_and_everything_below() {
    let world = jam();
    let owner = |owner: &str| WaitsQuery { owner: Some(owner.to_owned()), ..all() };
    let of_ci9 = ["ci-7 [deploy:1,stock:1] blocks 4", "-ci-9 deploy@2 [orders:2]", "--w1 orders@2 []", "--w2 orders@3 []"];
    assert_eq!(world.lines(&owner("ci-9")), of_ci9);
    assert_eq!(world.lines(&WaitsQuery { lock: Some(name("orders")), ..all() }), of_ci9);
    assert_eq!(world.lines(&owner("batch")), ["ci-7 [deploy:1,stock:1] blocks 4", "-batch stock@2 []"]);
    let number = world.state.session_number(&session(5)).unwrap();
    let of_session = WaitsQuery { session: Some(number), ..all() };
    assert_eq!(world.lines(&of_session), [of_ci9[0], of_ci9[1], of_ci9[3]]);
    for nothing in [owner("alone"), owner("nobody"), WaitsQuery { lock: Some(name("quiet")), ..all() }] {
        assert_eq!(world.lines(&nothing), [""; 0], "{nothing:?}");
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let tree = jam().tree(&WaitsQuery { limit: 2, ..all() }, 64);
    assert_eq!((lines(&tree).len(), tree.left_out, tree.complete), (2, 3, true));
}

#[test]
fn a_hidden_lock_is_in_no_row() {
    let world = jam();
    let visible = |lock: &LockName| lock.as_str() != "deploy";
    let mut walk = world.state.wait_walk().only(&visible);
    while !walk.visit(7) {}
    let tree = walk.finish(&all());
    assert_eq!(
        lines(&tree),
        ["ci-9 [orders:2] blocks 2", "-w1 orders@2 []", "-w2 orders@3 []", "ci-7 [stock:1] blocks 1", "-batch stock@2 []"]
    );
}

#[test]
fn a_waiter_for_several_locks_stands_below_each_of_them() {
    let mut world = World::new(4);
    world.acquire(1, "a", &["x"]);
    world.acquire(2, "b", &["y"]);
    world.acquire(3, "both", &["x", "y"]);
    world.acquire(4, "last", &["y"]);
    assert_eq!(world.lines(&all()), ["b [y:2] blocks 2", "-both y@2 []", "-last y@3 []", "a [x:1] blocks 1", "-both x@2 []"]);
}

#[test]
fn the_first_in_line_stands_for_a_lock_without_a_holder() {
    let mut world = World::new(3);
    world.acquire(1, "a", &["x"]);
    world.acquire(2, "both", &["x", "y"]);
    world.acquire(3, "last", &["y"]);
    assert_eq!(world.lines(&all()), ["a [x:1] blocks 2", "-both x@2 [y:1]", "--last y@2 []"]);
    assert_eq!(world.tree(&all(), 1).rows[1].holds[0].token, None, "it does not hold y yet");
}

#[test]
fn many_holders_of_one_lock_are_one_row() {
    let mut world = World::new(4);
    for of in 1..=3 {
        world.take(of, &format!("reader-{of}"), &["x"], Mode::Shared);
    }
    world.acquire(4, "writer", &["x"]);
    assert_eq!(world.lines(&all()), ["reader-1 [x:1] blocks 1", "-writer x@4 []"]);
    assert_eq!(world.tree(&all(), 1).rows[0].holds[0].holders, 3);
}

#[test]
fn a_circle_of_waiters_is_shown_once() {
    let world = jam();
    let mut walk = world.state.wait_walk();
    while !walk.visit(64) {}
    // The deadlock check refuses a circle, unless it has to give up. Here ci-7 waits for orders.
    let ci9 = walk.queues[0].waiters[0].0;
    let ci7 = walk.actors[ci9].parent.unwrap();
    let contender = walk.actors[ci7].contender;
    walk.queues[1].waiters.push((ci7, contender, 4));
    walk.actors[ci7].parent = Some(ci9);
    let wanted = [
        "ci-9 [orders:3] blocks 5",
        "-w1 orders@2 []",
        "-w2 orders@3 []",
        "-ci-7 orders@4 [deploy:1,stock:1]",
        "--ci-9 deploy@2 [orders:3] again",
        "--batch stock@2 []",
    ];
    assert_eq!(lines(&walk.finish(&all())), wanted);
}

#[test]
fn a_row_lists_a_bounded_number_of_locks_and_counts_the_others() {
    let mut world = World::new(2);
    let locks: Vec<String> = (0..WAIT_HOLDS_MAX + 2).map(|number| format!("x-{number:02}")).collect();
    for lock in &locks {
        world.acquire(1, "holder", &[lock.as_str()]);
        world.acquire(2, "waiter", &[lock.as_str()]);
    }
    let tree = world.tree(&all(), 64);
    let root = &tree.rows[0];
    let listed: Vec<&str> = root.holds.iter().map(|held| held.lock.as_str()).collect();
    assert_eq!(listed, locks[..WAIT_HOLDS_MAX]);
    assert_eq!((root.holds_left_out, root.blocks, tree.rows.len()), (2, locks.len(), locks.len() + 1));
    assert!(tree.rows[1..].iter().all(|row| row.holds.is_empty() && row.holds_left_out == 0));
}

#[test]
fn a_look_visits_no_lock_if_nobody_waits() {
    let mut world = World::new(2);
    for number in 0..100 {
        world.acquire(1, "holder", &[format!("x-{number}").as_str()]);
    }
    assert!(world.state.wait_walk().visit(1), "the first visit is the end");
    let tree = world.tree(&all(), 64);
    assert_eq!((tree.rows.len(), tree.complete), (0, true));
    world.acquire(2, "waiter", &["x-99"]);
    assert!(!world.state.wait_walk().visit(1));
    assert_eq!(world.lines(&all()), ["holder [x-99:1] blocks 1", "-waiter x-99@2 []"]);
}

#[test]
fn a_look_visits_a_bounded_number_of_contenders() {
    let mut world = World::new(2);
    world.acquire(1, "holder", &["x"]);
    world.acquire(2, "waiter", &["x"]);
    let mut walk = world.state.wait_walk();
    walk.scanned = WAITS_SCANNED_MAX - 1;
    while !walk.visit(1) {}
    let tree = walk.finish(&all());
    assert!(!tree.complete);
    assert_eq!(lines(&tree), ["holder [x:1] blocks 1", "-waiter x@2 []"], "what was visited is shown");
}
