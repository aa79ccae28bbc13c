//! The refusals of the machine, and the facts that they carry.
//!
//! Frames encode variants and fields by position: add at the end. `proto/golden/` holds the bytes of each.

use crate::{access::AccessFault, membership::JoinTokenFault, write::Part};
use fairhold_access::{QuotaKind, TenantName};
use fairhold_types::{
    ClusterVersion, EndReason, FencingToken, GrantNumber, LockName, NodeId, Path, SessionNumber, time::WallMillis,
};
use serde::{Deserialize, Serialize};

/// A refusal: definite, the same on every node, and without any change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// No such session, or it has ended.
    #[error("the session does not exist or has ended")]
    NoSession,
    /// The session that this key opened has ended.
    #[error("the session opened with this key has ended")]
    SessionEnded,
    /// No such grant.
    #[error("no grant has this id")]
    NoGrant,
    /// The lock is held, and the caller does not wait.
    #[error("the lock is held by {}", .holder.owner)]
    LockHeld {
        /// The first holder or, if nobody holds the lock, the first waiter.
        holder: HolderFacts,
        /// How many grants would be ahead of the caller.
        ahead: u64,
    },
    /// The grant has ended.
    #[error("the grant {}{}", ending_in_words(*.reason), .note.as_ref().map(|note| format!(": {note}")).unwrap_or_default())]
    GrantEnded {
        /// How it ended.
        reason: EndReason,
        /// The reason that an administrator gave for breaking it, while it is remembered.
        note: Option<String>,
    },
    /// An id so old that it may have ended and been forgotten.
    #[error("the id is older than the ids that the session remembers")]
    Forgotten,
    /// The key was used before with another request.
    #[error("the same Idempotency-Key was used with another {field}")]
    IdempotencyMismatch {
        /// The field that differs.
        field: String,
    },
    /// The lock has another limit.
    #[error("the lock's limit is {limit}")]
    LimitMismatch {
        /// The limit in force.
        limit: u32,
    },
    /// More permits than the lock has.
    #[error("{permits} permits exceed the lock's limit of {limit}")]
    PermitsOverLimit {
        /// The number of permits requested.
        permits: u32,
        /// The limit in force.
        limit: u32,
    },
    /// Shared mode requires a limit of 1.
    #[error("a lock with a limit of {limit} has no shared mode")]
    SharedWithLimit {
        /// The limit in force.
        limit: u32,
    },
    /// The queue of the lock is full.
    #[error("{max} grants already wait for the lock, which is the limit")]
    QueueFull {
        /// The maximum length of the queue.
        max: u64,
    },
    /// Too many sessions.
    #[error("the cluster already has {max} sessions, which is the limit")]
    SessionsFull {
        /// The maximum number of sessions.
        max: u64,
    },
    /// The table of ended ids is full. It never forgets earlier than promised.
    #[error("{max} ended ids are already remembered, which is the limit")]
    MemoryFull {
        /// The maximum number of ids.
        max: u64,
    },
    /// The grant belongs to a named session: keep the session alive instead.
    #[error("the grant belongs to session {session}")]
    SessionOwned {
        /// The session's public number.
        session: SessionNumber,
    },
    /// No held grant has this token.
    #[error("the fencing token is not current")]
    StaleToken {
        /// The token of the current holder, if there is one.
        current: Option<FencingToken>,
    },
    /// The node has another version.
    #[error("the node's version is not the expected one")]
    VersionMismatch {
        /// The current version, if the node exists.
        current: Option<i32>,
    },
    /// No such node, or no such parent.
    #[error("there is no node {path}")]
    NoNode {
        /// The path that is missing.
        path: Path,
    },
    /// Only the lock calls write nodes under `/locks`, and the root can be neither created nor removed.
    #[error("{path} cannot be changed by this call")]
    ReadOnly {
        /// The path.
        path: Path,
    },
    /// The format allows it, but this version does not implement it.
    #[error("{what} is not supported by this version")]
    Unsupported {
        /// The unsupported feature, as the subject of a sentence.
        what: String,
    },
    /// One step of a transaction was refused, and therefore the whole transaction.
    #[error("{reason}")]
    Step {
        /// The part of the transaction.
        part: Part,
        /// Its index in that part, from 0.
        index: u32,
        /// Why it was refused.
        reason: Box<Rejection>,
    },
    /// The node already exists.
    #[error("the node {path} already exists")]
    NodeExists {
        /// Its path.
        path: Path,
    },
    /// The node exists with another kind than the one requested.
    #[error("the node {path} exists and is {kind}: the kind of a node cannot change")]
    OtherKind {
        /// Its path.
        path: Path,
        /// Its kind in words.
        kind: String,
    },
    /// The node has children.
    #[error("the node {path} has {children} {}", if *.children == 1 { "child" } else { "children" })]
    NotEmpty {
        /// Its path.
        path: Path,
        /// How many.
        children: u32,
    },
    /// An ephemeral node has no children.
    #[error("{path} is an ephemeral node, which cannot have children")]
    EphemeralParent {
        /// The ephemeral node.
        path: Path,
    },
    /// Too many nodes to remove in one step.
    #[error("this would remove more than {max} nodes in one step: remove them in parts")]
    TooManyNodes {
        /// The maximum number of nodes.
        max: u64,
    },
    /// With its number, the name would exceed the maximum length of a path.
    #[error("the path {parent} is too long for another name below it")]
    NoRoomForName {
        /// The parent.
        parent: Path,
    },
    /// Waiting there would cause a deadlock.
    #[error("waiting for it would cause a deadlock: {}", describe_cycle(.cycle))]
    WouldDeadlock {
        /// Each waits for the next, and the last for the first, which is the requester.
        cycle: Vec<Blocked>,
    },
    /// Only a held grant can change its mode.
    #[error("the grant is not held yet")]
    NotHeld,
    /// Only the leader of an election can proclaim.
    #[error("the grant does not lead this election")]
    NotLeader,
    /// The name is already used the other way: as an election instead of a lock, or as a lock instead of an election.
    #[error("{}", if *.election { "this is an election, not a lock" } else { "this is a lock, not an election" })]
    OtherUse {
        /// Whether it is an election; otherwise it is a lock.
        election: bool,
    },
    /// The grant has too many holds.
    #[error("the grant already has {max} holds, which is the limit")]
    HoldsFull {
        /// The maximum number of holds.
        max: u64,
    },
    /// A defect made the machine fail in the middle of the request. Every node skipped it, and nothing changed.
    #[error("a defect in the server: it skipped the request and changed nothing (fingerprint {fingerprint:016x})")]
    Defect {
        /// Identifies the request among others.
        fingerprint: u64,
    },
    /// Too many nodes to create in one step.
    #[error("this would create more than {max} nodes in one step: create them in parts")]
    TooManyCreated {
        /// The maximum number of nodes.
        max: u64,
    },
    /// The command would exceed the state's budget.
    #[error("the state uses {used} of {max} bytes and has no room for this (values can use at most three quarters of the limit)")]
    StateFull {
        /// How many bytes it uses.
        used: u64,
        /// The budget in bytes.
        max: u64,
    },
    /// The join token does not admit the node.
    #[error("{0}")]
    JoinToken(JoinTokenFault),
    /// Too many join tokens.
    #[error("the cluster already has {max} join tokens, which is the limit: revoke one that is not needed")]
    JoinTokensFull {
        /// The maximum number of join tokens.
        max: u64,
    },
    /// Too many nodes are joining.
    #[error("{max} nodes are already joining, which is the limit: wait until one of them is done")]
    JoinsFull {
        /// The maximum number of nodes.
        max: u64,
    },
    /// The cluster's version does not have it yet.
    #[error("this needs version {version} of the cluster: finalize the upgrade first")]
    NeedsUpgrade {
        /// The version that it needs.
        version: ClusterVersion,
    },
    /// Rights were narrowed after the command was decided, or it needs a decision and has none.
    #[error("access rights were changed while the request was on its way: it must be decided again")]
    AccessChanged,
    /// The access data was not changed.
    #[error("{0}")]
    Access(AccessFault),
    /// A tenant has as much as it may.
    #[error("the tenant {tenant} has a quota of {limit} {quota}, of which it uses {used}")]
    QuotaExceeded {
        /// The tenant.
        tenant: TenantName,
        /// What the quota counts.
        quota: QuotaKind,
        /// The quota.
        limit: u64,
        /// How much of it is used.
        used: u64,
    },
    /// The removals of all other voters are recorded.
    #[error("all other voters are being removed, so node {node} stays")]
    NoVoterLeft {
        /// The voter that stays.
        node: NodeId,
    },
}

fn ending_in_words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Released => "was released",
        EndReason::Expired => "has expired: it was not renewed in time, or reached its maximum hold time",
        EndReason::Broken => "was broken by an administrator",
        EndReason::Withdrawn => "has left the queue",
    }
}

fn describe_cycle(cycle: &[Blocked]) -> String {
    let one = |blocked: &Blocked| format!("{} of session {} waits for {}", blocked.owner, blocked.session, blocked.lock);
    cycle.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A waiter in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// The lock that it waits for, or would wait for.
    pub lock: LockName,
}

/// The holder of a lock, as a refused caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderFacts {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Its token; none if it is only first in the queue, or cools.
    pub token: Option<FencingToken>,
    /// When it was granted, or queued if it is only first in the queue. The time is that of the node that received the
    /// request.
    pub since: WallMillis,
}
