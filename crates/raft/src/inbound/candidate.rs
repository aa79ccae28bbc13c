//! Requests of candidates, and who may use a leader id.
//!
//! A candidate may be a copy: another process runs with the same data directory at the address of the member. A leader knows
//! that from its heartbeats. While no node leads, nobody sends any, so a voter asks at that address. Without this, a copy could
//! lead, and the term and the id of a vote do not tell the two processes apart.

use crate::{
    base::{
        aliases::LeaderId,
        peer::Refusal,
        types::Types,
        wire::{Declined, PeerReply, PeerRequest},
    },
    core::{
        Core,
        ballots::{VOTE_LIMIT, grants},
    },
};
use fairhold_types::{NodeId, failpoint};
use openraft::{
    AsyncRuntime, Instant,
    raft::{VoteRequest, VoteResponse},
};
use std::time::Duration;

/// The part of a lease that the check of a candidate may take for a Pre-Vote: the candidate does not wait for long.
const PRE_VOTE_CHECKS_IN_LEASE: u32 = 4;

/// The leader id with which the sender of a request leads. A vote claims its id only once the candidate was checked.
pub(super) fn claimed_leader<RT: AsyncRuntime>(request: &PeerRequest<RT>) -> Option<LeaderId> {
    match request {
        PeerRequest::Append(rpc) => Some(rpc.vote.leader_id),
        PeerRequest::SnapshotBegin(begin) => Some(begin.vote.leader_id),
        PeerRequest::Vote(_)
        | PeerRequest::PreVote(_)
        | PeerRequest::TransferLeader(_)
        | PeerRequest::SnapshotBlock { .. }
        | PeerRequest::SnapshotEnd
        | PeerRequest::Propose { .. }
        | PeerRequest::ProposeTraced { .. }
        | PeerRequest::HandOver { .. }
        | PeerRequest::HandOverGuarded { .. }
        | PeerRequest::UpgradeStatus
        | PeerRequest::FinalizeUpgrade { .. }
        | PeerRequest::ChangeMember { .. }
        | PeerRequest::MembersView
        | PeerRequest::Join(_)
        | PeerRequest::DiskLow
        | PeerRequest::ReadIndex
        | PeerRequest::CallLeader(_)
        | PeerRequest::CallMember(_) => None,
    }
}

/// Answers a request for a vote.
pub(super) async fn vote<RT: AsyncRuntime>(core: &Core<RT>, from: (NodeId, u64), rpc: VoteRequest<Types<RT>>) -> PeerReply<RT> {
    if failpoint!(RaftVoteReceive, RT).is_err() {
        return PeerReply::Declined(Declined::Busy);
    }
    // The candidate waits for `VOTE_LIMIT`, however long the lease is.
    if let Err(refusal) = check(core, from, core.lease.min(VOTE_LIMIT / 2)).await {
        return PeerReply::Declined(Declined::Refused(refusal));
    }
    // After the check: a refused copy must not take the term from its original.
    if !core.contact.claim(rpc.vote.leader_id, from.1) {
        return PeerReply::Declined(Declined::Refused(Refusal::Duplicate { id: from.0 }));
    }
    let vote = rpc.vote;
    let requested_at = RT::Instant::now();
    let response = core.raft.vote(rpc).await;
    if response.as_ref().is_ok_and(|response| grants(response, vote)) {
        core.contact.voted(vote, requested_at, RT::Instant::now());
    }
    let reply = answer(response);
    if failpoint!(RaftVoteAnswer, RT).is_ok() { reply } else { PeerReply::Declined(Declined::Busy) }
}

/// Answers the question whether this node would grant a vote.
pub(super) async fn pre_vote<RT: AsyncRuntime>(
    core: &Core<RT>,
    from: (NodeId, u64),
    rpc: VoteRequest<Types<RT>>,
) -> PeerReply<RT> {
    if let Err(refusal) = check(core, from, core.lease / PRE_VOTE_CHECKS_IN_LEASE).await {
        return PeerReply::Declined(Declined::Refused(refusal));
    }
    let mut response = core.raft.pre_vote(rpc).await;
    // openraft does not restore a lease that `fast_election` has waived, even after a false alarm.
    if let Ok(response) = &mut response {
        response.vote_granted &= !core.contact.has_live_leader(core.lease, RT::Instant::now());
    }
    answer(response)
}

/// Refuses a candidate if another process answers at its address within this time. If none answers, the candidate counts: it
/// may have another address by now. An older program does not tell its boot number.
async fn check<RT: AsyncRuntime>(core: &Core<RT>, (candidate, boot): (NodeId, u64), within: Duration) -> Result<(), Refusal> {
    if boot == 0 || core.processes.of(candidate) == Some(boot) {
        return Ok(());
    }
    match core.learn_process(candidate, within).await {
        Some(original) if original != boot => {
            // The candidate logs the refusal, and retries several times a second.
            tracing::debug!(node = candidate, "refused a copy of node {candidate} as a candidate: the original answers");
            Err(Refusal::Duplicate { id: candidate })
        }
        Some(_) | None => Ok(()),
    }
}

/// openraft answers every request until it has stopped.
fn answer<RT: AsyncRuntime, E>(response: Result<VoteResponse<Types<RT>>, E>) -> PeerReply<RT> {
    response.map_or(PeerReply::Declined(Declined::NotRunning), PeerReply::Vote)
}
