//! The messages between nodes, in `fairhold_codec`'s envelope with `WIRE_VERSION` as the version byte.
//!
//! Variants and fields are encoded by position. Any change to them, or to openraft's types inside, needs a new
//! `WIRE_VERSION`.

use crate::base::{
    aliases::{LeaderId, LogId, Members},
    error::{HandoverError, NotProposed, ProposeError},
    peer::{Refusal, WIRE_VERSION},
    raw,
    types::Types,
};
use bytes::Bytes;
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_state::command::{Answer, Command, WriteKey};
use fairhold_types::NodeId;
use openraft::{
    AsyncRuntime, Vote,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
        VoteRequest, VoteResponse,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

const WIRE_FORMAT: u8 = 3;
const _: () = assert!(WIRE_FORMAT as u16 == WIRE_VERSION, "the version byte must be the version that nodes compare");

/// A request. `peer::Lane` documents which lane carries it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "RT: AsyncRuntime")]
pub(crate) enum PeerRequest<RT: AsyncRuntime> {
    /// Log entries; without any, a heartbeat.
    Append(AppendEntriesRequest<Types<RT>>),
    /// A candidate requests a vote.
    Vote(VoteRequest<Types<RT>>),
    /// A candidate asks whether it would get a vote.
    PreVote(VoteRequest<Types<RT>>),
    /// The leader hands its leadership to another node.
    TransferLeader(TransferLeaderRequest<Types<RT>>),
    /// A snapshot begins. It replaces an unfinished one from the same node.
    SnapshotBegin(SnapshotBegin),
    /// The next block of a snapshot.
    SnapshotBlock {
        /// Its index, from 0.
        index: u32,
        /// The block, as the state machine encoded it.
        #[serde(with = "raw")]
        block: Vec<u8>,
    },
    /// The snapshot is complete: install it.
    SnapshotEnd,
    /// Commands that a follower forwards for its clients.
    Propose {
        /// In no particular order.
        commands: Vec<Command>,
        /// How long the follower continues to wait.
        within_ms: u64,
    },
    /// Requests the log index that a read must have applied.
    ReadIndex,
    /// A message for the leader. Raft does not interpret it.
    CallLeader(#[serde(with = "raw")] Vec<u8>),
    /// An operator requests a handover.
    HandOver {
        /// The next leader.
        to: NodeId,
        /// With a key, the handover happens at most once.
        key: Option<WriteKey>,
        /// How long the requesting node continues to wait.
        within_ms: u64,
    },
    /// The sender's disk is nearly full.
    DiskLow,
}

/// The head of a snapshot's transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    /// The vote with which the sender leads.
    pub(crate) vote: Vote<LeaderId>,
    /// The last log entry that the snapshot covers.
    pub(crate) last_log_id: Option<LogId>,
    /// The membership at that entry.
    pub(crate) members: Members,
    /// How many blocks follow.
    pub(crate) blocks: u32,
}

/// What a leader did on a handover request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HandedOver {
    /// It handed the leadership over.
    Now,
    /// Nothing: it had already served the same request.
    Before,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "RT: AsyncRuntime")]
pub(crate) enum PeerReply<RT: AsyncRuntime> {
    /// To `Append`.
    Append(AppendEntriesResponse<Types<RT>>),
    /// To `Vote` and `PreVote`.
    Vote(VoteResponse<Types<RT>>),
    /// To `TransferLeader`.
    TransferLeader(TransferLeaderResponse<Types<RT>>),
    /// To `SnapshotBegin` and `SnapshotBlock`.
    SnapshotAccepted,
    /// To `SnapshotEnd`.
    SnapshotInstalled(SnapshotResponse<Types<RT>>),
    /// To `Propose`: one for each command, in the same order.
    Proposed(Vec<Result<Answer, ProposeError>>),
    /// To `ReadIndex`.
    ReadIndex(Result<u64, NotProposed>),
    /// To `CallLeader`.
    LeaderReply(#[serde(with = "raw")] Vec<u8>),
    /// To any request: it was not processed.
    Declined(Declined),
    /// To `HandOver`.
    HandedOver(Result<HandedOver, HandoverError>),
    /// To `DiskLow`.
    Recorded,
}

/// Why a request was not processed. It had no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Declined {
    /// The node is starting or stopping.
    #[error("the node is starting or stopping")]
    NotRunning,
    /// The node does not lead.
    #[error("the node does not lead")]
    NotLeader,
    /// Too many requests are waiting already.
    #[error("too many requests are waiting")]
    Busy,
    /// The request could not be decoded.
    #[error("the request could not be decoded")]
    Malformed,
    /// The parts of a snapshot arrived in the wrong order.
    #[error("the parts of a snapshot arrived in the wrong order")]
    OutOfOrder,
    /// The sender is not admitted.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The term of the request is higher than any real cluster reaches.
    #[error("a request has term {term}, but this node is in term {own}: no real cluster advances that far")]
    TermTooFar {
        /// The term of the request.
        term: u64,
        /// The term of this node.
        own: u64,
    },
}

