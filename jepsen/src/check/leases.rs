//! Sessions and grants do not end before their full ttl has passed since the last acknowledged renewal was sent, and
//! have no effect after their end.
//!
//! The end is known from a watch, which shows it later than it happened: so the checker reports no false violation.

use super::Check;
use crate::{
    history::{Call, History, Op, Outcome},
    workload::{MAX_HOLD, is_administered},
};
use std::collections::HashMap;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("leases", "nothing expires early, and nothing has an effect after its end");
    let acquires = acquires(history);
    let renewed = renewals(history, &acquires, |op, shown| op.is_ok() || shown);
    let unknown = renewals(history, &acquires, |op, shown| op.outcome == Outcome::Unknown && !shown);
    for (number, end) in &first_seen_ends(history) {
        let acquire = acquires.get(number).copied();
        // A grant of a session has the session's ttl. If the opening of the session had no answer, nothing is known of
        // it.
        let whose = acquire.and_then(|op| op.session).unwrap_or(*number);
        let Some(ops) = renewed.get(&whose) else { continue };
        check.count(&acquire.unwrap_or(ops[0]).key);
        let unknown = unknown.get(&whose).map_or(&[][..], Vec::as_slice);
        if let Some((last, until)) =
            last_before(ops, end.at).map(|last| (last, surely_until(last, unknown).min(acquire.map_or(u64::MAX, bound))))
            && end.at < until
            && !history.clocks_were_skewed(last.start, end.at)
        {
            let early = until - end.at;
            check.broken(|| {
                format!("{}: {number} expired {} ms too early after operation {}", last.key, early / 1_000, last.index)
            });
        }
        if whose == *number {
            nothing_more(history, *number, *end, ops, &mut check);
        }
    }
    check
}

/// After its expiry no renewal succeeds, and a session gets no node.
fn nothing_more(history: &History, number: u64, end: LeaseEnd, renewals: &[&Op], check: &mut Check) {
    for late in renewals.iter().filter(|op| op.is_ok() && op.start > end.at) {
        check.broken(|| format!("{}: operation {} was acknowledged, but {number} had expired", late.key, late.index));
    }
    let owned = history.ops.iter().filter(|op| op.call == Call::Ephemeral && op.is_ok() && op.number == Some(number));
    for op in owned.filter(|op| op.revision.is_some_and(|written| written > end.revision)) {
        check.broken(|| format!("{}: operation {} was done for session {number} after its end", op.key, op.index));
    }
}

/// The life of a session or a grant that expired: from the sending of its last acknowledged renewal to the first report
/// of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// When that renewal was sent, in microseconds since the run began.
    pub(crate) sent: u64,
    /// When a watch first showed the end.
    pub(crate) ended: u64,
    /// The lease, in microseconds.
    pub(crate) ttl: u64,
}

/// The lives of all sessions and grants that expired after an acknowledged renewal.
pub(crate) fn lives(history: &History) -> Vec<Life> {
    let renewed = renewals(history, &acquires(history), |op, _| op.is_ok());
    let life = |(number, end): (u64, LeaseEnd)| {
        let last = last_before(renewed.get(&number)?, end.at)?;
        Some(Life { sent: last.start, ended: end.at, ttl: last.ttl? })
    };
    first_seen_ends(history).into_iter().filter_map(life).collect()
}

/// The last renewal that certainly took effect before that moment. An acquire did, since its grant existed.
fn last_before<'a>(renewals: &[&'a Op], at: u64) -> Option<&'a Op> {
    renewals.iter().copied().filter(|op| op.end <= at || op.call == Call::Acquire).max_by_key(|op| op.start)
}

/// Until when a grant is certainly alive although an administrator may set a maximum hold time.
fn bound(acquire: &Op) -> u64 {
    let most = u64::try_from(MAX_HOLD.as_micros()).unwrap_or(u64::MAX);
    if is_administered(&acquire.key) { acquire.start + most } else { u64::MAX }
}

/// Until when a session or a grant is certainly alive after this acknowledged renewal. A renewal with an unknown
/// outcome may arrive late and set a shorter ttl, but not before it was sent.
pub(super) fn surely_until(last: &Op, unknown: &[&Op]) -> u64 {
    let until = |from: u64, op: &Op| from + op.ttl.unwrap_or(0);
    unknown.iter().map(|op| until(op.start.max(last.start), op)).fold(until(last.start, last), u64::min)
}

