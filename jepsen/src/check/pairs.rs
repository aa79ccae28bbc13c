//! A transaction writes both nodes of a pair or neither: at every revision both have the same version and the same
//! value.
//!
//! Each transaction writes each node once. So both nodes have the same versions, and the same value at each version.

use super::Check;
use crate::history::{Call, History, Op, Outcome, pair};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("transactions", "both nodes of a pair always have the same value");
    let pairs: BTreeSet<&str> = history.ops.iter().filter(|op| op.call == Call::Txn).map(|op| op.key.as_str()).collect();
    for op in history.ops.iter().filter(|op| op.is_ok()) {
        let writes_both = op.call == Call::Txn && op.succeeded == Some(true);
        if writes_both || op.call == Call::ReadPair {
            check.count(&op.key);
            if op.version.and_then(|version| u64::try_from(version).ok()) != op.number {
                let (left, right) = (op.version, op.number);
                check.broken(|| format!("{}: operation {} saw versions {left:?} and {right:?}", op.key, op.index));
            }
        }
    }
    values(history, &pairs, &mut check);
    check_watch(history, &pairs, &mut check);
    at_the_end(history, &pairs, &mut check);
    check
}

/// Whether a read may have seen the value of this transaction.
fn may_have_written(op: &Op) -> bool {
    match op.outcome {
        Outcome::Ok => op.succeeded != Some(false),
        Outcome::Unknown => true,
        Outcome::Fail => false,
    }
}

/// A value that a read sees was written by a transaction on this pair, and is the same in both nodes.
fn values(history: &History, pairs: &BTreeSet<&str>, check: &mut Check) {
    let of = |call: Call| history.ops.iter().filter(move |op| op.call == call);
    let written: HashSet<(&str, &str)> =
        of(Call::Txn).filter(|op| may_have_written(op)).filter_map(|op| Some((op.key.as_str(), op.value.as_deref()?))).collect();
    let mut known: BTreeMap<(&str, i64), (&str, usize)> = BTreeMap::new();
    let acknowledged = of(Call::Txn).filter(|op| op.is_ok() && op.succeeded == Some(true)).map(|op| (op.key.as_str(), op));
    let reads = of(Call::Read).filter(|op| op.is_ok()).filter_map(|op| Some((of_pair(&op.key, pairs)?, op)));
    for (key, op) in acknowledged.chain(reads) {
        let (Some(version), Some(value)) = (op.version, op.value.as_deref()) else { continue };
        check.count(key);
        if !written.contains(&(key, value)) {
            check.broken(|| format!("{key}: operation {} read {value}, which no transaction wrote", op.index));
        }
        let (other, first) = *known.entry((key, version)).or_insert((value, op.index));
        if other != value {
            let index = op.index;
            check.broken(|| format!("{key}: operations {first} and {index} saw {other} and {value} at version {version}"));
        }
    }
}

/// The pair that this node belongs to.
fn of_pair<'a>(node: &'a str, pairs: &BTreeSet<&str>) -> Option<&'a str> {
    let key = node.strip_suffix("/left").or_else(|| node.strip_suffix("/right"))?;
    pairs.contains(key).then_some(key)
}

/// Both nodes change at the same revisions, including the acknowledged one.
fn check_watch(history: &History, pairs: &BTreeSet<&str>, check: &mut Check) {
    let events = history.longest_watch();
    let last = events.last().map_or(0, |event| event.revision);
    let mut changed: HashMap<(&str, u64), BTreeSet<&str>> = HashMap::new();
    for event in events {
        let Some(path) = event.text("path").and_then(|path| path.strip_prefix('/')) else { continue };
        if let Some(key) = of_pair(path, pairs) {
            changed.entry((key, event.revision)).or_default().insert(path);
        }
    }
    for ((key, revision), paths) in &changed {
        check.count(key);
        if paths.len() != 2 {
            check.broken(|| format!("{key}: at revision {revision} only {paths:?} changed"));
        }
    }
    for op in history.ops.iter().filter(|op| op.call == Call::Txn && op.is_ok()) {
        let Some(revision) = op.revision.filter(|revision| *revision <= last) else { continue };
        if changed.contains_key(&(op.key.as_str(), revision)) != (op.succeeded == Some(true)) {
            let succeeded = op.succeeded;
            check.broken(|| format!("{}: operation {} got {succeeded:?}, but the watch shows otherwise", op.key, op.index));
        }
    }
}

