//! The rules about nodes that answer, but do not take part in their cluster yet.

use crate::{
    answer::{HAS_RESTORED_STATE, ProbedEndpoint, Unanswered, WAITS_FOR_NODES, WAITS_FOR_SPACE},
    cluster_probe::ClusterProbe,
    finding::{Finding, fail, warn},
};

/// A node that says why it cannot serve. It runs, so starting or replacing it would not help.
pub(super) fn cannot_serve(who: &str, is_stranger: bool, why: &str) -> Finding {
    const CHECK: &str = "endpoint";
    let seen = format!("{who} answers, but cannot serve: {why}");
    let advice = if why.contains(WAITS_FOR_SPACE) {
        "free space on the disk of its data directory, or enlarge that disk"
    } else if why.contains(WAITS_FOR_NODES) {
        "start the nodes that it waits for, with empty data directories"
    } else {
        "fix the cause that it names; its log has the latest one"
    };
    // The cluster is not at fault if no member knows a new machine yet.
    if is_stranger { warn(CHECK, seen, advice) } else { fail(CHECK, seen, advice) }
}

/// Several nodes with a restored state: each waits until the others are empty, so they would wait for ever.
pub(super) fn restored_twice(seen: &ClusterProbe) -> Option<Finding> {
    let restored = seen.endpoints.iter().filter(|endpoint| has_restored_state(endpoint));
    let restored: Vec<&str> = restored.map(|endpoint| endpoint.url.as_str()).collect();
    let advice = "restore on one machine only: keep one of these nodes, and start the others with empty data directories";
    let text = || format!("each of {} has a restored state, and waits until the others are empty", restored.join(", "));
    (restored.len() > 1).then(|| fail("restore", text(), advice))
}

fn has_restored_state(endpoint: &ProbedEndpoint) -> bool {
    let cause = endpoint.answer.as_ref().err();
    cause.is_some_and(|cause| matches!(cause, Unanswered::CannotServe(why) if why.contains(HAS_RESTORED_STATE)))
}
