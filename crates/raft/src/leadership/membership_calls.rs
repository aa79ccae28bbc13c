//! The calls about members: a node joins, an operator changes a member, and the list of the members.
//!
//! Any node accepts them and passes them to the leader. The leader checks them, records the request in the state, and
//! leaves the rest to the reconciler. So a request that was accepted survives the leader.

mod addresses;
mod admission;
mod changes;
mod member_request;
mod ready;
mod rows;

pub(crate) use admission::serve as serve_join;
pub(crate) use changes::serve as serve_change;
pub(crate) use ready::check_version;

use crate::{
    base::{
        membership::{MemberChange, MemberRequest, MembersView, MembershipError},
        peer::{JoinRefusal, JoinRequest, Joined},
        wire::{PeerReply, PeerRequest},
    },
    core::{CallError, Core, LeaderRoute, Leadership},
    leadership::{membership_calls::ready::leading, upgrade::tells},
    queues::Queues,
};
use fairhold_types::{NodeId, duration};
use openraft::{AsyncRuntime, Instant};
use std::{sync::Arc, time::Duration};

/// The leader answers this much earlier than the requesting node gives up, so that its reason arrives.
const ANSWER_MARGIN: Duration = Duration::from_millis(200);
/// Time limit for the proof that this node still leads, with the timing profile of one data centre.
const PROOF_LIMIT: Duration = Duration::from_secs(1);

/// Lets a node join, from whichever node leads.
pub(crate) async fn join<RT: AsyncRuntime>(
    core: &Core<RT>,
    queues: &Queues,
    request: JoinRequest,
    deadline: RT::Instant,
) -> Result<Joined, JoinRefusal> {
    loop {
        let result = match core.route() {
            LeaderRoute::Local => serve_join(core, queues, request.clone(), deadline).await,
            LeaderRoute::Remote(leader) if !tells(core, leader.id) => {
                Err(JoinRefusal::NeedsUpgrade { version: core.shared.read().cluster_version() })
            }
            LeaderRoute::Remote(leader) => {
                match RT::timeout_at(deadline, core.call(&leader, &PeerRequest::Join(request.clone()))).await {
                    Ok(Ok(PeerReply::Joined(result))) => result,
                    // A repeated request gets the same id.
                    Ok(Ok(_) | Err(CallError::NotDelivered(_) | CallError::Lost)) | Err(_) => Err(JoinRefusal::NoLeader),
                }
            }
            LeaderRoute::Unknown => Err(JoinRefusal::NoLeader),
        };
        match result {
            Err(JoinRefusal::NoLeader) if core.pause(deadline).await => {}
            result => return result,
        }
    }
}

/// Changes a member, from whichever node leads.
pub(crate) async fn change<RT: AsyncRuntime>(
    core: &Arc<Core<RT>>,
    queues: &Queues,
    change: MemberChange,
    deadline: RT::Instant,
) -> Result<(), MembershipError> {
    loop {
        let result = match core.route() {
            LeaderRoute::Local => serve_change(core, queues, change.clone(), deadline).await,
            LeaderRoute::Remote(leader) if !tells(core, leader.id) => {
                Err(MembershipError::NeedsUpgrade { version: core.shared.read().cluster_version() })
            }
            LeaderRoute::Remote(leader) => {
                let within = deadline.saturating_duration_since(RT::Instant::now());
                let within_ms = duration::millis(within.saturating_sub(ANSWER_MARGIN.min(within / 4)));
                let MemberChange { request, guard, origin } = change.clone();
                let request = PeerRequest::ChangeMember { request, within_ms, guard, origin };
                match RT::timeout_at(deadline, core.call(&leader, &request)).await {
                    Ok(Ok(PeerReply::MemberChanged(result))) => result,
                    // Every change says what the member becomes, so trying again is safe.
                    Ok(Ok(_) | Err(CallError::NotDelivered(_) | CallError::Lost)) | Err(_) => Err(MembershipError::NoLeader),
                }
            }
            LeaderRoute::Unknown => Err(MembershipError::NoLeader),
        };
        match result {
            Err(MembershipError::NoLeader) if core.pause(deadline).await => {}
            // The others have removed this node, and tell it so instead of answering.
            Err(MembershipError::NoLeader) if removes(&change.request, core.id) && core.notice.is_removed() => return Ok(()),
            result => return result,
        }
    }
}

fn removes(request: &MemberRequest, id: NodeId) -> bool {
    matches!(request, MemberRequest::Remove { node, .. } if *node == id)
}

/// The members as the leader knows them. Without a reachable leader, as this node knows them.
pub(crate) async fn view<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues, deadline: RT::Instant) -> MembersView {
    if let LeaderRoute::Remote(leader) = core.route()
        && tells(core, leader.id)
        && let Ok(Ok(PeerReply::MembersView(view))) =
            RT::timeout_at(deadline, core.call(&leader, &PeerRequest::MembersView)).await
    {
        return view;
    }
    let proven = RT::timeout_at(deadline, prove(core, queues)).await;
    own_view(core, proven.ok().flatten())
}

/// The members as this node knows them. If it leads, it proves that first: the list of a deposed leader may be old.
pub(crate) async fn serve_view<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues) -> MembersView {
    own_view(core, prove(core, queues).await)
}

async fn prove<RT: AsyncRuntime>(core: &Core<RT>, queues: &Queues) -> Option<Leadership> {
    leading(core, queues, RT::Instant::now() + PROOF_LIMIT * core.time_scale).await
}

fn own_view<RT: AsyncRuntime>(core: &Core<RT>, proven: Option<Leadership>) -> MembersView {
    let view = rows::own_view(core);
    MembersView { from_leader: proven.is_some() && core.leadership() == proven, ..view }
}
