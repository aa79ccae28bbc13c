//! Watches: the changes that a filter selects, from a revision on, each once and in order, or an error if some are
//! gone. The task that writes to the watch's connection fetches the next changes itself. So a slow reader costs
//! nothing: it resumes at its position in the ring, or learns that the position is gone.

use crate::{
    access::TenantSlot,
    api::{CallError, Freshness, ReadOptions},
    calls::initial::InitialPages,
    feed::{dispatcher::Watcher, watch_filter::WatchFilter},
    node::Node,
};
use fairhold_raft::error::NotProposed;
use fairhold_types::{
    Revision, failpoint,
    limits::BOOKMARK_EVERY,
    planted::{self, Bug},
};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;
use tokio::task::yield_now;

pub use crate::{
    calls::initial::{InitialContender, InitialItem},
    feed::dispatcher::RevisionChanges,
};

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With the next change.
    Now,
    /// With the current state, then the next change.
    Initial,
    /// With the changes of this revision.
    From(Revision),
}

/// An item of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// A part of the initial state, before anything else.
    Initial(Revision, Vec<InitialItem>),
    /// Changes, those of one revision together. A large revision comes in parts.
    Changes(Vec<RevisionChanges>),
    /// The watch has reported everything up to this revision.
    Bookmark(Revision),
    /// The caller's credential expires soon. The watch has reported everything up to this revision.
    CredentialExpires(Revision),
    /// The server shuts down. The watch has reported everything up to this revision. It is the last item.
    GoAway(Revision),
    /// The watch cannot continue. It is the last item.
    Failed(Revision, CallError),
}

/// An open watch; dropping it ends it.
pub struct NodeWatch<RT: AsyncRuntime> {
    node: Node<RT>,
    filters: Vec<WatchFilter>,
    watcher: Watcher,
    initial: Option<InitialPages>,
    /// The revision at which a watch with `Now` or `Initial` began; reported as a bookmark before the first change.
    initial_bookmark: Option<Revision>,
    /// The watch has reported everything up to this revision.
    reported: Revision,
    /// When a bookmark is due; `None`: after the last known change.
    bookmark_at: Option<RT::Instant>,
    /// The watch has reported that the caller's credential expires soon.
    is_expiry_told: bool,
    ended: bool,
    /// Counts the watch for the tenant of its caller.
    _slot: Option<TenantSlot>,
}

impl<RT: AsyncRuntime> std::fmt::Debug for NodeWatch<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeWatch").field("reported", &self.reported).finish_non_exhaustive()
    }
}

/// The result of a long poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongPollResult {
    /// Something is newer than the caller's revision, or this node no longer has the events to know.
    Newer,
    /// Nothing is newer, up to this revision.
    Nothing(Revision),
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Starts a watch. `Now` and `Initial` first make the state as fresh as `read` requires. `From` waits until this
    /// node has reached that revision.
    pub async fn watch(
        &self,
        filters: Vec<WatchFilter>,
        start: WatchStart,
        read: ReadOptions,
    ) -> Result<NodeWatch<RT>, CallError> {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        failpoint!(NodeWatchBegin, RT).map_err(|_| CallError::Read(NotProposed::Overloaded.into()))?;
        let mut initial = None;
        let shown = filters.clone();
        let deadline = RT::Instant::now() + read.timeout;
        let reported = match start {
            WatchStart::Now | WatchStart::Initial => {
                self.freshen_by(read.freshness, deadline).await?;
                Revision(0)
            }
            WatchStart::From(from) => {
                self.reach(from, deadline).await?;
                Revision(from.0.saturating_sub(1))
            }
        };
        self.require_watch(&filters)?;
        let slot = self.begin_watch()?;
        let mut watcher = self.register_watcher(filters.clone())?;
        let reported = match start {
            WatchStart::From(from) => {
                watcher.start_at(from)?;
                reported
            }
            // Nothing is added to the ring while the state is read, so both are at the same revision.
            WatchStart::Now | WatchStart::Initial => self.0.replica.read(|state| {
                watcher.start_after(state.revision());
                initial = (start == WatchStart::Initial).then(|| InitialPages::new::<RT>(self, state.clone(), filters));
                state.revision()
            }),
        };
        let initial_bookmark = match start {
            WatchStart::Now | WatchStart::Initial => Some(reported),
            WatchStart::From(_) => None,
        };
        Ok(NodeWatch {
            node: self.clone(),
            filters: shown,
            watcher,
            initial,
            initial_bookmark,
            reported,
            bookmark_at: None,
            is_expiry_told: false,
            ended: false,
            _slot: slot,
        })
    }

    /// Waits up to `wait` until something that the filter selects is newer than `after`, or than the current state
    /// without `after`. First it makes the state as fresh as `read` requires.
    pub async fn wait_for_change(
        &self,
        filter: WatchFilter,
        after: Option<Revision>,
        wait: Duration,
        read: ReadOptions,
    ) -> Result<LongPollResult, CallError> {
        let _waits = self.begin_wait(wait)?;
        let started_at = RT::Instant::now();
        let until = started_at + wait;
        let deadline = started_at + read.timeout;
        self.freshen_by(read.freshness, deadline).await?;
        if let Some(after) = after {
            self.reach(after.next(), deadline).await?;
        }
        let filters = vec![filter];
        self.require_watch(&filters)?;
        let mut watcher = self.register_watcher(filters.clone())?;
        match after {
            Some(after) if watcher.start_at(after.next()).is_err() => return Ok(LongPollResult::Newer),
            Some(_) => {}
            None => self.0.replica.read(|state| watcher.start_after(state.revision())),
        }
        loop {
            match watcher.next_changes() {
                Ok(None) => {}
                Ok(Some(changes)) if changes.is_empty() => {
                    yield_now().await;
                    continue;
                }
                Ok(Some(_)) | Err(_) => return Ok(LongPollResult::Newer),
            }
            // Also before it says that nothing is newer.
            self.require_watch(&filters)?;
            if RT::Instant::now() >= until {
                // Reads both together, so that nothing is newer up to exactly this revision.
                match self.0.replica.read(|state| (watcher.next_changes(), state.revision())) {
                    (Ok(None), revision) => return Ok(LongPollResult::Nothing(revision)),
                    (Ok(Some(changes)), _) if changes.is_empty() => continue,
                    (Ok(Some(_)) | Err(_), _) => return Ok(LongPollResult::Newer),
                }
            }
            let _waiting = self.begin_wait_time();
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::ShuttingDown),
                () = watcher.woken() => {}
                () = RT::sleep_until(until) => {}
            }
        }
    }

    /// Waits until the next change of this node can have this revision. A revision that the cluster has not reached
    /// belongs to another history, so it is an error.
    pub(crate) async fn reach(&self, from: Revision, deadline: RT::Instant) -> Result<(), CallError> {
        let reached = || self.revision().next() >= from;
        if !reached() {
            self.freshen_by(Freshness::Linearizable, deadline).await?;
        }
        if reached() { Ok(()) } else { Err(CallError::FutureRevision { from, revision: self.revision() }) }
    }

    fn register_watcher(&self, filters: Vec<WatchFilter>) -> Result<Watcher, CallError> {
        let watcher = self.0.hub.dispatcher.register(filters);
        watcher.ok_or_else(|| CallError::Read(NotProposed::Overloaded.into()))
    }
}

