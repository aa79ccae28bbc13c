//! Watching: the events of what one asked for, from a revision on, each once and in order, or the news that some are gone.
//! The task that writes a watch to its connection fetches the next events, so a slow reader is not written to and costs nothing:
//! it comes back to a position in the ring, or to find that the position is gone.

use tokio::task::yield_now;

use crate::{
    api::{CallError, Freshness, ReadOptions},
    calls::initial::Initial,
    feed::{dispatcher::Watcher, watch_filter::WatchFilter},
    node::Node,
};
use fairhold_raft::error::NotProposed;
use fairhold_types::{Revision, failpoint, limits::BOOKMARK_EVERY};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

pub use crate::{
    calls::initial::{There, ThereContender},
    feed::dispatcher::TellResult,
};

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With the next change.
    Now,
    /// With what is there now, then the next change.
    Initial,
    /// With the changes of that revision.
    From(Revision),
}

/// What a watch tells next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// Some of what was there when the watch began; told before anything else.
    There(Revision, Vec<There>),
    /// Changes, those of one revision together. Of a large revision it is a part, and the next part comes next.
    Changes(Vec<TellResult>),
    /// Everything up to this revision has been told.
    Bookmark(Revision),
    /// The server stops. Everything up to this revision has been told. It is the last.
    GoAway(Revision),
    /// The watch cannot go on. It is the last.
    Failed(Revision, CallError),
}

/// An open watch; dropping it ends it.
pub struct NodeWatch<RT: AsyncRuntime> {
    node: Node<RT>,
    watcher: Watcher,
    initial: Option<Initial>,
    /// Where it began now or with what is there: the revision after which changes come, which is said before the first of them.
    begun_at: Option<Revision>,
    /// All events up to this revision were sent.
    told: Revision,
    /// When a bookmark is due; `None`: as soon as all that is known was told.
    bookmark_at: Option<RT::Instant>,
    ended: bool,
}

impl<RT: AsyncRuntime> std::fmt::Debug for NodeWatch<RT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("told", &self.told).finish_non_exhaustive()
    }
}

/// Whether something is newer than what a caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchBatch {
    /// It is, or that is no longer known.
    Newer,
    /// It is not, up to this revision.
    Nothing(Revision),
}

impl<RT: AsyncRuntime> Node<RT> {
    /// Watches. Where it begins now or with what is there, the state is made as fresh as the caller wants it first; where it
    /// begins with a revision that this node does not have yet, it waits for that.
    pub async fn watch(
        &self,
        scopes: Vec<WatchFilter>,
        begin: WatchStart,
        read: ReadOptions,
    ) -> Result<NodeWatch<RT>, CallError> {
        if self.is_shutting_down() {
            return Err(CallError::ShuttingDown);
        }
        failpoint!(NodeWatchBegin, RT).map_err(|_| CallError::Read(NotProposed::Overloaded.into()))?;
        let mut initial = None;
        let deadline = RT::Instant::now() + read.timeout;
        let told = match begin {
            WatchStart::Now | WatchStart::Initial => {
                self.freshen_by(read.freshness, deadline).await?;
                Revision(0)
            }
            WatchStart::From(from) => {
                self.reach(from, deadline).await?;
                Revision(from.0.saturating_sub(1))
            }
        };
        let mut watcher = self.enter(scopes.clone())?;
        let told = match begin {
            WatchStart::From(from) => {
                watcher.start_at(from)?;
                told
            }
            // While the state is read nothing is added to the ring, so the two are of one revision.
            WatchStart::Now | WatchStart::Initial => self.0.replica.read(|state| {
                watcher.start_after(state.revision());
                initial = (begin == WatchStart::Initial).then(|| Initial::new::<RT>(self, state.clone(), scopes));
                state.revision()
            }),
        };
        let begun_at = match begin {
            WatchStart::Now | WatchStart::Initial => Some(told),
            WatchStart::From(_) => None,
        };
        Ok(NodeWatch { node: self.clone(), watcher, initial, begun_at, told, bookmark_at: None, ended: false })
    }

