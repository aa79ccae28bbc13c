//! Sessions and grants do not end before their full time has passed since the last acknowledged keepalive was sent, and what has
//! ended does nothing more.
//!
//! The end is known from a watch, which tells it later than it was: so nothing is found that was not so.

use super::Check;
use crate::{
    history::{Call, History, Op, Outcome},
    workload::{MAX_HOLD, is_administered},
};
use std::collections::HashMap;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("leases", "nothing expires before its time, and what has ended does nothing more");
    let renewed = renewals(history, Outcome::Ok);
    let unknown = renewals(history, Outcome::Unknown);
    let ended = first_told(history);
    for (number, (at, revision)) in &ended {
        let Some(ops) = renewed.get(number) else { continue };
        check.looked_at += 1;
        let unknown = unknown.get(number).map_or(&[][..], Vec::as_slice);
        if let Some((last, until)) = last_before(ops, *at).map(|last| (last, surely_until(last, unknown).min(bound(ops))))
            && *at < until
            && !history.time_was_bent(last.start, *at)
        {
            let early = until - at;
            check.broken(|| {
                format!("{}: {number} expired {} ms too early after operation {}", last.key, early / 1_000, last.index)
            });
        }
        for late in ops.iter().filter(|op| op.start > *at) {
            check.broken(|| format!("{}: operation {} was acknowledged, and {number} had expired", late.key, late.index));
        }
        let owned = history.ops.iter().filter(|op| op.call == Call::Ephemeral && op.is_ok() && op.number == Some(*number));
        for op in owned.filter(|op| op.revision.is_some_and(|written| written > *revision)) {
            check.broken(|| format!("{}: operation {} was done for session {number} after its end", op.key, op.index));
        }
    }
    ephemerals(history, &mut check);
    check
}

/// A session or a grant that expired: from when its last acknowledged renewal was sent to when its end was first told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// When that renewal was sent, in microseconds since the run began.
    pub(crate) sent: u64,
    /// When a watch first told the end.
    pub(crate) ended: u64,
    /// The lease, in microseconds.
    pub(crate) ttl: u64,
}

/// All that expired and was told to live before.
pub(crate) fn lives(history: &History) -> Vec<Life> {
    let renewed = renewals(history, Outcome::Ok);
    let life = |(number, (ended, _)): (u64, (u64, u64))| {
        let last = last_before(renewed.get(&number)?, ended)?;
        Some(Life { sent: last.start, ended, ttl: last.ttl? })
    };
    first_told(history).into_iter().filter_map(life).collect()
}

fn last_before<'a>(renewals: &[&'a Op], at: u64) -> Option<&'a Op> {
    renewals.iter().copied().filter(|op| op.end <= at).max_by_key(|op| op.start)
}

/// An administrator may bound how long a lock is held: until when its grants surely live all the same.
fn bound(renewals: &[&Op]) -> u64 {
    let bounded = renewals.iter().find(|op| op.call == Call::Acquire && is_administered(&op.key));
    bounded.map_or(u64::MAX, |op| op.start + u64::try_from(MAX_HOLD.as_micros()).unwrap_or(u64::MAX))
}

/// Until when a session or a grant surely lives after this acknowledged renewal. A renewal of which nobody knows may come late
/// and set a shorter ttl, but not before it was sent.
pub(super) fn surely_until(last: &Op, unknown: &[&Op]) -> u64 {
    let until = |from: u64, op: &Op| from + op.ttl.unwrap_or(0);
    unknown.iter().map(|op| until(op.start.max(last.start), op)).fold(until(last.start, last), u64::min)
}

/// What gave each session or grant more time, with that outcome.
fn renewals(history: &History, outcome: Outcome) -> HashMap<u64, Vec<&Op>> {
    // By number: a grant's and a session's come from one counter, so they do not meet.
    let mut renewed: HashMap<u64, Vec<&Op>> = HashMap::new();
    let mut number_of: HashMap<usize, u64> = HashMap::new();
    for op in &history.ops {
        if op.call == Call::Acquire
            && op.is_ok()
            && let Some(number) = op.number
        {
            number_of.insert(op.index, number);
        }
        if op.outcome != outcome {
            continue;
        }
        let number = if matches!(op.call, Call::Acquire | Call::Renew) {
            op.grant.and_then(|grant| number_of.get(&grant).copied())
        } else {
            op.number.filter(|_| matches!(op.call, Call::Open | Call::Keepalive))
        };
        if let (Some(number), Some(_)) = (number, op.ttl) {
            renewed.entry(number).or_default().push(op);
        }
    }
    renewed
}