/// At the end both nodes have the same value, and no acknowledged version is lost.
fn at_the_end(history: &History, pairs: &BTreeSet<&str>, check: &mut Check) {
    let found: HashMap<&str, _> = history.found.iter().map(|found| (found.key.as_str(), found)).collect();
    for key in pairs {
        let [left, right] = pair(key);
        let (Some(left), Some(right)) = (found.get(left.as_str()), found.get(right.as_str())) else { continue };
        if !left.known || !right.known {
            check.undecided.push(format!("{key} could not be read at the end"));
            continue;
        }
        check.count(key);
        if (left.version, &left.value) != (right.version, &right.value) {
            check.broken(|| {
                format!("{key}: at the end the left node has {:?}, but the right one {:?}", left.version, right.version)
            });
        }
        let written = history.ops.iter().filter(|op| op.key == *key && op.is_ok() && op.succeeded == Some(true));
        if let Some(newest) =
            written.filter_map(|op| op.version).max().filter(|newest| left.version.is_none_or(|at| at < *newest))
        {
            check.broken(|| format!("{key}: version {newest} was acknowledged, but at the end it has {:?}", left.version));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, op},
        history::Found,
    };
    use serde_json::json;

    fn txn(version: i64, value: &str, revision: u64) -> Op {
        op(Call::Txn, "chaos/k").with(|op| {
            (op.version, op.number, op.value) = (Some(version), u64::try_from(version).ok(), Some(value.to_owned()));
            (op.revision, op.succeeded) = (Some(revision), Some(true));
        })
    }

    fn read(node: &str, version: i64, value: &str) -> Op {
        let about = |op: &mut Op| (op.version, op.value) = (Some(version), Some(value.to_owned()));
        op(Call::Read, &format!("chaos/k/{node}")).with(about)
    }

    fn changed(planted: Planted, node: &str, revision: u64) -> Planted {
        planted.event(0, revision, json!({"type": "changed", "path": format!("/chaos/k/{node}")}))
    }

    #[test]
    fn a_pair_that_is_always_the_same_is_good() {
        let planted = Planted::new().op(txn(0, "x", 5)).op(read("left", 0, "x")).op(read("right", 0, "x"));
        let planted = changed(changed(planted, "left", 5), "right", 5);
        assert_eq!(check(&planted.done()).broken, Vec::<String>::new());
    }

    #[test]
    fn a_pair_with_only_one_written_node_is_found() {
        let half = Planted::new().op(txn(0, "x", 5).with(|op| op.number = None));
        assert_eq!(check(&half.done()).broken.len(), 1, "by its answer");
        let seen = op(Call::ReadPair, "chaos/k").with(|op| (op.version, op.number) = (Some(1), Some(0)));
        assert_eq!(check(&Planted::new().op(txn(0, "x", 5)).op(seen).done()).broken.len(), 1, "by a read of both");
        let planted = changed(Planted::new().op(txn(0, "x", 5)), "left", 5);
        assert_eq!(check(&planted.done()).broken.len(), 1, "by the watch");
    }

    #[test]
    fn two_values_of_one_version_and_an_unwritten_value_are_found() {
        let both = Planted::new().op(txn(0, "x", 5)).op(txn(1, "y", 6)).op(read("left", 1, "y"));
        assert_eq!(check(&both.op(read("right", 1, "x")).done()).broken.len(), 1);
        let strange = Planted::new().op(txn(0, "x", 5)).op(read("left", 3, "z"));
        assert_eq!(check(&strange.done()).broken.len(), 1);
    }

    #[test]
    fn an_else_and_a_refusal_write_nothing_and_an_unknown_outcome_may_have_written() {
        let then = |change: fn(&mut Op)| {
            let other = txn(0, "x", 5).with(|op| (op.version, op.number, op.revision) = (None, None, None)).with(change);
            check(&Planted::new().op(other).op(read("left", 0, "x")).done()).broken.len()
        };
        assert_eq!(then(|op| op.succeeded = Some(false)), 1);
        assert_eq!(then(|op| (op.outcome, op.succeeded) = (Outcome::Fail, None)), 1);
        assert_eq!(then(|op| (op.outcome, op.succeeded) = (Outcome::Unknown, None)), 0);
        // The watch shows that an `else` wrote the pair.
        let wrong = txn(0, "x", 5).with(|op| (op.version, op.number, op.succeeded) = (None, None, Some(false)));
        let planted = changed(changed(Planted::new().op(wrong), "left", 5), "right", 5);
        assert_eq!(check(&planted.done()).broken.len(), 1);
    }

    #[test]
    fn a_pair_that_differs_or_lost_a_version_at_the_end_is_found() {
        let end = |left: i64, right: i64| {
            let mut history = Planted::new().op(txn(1, "x", 5)).done();
            let found = |node: &str, version| Found {
                key: format!("chaos/k/{node}"),
                known: true,
                version: Some(version),
                value: "x".to_owned(),
            };
            history.found = vec![found("left", left), found("right", right)];
            check(&history).broken.len()
        };
        assert_eq!((end(1, 1), end(2, 2), end(2, 1), end(0, 0)), (0, 0, 1, 1));
    }
}
