//! Which round trip the timing profile must suit.

use fairhold_types::NodeId;
use std::time::Duration;

/// Round trips that are longer than this many times the usual one are rare.
const SLOWEST_TIMES: u32 = 4;

/// The longest round trip to one of these voters, with the voter: given its median and its 99th percentile.
///
/// A few slow heartbeats do no harm, such as those during the start of a node: the slowest count if all are slow.
#[must_use]
pub fn longest(voters: impl Iterator<Item = (NodeId, Option<Duration>, Option<Duration>)>) -> Option<(Duration, NodeId)> {
    let slowest = |(id, p50, p99): (NodeId, Option<Duration>, Option<Duration>)| {
        let slowest = p99?;
        Some((slowest.min(p50.unwrap_or(slowest) * SLOWEST_TIMES), id))
    };
    voters.filter_map(slowest).max()
}
