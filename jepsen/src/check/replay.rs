//! By revision: replays the events of the watch, lock by lock. No two holders exclude each other, and every client that
//! got a grant did hold the lock.
//!
//! An event does not contain the mode of a grant. It starts in the mode that its client requested. From then on the
//! events decide: `downgraded` makes it shared, and a second token makes it exclusive.

use super::Check;
use crate::{
    history::{Call, Event, History, Op, Outcome},
    workload::is_limited,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A holder.
#[derive(Debug, Clone, Copy)]
struct Holder {
    shared: bool,
    permits: Option<u32>,
}

/// The events of a grant, by its lock and its number.
#[derive(Debug, Default)]
struct GrantEvents {
    /// Its tokens with their revisions. Each upgrade adds one.
    tokens: Vec<(u64, u64)>,
    /// When it was downgraded.
    downgraded: Vec<u64>,
    /// When it ended.
    ended: Option<u64>,
}

type Grants<'a> = HashMap<(&'a str, u64), GrantEvents>;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("exclusion", "holders exclude each other, and every client that got a grant held it");
    let events = history.longest_watch();
    let acquires: HashMap<(&str, &str), &Op> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::Acquire)
        .filter_map(|op| Some(((op.key.as_str(), op.value.as_deref()?), op)))
        .collect();
    // A repeated acquire with the same id may hold although the first one was refused.
    let again: HashSet<(&str, &str)> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::Again && op.outcome != Outcome::Fail)
        .filter_map(|op| Some((op.key.as_str(), op.value.as_deref()?)))
        .collect();
    let (grants, queued) = replay(events, &acquires, &mut check);
    for (id, op) in &acquires {
        if op.outcome == Outcome::Fail && again.contains(id) {
            continue;
        }
        // If an answer says that a grant is gone, its client may have held it before, but no longer does.
        let number = queued.get(&(op.key.as_str(), op.value.as_deref().unwrap_or_default()));
        let has_ended = |number: &u64| grants.get(&(op.key.as_str(), *number)).is_some_and(|grant| grant.ended.is_some());
        if op.is_gone() && number.is_none_or(has_ended) {
            continue;
        }
        judge(op, &grants, &queued, events, &mut check);
    }
    conversions(history, &acquires, &queued, &grants, &mut check);
    check
}

/// Replays the events: the record of each grant, and the number of each request that queued.
fn replay<'a>(
    events: &'a [Event],
    acquires: &HashMap<(&str, &str), &Op>,
    check: &mut Check,
) -> (Grants<'a>, HashMap<(&'a str, &'a str), u64>) {
    let mut holders: BTreeMap<&str, BTreeMap<u64, Holder>> = BTreeMap::new();
    let mut limits: HashMap<&str, u32> = HashMap::new();
    let mut grants: Grants<'_> = HashMap::new();
    let mut queued: HashMap<(&str, &str), u64> = HashMap::new();
    for event in events {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        let owner = event.text("owner").unwrap_or_default();
        let grant = grants.entry((lock, number)).or_default();
        let of_lock = holders.entry(lock).or_default();
        match event.kind() {
            "queued" => {
                queued.insert((lock, owner), number);
                // The first request with a limit sets it. Others must pass the same, or are refused.
                if let Some(limit) = acquires.get(&(lock, owner)).and_then(|op| op.limit) {
                    let set = *limits.entry(lock).or_insert(limit);
                    if set != limit {
                        check.broken(|| format!("{lock}: {number} passed a limit of {limit} and queued, but it has {set}"));
                    }
                }
            }
            "granted" => {
                check.count(lock);
                let op = acquires.get(&(lock, owner));
                let begins = Holder { shared: op.is_some_and(|op| op.shared), permits: op.and_then(|op| op.permits) };
                // A second grant of a holder is an upgrade.
                let holder = if grant.tokens.is_empty() { begins } else { Holder { shared: false, permits: None } };
                of_lock.insert(number, holder);
                grant.tokens.push((event.revision, event.number("token").unwrap_or(0)));
                // If an administrator sets the limit, the checker `administration` checks it.
                let limit = limits.get(lock).copied().unwrap_or(1);
                if let Some(why) = exclude(of_lock, limit).filter(|_| !is_limited(lock)) {
                    check.broken(|| format!("{lock}: at revision {} {why}", event.revision));
                }
            }
            "downgraded" => {
                grant.downgraded.push(event.revision);
                if let Some(holder) = of_lock.get_mut(&number) {
                    holder.shared = true;
                }
            }
            "ended" | "cooling" => {
                of_lock.remove(&number);
                grant.ended.get_or_insert(event.revision);
            }
            _other => {}
        }
    }
    (grants, queued)
}

