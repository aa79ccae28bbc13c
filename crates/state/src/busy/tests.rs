//! Tests of `busy`.

use super::*;
use crate::{
    command::{Acquire, Command, Owner, SetLock},
    request_for_tests::{acquire_in, open_session, set_lock},
};
use fairhold_types::{GrantId, Mode, SessionId};

const SESSION: SessionId = SessionId(7);

fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

/// A state with one session.
fn state() -> State {
    let mut state = State::new();
    assert!(state.apply(&open_session(SESSION)).answer.result.is_ok());
    state
}

fn acquire(state: &mut State, id: u128, lock: &str, owner: &str, at: u64) {
    let acquire = Acquire {
        owner: Owner { text: owner.to_owned(), given: true },
        at: WallMillis(at),
        ..acquire_in(SESSION, GrantId::from_ulid(id << 64), &[lock], Mode::Exclusive)
    };
    assert!(state.apply(&Command::Acquire(acquire)).answer.result.is_ok());
}

fn walked(state: &State, visible: Option<&(dyn Fn(&LockName) -> bool + Sync)>, step: usize) -> BusyLocks {
    let mut walk = state.busy_walk(WallMillis(1_000));
    if let Some(visible) = visible {
        walk = walk.only(visible);
    }
    while !walk.visit(step) {}
    walk.finish()
}

fn shown(entries: &[BusyEntry]) -> Vec<(&str, &str, u64, usize)> {
    entries.iter().map(|entry| (entry.lock.as_str(), entry.owner.as_str(), entry.since.0, entry.waiting)).collect()
}

#[test]
fn the_longest_holders_and_waiters_come_first() {
    let mut state = state();
    for (id, (lock, owner, at)) in
        (1..).zip([("b", "b1", 20), ("a", "a1", 10), ("b", "b2", 30), ("b", "b3", 40), ("c", "c1", 5), ("a", "a2", 50)])
    {
        acquire(&mut state, id, lock, owner, at);
    }
    let all = walked(&state, None, 1);
    assert_eq!(shown(&all.holding), [("c", "c1", 5, 0), ("a", "a1", 10, 1), ("b", "b1", 20, 2)]);
    assert_eq!(shown(&all.blocking), [("a", "a1", 10, 1), ("b", "b1", 20, 2)]);
    assert_eq!(shown(&all.waiting), [("b", "b2", 30, 2), ("a", "a2", 50, 1)]);
    assert_eq!(all.waiting[0].holder.as_ref().map(|(_, owner)| owner.as_str()), Some("b1"));
    assert_eq!(all.full, [], "no queue has a limit");
    assert_eq!(walked(&state, None, 64), all, "the size of a step does not matter");
    let some = walked(&state, Some(&|lock: &LockName| lock.as_str() == "b"), 2);
    assert_eq!((shown(&some.holding), shown(&some.waiting)), (vec![("b", "b1", 20, 2)], vec![("b", "b2", 30, 2)]));
}

#[test]
fn the_fullest_queue_with_a_limit_comes_first() {
    let mut state = state();
    for (lock, max) in [("a", 4), ("b", 2), ("c", 0)] {
        let set = SetLock { max_waiters: Some(max), ..set_lock(lock) };
        assert!(state.apply(&Command::SetLock(set)).answer.result.is_ok());
        acquire(&mut state, u128::from(max) + 1, lock, "holder", 1);
    }
    acquire(&mut state, 10, "a", "a1", 2);
    acquire(&mut state, 11, "b", "b1", 3);
    assert_eq!(shown(&walked(&state, None, 1).full), [("b", "b1", 3, 1), ("a", "a1", 2, 1)]);
}

fn release(state: &mut State, id: u128, at: u64) {
    let release = Command::Release { grant: GrantId::from_ulid(id << 64), session: None, at: WallMillis(at) };
    assert!(state.apply(&release).answer.result.is_ok());
}

#[test]
fn the_lock_that_is_granted_most_often_comes_first() {
    let mut state = state();
    // Each of these grants waits for the one before.
    for (lock, first, grants) in [("seldom", 100, 3), ("often", 200, 6), ("once", 300, 1)] {
        for id in first..first + grants {
            acquire(&mut state, id, lock, &format!("ci-{id}"), 100);
        }
        for id in first..first + grants - 1 {
            release(&mut state, id, 150);
        }
    }
    // One owner takes this one again and again. Nobody holds it at the moment of the look.
    for id in 400..408 {
        acquire(&mut state, id, "alone", "cron", 100);
        release(&mut state, id, 150);
    }
    // At the age of a second, a minute has begun before the first time.
    let all = hot(&walked(&state, None, 1));
    assert_eq!(all, [("alone", 480, 0, 0), ("often", 300, 240, 50), ("seldom", 120, 60, 50)].map(owned));
    assert_eq!(hot(&walked(&state, Some(&|lock: &LockName| lock.as_str() == "seldom"), 1)), all[2..]);
}

/// The locks that are granted most often: grants and hand-overs a minute, and the median of the waits.
fn hot(locks: &BusyLocks) -> Vec<(String, u64, u64, u64)> {
    let figures =
        |hot: &HotLock| (hot.lock.as_str().to_owned(), hot.grants_per_minute, hot.hand_overs_per_minute, hot.wait_p50_ms);
    locks.hot.iter().map(figures).collect()
}

fn owned((lock, grants, hand_overs, wait): (&str, u64, u64, u64)) -> (String, u64, u64, u64) {
    (lock.to_owned(), grants, hand_overs, wait)
}

#[test]
fn a_walk_visits_idle_locks_unless_there_are_too_many() {
    let mut state = state();
    for (id, lock) in (1..).zip(["busy", "idle"]) {
        acquire(&mut state, id, lock, "cron", 100);
        release(&mut state, id, 150);
    }
    acquire(&mut state, 3, "busy", "cron", 200);
    // With the lock that was used, this is one less than the maximum.
    state.index.locks.extend((2..IDLE_VISITED_MAX).map(|number| name(&format!("unused-{number}"))));
    let visited = |state: &State| walked(state, None, 1_000).hot.into_iter().map(|hot| hot.lock).collect::<Vec<_>>();
    assert_eq!(visited(&state), [name("busy"), name("idle")]);
    state.index.locks.extend([name("one"), name("too-many")]);
    assert_eq!(visited(&state), [name("busy")]);
}

#[test]
fn each_list_has_a_bounded_length() {
    let mut state = state();
    for id in 1..=25_u64 {
        acquire(&mut state, u128::from(id), &format!("lock-{id:02}"), "holder", 100 - id);
        acquire(&mut state, u128::from(id) + 100, &format!("lock-{id:02}"), "waiter", 100);
    }
    let all = walked(&state, None, 3);
    assert_eq!([all.holding.len(), all.blocking.len(), all.waiting.len()], [BUSY_LISTED_MAX; 3]);
    assert_eq!(all.holding[0].lock, name("lock-25"), "the longest of all, though it is visited last");
}
