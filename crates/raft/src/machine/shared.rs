//! The state of this node, as all of its parts read it, and how far it got.

use crate::{
    base::types::Types,
    machine::{counters::ReplicaMetrics, defect::Defects, log_bytes::LogBytes},
};
use fairhold_state::{
    State,
    command::{Answer, Rejection},
};
use fairhold_types::Revision;
use openraft::{
    AsyncRuntime,
    alias::{WatchReceiverOf, WatchSenderOf},
    async_runtime::watch::{WatchReceiver, WatchSender},
    type_config::TypeConfigExt,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fmt,
    sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// How far this node's state got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The index of the last log entry in it.
    pub(crate) applied: Option<u64>,
    /// Its revision.
    pub(crate) revision: Revision,
    /// What was applied since the start, refused commands too, as it weighs beside a snapshot.
    pub(crate) work: u64,
    /// What a snapshot of it weighs.
    pub(crate) weight: u64,
    /// Bytes of the log entries that were applied since the start, about.
    pub(crate) log_bytes: u64,
}

/// The newest snapshot that is on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    /// The index of the last log entry that it covers.
    pub(crate) index: Option<u64>,
    /// How large it is.
    pub(crate) bytes: u64,
    /// How far the state had got that it is of.
    pub(crate) made_at: Progress,
}

/// The state, as the whole node reads it.
pub(crate) struct Shared<RT: AsyncRuntime> {
    state: RwLock<State>,
    // A sender need not be `Sync`.
    publish: Mutex<WatchSenderOf<Types<RT>, Progress>>,
    progress: WatchReceiverOf<Types<RT>, Progress>,
    publish_newest: Mutex<WatchSenderOf<Types<RT>, Newest>>,
    newest: WatchReceiverOf<Types<RT>, Newest>,
    log_bytes: Mutex<LogBytes>,
    /// What the whole replica counts.
    pub(crate) metrics: ReplicaMetrics,
    /// The commands at which this machine panicked.
    pub(crate) defects: Defects,
    /// Why the replica cannot go on, where the state itself is to blame.
    pub(crate) broken: OnceLock<String>,
}

impl<RT: AsyncRuntime> fmt::Debug for Shared<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("progress", &*self.progress.borrow_watched()).finish_non_exhaustive()
    }
}

impl<RT: AsyncRuntime> Shared<RT> {
    /// The state of a node that starts with a snapshot, or with nothing.
    pub(crate) fn new(state: State, applied: Option<u64>, snapshot_bytes: u64, log_kept_bytes: u64, defects: Defects) -> Self {
        let log_bytes = LogBytes::begin(applied, log_kept_bytes);
        let (revision, weight) = (state.revision(), state.snapshot_weight());
        let progress = Progress { applied, revision, work: 0, weight, log_bytes: log_bytes.total() };
        let newest = Newest { index: applied, bytes: snapshot_bytes, made_at: progress };
        let (publish, progress) = Types::<RT>::watch_channel(progress);
        let (publish_newest, newest) = Types::<RT>::watch_channel(newest);
        defects.begin_after(applied.unwrap_or(0));
        Shared {
            state: RwLock::new(state),
            publish: Mutex::new(publish),
            progress,
            publish_newest: Mutex::new(publish_newest),
            newest,
            log_bytes: Mutex::new(log_bytes),
            metrics: ReplicaMetrics::default(),
            defects,
            broken: OnceLock::new(),
        }
    }

    /// The state for reading. Never keep it across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // Only a panic in the middle of a change poisons the lock, and the node is stopping then: half a change
        // must not be served.
        self.state.read().expect("the machine panicked in the middle of a change; the node is stopping")
    }

    /// The state for writing, by the machine alone.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("the machine panicked in the middle of a change; the node is stopping")
    }

    /// A view of how far the state got, to wait on.
    pub(crate) fn progress(&self) -> WatchReceiverOf<Types<RT>, Progress> {
        self.progress.clone()
    }

    /// How far the state got.
    pub(crate) fn now(&self) -> Progress {
        *self.progress.borrow_watched()
    }

    /// A view of the newest snapshot, to wait on.
    pub(crate) fn newest(&self) -> WatchReceiverOf<Types<RT>, Newest> {
        self.newest.clone()
    }

    /// The newest snapshot.
    pub(crate) fn newest_now(&self) -> Newest {
        *self.newest.borrow_watched()
    }

    /// A snapshot is on the disk.
    pub(crate) fn note_snapshot(&self, made_at: Progress, bytes: u64) {
        let publish = self.publish_newest.lock();
        publish.send_if_different(Newest { index: made_at.applied, bytes, made_at });
    }

    /// What the log weighs.
    pub(crate) fn log_bytes(&self) -> MutexGuard<'_, LogBytes> {
        self.log_bytes.lock()
    }

    /// The answer of a command at which the machine would panic, and which is not proposed.
    pub(crate) fn defect_answer(&self, fingerprint: u64) -> Answer {
        self.refused(Rejection::Defect { fingerprint })
    }

    /// The answer of a command that is not proposed, for the same reason on every node.
    pub(crate) fn refused(&self, rejection: Rejection) -> Answer {
        Answer { result: Err(rejection), revision: self.read().revision() }
    }

    /// Says how far the state got.
    pub(crate) fn publish(&self, progress: Progress) {
        let publish = self.publish.lock();
        publish.send_if_different(progress);
    }
}
