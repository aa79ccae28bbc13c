//! All that crosses the machine's boundary: commands in, outcomes, rejections and events out.
//!
//! The variants and fields stand in the log and in frames by position: add at the end of an enum, and change a struct only
//! together with `LOG_FORMAT`. `proto/golden/` holds the bytes of each.

pub use crate::write::{Condition, Lifetime, Operation, OperationResult, Part, SessionKey, Sweepable, Transact, WriteKey};
pub use crate::{
    event::Event,
    orders::{Break, Revoke, SetLock},
    outcome::{Answer, Applied, HeldGrant, Outcome, Queued},
    rejection::{Blocked, HolderFacts, Rejection},
    request::{Acquire, Claimant, IfBusy, Meta, OpenSession, Owner, Proclaim, Want},
};
use fairhold_types::{
    ClusterId, FencingToken, GrantId, GrantNumber, LockName, NodeId, Revision, SessionId, SessionNumber, time::WallMillis,
};
use serde::{Deserialize, Serialize};

/// The version byte of commands in the log.
pub const LOG_FORMAT: u8 = 2;

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
        /// The session that it was to belong to, where the caller says so: an unknown id is remembered there, for its life.
        session: Option<SessionId>,
        /// When the request was taken, or the verdict reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// Sets the timeout of a grant's own session.
    SetGrantTimeout {
        /// A grant without a named session.
        grant: GrantId,
        /// The new timeout.
        timeout_ms: u64,
        /// The caller's key: with it the timeout is set once, however often and late the request arrives.
        key: Option<WriteKey>,
        /// When the request was taken.
        at: WallMillis,
    },
    /// The leader's verdict: the lock delays of these grants are over. At most `VERDICT_OBJECTS_MAX`.
    EndCooling {
        /// The grants that cool.
        grants: Vec<GrantNumber>,
        /// When the verdict was reached: what is granted by it is granted then.
        at: WallMillis,
    },
    /// The leader's verdict: what was remembered without a session up to this revision is old enough to be forgotten.
    Forget {
        /// The last revision to forget.
        through: Revision,
    },
    /// The leader's verdict: these locks were long without contenders; their settings and their nodes go. At most
    /// `VERDICT_OBJECTS_MAX`.
    ForgetLocks {
        /// Each lock, and since when it had been without contenders: ignored where it was used again.
        locks: Vec<(LockName, Revision)>,
    },
    /// Checks conditions and changes the tree, in one step.
    Transact(Transact),
    /// An administrator takes a lock from those who hold it.
    Break(Break),
    /// An administrator ends a session, with all that it owns.
    EndSession {
        /// The session's public number.
        session: SessionNumber,
        /// The administrator's client, such as `curl@127.0.0.1`.
        by: String,
        /// The reason; may be empty.
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
        /// The caller's key: with it the mode is changed once, however often and late the request arrives.
        key: Option<WriteKey>,
        /// When the request was taken.
        at: WallMillis,
    },
    /// Makes a shared holder the only one, as soon as the others have gone; until then it goes on holding shared.
    Upgrade {
        /// The grant.
        grant: GrantId,
        /// What to do where others hold too.
        if_busy: IfBusy,
        /// The caller's key: with it the mode is changed once, however often and late the request arrives.
        key: Option<WriteKey>,
        /// When the request was taken.
        at: WallMillis,
    },
    /// Gives an upgrade up that still waits: the grant stays a shared holder.
    EndUpgrade {
        /// The grant.
        grant: GrantId,
        /// The attempt that gives up; ignored where a newer one waits.
        attempt: u64,
        /// When the request was taken.
        at: WallMillis,
    },
    /// The leader of an election proclaims another value.
    Proclaim(Proclaim),
    /// An administrator sets what a lock allows.
    SetLock(SetLock),
    /// An administrator asks those who hold a lock to give it back.
    Revoke(Revoke),
    /// The leader's verdict: these grants were held for as long as they may. At most `VERDICT_OBJECTS_MAX`.
    EndHolds {
        /// Each grant, and the token that it had: ignored where it has another by now.
        holds: Vec<(GrantNumber, FencingToken)>,
        /// When the verdict was reached.
        at: WallMillis,
    },
    /// Does the next piece of the work that was too much for one command.
    Continue {
        /// When the piece was proposed: what is granted by it is granted then.
        at: WallMillis,
    },
    /// Remembers the key of a request whose effect is not in the state, so that it takes effect once.
    NoteKey {
        /// The caller's key.
        key: WriteKey,
        /// When the request was taken.
        at: WallMillis,
    },
    /// A node reports how large a state it can hold. The smallest number of all nodes is the state's budget.
    NoteCapacity {
        /// The node.
        node: NodeId,
        /// How many bytes, as the state counts them.
        bytes: u64,
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
            | Command::EndHolds { at, .. }
            | Command::SetGrantTimeout { at, .. }
            | Command::Continue { at }
            | Command::NoteKey { at, .. } => *at,
            Command::FormCluster { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::NoteCapacity { .. }
            | Command::ForgetLocks { .. } => WallMillis(0),
        }
    }

    /// The same without that time: what is asked for, whenever it is.
    #[must_use]
    pub fn without_time(mut self) -> Command {
        let time = match &mut self {
            Command::OpenSession(open) => &mut open.at,
            Command::Acquire(acquire) => &mut acquire.at,
            Command::Transact(transact) => &mut transact.at,
            Command::Break(order) => &mut order.at,
            Command::Proclaim(order) => &mut order.at,
            Command::SetLock(order) => &mut order.at,
            Command::Revoke(order) => &mut order.at,
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
            | Command::EndHolds { at, .. }
            | Command::SetGrantTimeout { at, .. }
            | Command::Continue { at }
            | Command::NoteKey { at, .. } => at,
            Command::FormCluster { .. }
            | Command::Forget { .. }
            | Command::ForgetHistory { .. }
            | Command::NoteCapacity { .. }
            | Command::ForgetLocks { .. } => return self,
        };
        *time = WallMillis(0);
        self
    }
}
