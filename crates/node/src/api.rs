//! The interface between `http` and a node: calls and their results.

mod access;
mod admin;
mod error;
mod membership;
mod overview;
mod pages;
mod queue_position;
mod sessions;
mod tree;

pub use access::{ChangeAccessCall, CreateAccessTokenCall, CreatedToken, TenantView};
pub use admin::{BreakCall, RevokeCall, SetLockCall};
pub use error::CallError;
pub(crate) use error::Compacted;
pub use membership::{
    CreateJoinTokenCall, JoinTokenView, MemberFacts, MemberRoundTrips, NewJoinToken, SetTimingCall, TimingView,
};
pub use overview::{
    MemberAnswer, MemberLook, MemberReport, OverviewView, RecentTotals, RefusedWait, RefusedWaitsView, SERIES_NAMES, SeriesKey,
    SeriesRow, SeriesView, WaitsView,
};
pub use pages::{OwnedAfter, PageQuery};
pub use queue_position::{Ahead, QueuePosition};
pub use sessions::{OpenSessionCall, OpenedSession, Renewal, SessionRef, SessionView};
pub use tree::{Children, Fence, NodeRow, NodeView, Operated, Precondition, TransactCall, Transacted, WriteCall};

use fairhold_raft::defect::Defect;
use fairhold_state::{
    audit::AuditHead,
    command::{Acquire, HolderFacts, Meta, Want},
    queue_view::QueueKey,
    record::Revocation,
    statistics::Statistics,
};
use fairhold_types::{
    ClusterVersion, EndReason, FencingToken, GrantId, GrantNumber, LockName, Mode, NodeId, Revision, SessionNumber,
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
    /// Everything acknowledged before the read began; needs the leader.
    Linearizable,
    /// The current state of this node.
    Local,
    /// The state of this node after it has reached this revision.
    AtLeast(Revision),
    /// Everything acknowledged before the read began, and at least this revision.
    LinearizableAtLeast(Revision),
}

/// The freshness of a read, and its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// How fresh the read must be.
    pub freshness: Freshness,
    /// How long the server may work on the read.
    pub timeout: Duration,
}

/// A request for a grant.
#[derive(Debug, Clone)]
pub struct AcquireCall {
    /// The command. The node overwrites `if_busy` and `at`.
    pub acquire: Acquire,
    /// How long to wait in the queue; zero means no wait.
    pub wait: Duration,
    /// `Prefer: respond-async`: answer `Queued` instead of withdrawing at the end of the wait.
    pub respond_async: bool,
    /// The timeout for all steps together. The wait does not count.
    pub timeout: Duration,
}

/// The result of a request for a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The grant is held.
    Held(GrantView),
    /// The grant is queued. Only a call with `respond_async` gets this answer.
    Queued(GrantView),
}

/// A grant that lasts as long as its caller's connection.
#[derive(Debug)]
pub struct HoldCall {
    /// The first event: `Queued` or `Held`, or the end of the grant.
    pub first: At<HoldEvent>,
    /// The later events. Dropping the receiver means that the caller disconnected: its grant ends.
    pub events: mpsc::Receiver<At<HoldEvent>>,
    /// If the caller fell silent instead of disconnecting, set this before you drop `events`: the grant then lives for
    /// its timeout.
    pub caller_silent: CallerSilent,
}

/// Whether a caller fell silent instead of disconnecting. It may be alive behind a broken network, and until its
/// timeout it may believe that it holds the lock.
#[derive(Debug, Clone, Default)]
pub struct CallerSilent(Arc<AtomicBool>);

impl CallerSilent {
    /// Marks the caller as silent.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An event on a grant, for its connected caller. `Lost`, `Failed` and `GoAway` end the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldEvent {
    /// The grant waits in the queue.
    Queued {
        /// The grant, with its place.
        view: Box<GrantView>,
    },
    /// The grant is held.
    Held(Box<GrantView>),
    /// Nothing has changed. The event shows the caller that the connection works.
    Alive,
    /// An administrator asks the caller to release the grant, which it still holds.
    Revoke(Revocation),
    /// The caller's credential expires soon.
    CredentialExpires,
    /// The grant has ended.
    Lost(EndReason),
    /// The request failed.
    Failed(CallError),
    /// The server is shutting down. The grant stays held or queued.
    GoAway,
}

