//! Administration: no grant is given beyond the limit in force, and the token of a broken grant never passes a fence
//! afterwards. An ended grant is not renewed, and a holder ends as `broken` only by a break or with its session.
//!
//! Each request of an administrator has its own name. The watch shows it, so the limit at each revision is known.

use super::Check;
use crate::{
    history::{Call, History, Op},
    workload::{is_administered, is_limited},
};
use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) fn check(history: &History) -> Check {
    let mut check =
        Check::new("administration", "no grant exceeds the limit in force, and a broken or ended grant has no effect");
    limits(history, &mut check);
    endings(history, &mut check);
    dead_tokens(history, &mut check);
    ended(history, &mut check);
    check
}

/// Replays the events with the limit of each `set`.
fn limits(history: &History, check: &mut Check) {
    let limits: HashMap<&str, u32> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::SetLimit)
        .filter_map(|op| Some((op.value.as_deref()?, op.permits?)))
        .collect();
    let wanted: HashMap<(&str, &str), u32> = history
        .ops
        .iter()
        .filter(|op| op.call == Call::Acquire)
        .filter_map(|op| Some(((op.key.as_str(), op.value.as_deref()?), op.permits?)))
        .collect();
    let mut in_force: HashMap<&str, u32> = HashMap::new();
    let mut held: HashMap<&str, BTreeMap<u64, u32>> = HashMap::new();
    for event in history.longest_watch() {
        let Some(lock) = event.text("lock").filter(|lock| is_limited(lock)) else { continue };
        let held = held.entry(lock).or_default();
        match (event.kind(), event.number("number")) {
            ("set", _) => {
                let name = event.text("by").and_then(|by| by.split('@').next()).unwrap_or_default();
                match limits.get(name) {
                    Some(limit) => drop(in_force.insert(lock, *limit)),
                    None => check.undecided.push(format!("{lock}: no known request set it at revision {}", event.revision)),
                }
            }
            ("granted", Some(number)) => {
                check.count(lock);
                let permits = wanted.get(&(lock, event.text("owner").unwrap_or_default())).copied().unwrap_or(1);
                held.insert(number, permits);
                // A lock has one permit until a limit is set.
                let (all, limit) = (held.values().sum::<u32>(), in_force.get(lock).copied().unwrap_or(1));
                if all > limit {
                    check.broken(|| {
                        format!("{lock}: at revision {} {all} permits are held, but the limit is {limit}", event.revision)
                    });
                }
            }
            ("ended" | "cooling", Some(number)) => drop(held.remove(&number)),
            _other => {}
        }
    }
}

/// A holder ends as `broken` only by a break of its lock or with its session: not by a lower limit, not by a
/// revocation.
fn endings(history: &History, check: &mut Check) {
    let events = history.longest_watch();
    let breaks: HashSet<(&str, u64)> = events
        .iter()
        .filter(|event| event.kind() == "broken")
        .filter_map(|event| Some((event.text("lock")?, event.revision)))
        .collect();
    let sessions: HashSet<(u64, u64)> = events
        .iter()
        .filter(|event| event.kind() == "ended" && event.text("lock").is_none())
        .filter_map(|event| Some((event.number("session")?, event.revision)))
        .collect();
    let anonymous: HashSet<u64> =
        history.ops.iter().filter(|op| op.call == Call::Acquire && op.session.is_none()).filter_map(|op| op.number).collect();
    let mut holds: HashSet<(&str, u64)> = HashSet::new();
    for event in events {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { continue };
        match event.kind() {
            "granted" if is_administered(lock) => drop(holds.insert((lock, number))),
            "ended" if holds.remove(&(lock, number)) && event.text("reason") == Some("broken") => {
                check.count(lock);
                let by_session = !anonymous.contains(&number)
                    && event.number("session").is_some_and(|session| sessions.contains(&(session, event.revision)));
                if !breaks.contains(&(lock, event.revision)) && !by_session {
                    check.broken(|| format!("{lock}: at revision {} {number} lost it, but no request broke it", event.revision));
                }
            }
            _other => {}
        }
    }
}

/// No write passes at a later revision than a break with a token from before it.
fn dead_tokens(history: &History, check: &mut Check) {
    let mut breaks: HashMap<&str, Vec<u64>> = HashMap::new();
    for event in history.longest_watch().iter().filter(|event| event.kind() == "broken") {
        breaks.entry(event.text("lock").unwrap_or_default()).or_default().push(event.revision);
    }
    for op in history.ops.iter().filter(|op| op.call == Call::FencedWrite && op.is_ok() && is_administered(&op.key)) {
        let (Some(token), Some(revision)) = (op.token, op.revision) else { continue };
        check.count(&op.key);
        let between = |broken: &&u64| token < **broken && **broken < revision;
        if let Some(broken) = breaks.get(op.key.as_str()).and_then(|breaks| breaks.iter().find(between)) {
            check.broken(|| format!("{}: operation {} wrote with token {token}, broken at {broken}", op.key, op.index));
        }
    }
}

