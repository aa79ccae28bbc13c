//! The calls of `http` to a node and their answers: the boundary between the API and the behaviour.

mod admin;
mod pages;
mod queue_position;
mod sessions;
mod tree;

pub use admin::{BreakCall, RevokeCall, SetLockCall};
pub use pages::{OwnedAfter, PageQuery};
pub use queue_position::{Ahead, InTheWay};
pub use sessions::{OpenSessionCall, OpenedSession, Renewal, SessionRef, SessionView};
pub use tree::{Children, Fence, NodeRow, NodeView, Operated, Precondition, TransactCall, Transacted, WriteCall};

use fairhold_raft::{
    HandoverError,
    defect::Defect,
    error::{ProposeError, ReadError},
};
use fairhold_state::{
    command::{Acquire, HolderFacts, Meta, Rejection, Want},
    queue_view::QueueKey,
    record::Revocation,
    statistics::Statistics,
};
use fairhold_types::{
    EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, NodeId, Path, Revision, SessionNumber, limits::INITIAL_WITHIN,
    time::WallMillis,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// Why a call was not done. The kinds are never mixed: a refusal is definite, and the other two say whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The machine's answer, or the node's own definite refusal: nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No answer from the machine: it was not proposed, or may have been.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// A read that could not be served.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The lock is not free, and the caller does not wait.
    #[error("{refused}")]
    LockHeld {
        /// The machine's answer.
        refused: Rejection,
        /// What this node knows besides of who is in the way.
        in_the_way: Box<InTheWay>,
    },
    /// The wait is over, and the withdrawal is committed.
    #[error("the lock did not become free within `wait`")]
    WaitTimeout {
        /// Who holds it, as far as this node knows.
        holder: Option<HolderFacts>,
        /// Where the caller stood, as far as this node knows.
        in_the_way: Box<InTheWay>,
    },
    /// Another request with the same key took this one's place over.
    #[error("a newer request with the same Idempotency-Key took over")]
    Superseded,
    /// No such node of the tree.
    #[error("there is no node {path}")]
    NoNode {
        /// Its path.
        path: Path,
    },
    /// The leadership was not handed over.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The events from there on are no longer kept here.
    #[error("this node no longer keeps events before revision {oldest}: start again from the current state")]
    Compacted {
        /// The oldest revision from which they are.
        oldest: Revision,
    },
    /// A revision that nothing has reached.
    #[error("revision {from} is in the future: the cluster is at {revision}, and you can wait for the next revision at most")]
    FutureRevision {
        /// The revision that was asked for.
        from: Revision,
        /// The newest.
        revision: Revision,
    },
    /// A watcher that took too long to read what was there.
    #[error("you did not read the initial state within {} s: start again, and read faster", INITIAL_WITHIN.as_secs())]
    WatcherTooSlow,
    /// The server stops, and surely did nothing.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server stops while the request waits; the grant keeps its place.
    #[error("the server is shutting down; your place in the queue is kept")]
    Detached,
}

impl CallError {
    /// Whether what was asked may have been done, or may yet be.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, CallError::Propose(ProposeError::Unknown(_)))
    }
}

/// The events that a watch needs are no longer kept: it can begin at this revision or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    pub(crate) oldest: Revision,
}

impl From<Compacted> for CallError {
    fn from(compacted: Compacted) -> CallError {
        CallError::Compacted { oldest: compacted.oldest }
    }
}

/// A value, and the revision of the state that it reflects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The applied revision.
    pub revision: Revision,
}

/// How fresh a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// All that was acknowledged before the read began: asks the leader.
    Linearizable,
    /// What this node has.
    Local,
    /// What this node has, once it has that revision.
    AtLeast(Revision),
    /// All that was acknowledged before the read began, and that revision.
    LinearizableAtLeast(Revision),
}

/// A read's freshness and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// How fresh.
    pub freshness: Freshness,
    /// How long the server may work on it.
    pub timeout: Duration,
}

/// Asks for a grant. `acquire.claimant`, `owner`, `meta` and the rest come parsed; `acquire.if_busy` and `acquire.at` are set
/// by the node.
#[derive(Debug, Clone)]
pub struct AcquireCall {
    /// The command, but for `if_busy` and `at`.
    pub acquire: Acquire,
    /// How long to wait in the queue; zero: answer at once.
    pub wait: Duration,
    /// `Prefer: respond-async`: answer `Queued` instead of withdrawing when the wait is over.
    pub respond_async: bool,
    /// How long the server may work on it, all steps together and the time that it waits not counted.
    pub timeout: Duration,
}

/// What came of asking for a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is held.
    Held(GrantView),
    /// It waits, as the caller wished.
    Queued(GrantView),
}

/// A grant that is held for as long as its caller listens.
#[derive(Debug)]
pub struct HoldCall {
    /// What is known at once: `Queued` or `Held`, which name the grant, or how it ended already.
    pub first: At<HoldEvent>,
    /// What comes after it. Dropping it means that the caller went away: its grant ends.
    pub events: mpsc::Receiver<At<HoldEvent>>,
    /// Says, before `events` is dropped, that the caller did not go away by itself: then nothing ends but with its timeout.
    pub silence: Silence,
}

