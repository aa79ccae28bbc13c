//! By revision and by time: a write under a fence happens only while a held grant has the token. A token from before an
//! upgrade or a release never passes afterwards.
//!
//! The check by revision replays the events of the watch. The check by time trusts answers only.

use super::Check;
use crate::history::{Call, Event, FenceEvent, History, Op};
use std::collections::{BTreeMap, HashMap};

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("fences", "a write under a fence happens only while a held grant has the token");
    let mut writes: Vec<(&Op, Vec<FenceEvent>)> =
        history.ops.iter().filter(|op| op.is_ok()).map(|op| (op, fences(op))).filter(|(_, fences)| !fences.is_empty()).collect();
    by_time(history, &writes, &mut check);
    writes.sort_by_key(|(op, _)| op.revision);
    by_revision(history.longest_watch(), &writes, &mut check);
    check
}

/// The tokens of a write.
fn fences(op: &Op) -> Vec<FenceEvent> {
    match (op.call, op.grant, op.token) {
        (Call::FencedWrite, Some(grant), Some(token)) => vec![FenceEvent { lock: op.key.clone(), grant, token }],
        _other => op.fences.clone(),
    }
}

/// Whether the write passed its fences. A transaction that took its `else` branch did not.
fn passed(op: &Op) -> bool {
    op.succeeded != Some(false)
}

/// The tokens of each lock, by the number of the grant.
#[derive(Debug, Default)]
struct Tokens<'a>(HashMap<&'a str, BTreeMap<u64, u64>>);

impl<'a> Tokens<'a> {
    fn apply(&mut self, event: &'a Event) {
        let (Some(lock), Some(number)) = (event.text("lock"), event.number("number")) else { return };
        match event.kind() {
            "granted" => drop(self.0.entry(lock).or_default().insert(number, event.number("token").unwrap_or(0))),
            "ended" | "cooling" => drop(self.0.entry(lock).or_default().remove(&number)),
            _other => {}
        }
    }

    fn has(&self, fence: &FenceEvent) -> bool {
        self.0.get(fence.lock.as_str()).is_some_and(|tokens| tokens.values().any(|token| *token == fence.token))
    }
}

fn by_revision(events: &[Event], writes: &[(&Op, Vec<FenceEvent>)], check: &mut Check) {
    let last = events.last().map_or(0, |event| event.revision);
    let (mut tokens, mut next) = (Tokens::default(), 0);
    for (op, fences) in writes {
        let Some(revision) = op.revision.filter(|revision| *revision <= last) else { continue };
        while let Some(event) = events.get(next).filter(|event| event.revision < revision) {
            tokens.apply(event);
            next += 1;
        }
        check.count(&op.key);
        let stale = fences.iter().find(|fence| !tokens.has(fence));
        match stale {
            Some(fence) if passed(op) => check.broken(|| {
                let (key, index, token, lock) = (&op.key, op.index, fence.token, &fence.lock);
                format!("{key}: operation {index} wrote at revision {revision}, but no grant held {lock} with token {token}")
            }),
            None if !passed(op) => check.broken(|| {
                format!("{}: operation {} was refused at revision {revision}, but all its tokens were held", op.key, op.index)
            }),
            Some(_) | None => {}
        }
    }
}

/// The answers about the tokens of a grant.
#[derive(Debug, Default)]
struct GrantAnswers {
    /// Its tokens that no other grant has.
    own: Vec<u64>,
    /// Its upgrades: when the answer arrived, and the new token.
    upgrades: Vec<(u64, u64)>,
    /// When the first answer to a release arrived.
    released: Option<u64>,
}

