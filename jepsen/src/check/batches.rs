//! Batches: a released id is never held later, calls with the same id take effect in their order, and exclusive grants
//! do not overlap.
//!
//! Each id has its own owner, so the watch shows which grant belongs to which id.

use super::Check;
use crate::history::{Call, History, Op, Outcome};
use std::collections::{BTreeMap, HashMap};

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("batches", "a released id is never held later, and calls with one id take effect in their order");
    let mut ids: BTreeMap<(&str, &str), Vec<&Op>> = BTreeMap::new();
    for op in history.ops.iter().filter(|op| op.batch.is_some()) {
        if let Some(owner) = op.value.as_deref() {
            ids.entry((&op.key, owner)).or_default().push(op);
        }
    }
    let lives = lives(history);
    let last = history.longest_watch().last().map_or(0, |event| event.revision);
    for (id, ops) in &ids {
        check.count(id.0);
        answers(ops, &mut check);
        check_released(ops, lives.get(id), last, &mut check);
    }
    overlaps(history, &mut check);
    check
}

/// Whether a call takes effect after this one: its batch was sent later, or it is later in the same batch.
fn is_after(later: &Op, op: &Op) -> bool {
    if later.batch == op.batch { later.index > op.index } else { later.start > op.end }
}

fn requests_grant(op: &Op) -> bool {
    matches!(op.call, Call::Acquire | Call::Again)
}

/// Checks the order of the calls with one id, from their answers.
fn answers(ops: &[&Op], check: &mut Check) {
    let is_release = |op: &&&Op| op.call == Call::Release;
    for release in ops.iter().filter(is_release).filter(|op| op.is_ok()) {
        for op in ops.iter().filter(|op| requests_grant(op) && op.is_ok() && is_after(op, release)) {
            check.broken(|| format!("{}: operation {} was granted an id that {} had released", op.key, op.index, release.index));
        }
    }
    for op in ops.iter().filter(|op| op.call == Call::Acquire && op.is_gone()) {
        // A grant that expired before the answer arrived is gone as well.
        let ended_by_client =
            op.error.as_deref().is_some_and(|error| error.ends_with("released") || error.ends_with("withdrawn"));
        if ended_by_client && !ops.iter().filter(is_release).any(|release| !is_after(release, op)) {
            check.broken(|| format!("{}: operation {} was done after a release that is later in its batch", op.key, op.index));
        }
    }
    let mut tokens = ops.iter().filter(|op| requests_grant(op) && op.is_ok()).filter_map(|op| Some((op.token?, op.index)));
    if let Some((first, index)) = tokens.next()
        && let Some((_, other)) = tokens.find(|(token, _)| *token != first)
    {
        check.broken(|| format!("{}: operations {index} and {other} have one id and two tokens", ops[0].key));
    }
}

/// When the grants of an id were granted and ended, by revision.
#[derive(Debug, Default)]
struct Life {
    granted: Vec<u64>,
    ended: Vec<u64>,
}

fn lives(history: &History) -> HashMap<(&str, &str), Life> {
    let mut lives: HashMap<(&str, &str), Life> = HashMap::new();
    let mut owners: HashMap<(&str, u64), &str> = HashMap::new();
    for event in history.longest_watch() {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        match (event.kind(), event.text("owner")) {
            ("queued", Some(owner)) => drop(owners.insert((lock, number), owner)),
            ("granted", Some(owner)) => {
                owners.insert((lock, number), owner);
                lives.entry((lock, owner)).or_default().granted.push(event.revision);
            }
            ("ended", _) => {
                if let Some(owner) = owners.get(&(lock, number)) {
                    lives.entry((lock, owner)).or_default().ended.push(event.revision);
                }
            }
            _other => {}
        }
    }
    lives
}

