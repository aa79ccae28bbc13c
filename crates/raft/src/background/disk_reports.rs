//! Tells the leader that this node's disk is nearly full.

use crate::{
    base::wire::PeerRequest,
    core::{Core, ForwardRoute},
};
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// How often a node tells the leader that its disk is nearly full.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Tells the leader again and again while this node's disk is nearly full, until Raft stops.
pub(crate) async fn tell<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut low = core.disk_room.watch_own();
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