/// The violation among the holders of a lock with this limit, if there is one.
fn exclude(holders: &BTreeMap<u64, Holder>, limit: u32) -> Option<String> {
    let permits: u32 = holders.values().filter_map(|holder| holder.permits).sum();
    if permits > limit {
        return Some(format!("{permits} of {limit} permits are held"));
    }
    let alone = |holder: &Holder| !holder.shared && holder.permits.is_none();
    let numbers = || holders.keys().map(u64::to_string).collect::<Vec<_>>().join(", ");
    (holders.len() > 1 && holders.values().any(alone)).then(|| format!("{} hold it, and one of them exclusively", numbers()))
}

/// Compares the answer to an acquire with the watch.
fn judge(op: &Op, grants: &Grants<'_>, queued: &HashMap<(&str, &str), u64>, events: &[Event], check: &mut Check) {
    let last = events.last().map_or(0, |event| event.revision);
    match op.outcome {
        Outcome::Ok => {
            let (Some(number), Some(token)) = (op.number, op.token) else { return };
            match grants.get(&(op.key.as_str(), number)).and_then(|grant| grant.tokens.first()) {
                Some((_, known)) if *known == token => {}
                Some((_, known)) => {
                    check.broken(|| format!("{}: operation {} got token {token}, but the watch shows {known}", op.key, op.index))
                }
                None if token > last => check.undecided.push(format!("the watch ended before operation {}", op.index)),
                None => check.broken(|| format!("{}: operation {} got a grant, but never held it", op.key, op.index)),
            }
        }
        Outcome::Fail => {
            let Some(number) = queued.get(&(op.key.as_str(), op.value.as_deref().unwrap_or_default())) else { return };
            if grants.get(&(op.key.as_str(), *number)).is_some_and(|grant| !grant.tokens.is_empty()) {
                check.broken(|| format!("{}: operation {} was definitely refused, but held the lock", op.key, op.index));
            } else if op.error.as_deref().is_some_and(|error| error.starts_with("503")) {
                check.broken(|| format!("{}: operation {} definitely did nothing, but queued", op.key, op.index));
            }
        }
        Outcome::Unknown => {}
    }
}

