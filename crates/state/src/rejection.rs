//! What the machine refuses, and the facts that a refused caller is told.
//!
//! The variants and fields stand in frames by position: add at the end. `proto/golden/` holds the bytes of each.

use crate::write::Part;
use fairhold_types::{EndReason, FencingToken, GrantNumber, LockName, Path, SessionNumber, time::WallMillis};
use serde::{Deserialize, Serialize};

/// A refusal: definite, the same on every node, and nothing was changed.
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
    /// The lock is held and the caller does not wait.
    #[error("the lock is held by {}", .holder.owner)]
    LockHeld {
        /// The first of those who hold it or stand first in its queue.
        holder: HolderFacts,
        /// How many stand before the caller would.
        ahead: u64,
    },
    /// The grant has ended.
    #[error("the grant {}{}", how(*.reason), .note.as_ref().map(|note| format!(": {note}")).unwrap_or_default())]
    GrantEnded {
        /// How.
        reason: EndReason,
        /// What an administrator said who broke it, as long as that is remembered.
        note: Option<String>,
    },
    /// An id so old that it may have ended and been forgotten.
    #[error("the id is older than the ids that the session remembers")]
    Forgotten,
    /// The same key was used with another request.
    #[error("the same Idempotency-Key was used with another {field}")]
    IdempotencyMismatch {
        /// What differs.
        field: String,
    },
    /// The lock has another limit.
    #[error("the lock's limit is {limit}")]
    LimitMismatch {
        /// The one that is set.
        limit: u32,
    },
    /// More permits than the lock has.
    #[error("{permits} permits exceed the lock's limit of {limit}")]
    PermitsOverLimit {
        /// The permits asked for.
        permits: u32,
        /// The limit in force.
        limit: u32,
    },
    /// Shared grants are for locks with a limit of 1.
    #[error("a lock with a limit of {limit} has no shared mode")]
    SharedWithLimit {
        /// The limit in force.
        limit: u32,
    },
    /// Too many wait for the lock.
    #[error("{max} grants already wait for the lock, which is the limit")]
    QueueFull {
        /// How many may.
        max: u64,
    },
    /// Too many sessions.
    #[error("the cluster already has {max} sessions, which is the limit")]
    SessionsFull {
        /// How many it may have.
        max: u64,
    },
    /// The table of ended ids is full; it never forgets sooner than promised.
    #[error("{max} ended ids are already remembered, which is the limit")]
    MemoryFull {
        /// How many may be.
        max: u64,
    },
    /// The grant belongs to a named session: the session must be kept alive instead.
    #[error("the grant belongs to session {session}")]
    SessionOwned {
        /// The session's public number.
        session: SessionNumber,
    },
    /// The token is not that of a held grant.
    #[error("the fencing token is not current")]
    StaleToken {
        /// The token of the present holder, if there is one.
        current: Option<FencingToken>,
    },
    /// The node has another version.
    #[error("the node's version is not the expected one")]
    VersionMismatch {
        /// The present version, if the node exists.
        current: Option<i32>,
    },
    /// No such node, or no such parent.
    #[error("there is no node {path}")]
    NoNode {
        /// The path that is missing.
        path: Path,
    },
    /// Nodes under `/locks` are written by the lock calls only, and the root is neither created nor removed.
    #[error("{path} cannot be changed by this call")]
    ReadOnly {
        /// The path.
        path: Path,
    },
    /// In the format, and not yet in this version.
    #[error("{what} is not supported by this version")]
    Unsupported {
        /// What.
        what: String,
    },
    /// One step of a transaction was refused, and so the whole of it.
    #[error("{reason}")]
    Step {
        /// The part in which it stands.
        part: Part,
        /// Its index in that list, from 0.
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
    /// The node is there, and another life was asked for than it was created with.
    #[error("the node {path} exists and is {kind}: the kind of a node cannot change")]
    OtherKind {
        /// Its path.
        path: Path,
        /// What it is.
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
    /// Too many nodes for one step.
    #[error("this would remove more than {max} nodes in one step: remove them in parts")]
    TooManyNodes {
        /// How many may.
        max: u64,
    },
    /// The name with its number is longer than a path may be.
    #[error("the path {parent} is too long for another name below it")]
    NoRoomForName {
        /// The parent.
        parent: Path,
    },
    /// Waiting there would cause a deadlock.
    #[error("waiting for it would cause a deadlock: {}", circle(.cycle))]
    WouldDeadlock {
        /// Each waits for the next, and the last one for the first, which is who asked.
        cycle: Vec<Blocked>,
    },
    /// Only a grant that is held can change its mode.
    #[error("the grant is not held yet")]
    NotHeld,
    /// Only the leader of an election proclaims.
    #[error("the grant does not lead this election")]
    NotLeader,
    /// The name is used for something else.
    #[error("{}", if *.election { "this is an election, not a lock" } else { "this is a lock, not an election" })]
    OtherUse {
        /// Whether it is an election; else it is a lock.
        election: bool,
    },
    /// Too many holds of one grant.
    #[error("the grant already has {max} holds, which is the limit")]
    HoldsFull {
        /// How many it may have.
        max: u64,
    },
    /// The machine failed in the middle of the request, a defect: every node left it out, and nothing was changed.
    #[error("a defect in the server: it skipped the request and changed nothing (fingerprint {fingerprint:016x})")]
    Defect {
        /// What tells the same request from others.
        fingerprint: u64,
    },
    /// Too many nodes for one step.
    #[error("this would create more than {max} nodes in one step: create them in parts")]
    TooManyCreated {
        /// How many may.
        max: u64,
    },
    /// The command would exceed the state's budget.
    #[error("the state uses {used} of {max} bytes and has no room for this (values may use three quarters of it)")]
    StateFull {
        /// How many bytes it counts.
        used: u64,
        /// The limit.
        max: u64,
    },
}

fn how(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Released => "was given back",
        EndReason::Expired => "has expired: it was not renewed in time, or reached its maximum hold time",
        EndReason::Broken => "was taken away by an administrator",
        EndReason::Withdrawn => "has left the queue",
    }
}

fn circle(cycle: &[Blocked]) -> String {
    let one = |blocked: &Blocked| format!("{} of session {} waits for {}", blocked.owner, blocked.session, blocked.lock);
    cycle.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A waiter in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Its session's public number.
    pub session: SessionNumber,
    /// Who it is, for people.
    pub owner: String,
    /// The lock that it waits for, or would wait for.
    pub lock: LockName,
}

/// Who holds a lock, as a refused caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderFacts {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Its token, unless it only stands first in the queue or cools.
    pub token: Option<FencingToken>,
    /// When it was granted, or queued where it only stands first, by the clock of the node that took that request.
    pub since: WallMillis,
}
