//! Sessions and grants end: without renewals they end soon after their ttl, unless there is a fault.
//!
//! The time starts at the last possible renewal, whatever its outcome. Anything that may extend a lease to its full ttl
//! restarts it: a fault, another leader, a period without any success. A lease that outlives this time is certainly
//! overdue.

use super::{Check, leases::acquires};
use crate::{
    client::TTL,
    history::{Call, Event, History, Rest},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

/// How long after its ttl a lease may end: the leader notices, commits the end, and a watch shows it.
const WITHIN: Duration = Duration::from_secs(3);
/// If no client succeeds for longer than this, the cluster may have no leader.
const GAP_MAX: Duration = Duration::from_secs(1);

/// The last possible renewal of a session or a grant.
#[derive(Debug, Clone, Copy)]
struct LastRenewal {
    /// When, in microseconds since the run began.
    at: u64,
    /// How long it may live after that, in microseconds.
    ttl: u64,
}

impl LastRenewal {
    fn join(self, other: LastRenewal) -> LastRenewal {
        LastRenewal { at: self.at.max(other.at), ttl: self.ttl.max(other.ttl) }
    }
}

/// A session or a grant that must end.
#[derive(Debug)]
struct Lease<'a> {
    /// Its kind, as text.
    what: &'static str,
    number: u64,
    /// Its key in the history, if it is known.
    key: &'a str,
    renewal: LastRenewal,
}

/// When a watch first showed an end, and whether it was an expiry.
#[derive(Debug, Clone, Copy)]
struct GrantEnd {
    at: u64,
    expired: bool,
}

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("ends", "without renewals everything ends soon after its ttl, if there is no fault");
    // If the nodes did not converge, the run reports that instead.
    let Some(rest) = history.rest else { return check };
    let disturbed = disturbances(history, rest);
    let (sessions, grants) = ends(history);
    let (of_session, of_grant) = last_renewals(history);
    for lease in leases(history, &of_session, &of_grant, &sessions) {
        let ended = if lease.what == "session" { sessions.get(&lease.number) } else { grants.get(&lease.number) };
        let due = due(lease.renewal, &disturbed);
        let is_late = ended.map_or(rest.until, |end| end.at) > due;
        let ended_by_itself = ended.is_some_and(|end| end.expired);
        if !is_late && !ended_by_itself {
            continue;
        }
        check.count(lease.key);
        if is_late {
            let (what, number, key) = (lease.what, lease.number, lease.key);
            let millis = lease.renewal.ttl / 1_000;
            check.broken(|| {
                format!("{key}: {what} {number} did not end within its ttl of {millis} ms and {WITHIN:?} more, without a fault")
            });
        }
    }
    check
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// The latest time at which a lease may end, given the disturbances in order of time.
fn due(renewal: LastRenewal, disturbed: &[(u64, u64)]) -> u64 {
    let until = |from: u64| from.saturating_add(renewal.ttl).saturating_add(micros(WITHIN));
    let mut from = renewal.at;
    for (start, end) in disturbed {
        if *start > until(from) {
            break;
        }
        from = from.max(*end);
    }
    until(from)
}

/// The periods in which the cluster may be unable to end anything, in order of time.
fn disturbances(history: &History, rest: Rest) -> Vec<(u64, u64)> {
    let aftermath = 2 * micros(TTL);
    let faults = history.faults.iter().map(|span| (span.start, span.end + if span.bends_time { aftermath } else { 0 }));
    let leaders = history.leaders.iter().map(|leader| (leader.at, leader.at));
    let mut successes: Vec<u64> = history.ops.iter().filter(|op| op.is_ok()).map(|op| op.end.min(rest.clients_ended)).collect();
    successes.extend([0, rest.clients_ended]);
    successes.sort_unstable();
    let gaps = successes.windows(2).map(|pair| (pair[0], pair[1])).filter(|(from, to)| to - from > micros(GAP_MAX));
    let healed = [(rest.clients_ended, rest.calm)];
    let mut all: Vec<(u64, u64)> = faults.chain(leaders).chain(gaps).chain(healed).collect();
    all.sort_unstable();
    all
}

