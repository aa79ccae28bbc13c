//! Limits how far ahead another node's term may be.
//!
//! A vote stays on disk permanently, and no node wins an election in a lower term: one request with the highest
//! possible term would stop the cluster permanently. Terms grow by one with each election, so a real term is never far
//! from this node's.

use crate::base::{aliases::LogId, wire::PeerRequest};
use openraft::AsyncRuntime;

/// How far a term may be ahead of this node's own: at ten elections a second, this node would have been away for
/// thirteen years.
pub(crate) const TERM_LEAD_MAX: u64 = 1 << 32;

/// The term of a request, if it is too far ahead of this node's own.
pub(super) fn too_far<RT: AsyncRuntime>(request: &PeerRequest<RT>, own: u64) -> Option<u64> {
    highest(request).filter(|term| *term > own.saturating_add(TERM_LEAD_MAX))
}

/// The highest term that a request names.
fn highest<RT: AsyncRuntime>(request: &PeerRequest<RT>) -> Option<u64> {
    let of = |id: &Option<LogId>| id.map_or(0, |id| id.leader_id.term);
    let (vote, logged) = match request {
        PeerRequest::Append(rpc) => {
            let entries = rpc.entries.iter().map(|entry| entry.log_id.leader_id.term).max().unwrap_or_default();
            (rpc.vote, entries.max(of(&rpc.prev_log_id)).max(of(&rpc.leader_commit)))
        }
        PeerRequest::Vote(rpc) | PeerRequest::PreVote(rpc) => (rpc.vote, of(&rpc.last_log_id)),
        PeerRequest::TransferLeader(rpc) => (*rpc.from_leader(), of(&rpc.last_log_id().copied())),
        PeerRequest::SnapshotBegin(begin) => (begin.vote, of(&begin.last_log_id).max(of(begin.members.log_id()))),
        PeerRequest::SnapshotBlock { .. }
        | PeerRequest::SnapshotEnd
        | PeerRequest::Propose { .. }
        | PeerRequest::ProposeTraced { .. }
        | PeerRequest::ReadIndex
        | PeerRequest::CallLeader(_)
        | PeerRequest::CallMember(_)
        | PeerRequest::HandOver { .. }
        | PeerRequest::HandOverGuarded { .. }
        | PeerRequest::DiskLow
        | PeerRequest::UpgradeStatus
        | PeerRequest::FinalizeUpgrade { .. }
        | PeerRequest::ChangeMember { .. }
        | PeerRequest::MembersView
        | PeerRequest::Join(_) => return None,
    };
    Some(vote.leader_id.term.max(logged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::aliases::LeaderId;
    use openraft::{
        raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest},
        vote::Vote,
    };
    use openraft_rt_tokio::TokioRuntime;

    #[test]
    fn terms_that_no_cluster_reaches_are_found_in_every_request() {
        let vote = |term| Vote { leader_id: LeaderId { term, node_id: 2 }, committed: true };
        let logged = |term| Some(LogId { leader_id: LeaderId { term, node_id: 2 }, index: 7 });
        let append = |term, prev, commit| {
            PeerRequest::<TokioRuntime>::Append(AppendEntriesRequest {
                vote: vote(term),
                prev_log_id: prev,
                entries: vec![],
                leader_commit: commit,
            })
        };
        let last = u64::MAX;
        for (request, found) in [
            (append(TERM_LEAD_MAX + 5, None, None), None),
            (append(TERM_LEAD_MAX + 6, None, None), Some(TERM_LEAD_MAX + 6)),
            (append(last, None, None), Some(last)),
            (append(6, logged(last), None), Some(last)),
            (append(6, None, logged(last)), Some(last)),
            (PeerRequest::Vote(VoteRequest::new(vote(last), None)), Some(last)),
            (PeerRequest::PreVote(VoteRequest::new(vote(6), logged(last))), Some(last)),
            (PeerRequest::TransferLeader(TransferLeaderRequest::new(vote(last), 1, None)), Some(last)),
            (PeerRequest::ReadIndex, None),
        ] {
            assert_eq!(too_far(&request, 5), found, "{request:?}");
        }
        assert_eq!(too_far(&append(last, None, None), last - 1), None, "this node is already near that term");
    }
}
