//! A session's nodes disappear at the revision of its end: neither earlier nor later. Reads of them must agree.

use super::Check;
use crate::history::{Call, History, Op};
use std::collections::HashMap;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("sessions' nodes", "a session's node is there until its session ends, and no longer");
    let events = history.longest_watch();
    let last = events.last().map_or(0, |event| event.revision);
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let mut deleted: HashMap<&str, u64> = HashMap::new();
    for event in events {
        match (event.kind(), event.text("path"), event.text("lock")) {
            ("deleted", Some(path), _) => drop(deleted.insert(path, event.revision)),
            ("ended", None, None) => drop(event.number("session").map(|session| ends.insert(session, event.revision))),
            _other => {}
        }
    }
    let mut reads: HashMap<&str, Vec<&Op>> = HashMap::new();
    for op in history.ops.iter().filter(|op| op.call == Call::Read && op.is_ok()) {
        reads.entry(op.key.trim_start_matches("chaos/")).or_default().push(op);
    }
    for op in history.ops.iter().filter(|op| op.call == Call::Ephemeral && op.is_ok()) {
        let Some(session) = op.number else { continue };
        let end = ends.get(&session).copied();
        if let Some(end) = end {
            check.count(&op.key);
            let gone = deleted.get(format!("/chaos/{}", op.key).as_str());
            if gone != Some(&end) {
                check.broken(|| format!("{}: its session ended at revision {end}, but its node was deleted at {gone:?}", op.key));
            }
        }
        for read in reads.get(op.key.as_str()).into_iter().flatten() {
            seen(op, read, end.unwrap_or(last + 1), last, &mut check);
        }
    }
    check
}

/// Checks a read of a node whose session ended at revision `end`.
fn seen(written: &Op, read: &Op, end: u64, last: u64, check: &mut Check) {
    let (Some(from), Some(at)) = (written.revision, read.revision.filter(|at| *at <= last)) else { return };
    if at < from {
        return;
    }
    check.count(&read.key);
    match (at < end, read.version) {
        (true, None) => check
            .broken(|| format!("{}: operation {} saw no node at revision {at}, but its session was alive", read.key, read.index)),
        (false, Some(_)) => check.broken(|| {
            format!("{}: operation {} saw it at revision {at}, but its session had ended at {end}", read.key, read.index)
        }),
        (true, Some(_)) | (false, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plant::{Planted, op};
    use serde_json::json;

    fn session(node_went_at: Option<u64>, read: Option<(u64, Option<i64>)>) -> usize {
        let written = |op: &mut Op| (op.number, op.revision) = (Some(3), Some(5));
        let mut planted = Planted::new().op(op(Call::Ephemeral, "s").at(10, 20).with(written));
        if let Some((revision, version)) = read {
            let about = |op: &mut Op| (op.revision, op.version) = (Some(revision), version);
            planted = planted.op(op(Call::Read, "chaos/s").at(30, 40).with(about));
        }
        let planted = planted.event(160, 9, json!({"type": "ended", "session": 3, "reason": "expired"}));
        let gone = json!({"type": "deleted", "path": "/chaos/s"});
        let planted =
            node_went_at.map(|at| (at, gone)).into_iter().fold(planted, |planted, (at, line)| planted.event(160, at, line));
        check(&planted.event(170, 12, json!({"type": "opened", "session": 11, "ttl": "2s"})).done()).broken.len()
    }

    #[test]
    fn a_node_that_ends_with_its_session_is_good_and_one_that_outlives_it_is_found() {
        assert_eq!((session(Some(9), None), session(None, None), session(Some(10), None)), (0, 1, 1));
    }

    #[test]
    fn a_read_of_a_node_after_its_session_and_a_read_that_misses_it_before_are_found() {
        let read = |revision, version| session(Some(9), Some((revision, version)));
        assert_eq!((read(4, None), read(8, Some(0)), read(9, None)), (0, 0, 0));
        assert_eq!((read(8, None), read(9, Some(0))), (1, 1));
    }
}