/// Whether a caller fell silent instead of going away: it may be alive behind a broken network, and believe that it holds for
/// as long as its timeout lasts.
#[derive(Debug, Clone, Default)]
pub struct Silence(Arc<AtomicBool>);

impl Silence {
    /// It fell silent.
    pub fn note(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What happens to a grant while its caller listens. After `Lost`, `Failed` and `GoAway` comes nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldEvent {
    /// It waits in the queue.
    Queued {
        /// The grant, with its place.
        view: Box<GrantView>,
    },
    /// It is held.
    Held(Box<GrantView>),
    /// The connection stands.
    Alive,
    /// An administrator asks to give it back; it is held all the same.
    Revoke(Revocation),
    /// The grant has ended.
    Lost(EndReason),
    /// The request failed.
    Failed(CallError),
    /// The server stops; the grant keeps its place, held or queued.
    GoAway,
}

/// A live grant, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// Its secret id.
    pub id: GrantId,
    /// Its public number.
    pub number: GrantNumber,
    /// The lock; the first of several.
    pub lock: LockName,
    /// The other locks that it has, in the order in which they were asked for.
    pub others: Vec<Want>,
    /// How many holds its owner has of it.
    pub holds: u64,
    /// An administrator asks the holder to release it.
    pub revoked: Option<Revocation>,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Whether the session was made for it alone, so that it is renewed by itself.
    pub anonymous: bool,
    /// Its token, while it is held.
    pub token: Option<FencingToken>,
    /// Alone or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its owner, for people to read.
    pub owner: String,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// Its place, while it waits.
    pub in_the_way: Option<InTheWay>,
    /// The number of the one it waits for, with the owner, while it waits; none where many readers stand between the two.
    pub waits_for: Option<HolderFacts>,
    /// Whether it was checked that no circle of waiters keeps it waiting for ever.
    pub deadlock_checked: bool,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted.
    pub held_since: Option<WallMillis>,
    /// How long it lives without a further renewal, counted from the last one that was proved; `None`: not known here.
    pub expires_in: Option<Duration>,
    /// The attempt that this answer is for, where the grant is to end if the answer does not reach its caller.
    pub leaves_with_caller: Option<u64>,
}

/// A grant that is asked for by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantLookup {
    /// It is held or waits.
    Live(Box<GrantView>),
    /// It is over.
    Ended {
        /// How it ended.
        reason: EndReason,
        /// What an administrator said who broke it.
        note: Option<String>,
    },
    /// Unknown, or forgotten.
    Unknown,
}

/// A lock, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    /// A page of its holders.
    pub holders: Vec<QueueItem>,
    /// The holder behind which the next page begins; none after the last.
    pub next: Option<GrantNumber>,
    /// How many hold it.
    pub holder_count: u64,
    /// How many wait.
    pub waiting: u64,
    /// Its limit.
    pub limit: u32,
    /// How many may wait, where an administrator said so.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, if an administrator set a limit.
    pub max_hold: Option<Duration>,
    /// The last token issued.
    pub last_token: Option<FencingToken>,
    /// What is counted of it.
    pub statistics: Option<Statistics>,
}

/// A page of a lock's queue, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// The entries, in order.
    pub items: Vec<QueueItem>,
    /// The place behind which the next page begins; none after the last.
    pub next: Option<QueueKey>,
    /// How many hold the lock.
    pub holder_count: u64,
    /// How many wait for it.
    pub waiting: u64,
}

/// An entry of a queue, as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem {
    /// The grant's number.
    pub number: GrantNumber,
    /// Its session's number.
    pub session: SessionNumber,
    /// Those ahead and 1.
    pub position: u64,
    /// Its token while it holds the lock.
    pub token: Option<FencingToken>,
    /// Whether its session expired while it held, and its lock delay runs.
    pub cooling: bool,
    /// Alone or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// Its owner, for people to read.
    pub owner: String,
    /// Pairs of text, for people.
    pub meta: Meta,
    /// Since when it waits.
    pub queued_at: WallMillis,
    /// Since when it holds.
    pub held_since: Option<WallMillis>,
    /// The number and the owner of the one that it waits for.
    pub waits_for: Option<(GrantNumber, String)>,
    /// How long those ahead may take yet, by what was usual: for people.
    pub estimate: Option<Duration>,
}

/// The cluster, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// This node.
    pub id: NodeId,
    /// Raft's view: roles, term, leader, members with their lag.
    pub raft: fairhold_raft::ReplicaStatus,
    /// How many grants this node saw given since it started.
    pub grants: u64,
    /// How many waiting requests this node woke since it started.
    pub wakeups: u64,
    /// Commands at which this node's machine panicked.
    pub defects: Vec<Defect>,
    /// The revision of this node's state.
    pub revision: Revision,
    /// How many bytes the state counts.
    pub state_bytes: u64,
    /// How many it may; none before a node has said what it can hold.
    pub state_bytes_max: Option<u64>,
    /// What each member can hold, as far as it has said so.
    pub capacities: BTreeMap<NodeId, u64>,
}
