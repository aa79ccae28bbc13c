//! Nodes without revisions: a read sees the last write before it, a write on a version happens only on that version.

use super::{Item, Model, SearchAnswer, search};
use crate::{
    check::Check,
    history::{Call, History, Op, Outcome},
};
use std::collections::BTreeMap;

/// A version and a value; `None` if there is no node.
type Content = Option<(i64, String)>;

#[derive(Debug, Clone)]
enum RegisterAction {
    Read(Content),
    /// The expected version, the value, and the version in the answer.
    Write(Option<i64>, String, Option<i64>),
}

struct Register;

impl Model for Register {
    type State = Content;
    type Action = RegisterAction;

    fn initial() -> Content {
        None
    }

    fn step(state: &Content, action: &RegisterAction) -> Option<Content> {
        match action {
            RegisterAction::Read(content) => (content == state).then(|| state.clone()),
            RegisterAction::Write(wanted, value, acknowledged) => {
                let now = state.as_ref().map(|(version, _)| *version);
                let next = now.map_or(0, |version| version + 1);
                let fits = wanted.is_none_or(|wanted| now == Some(wanted))
                    && acknowledged.is_none_or(|acknowledged| acknowledged == next);
                fits.then(|| Some((next, value.clone())))
            }
        }
    }
}

pub(crate) fn check(history: &History) -> Check {
    let mut check =
        Check::new("registers, without revisions", "an order exists in which each read sees the last write before it");
    let mut keys: BTreeMap<&str, Vec<Item<RegisterAction>>> = BTreeMap::new();
    for op in &history.ops {
        if let Some(action) = action(op) {
            check.count(&op.key);
            let end = op.is_ok().then_some(op.end);
            keys.entry(register(&op.key)).or_default().push(Item { start: op.start, end, action });
        }
    }
    for (key, items) in keys {
        let count = items.len();
        match search::<Register>(items) {
            SearchAnswer::Possible => {}
            SearchAnswer::Impossible { longest } => {
                check.broken(|| format!("{key}: no order of its {count} operations is possible, only of {longest}"));
            }
            SearchAnswer::TooMany => check.undecided.push(format!("{key}: {count} operations are too many to search")),
        }
    }
    check
}

/// The nodes of a pair are one register: they always have the same value.
fn register(key: &str) -> &str {
    key.strip_suffix("/left").or_else(|| key.strip_suffix("/right")).unwrap_or(key)
}

/// Its action in the model; `None` if it certainly did nothing, or does not concern a register.
fn action(op: &Op) -> Option<RegisterAction> {
    if op.key.contains("session-expiry") {
        return None;
    }
    let acknowledged = op.version.filter(|_| op.is_ok());
    match (op.call, op.outcome) {
        (_, Outcome::Fail) | (Call::Read, Outcome::Unknown) => None,
        (Call::Read, Outcome::Ok) => Some(RegisterAction::Read(op.version.zip(op.value.clone()))),
        (Call::Write, Outcome::Ok | Outcome::Unknown) => Some(RegisterAction::Write(None, op.value.clone()?, acknowledged)),
        (Call::Cas, Outcome::Ok | Outcome::Unknown) => {
            Some(RegisterAction::Write(Some(i64::try_from(op.number?).ok()?), op.value.clone()?, acknowledged))
        }
        (Call::Txn, Outcome::Ok | Outcome::Unknown) if op.succeeded != Some(false) => {
            Some(RegisterAction::Write(None, op.value.clone()?, acknowledged))
        }
        _other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, op};

    fn read(version: i64, value: &str) -> Op {
        op(Call::Read, "x").with(|op| (op.version, op.value) = (Some(version), Some(value.to_owned())))
    }

    fn write(version: i64, value: &str) -> Op {
        op(Call::Write, "x").with(|op| (op.version, op.value) = (Some(version), Some(value.to_owned())))
    }

    #[test]
    fn a_read_of_the_last_write_is_possible_and_a_stale_one_is_not() {
        let good = Planted::new().op(write(0, "a").at(0, 10)).op(write(1, "b").at(11, 20)).op(read(1, "b").at(21, 30)).done();
        assert_eq!(check(&good).broken, Vec::<String>::new());
        let stale = Planted::new().op(write(0, "a").at(0, 10)).op(write(1, "b").at(11, 20)).op(read(0, "a").at(21, 30)).done();
        assert_eq!(check(&stale).broken.len(), 1);
    }

    #[test]
    fn a_write_with_an_unknown_outcome_may_be_read_or_not() {
        let unknown = write(1, "b").at(11, 20).with(|op| op.outcome = Outcome::Unknown);
        for last in [read(0, "a"), read(1, "b")] {
            let history = Planted::new().op(write(0, "a").at(0, 10)).op(unknown.clone()).op(last.at(21, 30)).done();
            assert_eq!(check(&history).broken, Vec::<String>::new());
        }
        let both = Planted::new().op(write(0, "a").at(0, 10)).op(unknown).op(read(1, "b").at(21, 30)).op(read(0, "a").at(31, 40));
        assert_eq!(check(&both.done()).broken.len(), 1, "it happened, and then it did not");
    }

    #[test]
    fn a_pair_is_one_register_and_a_node_behind_the_other_is_found() {
        let txn = |version, value| write(version, value).with(|op| op.call = Call::Txn);
        let read_of = |node: &str, version, value| read(version, value).with(|op| op.key = format!("x/{node}"));
        let pair = |last: Op| {
            let planted = Planted::new().op(txn(0, "a").at(0, 10)).op(txn(1, "b").at(11, 20));
            check(&planted.op(read_of("left", 1, "b").at(21, 30)).op(last.at(31, 40)).done()).broken.len()
        };
        assert_eq!((pair(read_of("right", 1, "b")), pair(read_of("right", 0, "a"))), (0, 1));
        let refused = txn(1, "b").at(11, 20).with(|op| (op.succeeded, op.version) = (Some(false), None));
        let seen = Planted::new().op(txn(0, "a").at(0, 10)).op(refused).op(read_of("left", 1, "b").at(21, 30));
        assert_eq!(check(&seen.done()).broken.len(), 1);
    }

    #[test]
    fn a_write_on_a_version_that_is_gone_is_found() {
        let on = |wanted: i64| write(wanted + 1, "c").with(|op| (op.call, op.number) = (Call::Cas, u64::try_from(wanted).ok()));
        let both = |wanted| Planted::new().op(write(0, "a").at(0, 10)).op(write(1, "b").at(11, 20)).op(on(wanted).at(21, 30));
        assert_eq!(check(&both(1).done()).broken, Vec::<String>::new());
        assert_eq!(check(&both(0).done()).broken.len(), 1);
    }
}