/// Compares the requested changes of a grant's mode with the watch.
fn conversions(
    history: &History,
    acquires: &HashMap<(&str, &str), &Op>,
    queued: &HashMap<(&str, &str), u64>,
    grants: &Grants<'_>,
    check: &mut Check,
) {
    let last = history.longest_watch().last().map_or(0, |event| event.revision);
    let mut changes: HashMap<usize, Vec<&Op>> = HashMap::new();
    for op in history.ops.iter().filter(|op| matches!(op.call, Call::Upgrade | Call::Downgrade)) {
        changes.entry(op.grant.unwrap_or(op.index)).or_default().push(op);
    }
    for (id, number) in queued {
        let Some(grant) = grants.get(&(id.0, *number)) else { continue };
        let Some(acquire) = acquires.get(id) else {
            // Some ids only have an acquire that was sent after their release.
            let is_of_it = |op: &&Op| (op.key.as_str(), op.value.as_deref()) == (id.0, Some(id.1));
            if !history
                .ops
                .iter()
                .filter(is_of_it)
                .any(|op| op.call == Call::Again && (op.outcome != Outcome::Fail || op.is_gone()))
            {
                check.broken(|| format!("{}: {number} queued for {}, but no acquire requested it", id.0, id.1));
            }
            continue;
        };
        let changes = changes.get(&acquire.index).map_or(&[][..], Vec::as_slice);
        // A definite failure changed nothing. If an answer says that the grant is gone, a change may have happened
        // before.
        let may =
            |call: Call| changes.iter().filter(|op| op.call == call && (op.outcome != Outcome::Fail || op.is_gone())).count();
        let (upgrades, downgrades) = (may(Call::Upgrade), may(Call::Downgrade));
        if grant.tokens.len() > 1 + upgrades || grant.downgraded.len() > downgrades {
            let (tokens, key) = (grant.tokens.len(), id.0);
            check.broken(|| {
                format!(
                    "{key}: {number} has {tokens} tokens and was downgraded {} times, by {upgrades} upgrades and {downgrades} \
                     downgrades that did not surely fail",
                    grant.downgraded.len()
                )
            });
        }
        for op in changes.iter().filter(|op| op.is_ok()) {
            // A change with an unknown outcome may happen at any time.
            let is_sure = changes.iter().all(|other| other.outcome != Outcome::Unknown || other.start > op.end);
            let at = op.revision.or(op.token.filter(|_| op.call == Call::Upgrade)).filter(|at| *at <= last);
            acknowledged(op, grant, at, acquire.shared, is_sure, check);
        }
    }
}