    /// Waits until something in the scope is newer than a revision (than what is there now, where none is given), for so long
    /// at most. First the state is made as fresh as the caller wants it.
    pub async fn wait_for_news(
        &self,
        scope: WatchFilter,
        after: Option<Revision>,
        wait: Duration,
        read: ReadOptions,
    ) -> Result<WatchBatch, CallError> {
        let begun = RT::Instant::now();
        let (until, deadline) = (begun + wait, begun + read.timeout);
        self.freshen_by(read.freshness, deadline).await?;
        if let Some(after) = after {
            self.reach(after.next(), deadline).await?;
        }
        let mut watcher = self.enter(vec![scope])?;
        match after {
            Some(after) if watcher.start_at(after.next()).is_err() => return Ok(WatchBatch::Newer),
            Some(_) => {}
            None => self.0.replica.read(|state| watcher.start_after(state.revision())),
        }
        loop {
            match watcher.look() {
                Ok(None) => {}
                Ok(Some(told)) if told.is_empty() => {
                    yield_now().await;
                    continue;
                }
                Ok(Some(_)) | Err(_) => return Ok(WatchBatch::Newer),
            }
            if RT::Instant::now() >= until {
                // Looked at together with the state, so that its revision is exactly the one up to which there is nothing.
                match self.0.replica.read(|state| (watcher.look(), state.revision())) {
                    (Ok(None), revision) => return Ok(WatchBatch::Nothing(revision)),
                    (Ok(Some(told)), _) if told.is_empty() => continue,
                    (Ok(Some(_)) | Err(_), _) => return Ok(WatchBatch::Newer),
                }
            }
            tokio::select! {
                biased;
                () = self.0.stop.requested() => return Err(CallError::ShuttingDown),
                () = watcher.woken() => {}
                () = RT::sleep_until(until) => {}
            }
        }
    }

    /// Waits until the state here is so far that the next change can be that revision. A revision that is further than anything
    /// that was ever acknowledged belongs to another history: waiting for it would be waiting for something else.
    async fn reach(&self, from: Revision, deadline: RT::Instant) -> Result<(), CallError> {
        let reached = || self.revision().next() >= from;
        if !reached() {
            self.freshen_by(Freshness::Linearizable, deadline).await?;
        }
        if reached() { Ok(()) } else { Err(CallError::FutureRevision { from, revision: self.revision() }) }
    }

    fn enter(&self, scopes: Vec<WatchFilter>) -> Result<Watcher, CallError> {
        let watcher = self.0.hub.watchers.enter(scopes);
        watcher.ok_or_else(|| CallError::Read(NotProposed::Overloaded.into()))
    }
}

impl<RT: AsyncRuntime> NodeWatch<RT> {
    /// The revision up to which everything was told, or is not asked for.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.told
    }

    /// What comes next; nothing after the last. It waits for it, and is not to be dropped and asked again in between.
    pub async fn next(&mut self) -> Option<WatchItem> {
        if self.ended {
            return None;
        }
        let next = self.find().await;
        let next = next.unwrap_or_else(|error| WatchItem::Failed(self.node.revision(), error));
        match &next {
            WatchItem::There(..) => {}
            WatchItem::Changes(told) => {
                let complete = told.iter().rev().find(|told| told.complete);
                self.told = complete.map_or(self.told, |told| told.revision.max(self.told));
            }
            WatchItem::Bookmark(revision) => {
                self.told = *revision;
                self.bookmark_at = Some(RT::Instant::now() + BOOKMARK_EVERY);
            }
            WatchItem::GoAway(_) => self.ended = true,
            WatchItem::Failed(..) => {
                self.node.0.hub.watchers.cut.inc();
                self.ended = true;
            }
        }
        Some(next)
    }

    async fn find(&mut self) -> Result<WatchItem, CallError> {
        if let Some(initial) = &mut self.initial {
            while let Some(page) = initial.page()? {
                if !page.is_empty() {
                    return Ok(WatchItem::There(self.told, page));
                }
                yield_now().await;
            }
            self.initial = None;
        }
        if let Some(revision) = self.begun_at.take() {
            return Ok(WatchItem::Bookmark(revision));
        }
        loop {
            if self.node.is_shutting_down() {
                return Ok(WatchItem::GoAway(self.told));
            }
            failpoint!(NodeWatchLook, RT).map_err(|_| CallError::Read(NotProposed::Overloaded.into()))?;
            match self.watcher.look()? {
                None => {}
                Some(told) if told.is_empty() => {
                    yield_now().await;
                    continue;
                }
                Some(told) => return Ok(WatchItem::Changes(told)),
            }
            let now = RT::Instant::now();
            let due = self.bookmark_at.is_none_or(|at| at <= now);
            if due && let Some(revision) = self.watcher.pass_over() {
                return Ok(WatchItem::Bookmark(revision.max(self.told)));
            }
            let stop = self.node.0.stop.clone();
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = self.watcher.woken() => {}
                // Where one is due already, it waits for changes that are about to wake this watch.
                () = RT::sleep_until(self.bookmark_at.unwrap_or(now)), if !due => {}
            }
        }
    }
}
