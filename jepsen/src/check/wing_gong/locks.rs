//! Locks without their tokens: a client with a grant held the lock from some moment of its request until it released
//! it, or until its lease could have expired, counted from the last renewal that it sent.

use super::{Item, Model, SearchAnswer, search};
use crate::{
    check::{Check, leases::surely_until},
    history::{Call, History, Op, Outcome},
    workload::is_administered,
};
use std::collections::{BTreeMap, HashMap};

/// A holder: its grant and its mode.
type Holder = (usize, bool, Option<u32>);

#[derive(Debug, Clone)]
enum LockAction {
    /// With the limit of its request.
    Grant(Holder, u32),
    Upgrade(usize),
    Downgrade(usize),
    End(usize),
}

struct Lock;

impl Model for Lock {
    type State = Vec<Holder>;
    type Action = LockAction;

    fn initial() -> Vec<Holder> {
        Vec::new()
    }

    fn step(state: &Vec<Holder>, action: &LockAction) -> Option<Vec<Holder>> {
        let mut after = state.clone();
        match action {
            LockAction::Grant(holder, limit) => {
                let (_, shared, permits) = holder;
                let fits = match permits {
                    Some(permits) => permits + state.iter().filter_map(|(_, _, permits)| *permits).sum::<u32>() <= *limit,
                    None => state.iter().all(|(_, other, _)| *shared && *other),
                };
                fits.then(|| {
                    after.push(*holder);
                    after.sort_unstable();
                    after
                })
            }
            LockAction::Upgrade(grant) => match after.as_mut_slice() {
                [(held, shared, _)] if held == grant => {
                    *shared = false;
                    Some(after)
                }
                _other => None,
            },
            LockAction::Downgrade(grant) => {
                let (_, shared, _) = after.iter_mut().find(|(held, _, _)| held == grant)?;
                *shared = true;
                Some(after)
            }
            LockAction::End(grant) => {
                after.retain(|(held, _, _)| held != grant);
                (after.len() < state.len()).then_some(after)
            }
        }
    }
}

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new(
        "locks, without revisions",
        "an order exists in which every holder held the lock exclusively, or shared it correctly",
    );
    let mut of_grant: HashMap<usize, Vec<&Op>> = HashMap::new();
    for op in &history.ops {
        if let (Call::Renew | Call::Release | Call::Upgrade | Call::Downgrade, Some(grant)) = (op.call, op.grant) {
            of_grant.entry(grant).or_default().push(op);
        }
    }
    let mut keys: BTreeMap<&str, Vec<Item<LockAction>>> = BTreeMap::new();
    // A grant with an unknown outcome may have ended at any time after it began: it excludes no other, and is skipped.
    // A grant of a session ends with the session, and has its own lock. An administrator may end grants at any
    // time, so administered locks are skipped.
    for op in history.ops.iter().filter(|op| op.call == Call::Acquire && op.is_ok()) {
        if op.ttl.is_none() || is_administered(&op.key) {
            continue;
        }
        check.count(&op.key);
        let items = keys.entry(&op.key).or_default();
        // A lock has one permit until a request passes a limit.
        let action = LockAction::Grant((op.index, op.shared, op.permits), op.limit.unwrap_or(1));
        items.push(Item { start: op.start, end: Some(op.end), action });
        let later = of_grant.get(&op.index).map_or(&[][..], Vec::as_slice);
        items.extend(later.iter().filter_map(|later| change(later)));
        let (mut start, mut end) = end_of(op, later);
        if history.clocks_were_skewed(op.start, start) {
            (start, end) = (op.start, end.map(|end| end.max(op.end)));
        }
        items.push(Item { start, end, action: LockAction::End(op.index) });
    }
    for (key, items) in keys {
        let count = items.len();
        match search::<Lock>(items) {
            SearchAnswer::Possible => {}
            SearchAnswer::Impossible { longest } => {
                check.broken(|| format!("{key}: no order of its {count} starts and ends is possible, only of {longest}"));
            }
            SearchAnswer::TooMany => check.undecided.push(format!("{key}: {count} starts and ends are too many to search")),
        }
    }
    check
}

/// A change of a grant's mode. If its outcome is unknown, it may happen at any time, or never.
fn change(op: &Op) -> Option<Item<LockAction>> {
    let action = match (op.call, op.grant?) {
        (Call::Upgrade, grant) => LockAction::Upgrade(grant),
        (Call::Downgrade, grant) => LockAction::Downgrade(grant),
        _other => return None,
    };
    (op.outcome != Outcome::Fail).then(|| Item { start: op.start, end: op.is_ok().then_some(op.end), action })
}

