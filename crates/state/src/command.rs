//! All that crosses the machine's boundary, on one page: commands in, outcomes, rejections and events out.
//!
//! The variants and fields stand in the log and in frames by position: add at the end of an enum, and change a struct only
//! together with `LOG_FORMAT`. `proto/golden/` holds the bytes of each.

pub use crate::orders::{Break, Revoke, SetLock};
use crate::value::Value;
pub use crate::write::{Condition, Lifetime, Operation, OperationResult, Part, SessionKey, Sweepable, Transact, WriteKey};
use fairhold_types::{
    ClusterId, EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, Path, Revision, SessionId, SessionNumber,
    time::WallMillis,
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

/// A refusal: definite, the same on every node, and nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// No such session, or it has ended.
    #[error("the session does not exist or has ended")]
    NoSession,
    /// The session that this key opened has ended.
    #[error("the session that this key opened has ended")]
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
    #[error("the grant was {reason}{}", .note.as_ref().map(|note| format!(" by an administrator: {note}")).unwrap_or_default())]
    GrantEnded {
        /// How.
        reason: EndReason,
        /// What an administrator said who broke it, as long as that is remembered.
        note: Option<String>,
    },
    /// An id so old that it may have ended and been forgotten.
    #[error("the id is older than what the session remembers")]
    Forgotten,
    /// The same key came with another request.
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
    #[error("{permits} permits are more than the lock's limit of {limit}")]
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
    #[error("{max} wait for the lock already")]
    QueueFull {
        /// How many may.
        max: u64,
    },
    /// Too many sessions.
    #[error("the cluster has {max} sessions already")]
    SessionsFull {
        /// How many it may have.
        max: u64,
    },
    /// The table of ended ids is full; it never forgets sooner than promised.
    #[error("{max} ended ids are remembered already")]
    MemoryFull {
        /// How many may be.
        max: u64,
    },
    /// The grant belongs to a named session, which is what must be renewed.
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
    /// The node's version is another.
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
        /// Its place there, from 0.
        index: u32,
        /// Why it was refused.
        reason: Box<Rejection>,
    },
    /// The node is there already.
    #[error("the node {path} exists")]
    NodeExists {
        /// Its path.
        path: Path,
    },
    /// The node is there, and another life was asked for than it was created with.
    #[error("the node {path} exists and is {kind}: what a node is stays as it was created")]
    OtherKind {
        /// Its path.
        path: Path,
        /// What it is.
        kind: String,
    },
    /// The node has children.
    #[error("the node {path} has {children} children")]
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
    #[error("more than {max} nodes would go in one step: remove them in parts")]
    TooManyNodes {
        /// How many may.
        max: u64,
    },
    /// The name with its number is longer than a path may be.
    #[error("the path {parent} has no room for the name")]
    NoRoomForName {
        /// The parent.
        parent: Path,
    },
    /// Whoever waits there would wait for itself in the end.
    #[error("waiting for it would never end: {}", circle(.cycle))]
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
    #[error("{}", if *.election { "this is an election, and no lock" } else { "this is a lock, and no election" })]
    OtherUse {
        /// Whether it is an election; else it is a lock.
        election: bool,
    },
    /// Too many holds of one grant.
    #[error("the grant has {max} holds already")]
    HoldsFull {
        /// How many it may have.
        max: u64,
    },
}

fn circle(cycle: &[Blocked]) -> String {
    let one = |blocked: &Blocked| format!("{} of session {} waits for {}", blocked.owner, blocked.session, blocked.lock);
    cycle.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// One of a circle of those who would wait for one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Its session's public number.
    pub session: SessionNumber,
    /// Who it is, for people.
    pub owner: String,
    /// The lock for which it waits, or would.
    pub lock: LockName,
}

/// Who holds a lock, as a refused caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderFacts {
    /// The grant's public number.
    pub number: GrantNumber,
    /// Who owns it, for people.
    pub owner: String,
    /// Its token, unless it only stands first in the queue or cools.
    pub token: Option<FencingToken>,
    /// When it was granted, or queued where it only stands first, by the clock of the node that took that request.
    pub since: WallMillis,
}