/// The node's answer for a live grant, for its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// Its secret id.
    pub id: GrantId,
    /// Its public number.
    pub number: GrantNumber,
    /// Its lock, or the first of its locks.
    pub lock: LockName,
    /// Its other locks, in the order of the request.
    pub others: Vec<Want>,
    /// The number of its holds.
    pub holds: u64,
    /// An administrator's request to release it.
    pub revoked: Option<Revocation>,
    /// The public number of its session.
    pub session: SessionNumber,
    /// Whether its session was created for it alone. If so, callers renew it by its own id.
    pub anonymous: bool,
    /// Its token, while it is held.
    pub token: Option<FencingToken>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How many permits it takes.
    pub permits: u32,
    /// Its owner, for people to read.
    pub owner: String,
    /// Metadata, for people to read.
    pub meta: Meta,
    /// Its place in the queue, while it waits.
    pub queue_position: Option<QueuePosition>,
    /// The contender that it waits for; `None` if it does not wait, or if too many waiting readers are between the two.
    pub waits_for: Option<HolderFacts>,
    /// Whether deadlock detection has completed for it.
    pub deadlock_checked: bool,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted.
    pub held_since: Option<WallMillis>,
    /// The time until it expires without another renewal, measured from the last confirmed renewal; `None` if unknown
    /// to this node.
    pub expires_in: Option<Duration>,
    /// The attempt to abandon if this answer does not reach its caller; `None` if the grant must stay.
    pub attempt_to_abandon: Option<u64>,
}

/// The result of a look-up of a grant by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantLookup {
    /// The grant is held or waits.
    Live(Box<GrantView>),
    /// The grant has ended.
    Ended {
        /// How it ended.
        reason: EndReason,
        /// The reason that an administrator gave for breaking it.
        note: Option<String>,
    },
    /// The id is unknown or forgotten.
    Unknown,
}

/// The public view of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    /// A page of its holders.
    pub holders: Vec<QueueItem>,
    /// The last holder of this page; `None` if no page follows.
    pub next: Option<GrantNumber>,
    /// The number of holders.
    pub holder_count: u64,
    /// The number of waiters.
    pub waiting: u64,
    /// The number of its permits.
    pub limit: u32,
    /// How many contenders may wait, if an administrator set a limit.
    pub max_waiters: Option<u64>,
    /// How long a grant may hold it, if an administrator set a limit.
    pub max_hold: Option<Duration>,
    /// The last fencing token that it issued.
    pub last_token: Option<FencingToken>,
    /// Its statistics, if it has any.
    pub statistics: Option<Statistics>,
}

/// The public view of a page of a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// Its entries, in order.
    pub items: Vec<QueueItem>,
    /// The last entry of this page; `None` if no page follows.
    pub next: Option<QueueKey>,
    /// The number of holders of the lock.
    pub holder_count: u64,
    /// The number of waiters of the lock.
    pub waiting: u64,
    /// How long recent holders have usually held the lock.
    pub usual_hold: Option<Duration>,
}

/// The public view of an entry of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem {
    /// The public number of the grant.
    pub number: GrantNumber,
    /// The public number of its session.
    pub session: SessionNumber,
    /// Its position: the number of contenders ahead, plus 1.
    pub position: u64,
    /// Its token while it holds the lock.
    pub token: Option<FencingToken>,
    /// Whether its session expired while it held the lock, and the lock delay is not over.
    pub cooling: bool,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How many permits it takes.
    pub permits: u32,
    /// Its owner, for people to read.
    pub owner: String,
    /// Metadata, for people to read.
    pub meta: Meta,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted.
    pub held_since: Option<WallMillis>,
    /// The number and the owner of the contender that it waits for.
    pub waits_for: Option<(GrantNumber, String)>,
    /// The estimated waiting time, for people.
    pub estimate: Option<Duration>,
    /// The first locks of a grant of several, in the order of its request: those that the reader may see. Only in a page of a
    /// queue.
    pub locks: Vec<Want>,
}

/// The cluster, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The id of this node.
    pub id: NodeId,
    /// Raft's view: roles, term, leader, and members with their lag.
    pub raft: fairhold_raft::ReplicaStatus,
    /// How many grants were granted since this node started.
    pub grants: u64,
    /// How many waiting requests this node woke since it started.
    pub wakeups: u64,
    /// Commands that panicked in this node's state machine.
    pub defects: Vec<Defect>,
    /// The cluster's version in this node's state.
    pub cluster_version: ClusterVersion,
    /// The revision of this node's state.
    pub revision: Revision,
    /// The newest entry of the audit of administrative acts.
    pub audit_head: Option<AuditHead>,
    /// The size of the state in bytes, as its budget counts it.
    pub state_bytes: u64,
    /// The state's budget in bytes; `None` until a node has reported what it can hold.
    pub state_bytes_max: Option<u64>,
    /// What the state knows about each member.
    pub facts: BTreeMap<NodeId, MemberFacts>,
}