/// After a change acknowledged by that revision, the grant has that mode until it ends or changes again.
fn acknowledged(op: &Op, grant: &GrantEvents, at: Option<u64>, began_shared: bool, is_sure: bool, check: &mut Check) {
    let Some(at) = at else { return };
    check.count(&op.key);
    let knows_token = op.token.is_some_and(|token| grant.tokens.iter().any(|(_, known)| *known == token));
    if op.call == Call::Upgrade && !knows_token {
        check.broken(|| format!("{}: operation {} got an exclusive grant, but never held it exclusively", op.key, op.index));
        return;
    }
    if !is_sure || grant.ended.is_some_and(|end| end <= at) {
        return;
    }
    let upgraded = grant.tokens.iter().skip(1).map(|(revision, _)| *revision).filter(|revision| *revision <= at).max();
    let downgraded = grant.downgraded.iter().copied().filter(|revision| *revision <= at).max();
    let shared = if upgraded.max(downgraded).is_none() { began_shared } else { downgraded > upgraded };
    if shared != (op.call == Call::Downgrade) {
        let mode = if shared { "is shared" } else { "is exclusive" };
        check.broken(|| format!("{}: by operation {} ({:?}), at {at} it {mode}", op.key, op.index, op.call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, grant, op, upgrade};
    use serde_json::json;

    fn owned(token: u64, owner: &str) -> Op {
        grant("a", token).at(0, 100).with(|op| (op.number, op.value) = (Some(token - 1), Some(owner.to_owned())))
    }

    fn granted(planted: Planted, token: u64, owner: &str) -> Planted {
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
    fn holders_in_sequence_are_good_and_two_at_once_are_found() {
        let both = || Planted::new().op(owned(5, "p1")).op(owned(9, "p2"));
        let good = granted(ended(granted(both(), 5, "p1"), 4, 7), 9, "p2");
        assert_eq!(check(&good.done()).broken, Vec::<String>::new());
        let bad = granted(granted(both(), 5, "p1"), 9, "p2");
        assert_eq!(check(&bad.done()).broken.len(), 1);
    }

    #[test]
    fn readers_share_and_a_writer_among_them_is_found() {
        let reader = |token, owner| owned(token, owner).with(|op| op.shared = true);
        let readers = Planted::new().op(reader(5, "p1")).op(reader(9, "p2"));
        assert_eq!(check(&granted(granted(readers, 5, "p1"), 9, "p2").done()).broken, Vec::<String>::new());
        let mixed = Planted::new().op(reader(5, "p1")).op(owned(9, "p2"));
        assert_eq!(check(&granted(granted(mixed, 5, "p1"), 9, "p2").done()).broken.len(), 1);
    }

    fn reader_and_upgrade(outcome: Outcome, token: Option<u64>) -> Planted {
        let reader = owned(5, "p1").with(|op| op.shared = true);
        let converted = upgrade("a", 0, 8).with(|op| (op.outcome, op.token) = (outcome, token));
        granted(Planted::new().op(reader).op(converted), 5, "p1")
    }

    fn granted_again(planted: Planted) -> Planted {
        planted.event(0, 8, json!({"type": "granted", "lock": "a", "number": 4, "token": 8, "owner": "p1"}))
    }

    #[test]
    fn a_reader_beside_an_upgraded_holder_is_found_and_one_beside_a_downgraded_holder_is_good() {
        let upgraded = || granted_again(reader_and_upgrade(Outcome::Ok, Some(8)));
        let second = || owned(11, "p2").with(|op| op.shared = true);
        assert_eq!(check(&granted(upgraded().op(second()), 11, "p2").done()).broken.len(), 1);
        let downgrade = op(Call::Downgrade, "a").with(|op| (op.grant, op.outcome) = (Some(0), Outcome::Unknown));
        let downgraded = upgraded().op(downgrade).event(0, 9, json!({"type": "downgraded", "lock": "a", "number": 4}));
        let shared = downgraded.op(second());
        assert_eq!(check(&granted(shared, 11, "p2").done()).broken, Vec::<String>::new());
    }

    #[test]
    fn an_upgrade_with_a_wrong_answer_is_found() {
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
        let permits = |token, owner, count| owned(token, owner).with(|op| (op.permits, op.limit) = (Some(count), Some(3)));
        let fits = Planted::new().op(permits(5, "p1", 1)).op(permits(9, "p2", 2));
        assert_eq!(check(&granted(granted(fits, 5, "p1"), 9, "p2").done()).broken, Vec::<String>::new());
        let bad = Planted::new().op(permits(5, "p1", 2)).op(permits(9, "p2", 2));
        assert_eq!(check(&granted(granted(bad, 5, "p1"), 9, "p2").done()).broken.len(), 1);
    }

    #[test]
    fn permits_are_compared_with_the_limit_of_the_lock() {
        let findings = |first: Option<u32>, second: Option<u32>| {
            let wish = |token, owner, limit| owned(token, owner).with(|op| (op.permits, op.limit) = (Some(1), limit));
            let both = Planted::new().op(wish(5, "p1", first)).op(wish(9, "p2", second));
            check(&granted(granted(both, 5, "p1"), 9, "p2").done()).broken.len()
        };
        assert_eq!((findings(Some(2), Some(2)), findings(Some(2), None)), (0, 0));
        assert_eq!((findings(Some(1), Some(1)), findings(None, None)), (1, 1));
        assert_eq!(findings(Some(3), Some(2)), 1, "another limit than the lock has");
    }

    #[test]
    fn an_unrequested_second_token_or_downgrade_is_found() {
        let held = || granted(Planted::new().op(owned(5, "p1")), 5, "p1");
        assert_eq!(check(&ended(granted_again(held()), 4, 20).done()).broken.len(), 1);
        let downgraded = || held().event(0, 9, json!({"type": "downgraded", "lock": "a", "number": 4}));
        assert_eq!(check(&downgraded().done()).broken.len(), 1);
        let converted = |outcome| op(Call::Downgrade, "a").with(|op| (op.grant, op.outcome) = (Some(0), outcome));
        let findings = |outcome| check(&downgraded().op(converted(outcome)).done()).broken.len();
        assert_eq!((findings(Outcome::Ok), findings(Outcome::Unknown), findings(Outcome::Fail)), (0, 0, 1));
    }

    #[test]
    fn an_acknowledged_change_of_mode_that_never_happened_is_found() {
        let converted = |call, revision| op(call, "a").at(50, 60).with(|op| (op.grant, op.revision) = (Some(0), Some(revision)));
        let held = || granted(Planted::new().op(owned(5, "p1")), 5, "p1");
        let later = |planted: Planted| planted.event(0, 20, json!({"type": "set", "lock": "b", "number": 1, "by": "x"}));
        let shared = || held().event(0, 9, json!({"type": "downgraded", "lock": "a", "number": 4}));
        let findings = |planted: Planted| check(&later(planted).done()).broken.len();
        assert_eq!(
            (findings(shared().op(converted(Call::Downgrade, 9))), findings(held().op(converted(Call::Downgrade, 9)))),
            (0, 1)
        );
        assert_eq!(findings(shared().op(converted(Call::Downgrade, 8))), 1, "it came later");
        assert_eq!(findings(ended(held(), 4, 7).op(converted(Call::Downgrade, 9))), 0, "it had ended");
        let unknown = converted(Call::Upgrade, 9).with(|op| op.outcome = Outcome::Unknown);
        assert_eq!(findings(shared().op(unknown).op(converted(Call::Downgrade, 8))), 0, "perhaps it was upgraded meanwhile");
    }

    #[test]
    fn an_unrequested_grant_is_found() {
        assert_eq!(check(&granted(Planted::new(), 5, "p1").done()).broken.len(), 1);
        for (outcome, findings) in [(Outcome::Ok, 0), (Outcome::Unknown, 0), (Outcome::Fail, 1)] {
            let again = owned(5, "p1").with(|op| (op.call, op.outcome) = (Call::Again, outcome));
            assert_eq!(check(&granted(Planted::new().op(again), 5, "p1").done()).broken.len(), findings);
        }
    }

    #[test]
    fn a_holder_after_a_definite_refusal_is_found() {
        let refused = owned(5, "p1").with(|op| (op.outcome, op.token, op.number) = (Outcome::Fail, None, None));
        assert_eq!(check(&granted(Planted::new().op(refused), 5, "p1").done()).broken.len(), 1);
    }

    #[test]
    fn a_holder_whose_first_acquire_was_refused_is_good_if_it_retried_with_its_id() {
        let refused = || owned(5, "p1").with(|op| (op.outcome, op.token, op.number) = (Outcome::Fail, None, None));
        for (outcome, findings) in [(Outcome::Ok, 0), (Outcome::Unknown, 0), (Outcome::Fail, 1)] {
            let again = owned(5, "p1").with(|op| (op.call, op.outcome) = (Call::Again, outcome));
            let history = granted(Planted::new().op(refused()).op(again), 5, "p1").done();
            assert_eq!(check(&history).broken.len(), findings);
        }
    }

    #[test]
    fn a_grant_reported_as_gone_must_not_be_held() {
        let gone = || {
            let answered_so = |op: &mut Op| (op.outcome, op.error) = (Outcome::Fail, Some("410 grant_gone".to_owned()));
            granted(Planted::new().op(owned(5, "p1").with(answered_so)), 5, "p1")
        };
        assert_eq!(check(&ended(gone(), 4, 7).done()).broken, Vec::<String>::new());
        assert_eq!(check(&gone().done()).broken.len(), 1);
    }

    #[test]
    fn an_acknowledged_grant_that_was_never_held_is_found() {
        let history = granted(Planted::new().op(owned(5, "p1")).op(owned(4, "p3")), 5, "p1").done();
        assert_eq!(check(&history).broken.len(), 1);
    }
}
