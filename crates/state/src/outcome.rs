//! The answers of the machine. `command` exports them.
//!
//! Frames encode variants and fields by position: add variants at the end, and change a struct only together with
//! `LOG_FORMAT`.

use crate::command::{Event, OperationResult, Rejection};
use fairhold_access::token::AccessTokenNumber;
use fairhold_types::{FencingToken, GrantNumber, JoinTokenNumber, MemberRole, NodeId, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};

/// The answer to a command: the same on every node, always.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What it did, or why it was refused.
    pub result: Result<Outcome, Rejection>,
    /// The state's revision after it.
    pub revision: Revision,
}

/// What `apply` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The answer for the proposer.
    pub answer: Answer,
    /// What happened, for watchers and waiters. All events belong to `answer.revision`.
    pub events: Vec<Event>,
    /// What it cost, in steps of about a microsecond: the same on every node. `docs/internals/commands.md` lists each
    /// command's bound.
    pub steps: u64,
}

/// What a command did, in the terms that its proposer needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Nothing to change: the command was done before, or a newer attempt has taken over.
    Nothing,
    /// Done, with nothing more to report.
    Done,
    /// The session is open. A repeated key returns the same session.
    SessionOpened {
        /// Its secret id.
        id: SessionId,
        /// Its public number.
        number: SessionNumber,
        /// Its timeout in milliseconds.
        timeout_ms: u64,
    },
    /// The grant is held.
    Held(HeldGrant),
    /// The grant is queued.
    Queued(Queued),
    /// The operations were done.
    Written {
        /// Whether the conditions held: `then` was done rather than `otherwise`.
        succeeded: bool,
        /// One for each operation.
        results: Vec<OperationResult>,
        /// The revision at which they were done. For a repeated request: the revision of the first request.
        at: Revision,
    },
    /// A lock was taken from its holders.
    Broken {
        /// The number of holders, including cooling grants.
        holders: u64,
        /// The first of them, at most `BROKEN_NAMED_MAX`.
        named: Vec<GrantNumber>,
    },
    /// The answer to a verdict on many objects: how many of them, from the first on, were processed. The rest waits for
    /// the next verdict.
    Judged {
        /// How many.
        objects: u64,
    },
    /// An earlier request with the same key did the operations. Their results were too large to remember.
    WrittenBefore {
        /// Whether the conditions held: `then` was done rather than `otherwise`.
        succeeded: bool,
        /// The revision at which they were done.
        at: Revision,
    },
    /// A join token was created.
    JoinTokenCreated {
        /// Its number.
        number: JoinTokenNumber,
        /// Whether an earlier request with the same key created it. Then it has the secret of that request.
        repeated: bool,
    },
    /// A node was admitted, now or by an earlier request.
    Admitted {
        /// The id that it has from now on.
        node: NodeId,
        /// The role that it will have.
        role: MemberRole,
        /// The member that it replaces.
        replaces: Option<NodeId>,
    },
    /// A bearer token was created.
    AccessTokenCreated {
        /// Its number.
        number: AccessTokenNumber,
        /// Whether an earlier request with the same key and the same secret created it.
        repeated: bool,
    },
}

/// The answer of the state machine for a held grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldGrant {
    /// Its public number.
    pub number: GrantNumber,
    /// Its fencing token.
    pub token: FencingToken,
    /// Its session's public number.
    pub session: SessionNumber,
    /// The attempt that this answer belongs to.
    pub attempt: u64,
}

/// A queued grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// The attempt that this answer belongs to.
    pub attempt: u64,
}