/// A fact about a change, for those who watch and wait. Facts name numbers, never ids.
///
/// Lock nodes and their contenders are told of by the events of locks alone; the `Node…` and `ChildrenChanged` events are of
/// all other nodes, in ZooKeeper's order: first the node's own, then its parent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A session began.
    SessionOpened {
        /// Its number.
        session: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// A session's timeout is another now.
    SessionRetimed {
        /// Its number.
        session: SessionNumber,
        /// Its timeout.
        timeout_ms: u64,
    },
    /// A session was ended by its owner, or with its only grant.
    SessionClosed {
        /// Its number.
        session: SessionNumber,
    },
    /// A session was ended by the leader's verdict.
    SessionExpired {
        /// Its number.
        session: SessionNumber,
    },
    /// A contender took its place in a queue.
    Queued {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A caller attached to a grant; earlier attempts on it are over.
    Attached {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The attempt that counts from now on.
        attempt: u64,
    },
    /// A contender became a holder.
    Granted {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// Its token.
        token: FencingToken,
    },
    /// A grant ended.
    Ended {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// The session that owned it.
        session: SessionNumber,
        /// How.
        reason: EndReason,
    },
    /// A grant expired, and its lock stays blocked for the lock delay.
    Cooling {
        /// The lock.
        lock: LockName,
        /// The grant that expired.
        grant: GrantNumber,
        /// The delay.
        delay_ms: u64,
    },
    /// A lock delay is over.
    Cooled {
        /// The lock.
        lock: LockName,
        /// The grant that had expired.
        grant: GrantNumber,
    },
    /// An administrator took a lock from those who held it, or ended a session that held it; each grant has an event of its own.
    Broken {
        /// The lock.
        lock: LockName,
        /// Who asked for it, in words.
        by: String,
        /// Why, in words; may be empty.
        reason: String,
    },
    /// A lock without contenders was forgotten.
    LockForgotten {
        /// The lock.
        lock: LockName,
    },
    /// A node was created.
    NodeCreated {
        /// Its path.
        path: Path,
    },
    /// A node's value was written.
    NodeChanged {
        /// Its path.
        path: Path,
        /// Its version now.
        version: i32,
    },
    /// A node was removed.
    NodeDeleted {
        /// Its path.
        path: Path,
        /// The version that it had.
        version: i32,
    },
    /// A child of a node was created or removed; it follows the child's own event.
    ChildrenChanged {
        /// The parent's path.
        path: Path,
        /// How often that has happened to it: its `cversion` now.
        cversion: i32,
    },
    /// An exclusive holder shares from now on.
    Downgraded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder waits until it is the only one.
    Upgrading {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// A shared holder gave up waiting to be the only one, and goes on as before.
    UpgradeEnded {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
    },
    /// An election has a leader with that value: a new one, right after its grant, or one that proclaims another value.
    Proclaimed {
        /// The election.
        lock: LockName,
        /// The leader's grant.
        grant: GrantNumber,
        /// Its token.
        token: FencingToken,
        /// How often it has proclaimed: 0 for a new leader.
        version: i32,
        /// The value.
        value: Value,
    },
    /// One who led an election does so no more.
    Vacated {
        /// The election.
        lock: LockName,
        /// The grant that led it.
        grant: GrantNumber,
    },
    /// Its owner holds a grant once more, or once less.
    Holds {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// How many holds it has now.
        holds: u64,
    },
    /// An administrator set what a lock allows.
    LockSet {
        /// The lock.
        lock: LockName,
        /// Who asked for it, in words.
        by: String,
    },
    /// An administrator asks a holder to give the lock back.
    Revoked {
        /// The lock.
        lock: LockName,
        /// The grant.
        grant: GrantNumber,
        /// Who asks, in words.
        by: String,
        /// Why, in words; may be empty.
        reason: String,
    },
}