fn by_time(history: &History, writes: &[(&Op, Vec<FenceEvent>)], check: &mut Check) {
    let mut grants: HashMap<usize, GrantAnswers> = HashMap::new();
    for op in history.ops.iter().filter(|op| op.is_ok()) {
        let Some(answers) = op.grant.map(|grant| grants.entry(grant).or_default()) else { continue };
        if op.is_exclusive_grant() {
            answers.own.extend(op.token);
        }
        match (op.call, op.token) {
            (Call::Upgrade, Some(token)) => answers.upgrades.push((op.end, token)),
            (Call::Release, _) => answers.released = Some(answers.released.map_or(op.end, |end| end.min(op.end))),
            _other => {}
        }
    }
    for (op, fence) in writes.iter().filter(|(op, _)| passed(op)).flat_map(|(op, fences)| fences.iter().map(move |one| (op, one)))
    {
        let Some(answers) = grants.get(&fence.grant) else { continue };
        check.count(&op.key);
        if let Some((_, newer)) = answers.upgrades.iter().find(|(end, token)| *token > fence.token && *end < op.start) {
            check.broken(|| {
                format!("{}: operation {} wrote with token {} after an upgrade to {newer}", op.key, op.index, fence.token)
            });
        }
        if answers.own.contains(&fence.token) && answers.released.is_some_and(|end| end < op.start) {
            check.broken(|| format!("{}: operation {} wrote with token {} after its release", op.key, op.index, fence.token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, grant, op, upgrade};
    use serde_json::json;

    fn granted(number: u64, token: u64) -> serde_json::Value {
        json!({"type": "granted", "lock": "a", "number": number, "token": token, "owner": "p"})
    }

    fn written(token: u64, revision: u64) -> Op {
        let about = |op: &mut Op| (op.grant, op.token, op.revision) = (Some(0), Some(token), Some(revision));
        op(Call::FencedWrite, "a").at(50, 60).with(about)
    }

    /// A shared grant with token 5 becomes exclusive with token 8.
    fn upgraded() -> Planted {
        let reader = grant("a", 5).at(0, 10).with(|op| op.shared = true);
        let planted = Planted::new().event(0, 5, granted(4, 5)).event(0, 8, granted(4, 8));
        let planted = planted.event(0, 12, json!({"type": "ended", "lock": "a", "number": 4, "reason": "released"}));
        planted.op(reader).op(upgrade("a", 0, 8).at(20, 30))
    }

    #[test]
    fn a_write_with_a_held_token_is_good_and_one_with_a_token_from_before_an_upgrade_is_found() {
        assert_eq!(check(&upgraded().op(written(8, 9)).done()).broken, Vec::<String>::new());
        // The write was sent before the upgrade was answered, and is also older by revision.
        let early = written(5, 7).at(15, 60);
        assert_eq!(check(&upgraded().op(early).done()).broken, Vec::<String>::new());
        assert_eq!(check(&upgraded().op(written(5, 9)).done()).broken.len(), 2, "by revision and by time");
        assert_eq!(check(&upgraded().op(written(5, 9).at(25, 60)).done()).broken.len(), 1, "by revision");
        let untold = Planted::new().op(grant("a", 5).with(|op| op.shared = true)).op(upgrade("a", 0, 8).at(20, 30));
        assert_eq!(check(&untold.op(written(5, 9)).done()).broken.len(), 1, "by time");
    }

    #[test]
    fn an_upgrade_with_an_unknown_outcome_is_judged_by_the_watch_alone() {
        let unknown = upgrade("a", 0, 8).at(20, 30).with(|op| (op.outcome, op.token) = (crate::history::Outcome::Unknown, None));
        let reader = grant("a", 5).at(0, 10).with(|op| op.shared = true);
        let planted = || Planted::new().op(reader.clone()).op(unknown.clone()).op(written(5, 9));
        let shared_on = planted().event(0, 5, granted(4, 5)).event(0, 9, json!({"type": "changed", "path": "/chaos/a"}));
        assert_eq!(check(&shared_on.done()).broken, Vec::<String>::new());
        let exclusive = planted().event(0, 5, granted(4, 5)).event(0, 8, granted(4, 8)).event(0, 9, json!({"type": "changed"}));
        assert_eq!(check(&exclusive.done()).broken.len(), 1);
    }

    #[test]
    fn a_token_from_before_a_release_is_found() {
        let released = op(Call::Release, "a").at(40, 45).with(|op| op.grant = Some(0));
        let history = |released: Op| Planted::new().op(grant("a", 5).at(0, 10)).op(released).op(written(5, 9)).done();
        assert_eq!(check(&history(released.clone())).broken.len(), 1);
        assert_eq!(check(&history(released.at(40, 55))).broken, Vec::<String>::new());
    }

    fn txn(succeeded: bool, revision: u64) -> Op {
        let fence = |lock: &str, token| FenceEvent { lock: lock.to_owned(), grant: 0, token };
        op(Call::Txn, "chaos/a").with(|op| {
            (op.revision, op.succeeded) = (Some(revision), Some(succeeded));
            op.fences = vec![fence("a", 5), fence("b", 7)];
        })
    }

    #[test]
    fn a_transaction_with_one_stale_token_does_its_else_and_only_then() {
        let planted = |second: u64| {
            let other = json!({"type": "granted", "lock": "b", "number": 6, "token": second, "owner": "p"});
            Planted::new().event(0, 5, granted(4, 5)).event(0, 7, other).event(0, 20, json!({"type": "changed"}))
        };
        for (second, succeeded, findings) in [(7, true, 0), (8, false, 0), (8, true, 1), (7, false, 1)] {
            let history = planted(second).op(txn(succeeded, 10)).done();
            assert_eq!(check(&history).broken.len(), findings, "{second} {succeeded}");
        }
    }
}
