//! By revision: replays the events of the watch, lock by lock. Two holders never exclude each other, and every client that was
//! told that it holds a lock did.

use super::Check;
use crate::{
    history::{Call, Event, History, Op, Outcome},
    workload::{PERMITS, is_limited},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A holder.
#[derive(Debug, Clone, Copy)]
struct Holder {
    shared: bool,
    permits: Option<u32>,
}

/// The tokens of each grant, in the order of time: one more with each upgrade.
type Tokens<'a> = HashMap<(&'a str, u64), Vec<u64>>;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("exclusion", "holders exclude each other, and who was told that he holds does");
    let told = history.longest_told();
    let asked: HashMap<(&str, &str), &Op> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::Acquire)
        .filter_map(|op| Some(((op.key.as_str(), op.value.as_deref()?), op)))
        .collect();
    // An acquire that came again with the same id may hold where the first one was refused.
    let again: HashSet<(&str, &str)> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::Again && op.outcome != Outcome::Fail)
        .filter_map(|op| Some((op.key.as_str(), op.value.as_deref()?)))
        .collect();
    let mut holders: BTreeMap<&str, BTreeMap<u64, Holder>> = BTreeMap::new();
    let mut granted: Tokens<'_> = HashMap::new();
    let mut queued: HashMap<(&str, &str), u64> = HashMap::new();
    let mut ended: HashSet<(&str, u64)> = HashSet::new();
    for event in told {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        match event.kind() {
            "queued" => drop(queued.insert((lock, event.text("owner").unwrap_or_default()), number)),
            "granted" => {
                check.look(lock);
                let op = asked.get(&(lock, event.text("owner").unwrap_or_default()));
                let holder = Holder { shared: op.is_some_and(|op| op.shared), permits: op.and_then(|op| op.permits) };
                let of_lock = holders.entry(lock).or_default();
                // A grant that holds already was upgraded.
                let holder = if of_lock.contains_key(&number) { Holder { shared: false, permits: None } } else { holder };
                of_lock.insert(number, holder);
                // Where an administrator sets the limit another checker knows it.
                if let Some(why) = exclude(of_lock).filter(|_| !is_limited(lock)) {
                    check.broken(|| format!("{lock}: at revision {} {why}", event.revision));
                }
                granted.entry((lock, number)).or_default().push(event.number("token").unwrap_or(0));
            }
            "downgraded" => {
                if let Some(holder) = holders.entry(lock).or_default().get_mut(&number) {
                    holder.shared = true;
                }
            }
            "ended" | "cooling" => {
                holders.entry(lock).or_default().remove(&number);
                ended.insert((lock, number));
            }
            _other => {}
        }
    }
    for (id, op) in &asked {
        if op.outcome == Outcome::Fail && again.contains(id) {
            continue;
        }
        // A client that is told that its grant is gone may have held it, but no longer does.
        let number = queued.get(&(op.key.as_str(), op.value.as_deref().unwrap_or_default()));
        if op.is_gone() && number.is_none_or(|number| ended.contains(&(op.key.as_str(), *number))) {
            continue;
        }
        judge(op, &granted, &queued, told, &mut check);
    }
    upgrades(history, &granted, told.last().map_or(0, |event| event.revision), &mut check);
    check
}

/// What is wrong with the holders of one lock.
fn exclude(holders: &BTreeMap<u64, Holder>) -> Option<String> {
    let permits: u32 = holders.values().filter_map(|holder| holder.permits).sum();
    if permits > PERMITS {
        return Some(format!("{permits} of {PERMITS} permits are held"));
    }
    let alone = |holder: &Holder| !holder.shared && holder.permits.is_none();
    let numbers = || holders.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
    (holders.len() > 1 && holders.values().any(alone)).then(|| format!("{} hold it, and one of them alone", numbers()))
}