/// By time: ends that were acknowledged before a renewal, a keepalive or a write was sent.
fn ended(history: &History, check: &mut Check) {
    let mut breaks: HashMap<&str, Vec<&Op>> = HashMap::new();
    let mut closed: HashMap<u64, u64> = HashMap::new();
    let mut released: HashMap<usize, u64> = HashMap::new();
    let first = |at: &mut u64, op: &Op| *at = op.end.min(*at);
    for op in history.ops.iter().filter(|op| op.is_ok()) {
        match (op.call, op.number, op.grant) {
            (Call::Break, _, _) => breaks.entry(&op.key).or_default().push(op),
            (Call::EndSession | Call::Close, Some(number), _) => first(closed.entry(number).or_insert(u64::MAX), op),
            (Call::Release, _, Some(grant)) => first(released.entry(grant).or_insert(u64::MAX), op),
            _other => {}
        }
    }
    for op in history.ops.iter().filter(|op| is_administered(&op.key)) {
        let over = match (op.call, op.number) {
            (Call::Keepalive, Some(number)) => closed.get(&number).is_some_and(|end| *end < op.start),
            (Call::Renew | Call::FencedWrite, _) => {
                let Some(acquire) = op.grant.and_then(|grant| history.ops.get(grant)).filter(|acquire| acquire.is_ok()) else {
                    continue;
                };
                let broken = |one: &&Op| acquire.end < one.start && one.end < op.start;
                let was_released = released.get(&acquire.index).is_some_and(|end| *end < op.start);
                // Others that were granted together with it share its token.
                let was_released = was_released && (op.call == Call::Renew || acquire.permits.is_none());
                breaks.get(op.key.as_str()).is_some_and(|breaks| breaks.iter().any(broken))
                    || acquire.session.and_then(|session| closed.get(&session)).is_some_and(|end| *end < op.start)
                    || was_released
            }
            _other => continue,
        };
        if !over {
            continue;
        }
        check.count(&op.key);
        if op.is_ok() {
            check.broken(|| format!("{}: operation {} ({:?}) was done after the end of its grant", op.key, op.index, op.call));
        } else if op.call == Call::Renew && !op.is_gone() && op.error.as_deref().is_some_and(is_definite) {
            check.broken(|| format!("{}: operation {} got {:?}, but its grant is gone", op.key, op.index, op.error));
        }
    }
}

