//! Tells the leader of a disk that is nearly full, and decides on the leader whether too few disks have room.

use crate::{
    core::{Core, ForwardRoute},
    status::is_silent,
    wire::PeerRequest,
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, Instant, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// How often a node tells the leader that its disk is nearly full.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Whether fewer than a majority of the voters answer this leader and have room.
pub(crate) fn is_short<RT: AsyncRuntime>(core: &Core<RT>) -> bool {
    if core.disk_room.nobody_is_low() {
        return false;
    }
    let now = RT::Instant::now();
    core.look(|metrics| {
        let can_write = |id: NodeId| {
            let answers = id == metrics.id || !is_silent(core.lease, metrics, id);
            answers && core.disk_room.has_room(metrics.id, id, now)
        };
        let voters: Vec<NodeId> = metrics.membership_config.voter_ids().collect();
        voters.iter().filter(|id| can_write(**id)).count() <= voters.len() / 2
    })
}

/// Tells the leader again and again while this node's disk is nearly full, until Raft stops.
pub(crate) async fn tell<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut low = core.disk_room.known.clone();
    loop {
        let is_low = *low.borrow_and_update();
        if is_low && let ForwardRoute::There(leader) = core.route() {
            // A message that is lost is followed by another.
            drop(RT::timeout(TELL_EVERY, core.ask(&leader, &PeerRequest::DiskLow)).await);
        }
        tokio::select! {
            biased;
            () = core.stopped() => return,
            changed = low.changed() => if changed.is_err() { return },
            () = RT::sleep(TELL_EVERY), if is_low => {}
        }
    }
}