/// What an asker was told, and what the watch told.
fn judge(op: &Op, granted: &Tokens<'_>, queued: &HashMap<(&str, &str), u64>, told: &[Event], check: &mut Check) {
    let last = told.last().map_or(0, |event| event.revision);
    match op.outcome {
        Outcome::Ok => {
            let (Some(number), Some(token)) = (op.number, op.token) else { return };
            match granted.get(&(op.key.as_str(), number)).and_then(|tokens| tokens.first()) {
                Some(known) if *known == token => {}
                Some(known) => check
                    .broken(|| format!("{}: operation {} was told token {token}, and the watch told {known}", op.key, op.index)),
                None if token > last => check.undecided.push(format!("the watch ended before operation {}", op.index)),
                None => check.broken(|| format!("{}: operation {} was told that it holds, and never did", op.key, op.index)),
            }
        }
        Outcome::Fail => {
            let Some(number) = queued.get(&(op.key.as_str(), op.value.as_deref().unwrap_or_default())) else { return };
            if granted.contains_key(&(op.key.as_str(), *number)) {
                check.broken(|| format!("{}: operation {} was told that it surely does not hold, and did", op.key, op.index));
            } else if op.error.as_deref().is_some_and(|error| error.starts_with("503")) {
                check.broken(|| format!("{}: operation {} was told that surely nothing happened, and queued", op.key, op.index));
            }
        }
        Outcome::Unknown => {}
    }
}