/// Whether the error says what happened to the grant. The errors of a full cluster do not.
fn is_definite(error: &str) -> bool {
    error.starts_with('4') && !error.starts_with("429")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, grant, op},
        history::Outcome,
    };
    use serde_json::json;

    const POOL: &str = "administer-0-0-pool";
    const DOOR: &str = "administer-0-0-door";

    fn findings(planted: Planted) -> usize {
        check(&planted.done()).broken.len()
    }

    fn wish(owner: &str, permits: u32) -> Op {
        grant(POOL, 5).with(|op| (op.value, op.permits) = (Some(owner.to_owned()), Some(permits)))
    }

    fn granted(planted: Planted, lock: &str, number: u64, owner: &str) -> Planted {
        let line = json!({"type": "granted", "lock": lock, "number": number, "token": number, "owner": owner, "session": 3});
        planted.event(0, number, line)
    }

    fn ended(planted: Planted, lock: &str, number: u64, revision: u64, reason: &str) -> Planted {
        let line = json!({"type": "ended", "lock": lock, "number": number, "session": 3, "reason": reason});
        planted.event(0, revision, line)
    }

    fn set(planted: Planted, revision: u64, name: &str, limit: u32, outcome: Outcome) -> Planted {
        let about = |op: &mut Op| (op.value, op.permits, op.outcome) = (Some(name.to_owned()), Some(limit), outcome);
        let line = json!({"type": "set", "lock": POOL, "by": format!("{name}@10.0.0.1")});
        planted.op(op(Call::SetLimit, POOL).with(about)).event(0, revision, line)
    }

    #[test]
    fn a_grant_beyond_the_limit_in_force_is_found() {
        let two = |limit, outcome| {
            let planted = Planted::new().op(wish("p", 1)).op(wish("q", 2));
            granted(granted(set(planted, 4, "a1", limit, outcome), POOL, 5, "p"), POOL, 6, "q")
        };
        for outcome in [Outcome::Ok, Outcome::Unknown] {
            assert_eq!((findings(two(3, outcome)), findings(two(2, outcome))), (0, 1));
        }
        let alone = Planted::new().op(wish("p", 1)).op(wish("q", 1));
        assert_eq!(findings(granted(granted(alone, POOL, 5, "p"), POOL, 6, "q")), 1, "one permit before a limit was set");
    }

    #[test]
    fn a_lower_limit_ends_no_grant_and_allows_none_before_there_is_room() {
        let lowered = || {
            let planted = set(Planted::new().op(wish("p", 2)).op(wish("q", 1)), 4, "a1", 3, Outcome::Ok);
            set(granted(planted, POOL, 5, "p"), 6, "a2", 1, Outcome::Ok)
        };
        assert_eq!(findings(lowered()), 0);
        assert_eq!(findings(granted(lowered(), POOL, 7, "q")), 1);
        assert_eq!(findings(granted(ended(lowered(), POOL, 5, 7, "released"), POOL, 8, "q")), 0);
        assert_eq!(findings(ended(lowered(), POOL, 5, 6, "broken")), 1, "a holder lost it to a lower limit");
    }

    #[test]
    fn a_holder_that_lost_an_unbroken_lock_is_found() {
        let held = || granted(Planted::new(), DOOR, 5, "p");
        let broken = held().event(0, 8, json!({"type": "broken", "lock": DOOR, "by": "a1@10.0.0.1"}));
        assert_eq!(findings(ended(broken, DOOR, 5, 8, "broken")), 0);
        let session = held().event(0, 8, json!({"type": "ended", "session": 3, "reason": "closed"}));
        assert_eq!(findings(ended(session, DOOR, 5, 8, "broken")), 0);
        let revoked = held().event(0, 8, json!({"type": "revoke", "lock": DOOR, "number": 5, "by": "a1@10.0.0.1"}));
        assert_eq!(findings(ended(revoked, DOOR, 5, 8, "broken")), 1);
    }

    #[test]
    fn a_token_that_passes_after_its_grant_was_broken_is_found() {
        let write = |revision| {
            let about = |op: &mut Op| (op.grant, op.token, op.revision) = (Some(0), Some(5), Some(revision));
            op(Call::FencedWrite, DOOR).at(5, 60).with(about)
        };
        let planted = |revision| {
            let line = json!({"type": "broken", "lock": DOOR, "by": "a1@10.0.0.1"});
            Planted::new().op(grant(DOOR, 5).at(0, 10)).event(0, 8, line).op(write(revision))
        };
        assert_eq!((findings(planted(7)), findings(planted(9))), (0, 1));
    }

    #[test]
    fn an_effect_after_a_break_an_end_of_a_session_or_a_release_is_found() {
        let about =
            |call: Call, start: u64| op(call, DOOR).at(start, start + 5).with(|op| (op.grant, op.number) = (Some(0), Some(3)));
        let acquire = || Planted::new().op(grant(DOOR, 5).at(0, 10).with(|op| op.session = Some(3)));
        for (end, then) in [
            (Call::Break, Call::Renew),
            (Call::Break, Call::FencedWrite),
            (Call::EndSession, Call::Keepalive),
            (Call::EndSession, Call::FencedWrite),
            (Call::Release, Call::Renew),
        ] {
            let history = |ending: Op, start: u64| findings(acquire().op(ending).op(about(then, start)));
            assert_eq!(history(about(end, 20), 30), 1, "{end:?} {then:?}");
            assert_eq!(history(about(end, 20), 23), 0, "{end:?} {then:?}: at the same time");
            let unknown = about(end, 20).with(|op| op.outcome = Outcome::Unknown);
            assert_eq!(history(unknown, 30), 0, "{end:?} {then:?}: perhaps");
        }
    }

    #[test]
    fn a_renewal_of_a_broken_grant_must_report_that_it_is_gone() {
        let refused_with = |error: &str| {
            let refused = |op: &mut Op| (op.grant, op.outcome, op.error) = (Some(0), Outcome::Fail, Some(error.to_owned()));
            let planted = Planted::new().op(grant(DOOR, 5).at(0, 10)).op(op(Call::Break, DOOR).at(20, 25));
            findings(planted.op(op(Call::Renew, DOOR).at(30, 35).with(refused)))
        };
        assert_eq!((refused_with("410 grant_gone"), refused_with("503 no_quorum"), refused_with("409 lock_held")), (0, 0, 1));
    }
}
