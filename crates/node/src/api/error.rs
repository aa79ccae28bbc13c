//! Why a call failed.

use super::queue_position::QueuePosition;
use crate::access::AccessRefusal;
use fairhold_access::TenantName;
use fairhold_raft::{
    FinalizeError, HandoverError, MembershipError,
    error::{ProposeError, ReadError},
};
use fairhold_state::command::{HolderFacts, Rejection};
use fairhold_types::{GrantNumber, LockName, Path, Revision, Timing, limits::INITIAL_WITHIN, membership};
use std::time::Duration;

/// Why a call failed. A refusal is definite; the other kinds tell whether the call did nothing or has an unknown
/// outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A definite refusal, by the state machine or by this node: nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No answer from the state machine: the command was not proposed, or its outcome is unknown.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// A read could not be served.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The lock is not free, and the caller does not wait.
    #[error("{refused}")]
    LockHeld {
        /// The state machine's refusal.
        refused: Rejection,
        /// The contenders ahead, as far as this node knows.
        queue_position: Box<QueuePosition>,
    },
    /// The wait is over, and the withdrawal is committed.
    #[error("the lock did not become free within `wait`")]
    WaitTimeout {
        /// The holder, as far as this node knows.
        holder: Option<HolderFacts>,
        /// The caller's last place in the queue, as far as this node knows.
        queue_position: Box<QueuePosition>,
    },
    /// A newer request with the same key took this one's place.
    #[error("a newer request with the same Idempotency-Key took over")]
    Superseded,
    /// The page was to be around a grant that is not in the queue.
    #[error("grant {number} neither holds {lock} nor waits for it")]
    NotInQueue {
        /// The lock.
        lock: LockName,
        /// The grant's number.
        number: GrantNumber,
    },
    /// The tree has no such node.
    #[error("there is no node {path}")]
    NoNode {
        /// Its path.
        path: Path,
    },
    /// The caller may not do it.
    #[error(transparent)]
    Access(#[from] AccessRefusal),
    /// The tenant of the caller has made too many requests at this node.
    #[error("the tenant {tenant} may make {limit} requests a second at each server: send this one again after a pause")]
    OverRate {
        /// The tenant.
        tenant: TenantName,
        /// Its quota.
        limit: u32,
    },
    /// The leadership was not transferred.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The cluster's version was not raised.
    #[error(transparent)]
    Finalize(#[from] FinalizeError),
    /// The members or the settings were not changed.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The timing profile needs a longer `ttl`.
    #[error("{}", membership::ttl_too_short(*timing, *ttl))]
    TtlTooShort {
        /// The profile of the cluster.
        timing: Timing,
        /// The requested `ttl`.
        ttl: Duration,
    },
    /// The round trips between the voters are too long for the timing profile.
    #[error("{}", membership::timing_too_fast(*timing, *round_trip, *suits))]
    TimingTooFast {
        /// The requested profile.
        timing: Timing,
        /// The longest round trip that it must suit.
        round_trip: Duration,
        /// The profile that suits it best.
        suits: Timing,
    },
    /// This node no longer keeps the requested events.
    #[error("this node no longer keeps events before revision {oldest}: start again from the current state")]
    Compacted {
        /// The oldest revision that this node keeps.
        oldest: Revision,
    },
    /// The cluster has not reached the requested revision.
    #[error("revision {from} is in the future: the cluster is at {revision}, and you can wait for the next revision at most")]
    FutureRevision {
        /// The requested revision.
        from: Revision,
        /// The current revision.
        revision: Revision,
    },
    /// The watcher did not read the initial state in time.
    #[error("you did not read the initial state within {} s: start again, and read faster", INITIAL_WITHIN.as_secs())]
    WatcherTooSlow,
    /// This node makes another backup.
    #[error("this server makes one backup at a time, and another one is being read: try again later, or at another server")]
    BackupBusy,
    /// The server is shutting down. The call did nothing.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server is shutting down while the request waits. The grant keeps its place in the queue.
    #[error("the server is shutting down; your place in the queue is kept")]
    Detached,
}

impl CallError {
    /// Whether the call may have taken effect, or may still do so.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, CallError::Propose(ProposeError::Unknown(_)))
    }
}

/// This node no longer keeps the events that a watch needs. A watch can begin at `oldest` or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    pub(crate) oldest: Revision,
}

impl From<Compacted> for CallError {
    fn from(compacted: Compacted) -> CallError {
        CallError::Compacted { oldest: compacted.oldest }
    }
}
