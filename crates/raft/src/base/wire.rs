//! The messages between nodes, in `fairhold_codec`'s envelope.
//!
//! Variants and fields are encoded by position. The version byte is the wire version in which the messages got this form.
//! New variants at the end of an enum keep it: only nodes that support them receive them.

use crate::base::{
    aliases::{LeaderId, LogId, Members},
    encoding,
    error::{FinalizeError, HandoverError, NotProposed, ProposeError},
    membership::{MemberRequest, MembersView, MembershipError},
    peer::{JoinRefusal, JoinRequest, Joined, Refusal},
    raw,
    types::Types,
    upgrade_status::UpgradeStatus,
};
use bytes::Bytes;
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_state::command::{AccessGuard, ActOrigin, Answer, Command, WriteKey};
use fairhold_types::{ClusterVersion, NodeId, trace_context::TraceContext};
use openraft::{
    AsyncRuntime, Vote,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
        VoteRequest, VoteResponse,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

const WIRE_FORMAT: u8 = 3;

/// A request. `peer::Lane` documents which lane carries it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "RT: AsyncRuntime")]
pub(crate) enum PeerRequest<RT: AsyncRuntime> {
    /// Log entries; without any, a heartbeat.
    Append(#[serde(with = "encoding")] AppendEntriesRequest<Types<RT>>),
    /// A candidate requests a vote.
    Vote(#[serde(with = "encoding")] VoteRequest<Types<RT>>),
    /// A candidate asks whether it would get a vote.
    PreVote(#[serde(with = "encoding")] VoteRequest<Types<RT>>),
    /// The leader hands its leadership to another node.
    TransferLeader(#[serde(with = "encoding")] TransferLeaderRequest<Types<RT>>),
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
    /// An operator requests a handover that no access data decided.
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
    /// Requests the leader's status of the cluster's upgrade. Only for programs that support cluster version 2.
    UpgradeStatus,
    /// An operator finalizes the upgrade. Only for programs that support cluster version 2.
    FinalizeUpgrade {
        /// The next version.
        to: ClusterVersion,
        /// How long the requesting node continues to wait.
        within_ms: u64,
        /// By which access data the request was decided, if rights are enforced.
        guard: Option<AccessGuard>,
    },
    /// An operator changes a member. Only for programs that support cluster version 2, like the requests below.
    ChangeMember {
        /// The change.
        request: MemberRequest,
        /// How long the requesting node continues to wait.
        within_ms: u64,
        /// By which access data the request was decided, if rights are enforced.
        guard: Option<AccessGuard>,
        /// Where the request comes from, for the audit.
        origin: Option<ActOrigin>,
    },
    /// Requests the leader's list of the members.
    MembersView,
    /// A node joins, through another node.
    Join(JoinRequest),
    /// `Propose` with commands of traced requests. Only for clusters of version 2.
    ProposeTraced {
        /// In no particular order.
        commands: Vec<Command>,
        /// How long the follower continues to wait.
        within_ms: u64,
        /// The commands of traced requests, by their indexes.
        traced: Vec<TracedCommand>,
    },
    /// A message for this node, whether it leads or not. Raft does not interpret it. Only for clusters of version 2.
    CallMember(#[serde(with = "raw")] Vec<u8>),
    /// `HandOver` with a guard. Rights are enforced only in clusters of version 2.
    HandOverGuarded {
        /// The next leader.
        to: NodeId,
        /// With a key, the handover happens at most once.
        key: Option<WriteKey>,
        /// How long the requesting node continues to wait.
        within_ms: u64,
        /// By which access data the request was decided.
        guard: AccessGuard,
    },
}

/// A command of a traced request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TracedCommand {
    /// Its index among the commands.
    pub(crate) index: u32,
    /// The span whose parts the stages at the leader are.
    pub(crate) context: TraceContext,
}

/// The head of a snapshot's transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    /// The vote with which the sender leads.
    #[serde(with = "encoding")]
    pub(crate) vote: Vote<LeaderId>,
    /// The last log entry that the snapshot covers.
    #[serde(with = "encoding")]
    pub(crate) last_log_id: Option<LogId>,
    /// The membership at that entry.
    #[serde(with = "encoding")]
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
    Append(#[serde(with = "encoding")] AppendEntriesResponse<Types<RT>>),
    /// To `Vote` and `PreVote`.
    Vote(#[serde(with = "encoding")] VoteResponse<Types<RT>>),
    /// To `TransferLeader`.
    TransferLeader(#[serde(with = "encoding")] TransferLeaderResponse<Types<RT>>),
    /// To `SnapshotBegin` and `SnapshotBlock`.
    SnapshotAccepted,
    /// To `SnapshotEnd`.
    SnapshotInstalled(#[serde(with = "encoding")] SnapshotResponse<Types<RT>>),
    /// To `Propose` and `ProposeTraced`: one for each command, in the same order.
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
    /// To `UpgradeStatus`.
    UpgradeStatus(UpgradeStatus),
    /// To `FinalizeUpgrade`.
    UpgradeFinalized(Result<(), FinalizeError>),
    /// To `ChangeMember`.
    MemberChanged(Result<(), MembershipError>),
    /// To `MembersView`.
    MembersView(MembersView),
    /// To `Join`.
    Joined(Result<Joined, JoinRefusal>),
    /// To `CallMember`.
    MemberReply(#[serde(with = "raw")] Vec<u8>),
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
    use crate::base::{
        error::UnknownReason,
        join_token::JoinSecret,
        lost_entries::LostEntries,
        membership::{JoinPhase, JoinRow, MemberRow, RemovedRow},
        types::Batch,
    };
    use fairhold_state::{access::PrincipalKey, command::Outcome};
    use fairhold_types::{
        ClusterId, GrantId, Incarnation, JoinTokenNumber, MemberRole, Revision, SupportedVersions, Timing,
        time::WallMillis,
        trace_context::{SpanId, TraceId},
    };
    use openraft::{EntryPayload, Membership, alias::EntryOf, raft::TransferLeaderError};
    use openraft_rt_tokio::TokioRuntime;
    use std::collections::{BTreeMap, BTreeSet};

    fn round_trip<T: Serialize + DeserializeOwned + std::fmt::Debug>(message: &T) -> String {
        format!("{:?}", decode::<T>(&encode(message).unwrap()).unwrap())
    }

    fn requests() -> Vec<PeerRequest<TokioRuntime>> {
        let leader_id = LeaderId { term: 3, node_id: 2 };
        let log_id = Some(LogId { leader_id, index: 7 });
        let vote = Vote { leader_id, committed: false };
        let nodes = BTreeMap::from([(1, crate::base::types::Member::default())]);
        let membership = Membership::new(vec![BTreeSet::from([1])], nodes).unwrap();
        let members = Members::new(log_id, membership.clone());
        let batch = Batch::new(vec![Command::Forget { through: Revision(7) }]).unwrap();
        let payloads = [EntryPayload::Blank, EntryPayload::Normal(batch), EntryPayload::Membership(membership)];
        let entries = (8..)
            .zip(payloads)
            .map(|(index, payload)| EntryOf::<Types<TokioRuntime>> { log_id: LogId { leader_id, index }, payload });
        let append = AppendEntriesRequest { vote, prev_log_id: log_id, entries: entries.collect(), leader_commit: log_id };
        vec![
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
            PeerRequest::UpgradeStatus,
            PeerRequest::FinalizeUpgrade { to: ClusterVersion(2), within_ms: 10, guard: guard() },
            PeerRequest::MembersView,
            PeerRequest::Join(join_request()),
        ]
        .into_iter()
        .chain(member_requests().map(|request| PeerRequest::ChangeMember {
            request,
            within_ms: 10,
            guard: guard(),
            origin: origin(),
        }))
        .chain([proposal_of_a_trace(), PeerRequest::CallMember(vec![1, 2, 3])])
        .chain(guard().map(|guard| PeerRequest::HandOverGuarded { to: 2, key: None, within_ms: 10, guard }))
        .collect()
    }

    fn proposal_of_a_trace() -> PeerRequest<TokioRuntime> {
        let context = TraceContext { trace: TraceId([0xab; 16]), span: SpanId([0xcd; 8]) };
        let commands = vec![Command::Forget { through: Revision(7) }; 2];
        PeerRequest::ProposeTraced { commands, within_ms: 10, traced: vec![TracedCommand { index: 1, context }] }
    }

    fn origin() -> Option<ActOrigin> {
        Some(ActOrigin { address: "10.0.0.7".to_owned(), request: "2-19a-f".to_owned(), ..ActOrigin::of_node() })
    }

    fn guard() -> Option<AccessGuard> {
        Some(AccessGuard { access: Revision(7), principal: PrincipalKey(8) })
    }

    fn member_requests() -> [MemberRequest; 4] {
        let key = Some(WriteKey { key: GrantId::from_ulid(7), fingerprint: [8; 16] });
        let by = "a".to_owned();
        let set = MemberRequest::Set {
            node: 2,
            key: None,
            url: Some("http://n2:1".to_owned()),
            peer: Some("n2:2".to_owned()),
            force: true,
            priority: Some(80),
            zone: Some("b".to_owned()),
            by: by.clone(),
        };
        let promote = MemberRequest::Promote { node: 2, key, by: by.clone() };
        let demote = MemberRequest::Demote { node: 2, key, by: by.clone() };
        [MemberRequest::Remove { node: 2, by }, promote, demote, set]
    }

    fn join_request() -> JoinRequest {
        JoinRequest {
            token: JoinTokenNumber(7),
            secret: JoinSecret::new([9; 32]),
            cluster: ClusterId(1),
            incarnation: Incarnation(2),
            url: "http://n4:1".to_owned(),
            address: "n4:2".to_owned(),
            version: Some("0.1.0".to_owned()),
            supports: SupportedVersions(ClusterVersion(1), ClusterVersion(2)),
        }
    }

    fn joined() -> Joined {
        let member = (1, "http://n1:1".to_owned(), "n1:2".to_owned());
        Joined { id: 4, cluster: ClusterId(1), role: MemberRole::Voter, members: vec![member], timing: Timing::Wan }
    }

    fn members_view() -> MembersView {
        let member = MemberRow {
            id: 1,
            url: "http://n1:1".to_owned(),
            peer: "n1:2".to_owned(),
            voter: true,
            leader: true,
            priority: 50,
            zone: Some("a".to_owned()),
            lag: Some(0),
            silent_ms: None,
            removal: None,
        };
        let join = JoinRow {
            id: 4,
            url: "http://n4:1".to_owned(),
            peer: "n4:2".to_owned(),
            role: MemberRole::Voter,
            replaces: Some(2),
            phase: JoinPhase::CatchingUp,
            lag: Some(300),
            waits_for: Some("it is 300 log entries behind the leader".to_owned()),
            requested_at: WallMillis(5),
        };
        let removed = RemovedRow { id: 3, revision: Revision(9), by: "a".to_owned(), at: WallMillis(6) };
        MembersView { members: vec![member], joins: vec![join], removed: vec![removed], is_joint: false, from_leader: true }
    }

    fn replies() -> Vec<PeerReply<TokioRuntime>> {
        let vote = Vote { leader_id: LeaderId { term: 3, node_id: 2 }, committed: true };
        let answer = Answer { result: Ok(Outcome::Done), revision: Revision(9) };
        let lost = LostEntries { node: 2, leader: 1, acknowledged: 57, has: None };
        let last = Some(LogId { leader_id: vote.leader_id, index: 7 });
        let not_flushed = TransferLeaderError::LogNotFlushed { expected: last, actual: None };
        vec![
            PeerReply::Append(AppendEntriesResponse::Success),
            PeerReply::Append(AppendEntriesResponse::PartialSuccess(last)),
            PeerReply::Append(AppendEntriesResponse::Conflict),
            PeerReply::Append(AppendEntriesResponse::HigherVote(vote)),
            PeerReply::Vote(VoteResponse::new(vote, None, true)),
            PeerReply::TransferLeader(Ok(())),
            PeerReply::TransferLeader(Err(not_flushed)),
            PeerReply::TransferLeader(Err(TransferLeaderError::VoteChanged { expected: vote, actual: vote })),
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
            PeerReply::UpgradeStatus(UpgradeStatus { version: ClusterVersion(1), next: None, members: vec![], blockers: vec![] }),
            PeerReply::UpgradeFinalized(Err(FinalizeError::NoLeader)),
            PeerReply::MemberChanged(Ok(())),
            PeerReply::MemberChanged(Err(MembershipError::WouldLoseQuorum { voters: 2, healthy: 1, needed: 2 })),
            PeerReply::MembersView(members_view()),
            PeerReply::Joined(Ok(joined())),
            PeerReply::Joined(Err(JoinRefusal::TooManyJoins { max: 10 })),
            PeerReply::MemberReply(vec![1, 2, 3]),
            PeerReply::HandedOver(Err(HandoverError::AccessChanged { revision: Revision(9) })),
            PeerReply::UpgradeFinalized(Err(FinalizeError::AccessChanged { revision: Revision(9) })),
        ]
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        for request in &requests() {
            assert_eq!(round_trip(request), format!("{request:?}"));
        }
        for reply in &replies() {
            assert_eq!(round_trip(reply), format!("{reply:?}"));
        }
    }

    /// `FAIRHOLD_GOLDEN=write` rewrites the file. A new variant adds a line; any other change needs a new format version.
    #[test]
    fn the_bytes_of_messages_are_stable() {
        let line = |number: usize, bytes: Bytes| {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{number} {digits}\n")
        };
        let sent =
            requests().iter().enumerate().map(|(number, request)| line(number, encode(request).unwrap())).collect::<String>();
        let answered =
            replies().iter().enumerate().map(|(number, reply)| line(number, encode(reply).unwrap())).collect::<String>();
        let text = format!("requests\n{sent}replies\n{answered}");
        let path = std::path::Path::new("../../proto/golden/wire_messages.hex");
        if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|value| value == "write") {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(path).unwrap(), "{} has other bytes", path.display());
    }

    #[test]
    fn a_block_is_encoded_in_one_piece() {
        let request = PeerRequest::<TokioRuntime>::SnapshotBlock { index: 0, block: vec![255; 1_000] };
        assert!(encode(&request).unwrap().len() < 1_020, "each byte must take one byte");
    }
}
