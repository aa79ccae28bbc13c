//! Reports this node's nearly full disk to the leader.

use crate::{
    base::wire::PeerRequest,
    core::{Core, LeaderRoute},
};
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// Interval of the reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Reports to the leader while this node's disk is nearly full, until Raft stops.
pub(crate) async fn run<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut low = core.disk_room.low.watch();
    loop {
        let is_low = *low.borrow_and_update();
        if is_low && let LeaderRoute::Remote(leader) = core.route() {
            // A lost report is followed by another.
            drop(RT::timeout(REPORT_EVERY, core.call(&leader, &PeerRequest::DiskLow)).await);
        }
        tokio::select! {
            biased;
            () = core.stopped() => return,
            changed = low.changed() => if changed.is_err() { return },
            () = RT::sleep(REPORT_EVERY), if is_low => {}
        }
    }
}
