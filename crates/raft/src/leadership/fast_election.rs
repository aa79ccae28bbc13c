//! When the leader's process has died: an election at once.
//!
//! A follower otherwise waits for the end of the leader's lease, and then for a random time, before it stands. A process that
//! died is seen sooner, because its machine closes its connections and refuses new ones. Each follower that sees both sets its
//! own lease aside and asks a majority whether it would vote for it (Pre-Vote, Raft dissertation, section 9.6).
//!
//! Nobody is deposed by a mistake: who has not seen the same refuses, and so does above all a leader that a majority still
//! acknowledges. A machine or a net that is gone refuses nothing, and is waited for as before.

use crate::{
    base::types::Types,
    core::{Core, ForwardRoute},
};
use fairhold_types::NodeId;
use openraft::{AsyncRuntime, alias::VoteOf, raft::TransferLeaderRequest};
use std::{sync::Arc, time::Duration};

/// The voter with the lowest number stands first, and each further one so much later: two at the same time would split the votes.
const TURN: Duration = Duration::from_millis(25);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a node tries. A process that ends closes its connections one after the other, and perhaps the port last; and the
/// others may see it a moment later than this one.
const TRIES: u32 = 8;

/// Stands for election once the leader is known to be dead, when it is this node's turn; does nothing in every other case.
pub(crate) async fn fill<RT: AsyncRuntime>(core: Arc<Core<RT>>, dead: NodeId) {
    let Some(led) = core.standing(|standing| (standing.current_leader == Some(dead)).then_some(standing.vote)) else { return };
    let ForwardRoute::There(leader) = core.route() else { return };
    if leader.id != dead {
        return;
    }
    let Some(turn) = turn(&core, dead) else { return };
    for _ in 0..TRIES {
        if core.peer.is_refused(&leader).await {
            RT::sleep(TURN * turn).await;
            if !stand(&core, led, dead).await {
                return;
            }
        }
        RT::sleep(PAUSE).await;
    }
}

/// How many voters stand before this node; `None` where it has no vote.
fn turn<RT: AsyncRuntime>(core: &Core<RT>, dead: NodeId) -> Option<u32> {
    core.standing(|standing| {
        let mut others = standing.membership_config.voter_ids().filter(|id| *id != dead);
        others.by_ref().position(|id| id == core.id).and_then(|before| u32::try_from(before).ok())
    })
}

/// Sets the lease aside and asks for votes; `false` when the leadership that ended is not the newest any more.
async fn stand<RT: AsyncRuntime>(core: &Core<RT>, led: VoteOf<Types<RT>>, dead: NodeId) -> bool {
    // The answer comes when what is being written is on the disk: a vote for itself, perhaps, since the last try.
    if !core.raft.with_raft_state(move |state| *state.vote_ref() == led).await.is_ok_and(|newest| newest) {
        return false;
    }
    tracing::info!(
        leader = dead,
        "the leader, node {dead}, has ended: its machine refuses connections. An election begins at once"
    );
    core.contact.suspects(led);
    // openraft sets the lease of this vote aside when its leader hands over to somebody else; nobody stands for it by that.
    let aside = TransferLeaderRequest::new(led, dead, None);
    core.raft.handle_transfer_leader(aside).await.is_ok() && core.raft.trigger().elect(true).await.is_ok()
}
