//! Histories with planted faults that the checkers of rights must find, and sound ones.

use super::*;
use crate::{
    check::plant::{Planted, fault, op},
    history::Right,
};
use serde_json::json;

const LOCK: &str = "access-change-0-0";
const NODE: &str = "chaos/access-change-tree/n-0-0";
const TREE: &str = "access-change-tree";
const SECOND: u64 = 1_000_000;

fn by(op: Op, credential: u64) -> Op {
    let rights = op.call.needs().to_vec();
    op.with(|op| op.rights = Some(OpRights { user: 1, credential: Some(credential), rights }))
}

/// A call of the user, with its first token.
fn call(call: Call, key: &str) -> Op {
    by(op(call, key), 1)
}

fn change(call: Call, rights: &[Right], revision: u64) -> Op {
    op(call, "access-change-1").with(|op| {
        op.rights = Some(OpRights { user: 1, credential: None, rights: rights.to_vec() });
        op.number = Some(revision);
    })
}

fn revoke(revision: u64) -> Op {
    change(Call::Narrow, &[], revision).with(|op| op.rights = Some(OpRights { user: 1, credential: Some(1), rights: Vec::new() }))
}

fn refused(op: Op, error: &str) -> Op {
    op.with(|op| (op.outcome, op.error) = (Outcome::Fail, Some(error.to_owned())))
}

/// A user gets its rights at revision 1, loses the one to read and write at 10 between 10 s and 11 s, and gets it back at
/// 20 between 30 s and 31 s. At 29 s the cluster has reached revision 15.
fn story() -> Planted {
    let nodes = [Right::Read, Right::Write];
    let seen = by(op(Call::Renew, LOCK), 1).with(|op| op.revision = Some(15));
    Planted::new()
        .op(change(Call::Widen, &[Right::Read, Right::Write, Right::Locks], 1).at(1, 2))
        .op(change(Call::Narrow, &nodes, 10).at(10 * SECOND, 11 * SECOND))
        .op(seen.at(28 * SECOND, 29 * SECOND))
        .op(change(Call::Widen, &nodes, 20).at(30 * SECOND, 31 * SECOND))
}

/// The findings of the three checks, and what they have counted.
fn judged(history: &History) -> ([usize; 3], [usize; 3]) {
    let all = checks(history);
    (all.each_ref().map(|check| check.broken.len()), all.each_ref().map(|check| check.checked))
}

fn findings(planted: Planted) -> [usize; 3] {
    judged(&planted.done()).0
}

#[test]
fn a_history_that_keeps_the_contract_is_good_and_counts() {
    let planted = story()
        .op(call(Call::Read, NODE).at(3, 4))
        // Judged before the loss, and answered after it.
        .op(call(Call::Write, NODE).at(10 * SECOND, 12 * SECOND).with(|op| op.revision = Some(9)))
        .op(refused(call(Call::Read, NODE), "403 denied").at(12 * SECOND, 13 * SECOND))
        // It may lag for five seconds.
        .op(call(Call::LocalRead, NODE).at(12 * SECOND, 13 * SECOND))
        .op(refused(call(Call::LocalRead, NODE), "403 denied").at(18 * SECOND, 19 * SECOND))
        // What needs no right, and another right.
        .op(call(Call::Release, LOCK).at(12 * SECOND, 13 * SECOND))
        .op(call(Call::Acquire, LOCK).at(12 * SECOND, 13 * SECOND))
        .op(call(Call::Write, NODE).at(32 * SECOND, 33 * SECOND).with(|op| op.revision = Some(21)));
    let (findings, counted) = judged(&planted.done());
    assert_eq!(findings, [0; 3]);
    assert!(counted[0] == 2 && counted[2] >= 4, "{counted:?}");
}

#[test]
fn calls_that_succeed_after_a_loss_are_found() {
    for lost in [Call::Read, Call::Write, Call::FencedWrite] {
        let history = story().op(call(lost, NODE).at(12 * SECOND, 13 * SECOND));
        assert_eq!(findings(history), [1, 0, 0], "{lost:?}");
    }
    let local = |start| story().op(call(Call::LocalRead, NODE).at(start, start + SECOND));
    assert_eq!(findings(local(18 * SECOND)), [1, 0, 0], "more than five seconds later");
    let mut slow = local(18 * SECOND).done();
    slow.faults.push(crate::history::FaultSpan { end: 60 * SECOND, ..fault("slow-follower-clock", false) });
    assert_eq!(judged(&slow).0, [0; 3], "the seconds of a slow clock are longer");
}

#[test]
fn a_change_with_a_revision_after_a_loss_is_found_even_if_it_was_sent_before() {
    let write =
        |revision| story().op(call(Call::Write, NODE).at(9 * SECOND, 40 * SECOND).with(|op| op.revision = Some(revision)));
    assert_eq!([9, 11, 15].map(|revision| findings(write(revision))[0]), [0, 1, 1]);
    assert_eq!(findings(write(16)), [0; 3], "perhaps it was given back before");
}

