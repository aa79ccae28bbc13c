//! What the nodes answer to a probe.

use fairhold_types::{
    NodeId, Revision,
    dto::{Alarms, Cluster, ClusterTiming, ClusterUpgrade, Members, Readiness},
    time::WallMillis,
};

/// The end of the reason that a node gives while it waits for space on its disk.
pub const WAITS_FOR_SPACE: &str = "it starts automatically when there is enough space";
/// The beginning of the reason that a node gives while it asks the cluster to admit it.
pub const NOT_ADMITTED: &str = "the cluster has not admitted this node yet";
/// The beginning of the reason that a node gives while it has a restored state and no cluster.
pub const HAS_RESTORED_STATE: &str = "this node has a restored state";
/// A part of the reason that a restored node gives while it waits for the other nodes of its list.
pub const WAITS_FOR_NODES: &str =
    "its cluster begins when all nodes of its list have started with empty data directories: waiting for";

/// The result of one URL.
#[derive(Debug)]
pub struct ProbedEndpoint {
    /// The URL.
    pub url: String,
    /// Whether the user gave it, instead of a node that lists it.
    pub given: bool,
    /// The node's answer, or why there is none.
    pub answer: Result<ProbedNode, Unanswered>,
}

/// Why a probe has no answer from a node, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The node cannot be reached, or does not answer like a node.
    Unreachable(String),
    /// The node says that it does not take part in its cluster yet.
    CannotServe(String),
    /// The node refuses the credential that the probe shows, or asks for one.
    Unauthenticated(String),
    /// The node refuses the probe, because the credential lacks a right.
    Denied(String),
}

impl Unanswered {
    /// The reason in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Unanswered::Unreachable(why)
            | Unanswered::CannotServe(why)
            | Unanswered::Unauthenticated(why)
            | Unanswered::Denied(why) => why,
        }
    }

    /// The reason in words, if the node has answered with a refusal.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Unanswered::Unreachable(_) | Unanswered::CannotServe(_) => None,
            Unanswered::Unauthenticated(why) | Unanswered::Denied(why) => Some(why),
        }
    }
}

/// What a node reports about itself.
#[derive(Debug)]
pub struct ProbedNode {
    /// `/v1/cluster`
    pub cluster: Cluster,
    /// `/readyz?verbose`
    pub readiness: Option<Readiness>,
    /// `/v1/cluster/alarms`
    pub alarms: Option<Alarms>,
    /// Its wall clock, compared with this machine's.
    pub clock: Option<ClockOffset>,
    /// When its process started, by its own clock.
    pub started_at: Option<WallMillis>,
}

/// What one node, the leader if it answers, reports about the whole cluster. An older program omits some of it.
#[derive(Debug, Default)]
pub struct ClusterDetails {
    /// `/v1/cluster/members`
    pub members: Option<Members>,
    /// `/v1/cluster/timing`
    pub timing: Option<ClusterTiming>,
    /// `/v1/cluster/upgrade`
    pub upgrade: Option<ClusterUpgrade>,
}

/// A digest of the whole state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDigest {
    /// The node.
    pub node: NodeId,
    /// The last log entry that was applied to that state, if that is certain.
    pub applied: Option<u64>,
    /// The revision of that state.
    pub revision: Revision,
    /// The digest: equal states have equal ones.
    pub digest: String,
}

/// The offset of a node's wall clock from this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Milliseconds by which the node's clock is ahead; negative if it is behind.
    pub offset: i64,
    /// The uncertainty due to the network, in milliseconds either way.
    pub uncertainty: i64,
}

impl ClockOffset {
    /// The offset of a clock that showed `shown` at some time between `before` and `after`.
    pub fn between(before: WallMillis, shown: WallMillis, after: WallMillis) -> ClockOffset {
        let millis = |time: WallMillis| i64::try_from(time.0).unwrap_or(i64::MAX);
        let before = millis(before);
        let shown = millis(shown);
        let after = millis(after);
        let uncertainty = (after - before).max(0) / 2 + 1;
        ClockOffset { offset: shown - (before + (after - before) / 2), uncertainty }
    }

    /// The smallest difference that the measurement allows, in milliseconds.
    pub fn min_difference(self) -> u64 {
        u64::try_from(self.offset.abs() - self.uncertainty).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_delay_does_not_count_as_a_clock_difference() {
        let at = WallMillis;
        let same = ClockOffset::between(at(1_000), at(1_300), at(1_400));
        assert_eq!((same, same.min_difference()), (ClockOffset { offset: 100, uncertainty: 201 }, 0));
        assert_eq!(ClockOffset::between(at(1_000), at(9_000), at(1_400)).min_difference(), 7_599);
        assert_eq!(ClockOffset::between(at(9_000), at(1_000), at(9_000)).min_difference(), 7_999);
    }
}
