//! Answers heartbeats: the one place where a node detects that its storage has lost entries.
//!
//! openraft answers a heartbeat only once everything before it is on disk. If the disks of a majority stall, for example
//! because all nodes share one, the leader hears nothing for the lease, stops its heartbeats, and loses its leadership.
//! But the answer to a heartbeat acknowledges no new entry. So if the disk takes long, this module answers as soon as
//! Raft has accepted the heartbeat. While Raft saves a vote or truncates its log, it accepts nothing.

use crate::{
    base::{
        aliases::{LeaderId, LogId},
        lost_entries::LostEntries,
        peer::Refusal,
        types::Types,
        wire::{Declined, PeerReply},
    },
    core::Core,
};
use fairhold_types::planted::{self, Bug};
use openraft::{
    AsyncRuntime, Vote,
    raft::{AppendEntriesRequest, AppendEntriesResponse},
};
use std::{pin::pin, sync::Arc, time::Duration};

/// How long a node that lost entries reports the loss before it ends.
const REPORTS_FOR: Duration = Duration::from_millis(500);

/// How long an answer waits for the disk: well below the default heartbeat interval of 50 ms, which is how long a leader
/// waits for an answer.
const DISK_WAIT_MAX: Duration = Duration::from_millis(10);

/// Answers a heartbeat. If it shows that this node has lost entries, the node stops.
pub(crate) async fn answer<RT: AsyncRuntime>(core: Arc<Core<RT>>, rpc: AppendEntriesRequest<Types<RT>>) -> PeerReply<RT> {
    let acknowledged = rpc.prev_log_id;
    let leader = rpc.vote.leader_id.node_id;
    let vote = rpc.vote;
    let mut answered = pin!(core.raft.append_entries(rpc));
    let response = tokio::select! {
        biased;
        response = &mut answered => response,
        () = RT::sleep(DISK_WAIT_MAX) => {
            // Raft handles this question after the heartbeat, and changes its vote in memory before it grants it.
            if is_accepted(&core, vote, acknowledged).await { Ok(AppendEntriesResponse::Success) } else { answered.await }
        }
    };
    match (response, acknowledged) {
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

/// Whether this node follows the leader with this vote, and has the entry that it acknowledged to the leader.
async fn is_accepted<RT: AsyncRuntime>(core: &Core<RT>, vote: Vote<LeaderId>, acknowledged: Option<LogId>) -> bool {
    let accepted = core.raft.with_raft_state(move |state| {
        let has = |entry: LogId| state.local_committed() >= Some(&entry) || state.log_ids.get(entry.index) == Some(entry);
        *state.vote_ref() == vote && acknowledged.is_none_or(has)
    });
    // Raft has stopped if there is no answer.
    accepted.await.unwrap_or(false)
}

/// Always true, except with the planted bug.
fn reports_loss() -> bool {
    !planted::has(Bug::HidesLostEntries)
}
