//! What the machine answers: part of `command`.
//!
//! As there: add variants at the end, and change a struct only together with `LOG_FORMAT`.

use crate::command::{Event, OperationResult, Rejection};
use fairhold_types::{FencingToken, GrantNumber, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};

/// What the machine answers: the same on every node and for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What came of it.
    pub result: Result<Outcome, Rejection>,
    /// The state's revision after it.
    pub revision: Revision,
}

/// What `apply` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What the proposer is told.
    pub answer: Answer,
    /// What happened, for those who watch and wait; all at `answer.revision`.
    pub events: Vec<Event>,
    /// What it cost, in steps of about a microsecond: the same on every node. `docs/internals/commands.md` has each command's bound.
    pub steps: u64,
}

/// A command's effect, as its proposer needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It had nothing to change: it was done before, or a newer attempt took over.
    Nothing,
    /// It changed what it named, and there is no more to say.
    Done,
    /// The session is open (also for a repeated key: the same session).
    SessionOpened {
        /// Its secret id.
        id: SessionId,
        /// Its public number.
        number: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// The grant is held.
    Held(HeldGrant),
    /// The grant waits.
    Queued(Queued),
    /// The operations were done.
    Written {
        /// Whether the conditions held, so that `then` was done rather than `otherwise`.
        succeeded: bool,
        /// One for each operation.
        results: Vec<OperationResult>,
        /// The revision at which they were done: the first time, where the request is repeated.
        at: Revision,
    },
    /// A lock was taken from those who held it.
    Broken {
        /// How many there were, one that cooled among them.
        holders: u64,
        /// The first of them, at most `BROKEN_NAMED_MAX`.
        named: Vec<GrantNumber>,
    },
    /// A verdict on many objects: so many of them, from the first on, were judged. The rest waits for the next verdict.
    Judged {
        /// How many.
        objects: u64,
    },
    /// The operations were done before, by a request with the same key, and their results were too many to be remembered.
    WrittenBefore {
        /// Whether the conditions held, so that `then` was done rather than `otherwise`.
        succeeded: bool,
        /// The revision at which they were done.
        at: Revision,
    },
}

/// A held grant.
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

/// A waiting grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// The attempt that this answer belongs to.
    pub attempt: u64,
}
