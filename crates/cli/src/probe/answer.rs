//! What the nodes answer to a probe.

use fairhold_types::{
    dto::{Cluster, ClusterTiming, ClusterUpgrade, Members, Readiness},
    time::WallMillis,
};

/// The result of one URL.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    /// Whether the user gave it, instead of a node that lists it.
    pub(crate) given: bool,
    /// The node's answer, or why there is none.
    pub(crate) answer: Result<NodeAnswer, String>,
}

/// What a node reports about itself.
#[derive(Debug)]
pub(crate) struct NodeAnswer {
    /// `/v1/cluster`
    pub(crate) cluster: Cluster,
    /// `/readyz?verbose`
    pub(crate) readiness: Option<Readiness>,
    /// Its wall clock, compared with this machine's.
    pub(crate) clock: Option<Clock>,
    /// When its process started, by its own clock.
    pub(crate) started_at: Option<WallMillis>,
}

/// What one node, the leader if it answers, reports about the whole cluster. An older program omits some of it.
#[derive(Debug, Default)]
pub(crate) struct ClusterDetails {
    /// `/v1/cluster/members`
    pub(crate) members: Option<Members>,
    /// `/v1/cluster/timing`
    pub(crate) timing: Option<ClusterTiming>,
    /// `/v1/cluster/upgrade`
    pub(crate) upgrade: Option<ClusterUpgrade>,
}

/// The offset of a node's wall clock from this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Milliseconds by which the node's clock is ahead; negative if it is behind.
    pub(crate) offset: i64,
    /// The uncertainty due to the network, in milliseconds either way.
    pub(crate) uncertainty: i64,
}

impl Clock {
    /// The offset of a clock that showed `shown` at some time between `before` and `after`.
    pub(crate) fn between(before: WallMillis, shown: WallMillis, after: WallMillis) -> Clock {
        let millis = |time: WallMillis| i64::try_from(time.0).unwrap_or(i64::MAX);
        let before = millis(before);
        let shown = millis(shown);
        let after = millis(after);
        let uncertainty = (after - before).max(0) / 2 + 1;
        Clock { offset: shown - (before + (after - before) / 2), uncertainty }
    }

    /// The smallest difference that the measurement allows, in milliseconds.
    pub(crate) fn min_difference(self) -> u64 {
        u64::try_from(self.offset.abs() - self.uncertainty).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_delay_does_not_count_as_a_clock_difference() {
        let at = WallMillis;
        let same = Clock::between(at(1_000), at(1_300), at(1_400));
        assert_eq!((same, same.min_difference()), (Clock { offset: 100, uncertainty: 201 }, 0));
        assert_eq!(Clock::between(at(1_000), at(9_000), at(1_400)).min_difference(), 7_599);
        assert_eq!(Clock::between(at(9_000), at(1_000), at(9_000)).min_difference(), 7_999);
    }
}
