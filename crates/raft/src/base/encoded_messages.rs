//! The encoded forms of Raft's messages between nodes.

use crate::base::{
    aliases::LeaderId,
    encoding::{Encode, EncodedEntry, EncodedLogId, EncodedVote},
    types::Types,
};
use fairhold_types::NodeId;
use openraft::{
    AsyncRuntime, Vote,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError, TransferLeaderRequest,
        TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};
use serde::{Deserialize, Serialize};

/// Log entries for a follower; without any, a heartbeat.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedAppend {
    vote: EncodedVote,
    previous: Option<EncodedLogId>,
    entries: Vec<EncodedEntry>,
    committed: Option<EncodedLogId>,
}

impl<RT: AsyncRuntime> Encode for AppendEntriesRequest<Types<RT>> {
    type Encoded = EncodedAppend;

    fn to_encoded(&self) -> EncodedAppend {
        EncodedAppend {
            vote: self.vote.to_encoded(),
            previous: self.prev_log_id.to_encoded(),
            entries: self.entries.iter().map(Encode::to_encoded).collect(),
            committed: self.leader_commit.to_encoded(),
        }
    }

    fn from_encoded(EncodedAppend { vote, previous, entries, committed }: EncodedAppend) -> Result<Self, String> {
        Ok(AppendEntriesRequest {
            vote: Encode::from_encoded(vote)?,
            prev_log_id: Encode::from_encoded(previous)?,
            entries: entries.into_iter().map(Encode::from_encoded).collect::<Result<_, _>>()?,
            leader_commit: Encode::from_encoded(committed)?,
        })
    }
}

/// The answer to log entries.
#[derive(Debug, Serialize, Deserialize)]
pub enum EncodedAppended {
    /// All are appended.
    All,
    /// Those through this position are appended.
    Through(Option<EncodedLogId>),
    /// The entry before them is absent.
    Conflict,
    /// The follower has granted this higher vote.
    HigherVote(EncodedVote),
}

impl<RT: AsyncRuntime> Encode for AppendEntriesResponse<Types<RT>> {
    type Encoded = EncodedAppended;

    fn to_encoded(&self) -> EncodedAppended {
        match self {
            AppendEntriesResponse::Success => EncodedAppended::All,
            AppendEntriesResponse::PartialSuccess(last) => EncodedAppended::Through(last.to_encoded()),
            AppendEntriesResponse::Conflict => EncodedAppended::Conflict,
            AppendEntriesResponse::HigherVote(vote) => EncodedAppended::HigherVote(vote.to_encoded()),
        }
    }

    fn from_encoded(encoded: EncodedAppended) -> Result<Self, String> {
        Ok(match encoded {
            EncodedAppended::All => AppendEntriesResponse::Success,
            EncodedAppended::Through(last) => AppendEntriesResponse::PartialSuccess(Encode::from_encoded(last)?),
            EncodedAppended::Conflict => AppendEntriesResponse::Conflict,
            EncodedAppended::HigherVote(vote) => AppendEntriesResponse::HigherVote(Encode::from_encoded(vote)?),
        })
    }
}

/// A candidate's request for a vote.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedVoteRequest {
    vote: EncodedVote,
    last_log_id: Option<EncodedLogId>,
    leadership_transfer: bool,
}

impl<RT: AsyncRuntime> Encode for VoteRequest<Types<RT>> {
    type Encoded = EncodedVoteRequest;

    fn to_encoded(&self) -> EncodedVoteRequest {
        EncodedVoteRequest {
            vote: self.vote.to_encoded(),
            last_log_id: self.last_log_id.to_encoded(),
            leadership_transfer: self.leadership_transfer,
        }
    }

    fn from_encoded(encoded: EncodedVoteRequest) -> Result<Self, String> {
        let mut request = VoteRequest::new(Encode::from_encoded(encoded.vote)?, Encode::from_encoded(encoded.last_log_id)?);
        request.leadership_transfer = encoded.leadership_transfer;
        Ok(request)
    }
}