/// When the watches showed the ends of sessions, and of grants.
fn ends(history: &History) -> (HashMap<u64, GrantEnd>, HashMap<u64, GrantEnd>) {
    let (mut sessions, mut grants) = (HashMap::new(), HashMap::new());
    for event in history.watches.iter().flatten().filter(|event| matches!(event.kind(), "ended" | "cooling")) {
        let (ends, number) = match (event.text("lock"), event.number("number"), event.number("session")) {
            (Some(_), Some(number), _) => (&mut grants, number),
            (None, None, Some(session)) => (&mut sessions, session),
            _other => continue,
        };
        let expired = event.kind() == "cooling" || event.text("reason") == Some("expired");
        let known = ends.entry(number).or_insert(GrantEnd { at: event.at, expired });
        known.at = known.at.min(event.at);
    }
    (sessions, grants)
}

/// The last possible renewal of each session, by its number, and of each grant, by its acquire. A request may have
/// taken effect at any time up to its end.
fn last_renewals(history: &History) -> (HashMap<u64, LastRenewal>, HashMap<usize, LastRenewal>) {
    let (mut sessions, mut grants): (HashMap<u64, LastRenewal>, HashMap<usize, LastRenewal>) = (HashMap::new(), HashMap::new());
    for op in &history.ops {
        let renewal = LastRenewal { at: op.end, ttl: op.ttl.unwrap_or(0) };
        let is_about_it = matches!(op.call, Call::Open | Call::Keepalive | Call::Ephemeral | Call::Close);
        if let Some(session) = op.session.or(op.number.filter(|_| is_about_it)) {
            sessions.entry(session).and_modify(|known| *known = known.join(renewal)).or_insert(renewal);
        }
        if let Some(grant) = op.grant {
            grants.entry(grant).and_modify(|known| *known = known.join(renewal)).or_insert(renewal);
        }
    }
    (sessions, grants)
}

