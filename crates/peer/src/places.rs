//! The connections of admitted nodes. Each node has a few for each lane; when it opens another one, the oldest ends: so a
//! connection that the other side has forgotten does not keep out a new one.

use crate::lobby::Visit;
use fairhold_raft::peer::Lane;
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// Connections of one node for one lane. It needs one, and a second where its address or data directory has just changed.
pub const CONNECTIONS_PER_LANE_MAX: usize = 2;

/// The connections, by node and lane. Nodes are members, so they are few.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<(NodeId, Lane), Open>>);

/// The connections of one node for one lane, the oldest first; one ends when its sender is dropped.
type Open = VecDeque<oneshot::Sender<()>>;

impl Places {
    /// A place for a connection of a node that has been admitted, and whether an older one had to leave for it.
    pub(crate) fn take(&self, from: NodeId, lane: Lane) -> (Visit, bool) {
        let (place, visit) = Visit::new();
        let mut places = self.0.lock();
        let here = places.entry((from, lane)).or_default();
        here.retain(|place| !place.is_closed());
        let gone = if here.len() >= CONNECTIONS_PER_LANE_MAX { here.pop_front() } else { None };
        here.push_back(place);
        (visit, gone.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_newest_connections_of_a_lane_stay() {
        let places = Places::default();
        let (oldest, _) = places.take(1, Lane::Append);
        let (second, _) = places.take(1, Lane::Append);
        let others = [places.take(1, Lane::Heartbeat).0, places.take(2, Lane::Append).0];
        let (newest, another_left) = places.take(1, Lane::Append);
        assert!(another_left && oldest.ended().now_or_never().is_some());
        drop(second);
        let (next, another_left) = places.take(1, Lane::Append);
        assert!(!another_left, "one had ended by itself");
        for visit in others.into_iter().chain([newest, next]) {
            assert!(visit.ended().now_or_never().is_none());
        }
    }
}