/// When the end of each session or grant that expired was first told by any watch, and its revision.
fn first_told(history: &History) -> HashMap<u64, (u64, u64)> {
    let mut ended: HashMap<u64, (u64, u64)> = HashMap::new();
    for event in history.told.iter().flatten().filter(|event| event.kind() == "ended" && event.text("reason") == Some("expired"))
    {
        // A grant that a session owns goes with it: `number` is the grant's, and nothing renews it.
        let Some(number) = event.number("number").or_else(|| event.number("session")) else { continue };
        let known = ended.entry(number).or_insert((event.at, event.revision));
        known.0 = known.0.min(event.at);
    }
    ended
}

/// A session's node goes at the revision of its end.
fn ephemerals(history: &History, check: &mut Check) {
    let told = history.longest_told();
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let mut deleted: HashMap<&str, u64> = HashMap::new();
    for event in told {
        match (event.kind(), event.text("path"), event.text("lock")) {
            ("deleted", Some(path), _) => drop(deleted.insert(path, event.revision)),
            ("ended", None, None) => drop(event.number("session").map(|session| ends.insert(session, event.revision))),
            _other => {}
        }
    }
    for op in history.ops.iter().filter(|op| op.call == Call::Ephemeral && op.is_ok()) {
        let Some(end) = op.number.and_then(|session| ends.get(&session)) else { continue };
        check.looked_at += 1;
        let gone = deleted.get(format!("/chaos/{}", op.key).as_str());
        if gone != Some(end) {
            check.broken(|| format!("{}: its session ended at revision {end}, and its node went at {gone:?}", op.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, op};
    use serde_json::json;

    fn session(expired_at: u64, then: Option<Op>) -> History {
        let kept = |call, start| op(call, "s").at(start, start + 5).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
        let mut planted = Planted::new().op(kept(Call::Open, 0)).op(kept(Call::Keepalive, 50));
        if let Some(then) = then {
            planted = planted.op(then);
        }
        planted.event(expired_at, 9, json!({"type": "ended", "session": 3, "reason": "expired"})).done()
    }

    #[test]
    fn a_session_that_ends_after_its_time_is_good_and_one_before_it_is_found() {
        assert_eq!(check(&session(151, None)).broken, Vec::<String>::new());
        assert_eq!(check(&session(149, None)).broken.len(), 1);
    }

    #[test]
    fn a_keepalive_that_is_acknowledged_after_the_end_is_found() {
        let late = op(Call::Keepalive, "s").at(170, 180).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
        assert_eq!(check(&session(160, Some(late))).broken.len(), 1);
    }

    #[test]
    fn a_shorter_ttl_counts_also_where_nobody_knows_whether_it_was_set() {
        let renewed = |start, ttl, outcome| {
            let about = |op: &mut Op| (op.grant, op.ttl, op.outcome) = (Some(0), Some(ttl), outcome);
            op(Call::Renew, "a").at(start, start + 5).with(about)
        };
        let history = |ended_at: u64, renewal: Op| {
            let acquire = op(Call::Acquire, "a").at(0, 5).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
            let ended = json!({"type": "ended", "lock": "a", "number": 3, "reason": "expired"});
            check(&Planted::new().op(acquire).op(renewal).event(ended_at, 9, ended).done()).broken.len()
        };
        for outcome in [Outcome::Ok, Outcome::Unknown] {
            assert_eq!(history(61, renewed(10, 50, outcome)), 0);
            assert_eq!(history(59, renewed(10, 50, outcome)), 1);
        }
        assert_eq!((history(99, renewed(10, 50, Outcome::Fail)), history(119, renewed(20, 100, Outcome::Ok))), (1, 1));
    }

    #[test]
    fn a_node_that_outlives_its_session_is_found() {
        let node = op(Call::Ephemeral, "s").at(10, 20).with(|op| (op.number, op.revision) = (Some(3), Some(5)));
        let mut history = session(160, Some(node));
        assert_eq!(check(&history).broken.len(), 1);
        let line = json!({"type": "deleted", "path": "/chaos/s"});
        history.told[0].push(crate::history::Event { at: 160, revision: 9, line: line.into() });
        assert_eq!(check(&history).broken, Vec::<String>::new());
    }
}