/// The acquire of each grant, by the number in a watch or an answer: each acquire has its own owner.
pub(super) fn acquires(history: &History) -> HashMap<u64, &Op> {
    let sent = || history.ops.iter().filter(|op| op.call == Call::Acquire);
    let of_owner: HashMap<(&str, &str), &Op> =
        sent().filter_map(|op| Some(((op.key.as_str(), op.value.as_deref()?), op))).collect();
    let shown = history.longest_watch().iter().filter(|event| matches!(event.kind(), "queued" | "granted"));
    let shown =
        shown.filter_map(|event| Some((event.number("number")?, *of_owner.get(&(event.text("lock")?, event.text("owner")?))?)));
    let answered = sent().filter(|op| op.is_ok()).filter_map(|op| Some((op.number?, op)));
    answered.chain(shown).collect()
}

/// The renewals of each session or grant. An acquire that a watch showed counts even if its answer is unknown.
fn renewals<'a>(
    history: &'a History,
    acquires: &HashMap<u64, &Op>,
    counts: impl Fn(&Op, bool) -> bool,
) -> HashMap<u64, Vec<&'a Op>> {
    // By number: grants and sessions have one counter, so numbers are unique.
    let mut renewed: HashMap<u64, Vec<&Op>> = HashMap::new();
    let number_of: HashMap<usize, u64> = acquires.iter().map(|(number, acquire)| (acquire.index, *number)).collect();
    for op in &history.ops {
        let shown = op.call == Call::Acquire && number_of.contains_key(&op.index);
        let number = if matches!(op.call, Call::Acquire | Call::Renew) {
            op.grant.and_then(|grant| number_of.get(&grant).copied())
        } else {
            op.number.filter(|_| matches!(op.call, Call::Open | Call::Keepalive))
        };
        if let (Some(number), Some(_), true) = (number, op.ttl, counts(op, shown)) {
            renewed.entry(number).or_default().push(op);
        }
    }
    renewed
}

/// The end of a session or a grant in a watch.
#[derive(Debug, Clone, Copy)]
struct LeaseEnd {
    /// When a watch first showed it.
    at: u64,
    revision: u64,
}

/// When any watch first showed the end of each session or grant that expired.
fn first_seen_ends(history: &History) -> HashMap<u64, LeaseEnd> {
    let mut ended: HashMap<u64, LeaseEnd> = HashMap::new();
    for event in
        history.watches.iter().flatten().filter(|event| event.kind() == "ended" && event.text("reason") == Some("expired"))
    {
        let Some(number) = event.number("number").or_else(|| event.number("session")) else { continue };
        let known = ended.entry(number).or_insert(LeaseEnd { at: event.at, revision: event.revision });
        known.at = known.at.min(event.at);
    }
    ended
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
    fn a_session_that_ends_after_its_ttl_is_good_and_an_early_end_is_found() {
        assert_eq!(check(&session(151, None)).broken, Vec::<String>::new());
        assert_eq!(check(&session(149, None)).broken.len(), 1);
    }

    #[test]
    fn a_keepalive_acknowledged_after_the_end_is_found() {
        let late = op(Call::Keepalive, "s").at(170, 180).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
        assert_eq!(check(&session(160, Some(late))).broken.len(), 1);
    }

    #[test]
    fn a_shorter_ttl_counts_even_if_its_outcome_is_unknown() {
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

    fn queued(number: u64, owner: &str) -> serde_json::Value {
        json!({"type": "queued", "lock": "a", "number": number, "session": number, "owner": owner})
    }

    fn expired(number: u64) -> serde_json::Value {
        json!({"type": "ended", "lock": "a", "number": number, "reason": "expired"})
    }

    #[test]
    fn a_grant_without_an_answer_lives_for_its_ttl_too() {
        let findings = |ended_at| {
            let about = |op: &mut Op| {
                (op.outcome, op.ttl, op.value, op.end) = (Outcome::Unknown, Some(100), Some("p".to_owned()), 90);
            };
            let planted = Planted::new().op(op(Call::Acquire, "a").at(10, 90).with(about)).event(20, 4, queued(4, "p"));
            let check = check(&planted.event(ended_at, 9, expired(4)).done());
            (check.checked, check.broken.len())
        };
        assert_eq!((findings(111), findings(80)), ((1, 0), (1, 1)));
    }

    #[test]
    fn a_grant_of_a_session_does_not_expire_before_the_session() {
        let findings = |ended_at| {
            let opened = op(Call::Open, "s").at(0, 5).with(|op| (op.number, op.ttl) = (Some(3), Some(100)));
            let about = |op: &mut Op| (op.number, op.session, op.value) = (Some(4), Some(3), Some("p".to_owned()));
            let planted = Planted::new().op(opened).op(op(Call::Acquire, "a").at(10, 20).with(about));
            check(&planted.event(20, 4, queued(4, "p")).event(ended_at, 9, expired(4)).done()).broken.len()
        };
        assert_eq!((findings(101), findings(99)), (0, 1));
    }
}
