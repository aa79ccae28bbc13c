//! Rights that change: after the answer to a change that takes a right away, nothing that needs it succeeds, and while a
//! right is unchanged, nothing is refused for lack of it.
//!
//! By time: a call that was sent after that answer, and ended before anyone gave the right back. By revision: the rights
//! and all changes have one order, so a change, or an event that a watch of a user shows, must not have a revision at
//! which the right was lost, however late the answer arrives.

mod timeline;

#[cfg(test)]
mod tests;

use super::Check;
use crate::history::{Call, FaultSpan, History, Op, OpRights, Outcome};
use std::collections::HashMap;
use timeline::{Loss, Timeline};

/// A server that is cut off serves by old rights for five seconds, and an answer may take a moment more.
const LOCAL_SLACK: u64 = 6_000_000;

/// The three checks.
pub(super) fn checks(history: &History) -> [Check; 3] {
    let timeline = Timeline::of(history);
    [lost(history, &timeline), watches(history, &timeline), refusals(history, &timeline)]
}

/// The calls of users, with whose rights they need.
fn calls(history: &History) -> impl Iterator<Item = (&Op, &OpRights)> {
    let is_change = |op: &&Op| matches!(op.call, Call::Narrow | Call::Widen);
    history.ops.iter().filter(move |op| !is_change(op)).filter_map(|op| Some((op, op.rights.as_ref()?)))
}

/// How long after a loss a call may still succeed; `None` if it is judged by its events instead.
fn slack(op: &Op) -> Option<u64> {
    if op.call == Call::Watch {
        None
    } else if op.call == Call::LocalRead || op.call.needs().is_empty() {
        Some(LOCAL_SLACK)
    } else {
        Some(0)
    }
}

/// Nothing succeeds without its right.
fn lost(history: &History, timeline: &Timeline) -> Check {
    let mut check = Check::new("rights", "after the answer to the loss of a right, nothing that needs it succeeds");
    let queued = queued(history);
    for (op, rights) in calls(history) {
        let losses = || timeline.losses(rights);
        let slack = slack(op);
        let by_time = losses().filter_map(|losses| losses.last_before(op.start)).find(|loss| {
            slack.is_some_and(|slack| loss.covers(op, slack) && (slack == 0 || !clocks_differed(history, loss, op.end)))
        });
        if let Some(loss) = by_time {
            check.count(&op.key);
            if op.is_ok() {
                check.broken(|| {
                    let (index, call, key) = (op.index, op.call, &op.key);
                    format!("operation {index} ({call:?} {key}) succeeded, but was sent after the answer to {loss}")
                });
            }
        }
        let Some(revision) = changed_at(op, &queued) else { continue };
        if let Some(loss) = losses().find_map(|losses| losses.at_revision(revision)) {
            check.broken(|| {
                let (index, call, key) = (op.index, op.call, &op.key);
                format!("operation {index} ({call:?} {key}) took effect at revision {revision}, after {loss}")
            });
        }
    }
    check
}

/// Whether a clock ran at a wrong rate, so that seconds of a server prove nothing.
fn clocks_differed(history: &History, loss: &Loss, end: u64) -> bool {
    let overlaps = |span: &FaultSpan| span.start <= end && loss.maybe_from <= span.end;
    history.faults.iter().any(|span| span.fault.ends_with("-clock") && overlaps(span))
}

/// The revisions at which requests for locks began to wait or were granted at once, by lock and owner. What waits when a
/// right is lost keeps its place for a moment, so the time of the grant itself says nothing.
fn queued(history: &History) -> HashMap<(&str, &str), u64> {
    let events = history.longest_watch().iter().filter(|event| event.kind() == "queued");
    events.filter_map(|event| Some(((event.text("lock")?, event.text("owner")?), event.revision))).collect()
}

/// The revision at which a call certainly changed something for which it needed a right.
fn changed_at(op: &Op, queued: &HashMap<(&str, &str), u64>) -> Option<u64> {
    if op.call == Call::Acquire {
        return queued.get(&(op.key.as_str(), op.value.as_deref()?)).copied();
    }
    let writes = matches!(op.call, Call::Write | Call::Cas | Call::FencedWrite);
    op.revision.filter(|_| writes && op.is_ok())
}

/// A user's watch shows nothing of the time without its right.
fn watches(history: &History, timeline: &Timeline) -> Check {
    let mut check = Check::new("watchers' rights", "a watch shows no event of a revision at which its user could not see it");
    for event in &history.streams {
        let Some((op, rights)) = history.ops.get(event.stream).and_then(|op| Some((op, op.rights.as_ref()?))) else { continue };
        if let Some(loss) = timeline.losses(rights).find_map(|losses| losses.at_revision(event.revision)) {
            check.broken(|| {
                let (index, key, revision) = (op.index, &op.key, event.revision);
                format!("the watch {index} ({key}) showed revision {revision}, after {loss}")
            });
        }
    }
    // A watch that was open at a loss had something to hide if there were changes before the right was given back.
    let events = history.longest_watch();
    for (op, rights) in calls(history).filter(|(op, _)| op.call == Call::Watch) {
        let path = format!("/chaos/{}/", op.key);
        for loss in timeline.losses(rights).filter_map(|losses| losses.first_after(op.start)) {
            let Some((after, last)) = loss.revisions().filter(|_| loss.maybe_from < op.end) else { continue };
            let from = events.partition_point(|event| event.revision <= after);
            let mut hidden = events.get(from..).unwrap_or_default().iter().take_while(|event| event.revision <= last);
            if hidden.any(|event| event.text("path").is_some_and(|at| at.starts_with(&path))) {
                check.count(&op.key);
            }
        }
    }
    check
}

/// How a call was refused: the status and the code; empty if it was not.
fn refusal(op: &Op) -> &str {
    op.error.as_deref().filter(|_| op.outcome == Outcome::Fail).unwrap_or_default()
}

/// Nothing is refused without a reason.
fn refusals(history: &History, timeline: &Timeline) -> Check {
    let mut check =
        Check::new("refusals", "nothing is refused while its right is unchanged, and releases and renewals never are");
    for (op, rights) in calls(history) {
        let error = refusal(op);
        let is_denied = error.starts_with("403") || error == "stream denied";
        let is_unknown = error.starts_with("401") || error == "stream unauthenticated";
        let has_rights = timeline.has_rights(rights, op.start, op.end);
        let has_credential = timeline.has_credential(rights, op.end);
        if has_rights && has_credential {
            check.count(&op.key);
        }
        // A call that a refused caller may make is refused for its credential alone.
        let is_wrong = (is_denied && has_rights) || (is_unknown && has_credential);
        if is_wrong {
            check.broken(|| {
                let (index, call, key) = (op.index, op.call, &op.key);
                format!("operation {index} ({call:?} {key}) was refused ({error}), although its rights were unchanged")
            });
        }
    }
    // The administrator keeps its own rights, and its requests are valid.
    for op in history.ops.iter().filter(|op| matches!(op.call, Call::Narrow | Call::Widen)) {
        let error = refusal(op);
        if ["400", "401", "403", "422"].iter().any(|status| error.starts_with(status)) {
            check.broken(|| format!("operation {} of the administrator ({:?}) was refused ({error})", op.index, op.call));
        }
    }
    check
}
