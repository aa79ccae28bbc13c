//! Answers heartbeats: the one place where a node detects that its storage has lost entries.

use crate::{
    base::lost_entries::LostEntries,
    base::{
        peer::Refusal,
        types::Types,
        wire::{Declined, PeerReply},
    },
    core::Core,
};
use fairhold_types::planted::{self, Bug};
use openraft::{
    AsyncRuntime,
    raft::{AppendEntriesRequest, AppendEntriesResponse},
};
use std::{sync::Arc, time::Duration};

/// How long a node that lost entries reports the loss before it ends.
const REPORTS_FOR: Duration = Duration::from_millis(500);

/// Answers a heartbeat. If it shows that this node has lost entries, the node stops.
pub(crate) async fn answer<RT: AsyncRuntime>(core: Arc<Core<RT>>, rpc: AppendEntriesRequest<Types<RT>>) -> PeerReply<RT> {
    let acknowledged = rpc.prev_log_id;
    let leader = rpc.vote.leader_id.node_id;
    match (core.raft.append_entries(rpc).await, acknowledged) {
        (Ok(AppendEntriesResponse::Conflict), Some(acknowledged)) if reports_loss() => {
            let has = core.with_metrics(|metrics| metrics.last_log_index);
            let lost = LostEntries { node: core.id, leader, acknowledged: acknowledged.index, has };
            let refusal = Refusal::LostEntries(lost.clone());
            if core.lost.set(lost).is_ok() {
                let core = core.clone();
                drop(RT::spawn(async move {
                    // The leader may have stopped waiting for this answer while a disk was slow: report it to later
                    // requests too.
                    RT::sleep(REPORTS_FOR).await;
                    core.stop().await;
                }));
            }
            PeerReply::Declined(Declined::Refused(refusal))
        }
        (Ok(response), _) => PeerReply::Append(response),
        (Err(_), _) => PeerReply::Declined(Declined::NotRunning),
    }
}

/// Whether the loss is reported, as it is unless a planted bug hides it.
fn reports_loss() -> bool {
    !planted::has(Bug::HidesLostEntries)
}