#[test]
fn a_request_for_a_lock_is_judged_by_when_it_queued() {
    let lost = |queued: u64| {
        let acquire = call(Call::Acquire, LOCK).at(9 * SECOND, 14 * SECOND).with(|op| op.value = Some("a1".to_owned()));
        let planted = story().op(change(Call::Narrow, &[Right::Locks], 10).at(10 * SECOND, 11 * SECOND)).op(acquire);
        findings(planted.event(0, queued, json!({"type": "queued", "lock": LOCK, "number": 1, "owner": "a1"})))
    };
    assert_eq!((lost(9), lost(12)), ([0; 3], [1, 0, 0]));
}

#[test]
fn a_revoked_token_does_nothing_and_a_new_one_works() {
    let after = |op: Op| findings(story().op(revoke(40).at(40 * SECOND, 41 * SECOND)).op(op));
    assert_eq!(after(call(Call::Acquire, LOCK).at(42 * SECOND, 43 * SECOND)), [1, 0, 0]);
    assert_eq!(after(call(Call::Renew, LOCK).at(42 * SECOND, 43 * SECOND)), [0; 3]);
    assert_eq!(after(call(Call::Renew, LOCK).at(48 * SECOND, 49 * SECOND)), [1, 0, 0], "for five seconds at most");
    assert_eq!(after(by(op(Call::Acquire, LOCK), 2).at(42 * SECOND, 43 * SECOND)), [0; 3]);
    assert_eq!(after(refused(call(Call::Release, LOCK), "401 unauthenticated").at(42 * SECOND, 43 * SECOND)), [0; 3]);
}

#[test]
fn a_loss_counts_from_its_answer_also_if_the_first_attempt_had_none() {
    let unknown = change(Call::Narrow, &[Right::Locks], 0).at(50 * SECOND, 52 * SECOND);
    let unknown = unknown.with(|op| (op.outcome, op.number) = (Outcome::Unknown, None));
    let again = change(Call::Narrow, &[Right::Locks], 50).at(53 * SECOND, 54 * SECOND);
    let acquire = |start: u64| {
        let planted = story().op(unknown.clone()).op(again.clone());
        findings(planted.op(call(Call::Acquire, LOCK).at(start, start + SECOND / 2)))
    };
    assert_eq!((acquire(52 * SECOND), acquire(55 * SECOND)), ([0; 3], [1, 0, 0]));
    // From the first attempt on it may be refused.
    let refused = refused(call(Call::Acquire, LOCK), "403 denied").at(51 * SECOND, 52 * SECOND);
    assert_eq!(findings(story().op(unknown).op(again).op(refused)), [0; 3]);
}

#[test]
fn an_event_of_a_watch_after_a_loss_is_found_and_what_it_hides_is_counted() {
    let watched = |shown: &[u64]| {
        let stream = refused(call(Call::Watch, TREE), "stream denied").at(5 * SECOND, 12 * SECOND);
        let planted = story().op(stream).event(0, 12, json!({"type": "changed", "path": "/chaos/access-change-tree/x"}));
        shown.iter().fold(planted, |planted, revision| planted.shown(4, *revision)).done()
    };
    let (found, counted) = judged(&watched(&[8, 10]));
    assert_eq!((found, counted[1]), ([0; 3], 1));
    assert_eq!(judged(&watched(&[8, 12])).0, [0, 1, 0]);
    assert_eq!(judged(&watched(&[25])).0, [0; 3], "it may watch again");
    let elsewhere = story().op(call(Call::Watch, TREE).at(5 * SECOND, 12 * SECOND));
    let elsewhere = elsewhere.event(0, 12, json!({"type": "changed", "path": "/chaos/registers-0-0"}));
    assert_eq!(judged(&elsewhere.done()).1[1], 0, "there was nothing to hide");
}

#[test]
fn refusals_without_a_reason_are_found() {
    for (unfounded, error) in [
        (call(Call::Read, NODE), "403 denied"),
        (call(Call::Watch, TREE), "stream denied"),
        (call(Call::Watch, TREE), "stream unauthenticated"),
        (call(Call::Release, LOCK), "401 unauthenticated"),
    ] {
        assert_eq!(findings(story().op(refused(unfounded, error).at(3, 4))), [0, 0, 1], "{error}");
    }
    // What needs no right is refused never, and the others may be while a change is under way.
    let at = |op: Op, start: u64| findings(story().op(refused(op, "403 denied").at(start, start + SECOND)));
    assert_eq!(at(call(Call::Release, LOCK), 12 * SECOND), [0, 0, 1]);
    assert_eq!(at(call(Call::Read, NODE), 30 * SECOND), [0; 3]);
    assert_eq!(at(call(Call::Read, NODE), 32 * SECOND), [0, 0, 1]);
    let busy = refused(call(Call::Read, NODE), "503 stale_access").at(3, 4);
    assert_eq!(findings(story().op(busy)), [0; 3]);
    let by_administrator = |error| findings(story().op(refused(change(Call::Widen, &[], 0), error).at(40 * SECOND, 41 * SECOND)));
    assert_eq!(by_administrator("403 denied"), [0, 0, 1]);
    assert_eq!(by_administrator("429 rate_limited"), [0; 3]);
}