/// Checks the events of a released id.
fn check_released(ops: &[&Op], life: Option<&Life>, last: u64, check: &mut Check) {
    let Some(life) = life else { return };
    for release in ops.iter().filter(|op| op.call == Call::Release && op.is_ok()) {
        let Some(revision) = release.revision.filter(|revision| *revision <= last) else { continue };
        let (key, index) = (&release.key, release.index);
        if let Some(granted) = life.granted.iter().find(|granted| **granted > revision) {
            check.broken(|| format!("{key}: operation {index} released an id by {revision}, but it was granted at {granted}"));
        }
        let held = |granted: &&u64| **granted <= revision && !life.ended.iter().any(|end| (**granted..=revision).contains(end));
        if let Some(granted) = life.granted.iter().find(held) {
            check.broken(|| {
                format!("{key}: operation {index} released an id by {revision}, but it was still held since {granted}")
            });
        }
        let was_first = ops.iter().filter(|op| requests_grant(op)).all(|op| is_after(op, release));
        if was_first && let Some(granted) = life.granted.first() {
            check.broken(|| format!("{key}: operation {index} released an id before its acquire, but {granted} granted it"));
        }
    }
}

/// Exclusive grants of one lock, by answers only: from the answer to the sending of the release, or to the earliest end
/// of the session's lease.
fn overlaps(history: &History, check: &mut Check) {
    let mut alive: HashMap<u64, u64> = HashMap::new();
    for op in history.ops.iter().filter(|op| matches!(op.call, Call::Open | Call::Keepalive) && op.is_ok()) {
        if let Some(number) = op.number {
            let until = alive.entry(number).or_default();
            *until = (*until).max(op.start + op.ttl.unwrap_or(0));
        }
    }
    let mut given_up: HashMap<&str, u64> = HashMap::new();
    for op in &history.ops {
        match (op.call, op.value.as_deref(), op.number) {
            (Call::Release, Some(owner), _) if op.outcome != Outcome::Fail => {
                given_up.entry(owner).and_modify(|at| *at = op.start.min(*at)).or_insert(op.start);
            }
            (Call::Close, _, Some(number)) => {
                alive.entry(number).and_modify(|until| *until = op.start.min(*until));
            }
            _other => {}
        }
    }
    let mut held: Vec<(&str, u64, u64, usize)> = Vec::new();
    for op in history.ops.iter().filter(|op| op.batch.is_some() && op.is_exclusive_grant() && op.token.is_some()) {
        let session_until = op.session.and_then(|session| alive.get(&session)).copied().unwrap_or(0);
        let released = op.value.as_deref().and_then(|owner| given_up.get(owner)).copied().unwrap_or(u64::MAX);
        let until = session_until.min(released);
        if op.end < until && !history.clocks_were_skewed(op.end, until) {
            held.push((&op.key, op.end, until, op.index));
        }
    }
    held.sort_unstable();
    for (lock, _, _, _) in &held {
        check.count(lock);
    }
    for pair in held.windows(2) {
        let [(lock, _, until, first), (other, from, _, second)] = pair else { continue };
        if lock == other && from < until {
            check.broken(|| format!("{lock}: operations {first} and {second} both held it at {from}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, op};
    use serde_json::json;

    fn part(call: Call, batch: usize, start: u64) -> Op {
        op(call, "a").at(start, start + 10).with(|op| {
            (op.batch, op.session, op.value, op.revision) = (Some(batch), Some(3), Some("p".to_owned()), Some(20));
        })
    }

    fn acquired(batch: usize, start: u64, token: u64) -> Op {
        part(Call::Acquire, batch, start).with(|op| (op.number, op.token) = (Some(token), Some(token)))
    }

    fn failed(op: Op, error: &str) -> Op {
        op.with(|op| (op.outcome, op.error, op.token) = (Outcome::Fail, Some(error.to_owned()), None))
    }

    fn findings(planted: Planted) -> usize {
        check(&planted.done()).broken.len()
    }

    fn granted(planted: Planted, revision: u64) -> Planted {
        let line = json!({"type": "granted", "lock": "a", "number": revision, "token": revision, "owner": "p"});
        planted.event(0, revision, line)
    }

    fn ended(planted: Planted, number: u64, revision: u64) -> Planted {
        let line = json!({"type": "ended", "lock": "a", "number": number, "reason": "released"});
        planted.event(0, revision, line)
    }

    fn with_later_event(planted: Planted) -> Planted {
        planted.event(0, 40, json!({"type": "changed", "path": "/x"}))
    }

    #[test]
    fn an_id_granted_after_its_release_is_found() {
        let again = || part(Call::Again, 1, 50);
        let one = |again: Op| Planted::new().op(acquired(0, 0, 5)).op(part(Call::Release, 0, 0)).op(again);
        assert_eq!(findings(one(failed(again(), "410 grant_gone released"))), 0);
        assert_eq!(findings(one(again().with(|op| op.outcome = Outcome::Unknown))), 0);
        assert_eq!(findings(one(again())), 1);
        // In one batch, by position.
        let first = |then: Op| Planted::new().op(part(Call::Release, 0, 0)).op(then);
        assert_eq!(findings(first(failed(part(Call::Again, 0, 0), "410 grant_gone withdrawn"))), 0);
        assert_eq!(findings(first(part(Call::Again, 0, 0))), 1);
    }

    #[test]
    fn a_release_with_an_unknown_outcome_proves_nothing() {
        let release = part(Call::Release, 0, 0).with(|op| op.outcome = Outcome::Unknown);
        assert_eq!(findings(Planted::new().op(acquired(0, 0, 5)).op(release).op(part(Call::Again, 1, 50))), 0);
    }

    #[test]
    fn an_event_of_a_released_id_is_found() {
        let both = || Planted::new().op(acquired(0, 0, 5)).op(part(Call::Release, 0, 0));
        assert_eq!(findings(with_later_event(ended(granted(both(), 5), 5, 6))), 0);
        assert_eq!(findings(with_later_event(ended(granted(both(), 5), 5, 30))), 1, "still held");
        assert_eq!(findings(with_later_event(granted(ended(granted(both(), 5), 5, 6), 30))), 1, "held again");
        let first = Planted::new().op(part(Call::Release, 0, 0)).op(failed(part(Call::Again, 0, 0), "409 lock_held"));
        assert_eq!(findings(with_later_event(ended(granted(first, 5), 5, 6))), 1, "held after an earlier release");
    }

    #[test]
    fn calls_with_one_id_out_of_order_and_two_tokens_of_one_id_are_found() {
        let gone = |reason: &str| failed(part(Call::Acquire, 0, 0), &format!("410 grant_gone {reason}"));
        let then = |gone: Op| Planted::new().op(gone).op(part(Call::Release, 0, 0));
        assert_eq!((findings(then(gone("expired"))), findings(then(gone("released")))), (0, 1));
        let again = |token| part(Call::Again, 0, 0).with(|op| op.token = Some(token));
        let twice = |token| Planted::new().op(acquired(0, 0, 5)).op(again(token));
        assert_eq!((findings(twice(5)), findings(twice(6))), (0, 1));
    }

    #[test]
    fn overlapping_grants_are_found_as_long_as_their_session_is_certainly_alive() {
        let session = op(Call::Open, "s").at(0, 5).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
        let second = |start| acquired(20, start, 9).with(|op| op.value = Some("q".to_owned()));
        let both = |start| Planted::new().op(session.clone()).op(acquired(1, 10, 5)).op(second(start));
        assert_eq!((findings(both(30)), findings(both(95))), (1, 0));
        let released = |outcome| part(Call::Release, 2, 25).with(|op| op.outcome = outcome);
        for (outcome, count) in [(Outcome::Ok, 0), (Outcome::Unknown, 0), (Outcome::Fail, 1)] {
            assert_eq!(findings(both(30).op(released(outcome))), count);
        }
    }
}