/// Encodes a request or a reply.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Bytes, EncodeError> {
    fairhold_codec::encode(WIRE_FORMAT, message).map(Bytes::from)
}

/// Decodes a request or a reply.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    fairhold_codec::decode(WIRE_FORMAT, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{error::UnknownReason, lost_entries::LostEntries};
    use fairhold_state::command::Outcome;
    use fairhold_types::Revision;
    use openraft::Membership;
    use openraft_rt_tokio::TokioRuntime;
    use std::collections::{BTreeMap, BTreeSet};

    fn round_trip<T: Serialize + DeserializeOwned + std::fmt::Debug>(message: &T) -> String {
        format!("{:?}", decode::<T>(&encode(message).unwrap()).unwrap())
    }

    #[test]
    fn requests_come_back_as_they_were_sent() {
        let leader_id = LeaderId { term: 3, node_id: 2 };
        let log_id = Some(LogId { leader_id, index: 7 });
        let vote = Vote { leader_id, committed: false };
        let append = AppendEntriesRequest { vote, prev_log_id: log_id, entries: vec![], leader_commit: log_id };
        let nodes = BTreeMap::from([(1, crate::base::types::Member::default())]);
        let members = Members::new(log_id, Membership::new(vec![BTreeSet::from([1])], nodes).unwrap());
        let requests: Vec<PeerRequest<TokioRuntime>> = vec![
            PeerRequest::Append(append),
            PeerRequest::Vote(VoteRequest::new(vote, log_id)),
            PeerRequest::PreVote(VoteRequest::new(vote, None)),
            PeerRequest::TransferLeader(TransferLeaderRequest::new(vote, 3, log_id)),
            PeerRequest::SnapshotBegin(SnapshotBegin { vote, last_log_id: log_id, members, blocks: 4 }),
            PeerRequest::SnapshotBlock { index: 3, block: vec![0, 1, 255] },
            PeerRequest::SnapshotEnd,
            PeerRequest::Propose { commands: vec![Command::Forget { through: Revision(7) }], within_ms: 10 },
            PeerRequest::ReadIndex,
            PeerRequest::CallLeader(vec![1, 2, 3]),
            PeerRequest::HandOver { to: 2, key: None, within_ms: 10 },
            PeerRequest::DiskLow,
        ];
        for request in &requests {
            assert_eq!(round_trip(request), format!("{request:?}"));
        }
    }

    #[test]
    fn replies_come_back_as_they_were_sent() {
        let vote = Vote { leader_id: LeaderId { term: 3, node_id: 2 }, committed: true };
        let answer = Answer { result: Ok(Outcome::Done), revision: Revision(9) };
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: None };
        let replies: Vec<PeerReply<TokioRuntime>> = vec![
            PeerReply::Append(AppendEntriesResponse::HigherVote(vote)),
            PeerReply::Vote(VoteResponse::new(vote, None, true)),
            PeerReply::TransferLeader(Ok(())),
            PeerReply::SnapshotAccepted,
            PeerReply::SnapshotInstalled(SnapshotResponse::new(vote)),
            PeerReply::Proposed(vec![Ok(answer), Err(NotProposed::Overloaded.into()), Err(UnknownReason::Deposed.into())]),
            PeerReply::ReadIndex(Ok(12)),
            PeerReply::ReadIndex(Err(NotProposed::NoLeader)),
            PeerReply::LeaderReply(vec![]),
            PeerReply::Declined(Declined::Refused(Refusal::NotAMember { id: 4 })),
            PeerReply::Declined(Declined::Refused(Refusal::LostEntries(lost))),
            PeerReply::Declined(Declined::TermTooFar { term: u64::MAX, own: 3 }),
            PeerReply::HandedOver(Ok(HandedOver::Now)),
            PeerReply::HandedOver(Err(HandoverError::NotMember { to: 9, members: vec![1, 2] })),
            PeerReply::Recorded,
        ];
        for reply in &replies {
            assert_eq!(round_trip(reply), format!("{reply:?}"));
        }
    }

    #[test]
    fn a_block_is_encoded_in_one_piece() {
        let request = PeerRequest::<TokioRuntime>::SnapshotBlock { index: 0, block: vec![255; 1_000] };
        assert!(encode(&request).unwrap().len() < 1_020, "each byte must take one byte");
    }
}
