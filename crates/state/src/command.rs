//! All that crosses the machine's boundary: commands in, outcomes, rejections and events out.
//!
//! The variants and fields stand in the log and in frames by position: add at the end of an enum, and change a struct only
//! together with `LOG_FORMAT`. `proto/golden/` holds the bytes of each.

use crate::value::Value;
pub use crate::write::{Condition, Lifetime, Operation, OperationResult, Part, SessionKey, Sweepable, Transact, WriteKey};
pub use crate::{
    event::Event,
    orders::{Break, Revoke, SetLock},
    rejection::{Blocked, HolderFacts, Rejection},
};
use fairhold_types::{
    ClusterId, FencingToken, GrantId, GrantNumber, LockName, Mode, Revision, SessionId, SessionNumber, time::WallMillis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version byte of commands in the log.
pub const LOG_FORMAT: u8 = 1;

/// Pairs of text that an owner hangs on a session or a grant, for people to read.
pub type Meta = BTreeMap<String, String>;

/// One change asked of the machine. Parsing, clocks and randomness came before: ids and times are fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Names the cluster, once, as its first change.
    FormCluster {
        /// The cluster's random identity.
        cluster: ClusterId,
    },
    /// Opens a named session.
    OpenSession(OpenSession),
    /// Ends a session at its owner's wish, with all that it owns.
    CloseSession {
        /// The session's secret id.
        session: SessionId,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// The leader's verdict: the session went its full timeout without a keepalive.
    ExpireSession {
        /// The session's public number.
        session: SessionNumber,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// Takes a place in a lock's queue, or attaches again to the place that was taken before with the same id.
    Acquire(Acquire),
    /// A caller that still listens gives up waiting.
    Withdraw {
        /// The grant to take out of the queue.
        grant: GrantId,
        /// The attempt that gives up; ignored where a newer one exists.
        attempt: u64,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// A caller went away without a word.
    Abandon {
        /// The grant to end, held or queued.
        grant: GrantId,
        /// The attempt whose caller went away; ignored where a newer one exists.
        attempt: u64,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// Gives a grant back, or leaves the queue. An unknown id is remembered as ended.
    Release {
        /// The grant to end.
        grant: GrantId,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// Sets the timeout of a grant's own session.
    SetGrantTimeout {
        /// A grant without a named session.
        grant: GrantId,
        /// The new timeout.
        timeout_ms: u64,
    },
    /// The leader's verdict: a lock delay is over.
    EndCooling {
        /// The lock.
        lock: LockName,
        /// The contender that cools.
        contender: GrantNumber,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// The leader's verdict: what was remembered without a session up to this revision is old enough to be forgotten.
    Forget {
        /// The last revision to forget.
        through: Revision,
    },
    /// The leader's verdict: a lock was long without contenders; its settings and its node go.
    ForgetLock {
        /// The lock.
        lock: LockName,
        /// Since when it had been without contenders: ignored where it was used again.
        since: Revision,
    },
    /// Checks conditions and changes the tree, in one step.
    Transact(Transact),
    /// An administrator takes a lock from those who hold it.
    Break(Break),
    /// An administrator ends a session, with all that it owns.
    EndSession {
        /// The session's public number.
        session: SessionNumber,
        /// Who asked for it, in words.
        by: String,
        /// Why, in words; may be empty.
        reason: String,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// The leader's verdict: these containers and TTL nodes have been without children and without a change for long enough.
    Sweep {
        /// The nodes; each is passed over where it is another by now.
        nodes: Vec<Sweepable>,
        /// When the verdict was reached.
        at: WallMillis,
    },
    /// The leader's verdict: what ended up to this revision is old enough to leave the history.
    ForgetHistory {
        /// The last revision to forget.
        through: Revision,
    },
    /// Makes an exclusive holder a shared one, in place: readers behind it join at once.
    Downgrade {
        /// The grant.
        grant: GrantId,
        /// When the request was taken.
        at: WallMillis,
    },
    /// Makes a shared holder the only one, as soon as the others have gone; until then it goes on holding shared.
    Upgrade {
        /// The grant.
        grant: GrantId,
        /// What to do where others hold too.
        if_busy: IfBusy,
        /// When the request was taken.
        at: WallMillis,
    },
    /// Gives an upgrade up that still waits: the grant stays a shared holder.
    EndUpgrade {
        /// The grant.
        grant: GrantId,
        /// When the request was taken.
        at: WallMillis,
    },
    /// The leader of an election proclaims another value.
    Proclaim(Proclaim),
    /// An administrator sets what a lock allows.
    SetLock(SetLock),
    /// An administrator asks those who hold a lock to give it back.
    Revoke(Revoke),
    /// The leader's verdict: a grant was held for as long as it may.
    EndHold {
        /// The grant.
        grant: GrantNumber,
        /// The token that it had: ignored where it has another by now.
        token: FencingToken,
        /// When the verdict was reached.
        at: WallMillis,
    },
}

impl Command {
    /// The wall-clock time that rides in it, for people to read.
    #[must_use]
    pub fn at(&self) -> WallMillis {
        match self {
            Command::OpenSession(open) => open.at,
            Command::Acquire(acquire) => acquire.at,
            Command::Transact(transact) => transact.at,
            Command::Break(order) => order.at,
            Command::Proclaim(order) => order.at,
            Command::SetLock(order) => order.at,
            Command::Revoke(order) => order.at,
            Command::EndSession { at, .. }
            | Command::CloseSession { at, .. }
            | Command::ExpireSession { at, .. }
            | Command::Withdraw { at, .. }
            | Command::Abandon { at, .. }
            | Command::Release { at, .. }
            | Command::EndCooling { at, .. }
            | Command::Sweep { at, .. }
            | Command::Downgrade { at, .. }
            | Command::Upgrade { at, .. }
            | Command::EndUpgrade { at, .. }
            | Command::EndHold { at, .. } => *at,
            Command::FormCluster { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::ForgetLock { .. } => WallMillis(0),
        }
    }
}

/// Opens a named session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// The caller's idempotency key, where it gave one.
    pub key: Option<GrantId>,
    /// The new session's secret id.
    pub id: SessionId,
    /// How long it lives without a keepalive.
    pub timeout_ms: u64,
    /// Its name, for people.
    pub name: String,
    /// Its pairs of text, for people.
    pub meta: Meta,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Who will own a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claimant {
    /// A session that was opened before.
    Session(SessionId),
    /// Nobody yet: a session is made for this grant alone.
    Anonymous {
        /// How long the grant lives without a renewal.
        timeout_ms: u64,
    },
}

/// What to do where a grant cannot be given at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfBusy {
    /// Take a place in the queue.
    Queue,
    /// Change nothing and say who holds it.
    Refuse,
}

/// The text by which people know a grant's owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The text.
    pub text: String,
    /// Whether the caller gave it; else it was made from the connection, and a retry may come with another.
    pub given: bool,
}

/// One lock of an acquire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The lock.
    pub lock: LockName,
    /// Alone or shared.
    pub mode: Mode,
}

/// Takes a place in the queue of each lock, or a further hold. An election is one name, and has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// The grant's id, which makes the command safe to repeat.
    pub grant: GrantId,
    /// The locks, all different.
    pub wants: Vec<Want>,
    /// Who will own it.
    pub claimant: Claimant,
    /// What to do where it must wait.
    pub if_busy: IfBusy,
    /// How many permits the lock has; `None`: what is set, else 1.
    pub limit: Option<u32>,
    /// How many permits are asked for.
    pub permits: u32,
    /// Higher stands before lower.
    pub priority: i32,
    /// Who owns it, for people.
    pub owner: Owner,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// How long the lock stays blocked when the holder's session expires.
    pub lock_delay_ms: u64,
    /// Another hold of a grant that the same owner has.
    pub reentrant: bool,
    /// The longest time of holding.
    pub max_hold_ms: Option<u64>,
    /// The value of a candidate, where it is for an election: what it proclaims when it leads.
    pub value: Option<Vec<u8>>,
    /// When the request was taken.
    pub at: WallMillis,
}

/// Gives the leader of an election another value to be known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proclaim {
    /// The caller's key, or the server's own: a value is told once, however often the order is repeated.
    pub key: WriteKey,
    /// The election.
    pub election: LockName,
    /// The leader's grant.
    pub grant: GrantId,
    /// The value.
    pub value: Value,
    /// When the request was taken.
    pub at: WallMillis,
}

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
    Held(Held),
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
}

/// A held grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
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