impl<RT: AsyncRuntime> NodeWatch<RT> {
    /// The watch has reported everything up to this revision, or began after it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.reported
    }

    /// Waits for the next item; `None` after the last one. It is not cancel-safe: do not drop the future before it
    /// completes.
    pub async fn next(&mut self) -> Option<WatchItem> {
        if self.ended {
            return None;
        }
        let item = match self.next_item().await {
            // Decided after the changes are taken: the access data is never older than they are.
            Ok(item) => self.require_right().map(|()| item),
            Err(error) => Err(error),
        };
        let item = item.unwrap_or_else(|error| WatchItem::Failed(self.node.revision(), error));
        match &item {
            WatchItem::Initial(..) => {}
            WatchItem::Changes(changes) => {
                let complete = changes.iter().rev().find(|changes| changes.complete);
                self.reported = complete.map_or(self.reported, |changes| changes.revision.max(self.reported));
            }
            WatchItem::Bookmark(revision) => {
                self.reported = *revision;
                self.bookmark_at = Some(RT::Instant::now() + BOOKMARK_EVERY);
            }
            WatchItem::CredentialExpires(_) => self.is_expiry_told = true,
            WatchItem::GoAway(_) => self.ended = true,
            WatchItem::Failed(_, CallError::Access(_)) => self.ended = true,
            WatchItem::Failed(..) => {
                self.node.0.hub.dispatcher.compacted.inc();
                self.ended = true;
            }
        }
        Some(item)
    }

    /// Refuses the caller if it may not watch this any more.
    fn require_right(&self) -> Result<(), CallError> {
        if planted::has(Bug::WatchDecidedOnce) { Ok(()) } else { self.node.require_watch(&self.filters) }
    }

    async fn next_item(&mut self) -> Result<WatchItem, CallError> {
        if let Some(initial) = &mut self.initial {
            while let Some(page) = initial.page()? {
                if !page.is_empty() {
                    return Ok(WatchItem::Initial(self.reported, page));
                }
                yield_now().await;
            }
            self.initial = None;
        }
        if let Some(revision) = self.initial_bookmark.take() {
            return Ok(WatchItem::Bookmark(revision));
        }
        loop {
            self.require_right()?;
            if self.node.is_shutting_down() {
                return Ok(WatchItem::GoAway(self.reported));
            }
            failpoint!(NodeWatchLook, RT).map_err(|_| CallError::Read(NotProposed::Overloaded.into()))?;
            match self.watcher.next_changes()? {
                None => {}
                Some(changes) if changes.is_empty() => {
                    yield_now().await;
                    continue;
                }
                Some(changes) => return Ok(WatchItem::Changes(changes)),
            }
            // No revision is reported in part here. While rights are enforced, this loop runs every few seconds.
            if !self.is_expiry_told && self.node.credential_expires_soon() {
                return Ok(WatchItem::CredentialExpires(self.reported));
            }
            let now = RT::Instant::now();
            let due = self.bookmark_at.is_none_or(|at| at <= now);
            if due && let Some(revision) = self.watcher.skip_unrelated() {
                return Ok(WatchItem::Bookmark(revision.max(self.reported)));
            }
            let stop = self.node.0.stop.clone();
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = self.watcher.woken() => {}
                // A due bookmark waits for changes that are about to wake this watch.
                () = RT::sleep_until(self.bookmark_at.unwrap_or(now)), if !due => {}
                proven = self.node.proof_due() => proven?,
            }
        }
    }
}