/// An upgrade that was acknowledged was told, and a grant whose upgrades surely failed has no second token.
fn upgrades(history: &History, granted: &Tokens<'_>, last: u64, check: &mut Check) {
    let mut asked: BTreeMap<usize, Vec<&Op>> = BTreeMap::new();
    for op in history.ops.iter().filter(|op| op.call == Call::Upgrade) {
        asked.entry(op.grant.unwrap_or(op.index)).or_default().push(op);
    }
    for (grant, ops) in asked {
        let tokens = history.ops[grant].number.and_then(|number| granted.get(&(ops[0].key.as_str(), number)));
        let tokens = tokens.map_or(&[][..], Vec::as_slice);
        for op in ops.iter().filter(|op| op.is_ok() && op.token.is_some_and(|token| token <= last)) {
            check.look(&op.key);
            if !op.token.is_some_and(|token| tokens.contains(&token)) {
                check.broken(|| format!("{}: operation {} was told that it holds alone, and never did", op.key, op.index));
            }
        }
        // A client that is told that its grant is gone may have held it alone before.
        if ops.iter().all(|op| op.outcome == Outcome::Fail && !op.is_gone()) && tokens.len() > 1 {
            let op = ops[0];
            check.broken(|| format!("{}: operation {} surely did not upgrade, and has tokens {tokens:?}", op.key, op.index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, grant, upgrade};
    use serde_json::json;

    fn owned(token: u64, owner: &str) -> Op {
        grant("a", token).at(0, 100).with(|op| (op.number, op.value) = (Some(token - 1), Some(owner.to_owned())))
    }

    fn told(planted: Planted, token: u64, owner: &str) -> Planted {
        planted.event(0, token - 1, json!({"type": "queued", "lock": "a", "number": token - 1, "owner": owner})).event(
            0,
            token,
            json!({"type": "granted", "lock": "a", "number": token - 1, "token": token, "owner": owner}),
        )
    }

    fn ended(planted: Planted, number: u64, revision: u64) -> Planted {
        planted.event(0, revision, json!({"type": "ended", "lock": "a", "number": number, "reason": "released"}))
    }

    #[test]
    fn one_after_the_other_is_good_and_two_at_once_are_found() {
        let both = || Planted::new().op(owned(5, "p1")).op(owned(9, "p2"));
        let good = told(ended(told(both(), 5, "p1"), 4, 7), 9, "p2");
        assert_eq!(check(&good.done()).broken, Vec::<String>::new());
        let bad = told(told(both(), 5, "p1"), 9, "p2");
        assert_eq!(check(&bad.done()).broken.len(), 1);
    }

    #[test]
    fn readers_share_and_a_writer_among_them_is_found() {
        let reader = |token, owner| owned(token, owner).with(|op| op.shared = true);
        let readers = Planted::new().op(reader(5, "p1")).op(reader(9, "p2"));
        assert_eq!(check(&told(told(readers, 5, "p1"), 9, "p2").done()).broken, Vec::<String>::new());
        let mixed = Planted::new().op(reader(5, "p1")).op(owned(9, "p2"));
        assert_eq!(check(&told(told(mixed, 5, "p1"), 9, "p2").done()).broken.len(), 1);
    }

    fn reader_and_upgrade(outcome: Outcome, token: Option<u64>) -> Planted {
        let reader = owned(5, "p1").with(|op| op.shared = true);
        let asked = upgrade("a", 0, 8).with(|op| (op.outcome, op.token) = (outcome, token));
        told(Planted::new().op(reader).op(asked), 5, "p1")
    }

    fn granted_again(planted: Planted) -> Planted {
        planted.event(0, 8, json!({"type": "granted", "lock": "a", "number": 4, "token": 8, "owner": "p1"}))
    }

    #[test]
    fn a_reader_beside_an_upgraded_holder_is_found_and_one_beside_a_downgraded_holder_is_good() {
        let upgraded = || granted_again(reader_and_upgrade(Outcome::Ok, Some(8)));
        let second = || owned(11, "p2").with(|op| op.shared = true);
        assert_eq!(check(&told(upgraded().op(second()), 11, "p2").done()).broken.len(), 1);
        let shared = upgraded().event(0, 9, json!({"type": "downgraded", "lock": "a", "number": 4})).op(second());
        assert_eq!(check(&told(shared, 11, "p2").done()).broken, Vec::<String>::new());
    }

    #[test]
    fn an_upgrade_whose_answer_is_not_what_happened_is_found() {
        let end = |planted: Planted| check(&ended(planted, 4, 20).done()).broken.len();
        for outcome in [Outcome::Ok, Outcome::Unknown] {
            assert_eq!(end(granted_again(reader_and_upgrade(outcome, Some(8)))), 0);
        }
        assert_eq!(end(reader_and_upgrade(Outcome::Ok, Some(8))), 1);
        assert_eq!(end(reader_and_upgrade(Outcome::Unknown, None)), 0);
        assert_eq!(end(granted_again(reader_and_upgrade(Outcome::Fail, None))), 1);
    }

    #[test]
    fn a_permit_too_many_is_found() {
        let permits = |token, owner, count| owned(token, owner).with(|op| op.permits = Some(count));
        let fits = Planted::new().op(permits(5, "p1", 1)).op(permits(9, "p2", 2));
        assert_eq!(check(&told(told(fits, 5, "p1"), 9, "p2").done()).broken, Vec::<String>::new());
        let bad = Planted::new().op(permits(5, "p1", 2)).op(permits(9, "p2", 2));
        assert_eq!(check(&told(told(bad, 5, "p1"), 9, "p2").done()).broken.len(), 1);
    }

    #[test]
    fn a_holder_after_a_definite_no_is_found() {
        let refused = owned(5, "p1").with(|op| (op.outcome, op.token, op.number) = (Outcome::Fail, None, None));
        assert_eq!(check(&told(Planted::new().op(refused), 5, "p1").done()).broken.len(), 1);
    }

    #[test]
    fn a_holder_whose_first_acquire_was_refused_is_good_if_it_asked_again_with_its_id() {
        let refused = || owned(5, "p1").with(|op| (op.outcome, op.token, op.number) = (Outcome::Fail, None, None));
        for (outcome, findings) in [(Outcome::Ok, 0), (Outcome::Unknown, 0), (Outcome::Fail, 1)] {
            let again = owned(5, "p1").with(|op| (op.call, op.outcome) = (Call::Again, outcome));
            let history = told(Planted::new().op(refused()).op(again), 5, "p1").done();
            assert_eq!(check(&history).broken.len(), findings);
        }
    }

    #[test]
    fn a_client_told_that_its_grant_is_gone_must_not_hold_it() {
        let gone = || {
            let told_so = |op: &mut Op| (op.outcome, op.error) = (Outcome::Fail, Some("410 grant_gone".to_owned()));
            told(Planted::new().op(owned(5, "p1").with(told_so)), 5, "p1")
        };
        assert_eq!(check(&ended(gone(), 4, 7).done()).broken, Vec::<String>::new());
        assert_eq!(check(&gone().done()).broken.len(), 1);
    }

    #[test]
    fn a_client_wrongly_told_that_it_holds_is_found() {
        let history = told(Planted::new().op(owned(5, "p1")).op(owned(4, "p3")), 5, "p1").done();
        assert_eq!(check(&history).broken.len(), 1);
    }
}
