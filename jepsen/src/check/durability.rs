//! Every acknowledged write is present at the end, whatever was killed, partitioned, or lost its power during the run.
//!
//! Each write makes a new version of its node, one greater than the one before. So a lost write is visible at the end:
//! the version is too small, or another client received the same one, or it has another value.

use super::Check;
use crate::history::{History, Op};
use std::collections::BTreeMap;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("durability", "every acknowledged write is there at the end");
    let mut written: BTreeMap<&str, BTreeMap<i64, &Op>> = BTreeMap::new();
    for op in history.ops.iter().filter(|op| op.is_ok() && op.call.writes_for_good()) {
        let Some(version) = op.version else { continue };
        check.count(&op.key);
        if let Some(other) = written.entry(&op.key).or_default().insert(version, op) {
            check.broken(|| format!("{}: operations {} and {} both got version {version}", op.key, other.index, op.index));
        }
    }
    for found in &history.found {
        let Some((version, op)) = written.get(found.key.as_str()).and_then(|ops| ops.last_key_value()) else { continue };
        if !found.known {
            check.undecided.push(format!("{} could not be read at the end", found.key));
        } else if found.version.is_none_or(|now| now < *version) {
            check
                .broken(|| format!("{}: operation {} wrote version {version}, but it has {:?}", op.key, op.index, found.version));
        } else if found.version == Some(*version) && op.value.as_ref().is_some_and(|value| *value != found.value) {
            check.broken(|| format!("{}: version {version} does not have the value that operation {} wrote", op.key, op.index));
        }
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, write},
        history::Found,
    };

    fn end(version: Option<i64>, value: &str, known: bool) -> Check {
        let one = |version: i64, value: &str| {
            let value = value.to_owned();
            write("x", 1).with(|op| (op.version, op.value) = (Some(version), Some(value)))
        };
        let mut history = Planted::new().op(one(0, "a")).op(one(1, "b")).done();
        history.found.push(Found { key: "x".to_owned(), known, version, value: value.to_owned() });
        check(&history)
    }

    #[test]
    fn a_write_that_is_there_or_was_overwritten_is_good() {
        for (version, value) in [(1, "b"), (2, "c")] {
            let check = end(Some(version), value, true);
            assert_eq!((check.broken.len(), check.undecided.len()), (0, 0));
        }
    }

    #[test]
    fn a_write_that_is_lost_or_replaced_is_found() {
        assert_eq!(end(Some(0), "a", true).broken.len(), 1);
        assert_eq!(end(None, "", true).broken.len(), 1);
        assert_eq!(end(Some(1), "another", true).broken.len(), 1);
        let twice = || write("x", 1).with(|op| op.version = Some(3));
        assert_eq!(check(&Planted::new().op(twice()).op(twice()).done()).broken.len(), 1);
    }

    #[test]
    fn an_unreadable_node_is_not_judged() {
        let check = end(None, "", false);
        assert_eq!((check.broken.len(), check.undecided.len()), (0, 1));
    }
}