/// The earliest end of a grant, and the time by which it has certainly ended.
fn end_of(acquire: &Op, later: &[&Op]) -> (u64, Option<u64>) {
    let renewals = |outcome: Outcome| later.iter().copied().filter(move |op| op.call == Call::Renew && op.outcome == outcome);
    let last = renewals(Outcome::Ok).next_back().unwrap_or(acquire);
    let lease = surely_until(last, &renewals(Outcome::Unknown).collect::<Vec<_>>());
    let releases = || later.iter().filter(|op| op.call == Call::Release);
    let start = releases().map(|op| op.start).min().map_or(lease, |released| released.min(lease));
    (start, releases().filter(|op| op.is_ok()).map(|op| op.end).min().map(|end| end.max(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, fault, grant, op, upgrade};

    fn held(from: u64, answered: u64) -> Op {
        grant("a", 1).at(from, answered).with(|op| op.ttl = Some(1_000))
    }

    fn released(grant: usize, from: u64, answered: u64) -> Op {
        op(Call::Release, "a").at(from, answered).with(|op| op.grant = Some(grant))
    }

    #[test]
    fn holders_in_sequence_are_possible_and_two_at_once_are_not() {
        let good = Planted::new().op(held(0, 10)).op(held(5, 40)).op(released(0, 20, 30)).op(released(1, 50, 60)).done();
        assert_eq!(check(&good).broken, Vec::<String>::new());
        let bad = Planted::new().op(held(0, 10)).op(held(5, 15)).op(released(0, 20, 30)).op(released(1, 50, 60)).done();
        assert_eq!(check(&bad).broken.len(), 1);
    }

    #[test]
    fn the_next_holder_may_start_when_the_lease_has_expired_and_not_before() {
        let after = |answered| Planted::new().op(held(0, 10)).op(held(5, answered)).done();
        assert_eq!(check(&after(1_001)).broken, Vec::<String>::new());
        assert_eq!(check(&after(999)).broken.len(), 1);
    }

    #[test]
    fn a_lease_counted_by_a_wrong_clock_may_end_sooner() {
        let mut history = Planted::new().op(held(0, 10)).op(held(5, 999)).done();
        history.faults.push(fault("fast-clock", true));
        assert_eq!(check(&history).broken, Vec::<String>::new());
    }

    #[test]
    fn readers_hold_together_and_a_writer_among_them_is_impossible() {
        let reader = || held(0, 10).with(|op| op.shared = true);
        assert_eq!(check(&Planted::new().op(reader()).op(reader()).done()).broken, Vec::<String>::new());
        assert_eq!(check(&Planted::new().op(reader()).op(held(0, 10)).done()).broken.len(), 1);
    }

    #[test]
    fn an_upgrade_next_to_another_reader_is_impossible_and_a_downgrade_admits_readers() {
        let reader = |from, answered| held(from, answered).with(|op| op.shared = true);
        let upgraded = || upgrade("a", 0, 8).at(20, 30);
        assert_eq!(check(&Planted::new().op(reader(0, 10)).op(upgraded()).done()).broken, Vec::<String>::new());
        let beside = Planted::new().op(reader(0, 10)).op(upgraded()).op(reader(5, 15));
        assert_eq!(check(&beside.done()).broken.len(), 1);
        let after = || Planted::new().op(reader(0, 10)).op(upgraded()).op(reader(35, 60));
        assert_eq!(check(&after().done()).broken.len(), 1);
        let downgraded = |outcome| op(Call::Downgrade, "a").at(40, 50).with(|op| (op.grant, op.outcome) = (Some(0), outcome));
        for (outcome, findings) in [(Outcome::Ok, 0), (Outcome::Unknown, 0), (Outcome::Fail, 1)] {
            assert_eq!(check(&after().op(downgraded(outcome)).done()).broken.len(), findings);
        }
        let unknown = upgraded().with(|op| op.outcome = Outcome::Unknown);
        let either = Planted::new().op(reader(0, 10)).op(unknown).op(reader(35, 60));
        assert_eq!(check(&either.done()).broken, Vec::<String>::new());
    }

    #[test]
    fn permits_are_counted() {
        let some = |count| held(0, 10).with(|op| (op.permits, op.limit) = (Some(count), Some(3)));
        assert_eq!(check(&Planted::new().op(some(1)).op(some(2)).done()).broken, Vec::<String>::new());
        assert_eq!(check(&Planted::new().op(some(2)).op(some(2)).done()).broken.len(), 1);
    }

    #[test]
    fn long_histories_of_one_lock_are_decided() {
        let mut planted = Planted::new();
        for turn in 0..2_000_usize {
            let begin = turn as u64 * 10;
            planted = planted.op(held(begin.saturating_sub(25), begin + 3)).op(released(turn * 2, begin + 5, begin + 12));
        }
        let check = check(&planted.done());
        assert_eq!((check.checked, check.broken.len(), check.undecided.len()), (2_000, 0, 0));
    }
}
