//! The rule about a node that answers, but does not take part in its cluster yet.

use crate::{
    answer::{WAITS_FOR_NODES, WAITS_FOR_SPACE},
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