/// All sessions and grants that a watch showed.
fn leases<'a>(
    history: &'a History,
    of_session: &HashMap<u64, LastRenewal>,
    of_grant: &HashMap<usize, LastRenewal>,
    ended: &HashMap<u64, GrantEnd>,
) -> Vec<Lease<'a>> {
    let acquires = acquires(history);
    let opened = history.ops.iter().filter(|op| op.call == Call::Open && op.is_ok());
    let keys: HashMap<u64, &str> = opened.filter_map(|op| Some((op.number?, op.key.as_str()))).collect();
    // A grant without a named session has its own session, which ends with it.
    let is_own =
        |event: &&Event| event.number("number").and_then(|number| acquires.get(&number)).is_some_and(|op| op.session.is_none());
    let queued = history.longest_watch().iter().filter(|event| event.kind() == "queued");
    let anonymous: HashSet<u64> = queued.filter(is_own).filter_map(|event| event.number("session")).collect();
    let mut leases: BTreeMap<(&str, u64), Lease<'a>> = BTreeMap::new();
    for event in history.longest_watch() {
        let shown = LastRenewal { at: event.at, ttl: 0 };
        let (what, number, key, renewal) = match (event.kind(), event.number("number"), event.number("session")) {
            ("opened", None, Some(session)) if !anonymous.contains(&session) => {
                // Without an answer to the open, only the default ttl is known.
                let known = of_session.get(&session).copied().unwrap_or(LastRenewal { at: 0, ttl: micros(TTL) });
                ("session", session, keys.get(&session).copied().unwrap_or("a session"), known)
            }
            ("queued", Some(number), Some(session)) => {
                let key = event.text("lock").unwrap_or_default();
                let acquire = acquires.get(&number);
                let of_its_own = acquire.and_then(|op| of_grant.get(&op.index)).copied();
                let renewal = match acquire.and_then(|op| op.session) {
                    // It ends with its session, which is judged separately.
                    Some(_) => match ended.get(&session) {
                        Some(end) => LastRenewal { at: end.at, ttl: 0 },
                        None => continue,
                    },
                    None => of_its_own.unwrap_or(LastRenewal { at: 0, ttl: micros(TTL) }),
                };
                ("grant", number, key, renewal)
            }
            _other => continue,
        };
        leases.entry((what, number)).or_insert(Lease { what, number, key, renewal: renewal.join(shown) });
    }
    leases.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, fault, op},
        history::{FaultSpan, Leadership, Op},
    };
    use serde_json::{Value, json};

    const SECOND: u64 = 1_000_000;

    /// A session with a ttl of 2 s and a keepalive at second 2: it may end as late as second 7.
    fn session() -> Planted {
        let about = |op: &mut Op| (op.number, op.ttl) = (Some(3), Some(2 * SECOND));
        let opened = op(Call::Open, "session-expiry-1-1").at(0, 5).with(about);
        let kept = op(Call::Keepalive, "session-expiry-1-1").at(2 * SECOND, 2 * SECOND).with(about);
        Planted::new().op(opened).op(kept).event(5, 3, json!({"type": "opened", "session": 3, "ttl": "2s"}))
    }

    /// With four successes a second, until the nodes converged after 15 s.
    fn judged(planted: Planted, change: impl FnOnce(&mut History)) -> (usize, usize) {
        let busy = (0..60).map(|quarter| op(Call::Write, "x").at(quarter * SECOND / 4, quarter * SECOND / 4));
        let mut history = busy.fold(planted, Planted::op).done();
        let at = 15 * SECOND;
        history.rest = Some(Rest { clients_ended: at, calm: at, until: at, revision: 0 });
        change(&mut history);
        let check = check(&history);
        (check.checked, check.broken.len())
    }

    fn expired() -> Value {
        json!({"type": "ended", "session": 3, "reason": "expired"})
    }

    #[test]
    fn a_session_that_ends_soon_after_its_ttl_is_good_and_a_late_or_missing_end_is_found() {
        assert_eq!(judged(session().event(4 * SECOND, 9, expired()), |_| {}), (1, 0));
        assert_eq!(judged(session().event(8 * SECOND, 9, expired()), |_| {}), (1, 1));
        assert_eq!(judged(session(), |_| {}), (1, 1));
    }

    #[test]
    fn an_unreleased_grant_and_a_grant_that_outlives_its_session_are_found() {
        let queued = |session: u64| json!({"type": "queued", "lock": "a", "number": 4, "session": session, "owner": "p"});
        let wish = |session: Option<u64>| {
            let ttl = session.is_none().then_some(2 * SECOND);
            let about = |op: &mut Op| (op.session, op.ttl, op.value) = (session, ttl, Some("p".to_owned()));
            op(Call::Acquire, "a").at(0, 10).with(about)
        };
        let own = || Planted::new().op(wish(None)).event(10, 4, queued(4));
        let end = |reason: &str| json!({"type": "ended", "lock": "a", "number": 4, "session": 4, "reason": reason});
        assert_eq!(judged(own(), |_| {}), (1, 1));
        assert_eq!(judged(own().event(3 * SECOND, 9, end("expired")), |_| {}), (1, 0));
        assert_eq!(judged(own().event(SECOND, 9, end("released")), |_| {}), (0, 0));
        let of_session = || session().op(wish(Some(3))).event(20, 4, queued(3)).event(4 * SECOND, 9, expired());
        assert_eq!(judged(of_session(), |_| {}), (2, 1));
        assert_eq!(judged(of_session().event(4 * SECOND, 9, end("expired")), |_| {}), (2, 0));
    }

    #[test]
    fn a_fault_another_leader_and_a_period_without_success_restart_the_time() {
        let late = || session().event(10 * SECOND, 9, expired());
        let wrong = |from: u64, to: u64| {
            move |history: &mut History| {
                history.faults.push(FaultSpan { start: from * SECOND, end: to * SECOND, ..fault("kill-leader", false) });
            }
        };
        assert_eq!((judged(late(), wrong(6, 7)), judged(late(), wrong(1, 4))), ((1, 0), (1, 1)));
        let leads = |at: u64| move |history: &mut History| history.leaders.push(Leadership { at: at * SECOND, node: 2, term: 2 });
        assert_eq!((judged(late(), leads(6)), judged(late(), leads(1))), ((1, 0), (1, 1)));
        let silent = |history: &mut History| {
            history.ops.retain(|op| op.key != "x" || !(4 * SECOND..6 * SECOND).contains(&op.end));
        };
        assert_eq!(judged(late(), silent), (1, 0));
    }

    #[test]
    fn a_lease_due_after_the_run_is_not_judged() {
        assert_eq!(judged(session(), |history| history.rest.as_mut().unwrap().until = 6 * SECOND), (0, 0));
    }
}
