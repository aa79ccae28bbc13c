//! The state at one revision, kept for a digest: nodes can compare their states only at the same place in the history.

use fairhold_state::State;
use fairhold_types::Revision;
use parking_lot::Mutex;
use std::{
    cmp::Ordering as Order,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::{sync::Notify, task::yield_now};

/// No revision is wanted.
const NONE: u64 = u64::MAX;

/// The digest of a whole state. Other tasks run between its parts.
pub(crate) async fn digest_of(state: &State) -> String {
    let mut digest = state.digest_in_parts();
    while !digest.add_part() {
        yield_now().await;
    }
    digest.finish()
}

/// The state at one revision at a time, and then its digest.
#[derive(Debug)]
pub(crate) struct MarkedState {
    /// The revision at which the state is to be kept. Every applied change looks at it.
    wanted: AtomicU64,
    mark: Mutex<Mark>,
    kept: Notify,
}

#[derive(Debug)]
struct Mark {
    revision: Revision,
    /// The state, until its digest is computed.
    state: Option<State>,
    digest: MarkedDigest,
}

/// The digest of the state at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkedDigest {
    /// This node has not reached the revision yet.
    Ahead,
    /// It is being computed.
    Computing,
    Known(String),
    /// This node was past the revision already, or has another mark by now.
    Missed,
}

impl Default for MarkedState {
    fn default() -> Self {
        let mark = Mark { revision: Revision(0), state: None, digest: MarkedDigest::Missed };
        MarkedState { wanted: AtomicU64::new(NONE), mark: Mutex::new(mark), kept: Notify::new() }
    }
}

impl MarkedState {
    /// Marks a revision instead of the one before, and returns how far its digest is. No change may be applied to `state`
    /// meanwhile.
    pub(crate) fn set(&self, revision: Revision, state: &State) -> MarkedDigest {
        let mut mark = self.mark.lock();
        *mark = Mark { revision, state: None, digest: MarkedDigest::Ahead };
        self.wanted.store(revision.0, Ordering::Relaxed);
        self.keep_in(&mut mark, state);
        mark.digest.clone()
    }

    /// Keeps the state if it is the marked one. Call this after each change of the state. It is cheap.
    pub(crate) fn observe(&self, state: &State) {
        if state.revision().0 >= self.wanted.load(Ordering::Relaxed) {
            self.keep_in(&mut self.mark.lock(), state);
        }
    }

    fn keep_in(&self, mark: &mut Mark, state: &State) {
        let order = state.revision().cmp(&mark.revision);
        if order == Order::Less || mark.digest != MarkedDigest::Ahead {
            return;
        }
        self.wanted.store(NONE, Ordering::Relaxed);
        if order == Order::Greater {
            mark.digest = MarkedDigest::Missed;
            return;
        }
        mark.state = Some(state.clone());
        mark.digest = MarkedDigest::Computing;
        self.kept.notify_one();
    }

    /// How far the digest of a revision is.
    pub(crate) fn digest(&self, revision: Revision) -> MarkedDigest {
        let mark = self.mark.lock();
        if mark.revision == revision { mark.digest.clone() } else { MarkedDigest::Missed }
    }

    /// Computes the digests of marked states, for ever. Run it apart from Raft: a large state takes seconds.
    pub(crate) async fn compute(&self) {
        loop {
            self.kept.notified().await;
            let Some((revision, state)) = self.take() else { continue };
            let digest = digest_of(&state).await;
            let mut mark = self.mark.lock();
            if mark.revision == revision {
                mark.digest = MarkedDigest::Known(digest);
            }
        }
    }

    fn take(&self) -> Option<(Revision, State)> {
        let mut mark = self.mark.lock();
        Some((mark.revision, mark.state.take()?))
    }
}
