//! Starts an election at once when the leader's process has died.
//!
//! Normally a follower waits for the end of the leader's lease plus a random time before it starts an election. A dead
//! process is detected sooner, because its machine closes its connections and refuses new ones. Each follower that
//! detects both waives the lease and asks a majority whether it would grant a vote (Pre-Vote, Raft dissertation,
//! section 9.6).
//!
//! A false alarm deposes no leader: nodes that have not detected the same refuse, above all a leader that a majority
//! still acknowledges. A machine or network that is down refuses no connections, so its leader's lease must run out as
//! usual.

use crate::{
    base::types::Types,
    core::{Core, LeaderRoute},
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, alias::VoteOf, raft::TransferLeaderRequest};
use std::{sync::Arc, time::Duration};

/// Delay between ranks in one data centre; more with nodes far apart. The voter with the lowest id starts first: two
/// candidates at the same time would split the votes.
const RANK_DELAY: Duration = Duration::from_millis(25);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of attempts. A process that ends closes its connections one after the other, and perhaps its port last, and
/// other nodes may detect this a moment later.
const ATTEMPTS: u32 = 8;

/// Starts an election if the leader `dead` has died, once it is this node's turn. Otherwise does nothing.
pub(crate) async fn on_leader_dead<RT: AsyncRuntime>(core: Arc<Core<RT>>, dead: NodeId) {
    let Some(led) = core.with_server_metrics(|metrics| (metrics.current_leader == Some(dead)).then_some(metrics.vote)) else {
        return;
    };
    let LeaderRoute::Remote(leader) = core.route() else { return };
    if leader.id != dead {
        return;
    }
    let Some(rank) = rank(&core, dead) else { return };
    for _ in 0..ATTEMPTS {
        if core.links.peer.is_refused(&leader).await {
            RT::sleep(RANK_DELAY * rank * core.time_scale).await;
            if !campaign(&core, led, dead).await {
                return;
            }
        }
        RT::sleep(PAUSE).await;
    }
}

/// The number of voters that start before this node; `None` if it has no vote.
fn rank<RT: AsyncRuntime>(core: &Core<RT>, dead: NodeId) -> Option<u32> {
    core.with_server_metrics(|metrics| {
        let mut others = metrics.membership_config.voter_ids().filter(|id| *id != dead);
        others.by_ref().position(|id| id == core.id).and_then(|before| u32::try_from(before).ok())
    })
}

/// Waives the lease and starts an election; `false` if a newer leadership has begun.
async fn campaign<RT: AsyncRuntime>(core: &Core<RT>, led: VoteOf<Types<RT>>, dead: NodeId) -> bool {
    // The answer arrives after pending disk writes, perhaps of this node's own vote since the last attempt.
    if !core.raft.with_raft_state(move |state| *state.vote_ref() == led).await.is_ok_and(|newest| newest) {
        return false;
    }
    tracing::info!(
        leader = dead,
        "the leader, node {dead}, is down: its machine refuses connections. This node starts an election at once"
    );
    core.contact.suspect(led);
    // openraft waives the lease of this vote when its leader hands over. Naming the leader itself as the target makes
    // no node a candidate.
    let waiver = TransferLeaderRequest::new(led, dead, None);
    core.raft.handle_transfer_leader(waiver).await.is_ok() && core.raft.trigger().elect(true).await.is_ok()
}
