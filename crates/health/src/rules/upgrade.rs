//! A rule about an upgrade that nobody finishes.

use crate::{
    cluster_probe::ClusterProbe,
    finding::{Finding, ok, warn},
};
use fairhold_types::{duration, time::WallMillis};
use std::time::Duration;

/// An upgrade that is open for longer was probably forgotten.
const OPEN_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Whether an upgrade is open, and for how long at least: since the last start of a node.
pub(super) fn open(seen: &ClusterProbe) -> Option<Finding> {
    const CHECK: &str = "upgrade";
    let upgrade = seen.details.upgrade.as_ref()?;
    let next = upgrade.next?;
    let last_start = seen.nodes().into_values().filter_map(|(_, answer)| answer.started_at).max();
    let WallMillis(last_start) = last_start.unwrap_or(seen.begun_at);
    let open_for = Duration::from_millis(seen.begun_at.0.saturating_sub(last_start));
    let open_for_text = duration::rounded(open_for);
    let text = format!("the upgrade to cluster version {next} is open, and no node was restarted for {open_for_text}");
    let advice = if upgrade.ready {
        format!("every node supports it: fairhold cluster upgrade finalize {next}. Until then, nothing of it can be used")
    } else {
        format!("finish it: {}", upgrade.blockers.join("; "))
    };
    Some(if open_for > OPEN_MAX { warn(CHECK, text, advice) } else { ok(CHECK, text) })
}
