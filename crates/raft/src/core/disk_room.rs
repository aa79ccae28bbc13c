//! Which nodes have free disk space. A leader without enough such nodes refuses writes.
//!
//! The nodes of a cluster write the same data, so their disks fill up together, and a node with a full disk ends. One
//! full disk alone must stop nothing: the other nodes continue without that node, as with any node that is down. So
//! writes continue while a majority of the voters answers the leader and has free space.

use crate::{
    base::{types::Types, watched::Watched},
    core::status::is_silent,
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant, RaftMetrics};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

/// How long the leader counts a report of low space.
const REPORT_VALID_FOR: Duration = Duration::from_secs(4);

/// Which nodes have little free space, as far as this node knows.
pub(crate) struct DiskRoom<RT: AsyncRuntime> {
    /// Whether this node's own disk is nearly full.
    pub(crate) low: Watched<RT, bool>,
    /// When each other node last reported low space.
    others: Mutex<BTreeMap<NodeId, RT::Instant>>,
}

impl<RT: AsyncRuntime> DiskRoom<RT> {
    pub(crate) fn new() -> DiskRoom<RT> {
        DiskRoom { low: Watched::new(false), others: Mutex::default() }
    }

    /// Records that another node's disk is nearly full.
    pub(crate) fn record_low(&self, from: NodeId, now: RT::Instant) {
        let mut others = self.others.lock();
        others.retain(|_, reported| is_recent(*reported, now));
        others.insert(from, now);
    }

    /// Whether a node has free space, as far as this node, `own`, knows.
    pub(crate) fn has_room(&self, own: NodeId, id: NodeId, now: RT::Instant) -> bool {
        if id == own { !self.low.get() } else { !self.others.lock().get(&id).is_some_and(|reported| is_recent(*reported, now)) }
    }

    /// Whether no node has reported low space.
    pub(crate) fn all_have_room(&self) -> bool {
        !self.low.get() && self.others.lock().is_empty()
    }

    /// Whether fewer than a majority of the voters answer this leader and have free space.
    pub(crate) fn is_short(&self, metrics: &RaftMetrics<Types<RT>>, lease: Duration) -> bool {
        let now = RT::Instant::now();
        let can_write = |id: NodeId| {
            let answers = id == metrics.id || !is_silent(lease, metrics, id);
            answers && self.has_room(metrics.id, id, now)
        };
        let voters: Vec<NodeId> = metrics.membership_config.voter_ids().collect();
        voters.iter().filter(|id| can_write(**id)).count() <= voters.len() / 2
    }
}

fn is_recent<I: Instant>(reported: I, now: I) -> bool {
    now.saturating_duration_since(reported) <= REPORT_VALID_FOR
}
