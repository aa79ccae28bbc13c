//! The connections of admitted nodes. Each node may have a few per lane. When it opens another one, the oldest is
//! closed, so that a dead connection does not keep out a new one.

use crate::pending::PendingSlot;
use fairhold_raft::peer::Lane;
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// Connections of one node for one lane. It needs one, and a second one while its address or data directory changes.
pub const CONNECTIONS_PER_LANE_MAX: usize = 2;

/// The connections, by node and lane. All nodes are members, so there are few.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSlots(Mutex<HashMap<(NodeId, Lane), Open>>);

/// The connections of one node for one lane, oldest first. Dropping a sender closes its connection.
type Open = VecDeque<oneshot::Sender<()>>;

impl ConnectionSlots {
    /// A slot for the connection of an admitted node, and whether it evicted an older one.
    pub(crate) fn take(&self, from: NodeId, lane: Lane) -> (PendingSlot, bool) {
        let (evict, slot) = PendingSlot::new();
        let mut slots = self.0.lock();
        let here = slots.entry((from, lane)).or_default();
        here.retain(|evict| !evict.is_closed());
        let evicted = if here.len() >= CONNECTIONS_PER_LANE_MAX { here.pop_front() } else { None };
        here.push_back(evict);
        (slot, evicted.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_newest_connections_of_a_lane_stay() {
        let slots = ConnectionSlots::default();
        let (oldest, _) = slots.take(1, Lane::Append);
        let (second, _) = slots.take(1, Lane::Append);
        let others = [slots.take(1, Lane::Heartbeat).0, slots.take(2, Lane::Append).0];
        let (newest, evicted) = slots.take(1, Lane::Append);
        assert!(evicted && oldest.ended().now_or_never().is_some());
        drop(second);
        let (next, evicted) = slots.take(1, Lane::Append);
        assert!(!evicted, "one had already ended");
        for slot in others.into_iter().chain([newest, next]) {
            assert!(slot.ended().now_or_never().is_none());
        }
    }
}
