//! The facts that the oracle receives: applied changes, answers to clients, and the conditions of the scenario.

use crate::{access_user::AccessUser, disk::Position, member_list::MemberList, watch_events::Watched};
use fairhold_state::{State, command::Event};
use fairhold_types::{FencingToken, Incarnation, LockName, Mode, NodeId, Revision, SessionNumber};
use std::{collections::BTreeMap, time::Duration};

/// A change, as one node applied it.
pub(crate) struct Applied<'a> {
    /// The node.
    pub(crate) node: NodeId,
    /// When, in true time.
    pub(crate) at: Duration,
    /// Whether this node is the first to apply it.
    pub(crate) first: bool,
    /// The state after it.
    pub(crate) state: &'a State,
    /// Its revision.
    pub(crate) revision: Revision,
    /// Its events.
    pub(crate) events: &'a [Event],
    /// Whether to check the whole state: after every change while it is small, after some changes while it is large.
    pub(crate) whole: bool,
}

/// What a client received, or may conclude from it.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// A linearizable answer. `floor` is the highest revision in any answer that had arrived before the request was
    /// sent.
    Answered { what: String, floor: Revision, revision: Revision },
    /// A write of a value to a node was acknowledged.
    Wrote { path: String, version: i64, value: String, revision: Revision },
    /// A request, sent once, creates a sequential node with this value.
    CreatingSequential { value: String },
    /// A value was read in the state of a revision.
    Read { path: String, version: i64, value: String, revision: Revision },
    /// A grant was acknowledged as held.
    Held { lock: LockName, number: u64, token: FencingToken },
    /// A write with a token as its fence was acknowledged; `exclusive`: the holder held the lock exclusively.
    Fenced { lock: LockName, token: FencingToken, exclusive: bool, revision: Revision },
    /// A renewal was acknowledged.
    Renewed { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client or an administrator is about to end a session.
    Closing { session: SessionNumber },
    /// A client is about to change the timeout of a session: earlier timeouts do not count from then on.
    Retiming { session: SessionNumber, sent: Duration, ttl: Duration },
    /// A client is about to request a change, with a key.
    Changing { target: String, key: String, change: Conversion },
    /// The outcome of the request with this key is known.
    Settled { key: String },
    /// A grant was released by its id, or the id was released before any acquire used it.
    Released { id: String },
    /// The leader with a token proclaimed this value as this version.
    Led { election: LockName, token: FencingToken, version: u64, value: String },
    /// A call at a time without faults. `received`: when its answer arrived, if it did.
    Called { what: String, sent: Duration, received: Option<Duration>, within: Duration },
    /// An acquire at a time without faults, answered with a grant.
    AcquireAnswered { lock: LockName, token: FencingToken, sent: Duration, received: Duration, within: Duration },
    /// A term had a leader at that time. `calm`: there has been no fault for a while.
    Term { term: u64, calm: bool, at: Duration },
    /// The time during which a client could believe, by its own clock, that it held a grant.
    Believed { lock: LockName, mode: Mode, token: FencingToken, from: Duration, until: Duration },
    /// The same for permits of a semaphore.
    Permits { lock: LockName, token: FencingToken, permits: u32, limit: u32, from: Duration, until: Duration },
    /// A machine was paused until `until`. Its node was the leader before the pause, and still after it until
    /// `led_until`.
    LeaderPaused { until: Duration, paused_for: Duration, led_until: Duration },
    /// The cluster gave a machine with this data directory an id.
    Joined { node: NodeId, incarnation: Incarnation },
    /// An operator is about to ask that a member leaves or loses its vote.
    AskedToLeave { node: NodeId },
    /// A node admitted another one. `removed`: it had applied the removal of that one.
    Admitted { by: NodeId, other: NodeId, removed: bool },
    /// A node wrote an entry that sets the members to its log.
    MembersSet(Box<MembersSet>),
    /// Whether the voters in the log of the leader of a term are joint. `quiet`: there has been no fault for a while.
    Voters { term: u64, joint: bool, quiet: bool, at: Duration },
    /// The initial state that a watch received, at a revision.
    WatchBegan { watched: Watched, revision: Revision, initial: Vec<String> },
    /// The changes that a watch received since `after`. Its last bookmark is `through`.
    WatchReceived { watched: Watched, after: Revision, lines: Vec<(Revision, String)>, through: Revision },
    /// What a node decides about the rights of the users, by the access data of this revision.
    Decided { node: NodeId, access: Revision, decisions: Vec<bool> },
    /// A user's request was told that rights changed too often. `since`: the revision of the node's access data, by which
    /// rights were enforced, when the request was sent. `until`: the newest revision of any node when it was answered.
    FoundStale { since: Revision, until: Revision },
    /// A user's watch showed an event of this revision. `until`: the newest revision of any node at that time.
    Shown { user: AccessUser, revision: Revision, until: Revision },
}

/// An entry that sets the members, as one node wrote it to its log.
#[derive(Debug, Clone)]
pub(crate) struct MembersSet {
    pub(crate) node: NodeId,
    pub(crate) log_id: Position,
    pub(crate) members: MemberList,
    /// The members before it in the same log.
    pub(crate) before: Option<MemberList>,
    /// The last entry on the disk of each machine that has one.
    pub(crate) flushed: BTreeMap<NodeId, u64>,
    /// How long each machine has been off.
    pub(crate) off_for: BTreeMap<NodeId, Duration>,
}

/// A change of a grant or a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// To a shared grant.
    Downgraded,
    /// To an exclusive grant, at once or after a wait.
    Upgraded,
    /// To another timeout.
    Retimed(Duration),
    /// A lock's settings: permits, waiters, and maximum hold time in milliseconds. `None`: unchanged.
    Limited(Option<u32>, Option<u64>, Option<u64>),
}

/// Physical conditions of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Physics {
    /// The rate of the fastest clock, in thousandths of the true rate.
    pub(crate) rate_max: u64,
}
