//! A watch shows every change once and in order, the same at every node, whatever breaks in between.

use super::Check;
use crate::history::{Call, Event, History};
use std::collections::HashSet;

pub(crate) fn check(history: &History) -> Check {
    let mut check = Check::new("watches", "a watch shows every change once and in order, the same at every node");
    for (index, events) in history.watches.iter().enumerate() {
        for event in events {
            check.count(event.text("lock").or_else(|| event.text("path")).unwrap_or_default());
        }
        if let Some(pair) = events.windows(2).find(|pair| pair[1].revision < pair[0].revision) {
            let (later, earlier) = (pair[0].revision, pair[1].revision);
            check.broken(|| format!("the watch at node {} showed revision {earlier} after {later}", index + 1));
        }
    }
    let longest = history.longest_watch();
    for (index, events) in history.watches.iter().enumerate() {
        let differs = longest.iter().zip(events).position(|(a, b)| (a.revision, &a.line) != (b.revision, &b.line));
        if let Some(place) = differs {
            let at = |events: &[Event]| events[place].line.to_string();
            check.broken(|| format!("change {place}: node {} showed {}, another {}", index + 1, at(events), at(longest)));
        } else if events.len() < longest.len() {
            check.undecided.push(format!(
                "the watch at node {} showed {} of {} changes by the end of the run",
                index + 1,
                events.len(),
                longest.len()
            ));
        }
    }
    // If no watch reached the end, they may all be equal.
    let last = longest.last().map_or(0, |event| event.revision);
    if let Some(rest) = history.rest.filter(|rest| last < rest.revision) {
        check.undecided.push(format!("no watch got beyond revision {last} of {} by the end of the run", rest.revision));
    }
    check_writes(history, longest, &mut check);
    check
}

fn check_writes(history: &History, events: &[Event], check: &mut Check) {
    let last = events.last().map_or(0, |event| event.revision);
    let known: HashSet<(u64, &str)> = events.iter().filter_map(|event| Some((event.revision, event.text("path")?))).collect();
    let writes = |call: Call| matches!(call, Call::Write | Call::Cas | Call::FencedWrite | Call::Ephemeral);
    for op in history.ops.iter().filter(|op| op.is_ok() && writes(op.call)) {
        let Some(revision) = op.revision.filter(|revision| *revision <= last) else { continue };
        let path = if op.key.starts_with("chaos/") { format!("/{}", op.key) } else { format!("/chaos/{}", op.key) };
        check.count(&op.key);
        if !known.contains(&(revision, path.as_str())) {
            check.broken(|| format!("operation {} wrote {path} at revision {revision}, but no watch showed it", op.index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::plant::{Planted, write},
        history::Rest,
    };
    use serde_json::json;

    fn changed(path: &str) -> serde_json::Value {
        json!({"type": "changed", "path": path, "version": 1})
    }

    #[test]
    fn the_same_at_both_nodes_is_good() {
        let history = Planted::new().op(write("chaos/x", 7).at(0, 1)).event(1, 7, changed("/chaos/x"));
        let check = check(&history.event_at(1, 2, 7, changed("/chaos/x")).done());
        assert_eq!((check.broken.len(), check.undecided.len()), (0, 0));
    }

    #[test]
    fn a_missing_a_repeated_and_a_misplaced_change_are_found() {
        let missing = Planted::new().op(write("chaos/x", 7).at(0, 1)).event(1, 8, changed("/chaos/y")).done();
        assert_eq!(check(&missing).broken.len(), 1);
        let order = Planted::new().event(1, 8, changed("/chaos/y")).event(1, 7, changed("/chaos/x")).done();
        assert_eq!(check(&order).broken.len(), 1);
        let twice = Planted::new().event(1, 7, changed("/a")).event(1, 7, changed("/a")).event(1, 8, changed("/b"));
        let twice = twice.event_at(1, 1, 7, changed("/a")).event_at(1, 1, 8, changed("/b")).done();
        assert_eq!(check(&twice).broken.len(), 1);
    }

    #[test]
    fn watches_that_all_stopped_at_the_same_revision_are_not_judged() {
        let undecided = |revision| {
            let mut history = Planted::new().event(1, 7, changed("/a")).event_at(1, 1, 7, changed("/a")).done();
            history.rest = Some(Rest { clients_ended: 1, calm: 1, until: 1, revision });
            check(&history).undecided.len()
        };
        assert_eq!((undecided(7), undecided(8)), (0, 1));
    }

    #[test]
    fn a_watch_that_did_not_reach_the_end_is_not_judged() {
        let history = Planted::new().event(1, 7, changed("/a")).event_at(1, 1, 7, changed("/a")).event(1, 8, changed("/b"));
        let check = check(&history.done());
        assert_eq!((check.broken.len(), check.undecided.len()), (0, 1));
    }
}
