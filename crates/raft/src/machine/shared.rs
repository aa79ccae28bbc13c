//! The state of this node, shared by all parts that read it, and its progress.

use crate::{
    base::{error::FatalReason, watched::Watched},
    machine::{counters::ReplicaMetrics, defect::Defects, log_bytes::LogBytes},
};
use fairhold_state::{
    State,
    command::{Answer, Command, Rejection},
};
use fairhold_types::Revision;
use openraft::AsyncRuntime;
use parking_lot::Mutex;
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicBool};

/// The progress of this node's state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The index of the last applied log entry.
    pub(crate) applied: Option<u64>,
    /// Its revision.
    pub(crate) revision: Revision,
    /// The work applied since the start, including rejected commands, in the units of `weight`.
    pub(crate) work: u64,
    /// The weight of a snapshot of this state.
    pub(crate) weight: u64,
    /// Approximate bytes of the log entries applied since the start.
    pub(crate) log_bytes: u64,
}

/// The newest snapshot on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NewestSnapshot {
    /// The index of the last log entry that it covers.
    pub(crate) index: Option<u64>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// The progress of the state from which it was made.
    pub(crate) made_at: Progress,
}

/// The state and its progress.
pub(crate) struct Shared<RT: AsyncRuntime> {
    state: RwLock<State>,
    pub(crate) progress: Watched<RT, Progress>,
    pub(crate) newest: Watched<RT, NewestSnapshot>,
    /// The byte count of the log.
    pub(crate) log_bytes: Mutex<LogBytes>,
    /// The counters of the replica.
    pub(crate) metrics: ReplicaMetrics,
    /// The commands at which the state machine panicked.
    pub(crate) defects: Defects,
    /// Whether the state is from after this node became a member. Before, it is an old one of the cluster's.
    pub(crate) has_joined: AtomicBool,
    /// Why the replica cannot continue, if the state is the reason.
    pub(crate) failure: OnceLock<FatalReason>,
}

impl<RT: AsyncRuntime> Shared<RT> {
    /// The state with which a node starts: that of its snapshot, or empty.
    pub(crate) fn new(state: State, applied: Option<u64>, snapshot_bytes: u64, log_kept_bytes: u64, defects: Defects) -> Self {
        let log_bytes = LogBytes::begin(applied, log_kept_bytes);
        let revision = state.revision();
        let weight = state.snapshot_weight();
        let progress = Progress { applied, revision, work: 0, weight, log_bytes: log_bytes.total() };
        let newest = NewestSnapshot { index: applied, bytes: snapshot_bytes, made_at: progress };
        defects.set_snapshot_index(applied.unwrap_or(0));
        Shared {
            state: RwLock::new(state),
            progress: Watched::new(progress),
            newest: Watched::new(newest),
            log_bytes: Mutex::new(log_bytes),
            metrics: ReplicaMetrics::default(),
            defects,
            has_joined: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Locks the state for reading. Never hold the lock across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // Only a panic in the middle of a change poisons the lock, and the node is stopping then: half a change must
        // not be served.
        self.state.read().expect("a command panicked in the middle of a change; the node is stopping")
    }

    /// Locks the state for writing. Only the state machine does so.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("a command panicked in the middle of a change; the node is stopping")
    }

    /// Records that a snapshot is on disk.
    pub(crate) fn record_snapshot(&self, made_at: Progress, bytes: u64) {
        self.newest.set(NewestSnapshot { index: made_at.applied, bytes, made_at });
    }

    /// The answer to a command that is not proposed because the state machine would panic at it.
    pub(crate) fn defect_answer(&self, command: &Command) -> Option<Answer> {
        let fingerprint = self.defects.refuses(command)?;
        Some(self.rejected(Rejection::Defect { fingerprint }))
    }

    /// The answer to a command that is not proposed because every node would reject it for this reason.
    pub(crate) fn rejected(&self, rejection: Rejection) -> Answer {
        Answer { result: Err(rejection), revision: self.read().revision() }
    }
}
