//! By revision, in O(n log n): an operation acknowledged before another was sent has the smaller revision.
//!
//! A revision is the position of a change in the one history that all nodes share. So real time and revisions must
//! agree, over all keys at once: that is linearizability, as far as revisions can be trusted. `wing_gong` does not
//! trust them.

use super::Check;
use crate::history::{Call, History, Op};
use std::collections::BTreeMap;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("order", "every later request sees everything acknowledged before it");
    let mut acknowledged: Vec<(u64, u64, usize)> =
        history.ops.iter().filter_map(|op| Some((op.end, place(op)?.0, op.index))).collect();
    acknowledged.sort_unstable();
    let mut by_start: Vec<&Op> = history.ops.iter().filter(|op| op.is_ok()).collect();
    by_start.sort_unstable_by_key(|op| op.start);
    let (mut next, mut newest) = (0, (0, 0));
    for op in by_start {
        while let Some((_, revision, index)) = acknowledged.get(next).filter(|(end, _, _)| *end < op.start) {
            newest = newest.max((*revision, *index));
            next += 1;
        }
        let Some((revision, is_new)) = place(op).or_else(|| Some((seen_at(op)?, false))) else { continue };
        check.count(&op.key);
        if revision < newest.0 || (is_new && revision == newest.0) {
            check.broken(|| {
                format!(
                    "operation {} ({:?} {}) is at revision {revision}, but operation {}, which ended before it began, is at {}",
                    op.index, op.call, op.key, newest.1, newest.0
                )
            });
        }
    }
    tokens(history, &mut check);
    check
}

/// The revision of an operation, and whether no other operation can have the same one.
fn place(op: &Op) -> Option<(u64, bool)> {
    if !op.is_ok() {
        return None;
    }
    if matches!(op.call, Call::Acquire | Call::Upgrade) {
        return Some((op.token?, op.is_exclusive_grant()));
    }
    let writes = [Call::FencedWrite, Call::Write, Call::Cas, Call::Ephemeral, Call::Proclaim, Call::Txn];
    if writes.contains(&op.call) { Some((op.revision?, true)) } else { None }
}

/// The revision of an answer: at least that of every operation acknowledged before its request.
fn seen_at(op: &Op) -> Option<u64> {
    op.revision
}

/// Tokens of exclusive grants differ, and a fenced write happens before the next token of its lock is granted.
fn tokens(history: &History, check: &mut Check) {
    let mut given: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for op in history.ops.iter().filter(|op| op.is_exclusive_grant()) {
        let Some(token) = op.token else { continue };
        if let Some(other) = given.insert((&op.key, token), op.index) {
            check.broken(|| format!("{}: operations {other} and {} were both granted it with token {token}", op.key, op.index));
        }
    }
    for op in history.ops.iter().filter(|op| op.call == Call::FencedWrite && op.is_ok()) {
        let (Some(token), Some(revision)) = (op.token, op.revision) else { continue };
        check.count(&op.key);
        let between = given.range((op.key.as_str(), token + 1)..=(op.key.as_str(), revision.max(token + 1))).next();
        if let Some(((_, newer), other)) = between.filter(|((_, newer), _)| *newer <= revision) {
            check.broken(|| {
                format!(
                    "{}: operation {} wrote at revision {revision} with token {token}, and operation {other} had been granted \
                     {newer} before",
                    op.key, op.index
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, grant, op, write};

    #[test]
    fn a_history_with_time_and_revisions_in_agreement_is_good() {
        let history = Planted::new().op(grant("a", 7).at(0, 10)).op(write("x", 8).at(11, 20)).op(grant("b", 6).at(5, 12)).done();
        assert_eq!(check(&history).broken, Vec::<String>::new());
    }

    #[test]
    fn an_acknowledged_write_after_a_later_one_is_found() {
        let history = Planted::new().op(write("x", 8).at(0, 10)).op(write("y", 7).at(11, 20)).done();
        assert_eq!(check(&history).broken.len(), 1);
    }

    #[test]
    fn a_stale_read_is_found() {
        let mut read = write("x", 7).at(11, 20);
        read.call = Call::Read;
        let history = Planted::new().op(write("x", 8).at(0, 10)).op(read).done();
        assert_eq!(check(&history).broken.len(), 1);
    }

    #[test]
    fn a_renewal_with_a_revision_older_than_an_earlier_answer_is_found() {
        let renewal = |revision| op(Call::Renew, "a").at(11, 20).with(|op| op.revision = Some(revision));
        let history = |revision| Planted::new().op(write("x", 8).at(0, 10)).op(renewal(revision)).done();
        assert_eq!(check(&history(7)).broken.len(), 1);
        assert_eq!(check(&history(8)).broken, Vec::<String>::new());
    }

    #[test]
    fn one_token_for_two_holders_is_found() {
        let history = Planted::new().op(grant("a", 7).at(0, 10)).op(grant("a", 7).at(0, 11)).done();
        assert_eq!(check(&history).broken.len(), 1);
    }

    #[test]
    fn a_write_with_an_old_token_is_found() {
        let mut late = write("a", 9).at(20, 30);
        (late.call, late.token) = (Call::FencedWrite, Some(5));
        let history = Planted::new().op(grant("a", 5).at(0, 10)).op(grant("a", 8).at(11, 15)).op(late).done();
        assert_eq!(check(&history).broken.len(), 1);
    }

    #[test]
    fn a_million_operations_take_seconds() {
        let mut planted = Planted::new();
        for number in 0..1_000_000_u64 {
            planted = planted.op(grant("a", number + 1).at(number * 2, number * 2 + 3));
        }
        let history = planted.done();
        // Other load on the machine does not count.
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
        let began = used();
        let check = check(&history);
        assert_eq!((check.checked, check.broken.len()), (1_000_000, 0));
        assert!(used() - began < 10, "{} s", used() - began);
    }
}