/// The answer to a request for a vote.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedVoteReply {
    vote: EncodedVote,
    granted: bool,
    last_log_id: Option<EncodedLogId>,
}

impl<RT: AsyncRuntime> Encode for VoteResponse<Types<RT>> {
    type Encoded = EncodedVoteReply;

    fn to_encoded(&self) -> EncodedVoteReply {
        EncodedVoteReply { vote: self.vote.to_encoded(), granted: self.vote_granted, last_log_id: self.last_log_id.to_encoded() }
    }

    fn from_encoded(EncodedVoteReply { vote, granted, last_log_id }: EncodedVoteReply) -> Result<Self, String> {
        let vote: Vote<LeaderId> = Encode::from_encoded(vote)?;
        Ok(VoteResponse::new(vote, Encode::from_encoded(last_log_id)?, granted))
    }
}

/// The leader hands its leadership to another node.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedTransfer {
    from: EncodedVote,
    to: NodeId,
    last_log_id: Option<EncodedLogId>,
}

impl<RT: AsyncRuntime> Encode for TransferLeaderRequest<Types<RT>> {
    type Encoded = EncodedTransfer;

    fn to_encoded(&self) -> EncodedTransfer {
        let last_log_id = self.last_log_id().map(Encode::to_encoded);
        EncodedTransfer { from: self.from_leader().to_encoded(), to: *self.to_node_id(), last_log_id }
    }

    fn from_encoded(EncodedTransfer { from, to, last_log_id }: EncodedTransfer) -> Result<Self, String> {
        Ok(TransferLeaderRequest::new(Encode::from_encoded(from)?, to, Encode::from_encoded(last_log_id)?))
    }
}

/// Why a node does not take over the leadership.
#[derive(Debug, Serialize, Deserialize)]
pub enum EncodedTransferError {
    /// It has granted another vote.
    VoteChanged {
        /// The leader's vote.
        expected: EncodedVote,
        /// The node's vote.
        actual: EncodedVote,
    },
    /// It lacks entries of the leader's log.
    LogNotFlushed {
        /// The leader's last entry.
        expected: Option<EncodedLogId>,
        /// The node's last entry.
        actual: Option<EncodedLogId>,
    },
}

impl<RT: AsyncRuntime> Encode for TransferLeaderResponse<Types<RT>> {
    type Encoded = Result<(), EncodedTransferError>;

    fn to_encoded(&self) -> Self::Encoded {
        self.as_ref().copied().map_err(|error| match error {
            TransferLeaderError::VoteChanged { expected, actual } => {
                EncodedTransferError::VoteChanged { expected: expected.to_encoded(), actual: actual.to_encoded() }
            }
            TransferLeaderError::LogNotFlushed { expected, actual } => {
                EncodedTransferError::LogNotFlushed { expected: expected.to_encoded(), actual: actual.to_encoded() }
            }
        })
    }

    fn from_encoded(encoded: Self::Encoded) -> Result<Self, String> {
        let Err(error) = encoded else { return Ok(Ok(())) };
        Ok(Err(match error {
            EncodedTransferError::VoteChanged { expected, actual } => TransferLeaderError::VoteChanged {
                expected: Encode::from_encoded(expected)?,
                actual: Encode::from_encoded(actual)?,
            },
            EncodedTransferError::LogNotFlushed { expected, actual } => TransferLeaderError::LogNotFlushed {
                expected: Encode::from_encoded(expected)?,
                actual: Encode::from_encoded(actual)?,
            },
        }))
    }
}

/// The answer to a whole snapshot: the follower's vote.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedInstalled {
    vote: EncodedVote,
}

impl<RT: AsyncRuntime> Encode for SnapshotResponse<Types<RT>> {
    type Encoded = EncodedInstalled;

    fn to_encoded(&self) -> EncodedInstalled {
        EncodedInstalled { vote: self.vote.to_encoded() }
    }

    fn from_encoded(EncodedInstalled { vote }: EncodedInstalled) -> Result<Self, String> {
        Ok(SnapshotResponse::new(Encode::from_encoded(vote)?))
    }
}
