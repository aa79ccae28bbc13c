//! Which nodes have room on their disks. A leader takes nothing that writes more when too few of them have.
//!
//! The nodes of a cluster write the same, so their disks fill up together, and a node whose disk is full ends. One node's disk
//! alone stops nobody: the others go on without that node, as they do without a node that is down. So writes go on while a
//! majority of the voters answers the leader and has room.

use crate::{base::types::Types, core::status::is_silent};
use fairhold_types::NodeId;
use openraft::{
    AsyncRuntime, Instant, RaftMetrics,
    alias::{WatchReceiverOf, WatchSenderOf},
    async_runtime::watch::{WatchReceiver, WatchSender},
    type_config::TypeConfigExt,
};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, time::Duration};

/// How long the leader goes by that.
const HOLDS_FOR: Duration = Duration::from_secs(4);

/// Which nodes have little room, as far as this node knows.
pub(crate) struct DiskRoom<RT: AsyncRuntime> {
    // A sender need not be `Sync`.
    own: Mutex<WatchSenderOf<Types<RT>, bool>>,
    known: WatchReceiverOf<Types<RT>, bool>,
    /// When each other node last said that it has little room.
    others: Mutex<BTreeMap<NodeId, RT::Instant>>,
}

impl<RT: AsyncRuntime> DiskRoom<RT> {
    pub(crate) fn new() -> DiskRoom<RT> {
        let (own, known) = Types::<RT>::watch_channel(false);
        DiskRoom { own: Mutex::new(own), known, others: Mutex::default() }
    }

    /// Whether this node's own disk is nearly full.
    pub(crate) fn is_low(&self) -> bool {
        *self.known.borrow_watched()
    }

    /// From now on this node's own disk is nearly full, or is not.
    pub(crate) fn set_low(&self, low: bool) {
        let own = self.own.lock();
        own.send_if_different(low);
    }

    /// Another node says that its disk is nearly full.
    pub(crate) fn heard(&self, from: NodeId, now: RT::Instant) {
        let mut others = self.locked();
        others.retain(|_, said| is_recent(*said, now));
        others.insert(from, now);
    }

    /// Whether a node has room, as far as this one, `own`, knows.
    pub(crate) fn has_room(&self, own: NodeId, id: NodeId, now: RT::Instant) -> bool {
        if id == own { !self.is_low() } else { !self.locked().get(&id).is_some_and(|said| is_recent(*said, now)) }
    }

    /// Whether no node is known to have little room.
    pub(crate) fn all_have_room(&self) -> bool {
        !self.is_low() && self.locked().is_empty()
    }

    /// Whether fewer than a majority of the voters answer this leader and have room.
    pub(crate) fn is_short(&self, metrics: &RaftMetrics<Types<RT>>, lease: Duration) -> bool {
        let now = RT::Instant::now();
        let can_write = |id: NodeId| {
            let answers = id == metrics.id || !is_silent(lease, metrics, id);
            answers && self.has_room(metrics.id, id, now)
        };
        let voters: Vec<NodeId> = metrics.membership_config.voter_ids().collect();
        voters.iter().filter(|id| can_write(**id)).count() <= voters.len() / 2
    }

    /// Whether this node's own disk is nearly full, to wait on.
    pub(crate) fn watch_own(&self) -> WatchReceiverOf<Types<RT>, bool> {
        self.known.clone()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<NodeId, RT::Instant>> {
        self.others.lock()
    }
}

fn is_recent<I: Instant>(said: I, now: I) -> bool {
    now.saturating_duration_since(said) <= HOLDS_FOR
}
