//! The watchers of this node, indexed by what they watch: a change wakes only the watchers that it concerns.
//!
//! Apply does not look for them. It adds to the ring and rings a bell; a task of its own, the crier, goes through what is new,
//! marks whom it concerns with the position of the first such change, and wakes them. So a watcher costs apply nothing, has no
//! queue, and skips all that does not concern it.

use crate::{
    api::Compacted,
    feed::{
        change::{Change, Changes},
        ring::{Position, Ring},
        watch_filter::WatchFilter,
    },
};
use fairhold_metrics::Counter;
use fairhold_types::{
    Revision, failpoint,
    limits::{CHANGES_AT_ONCE, WATCHERS_MAX},
    planted::{self, Bug},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::{sync::Notify, task::yield_now};

/// Revisions that are gone through at once; others get their turn in between.
const AT_ONCE: usize = 256;

pub(crate) struct Watchers {
    pub(crate) ring: Ring,
    /// Watches that were cut off because events are missing.
    pub(crate) cut: Counter,
    bell: Notify,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    watchers: BTreeMap<u64, Slot>,
    by_scope: BTreeMap<WatchFilter, BTreeSet<u64>>,
    /// Up to where the crier has looked for those concerned.
    cried: Position,
    /// The last revision before that position.
    revision: Revision,
}

struct Slot {
    /// The first position that concerns it and that it does not know of.
    pending: Option<Position>,
    wake: Arc<Notify>,
}

impl Watchers {
    pub(crate) fn new(ring_bytes: u64) -> Watchers {
        Watchers { ring: Ring::new(ring_bytes), cut: Counter::default(), bell: Notify::new(), table: Mutex::default() }
    }

    /// Adds what a revision changed. Nobody is waited for.
    pub(crate) fn push(&self, changes: Changes) {
        self.ring.push(changes);
        self.bell.notify_one();
    }

    /// A snapshot took the place of the state.
    pub(crate) fn reset(&self, revision: Revision) {
        self.ring.reset(revision);
        self.bell.notify_one();
    }

    /// Begins to watch, from the end of what is known; `None` where too many watch already. Whatever is added to the ring after
    /// this call wakes the watcher, so the ring is looked at only afterwards.
    pub(crate) fn enter(self: &Arc<Self>, scopes: Vec<WatchFilter>) -> Option<Watcher> {
        let wake = Arc::new(Notify::new());
        let mut table = self.table();
        if table.watchers.len() >= WATCHERS_MAX {
            return None;
        }
        table.next += 1;
        let id = table.next;
        table.watchers.insert(id, Slot { pending: None, wake: Arc::clone(&wake) });
        for scope in &scopes {
            table.by_scope.entry(scope.clone()).or_default().insert(id);
        }
        drop(table);
        let position = self.ring.end();
        Some(Watcher { watchers: Arc::clone(self), id, wake, scopes, position, within: 0, from: Revision(0) })
    }

    /// How many watch here.
    pub(crate) fn count(&self) -> usize {
        self.table().watchers.len()
    }

    /// The crier: wakes those whom new changes concern, until it is dropped.
    pub(crate) async fn cry(self: Arc<Self>) {
        loop {
            self.bell.notified().await;
            if let Err(error) = failpoint!(NodeWatchCry) {
                tracing::debug!(%error, "watchers are waiting for changes and must be woken");
            }
            loop {
                let (more, wake) = self.round();
                for chunk in wake.chunks(AT_ONCE) {
                    chunk.iter().for_each(|wake| wake.notify_one());
                    yield_now().await;
                }
                if !more {
                    break;
                }
            }
        }
    }

    /// The crier's work up to the end of what is new, without a turn for others in between; says how many it woke.
    pub(crate) fn cry_at_once(&self) -> usize {
        let mut woken = 0;
        loop {
            let (more, wake) = self.round();
            woken += wake.len();
            wake.iter().for_each(|wake| wake.notify_one());
            if !more {
                return woken;
            }
        }
    }

    /// Goes through the next changes; says whether there may be more, and whom they concern.
    fn round(&self) -> (bool, Vec<Arc<Notify>>) {
        let mut wake = Vec::new();
        let mut guard = self.table();
        let table = &mut *guard;
        let Ok(news) = self.ring.from(table.cried, AT_ONCE) else {
            // What was dropped before anybody was told of it, or never seen here, may concern anybody.
            let lost = table.cried;
            for slot in table.watchers.values_mut() {
                slot.mark(lost, &mut wake);
            }
            let (first, oldest) = self.ring.first();
            table.cried = first;
            table.revision = Revision(oldest.0.saturating_sub(1));
            return (true, wake);
        };
        for (position, changes) in (table.cried..).zip(&news) {
            let subjects = changes.list.iter().map(Change::subject);
            for scope in subjects.filter(|_| !table.by_scope.is_empty()).flat_map(WatchFilter::of) {
                for id in table.by_scope.get(&scope).into_iter().flatten() {
                    if let Some(slot) = table.watchers.get_mut(id) {
                        slot.mark(position, &mut wake);
                    }
                }
            }
            table.revision = changes.revision;
        }
        table.cried += news.len() as u64;
        (news.len() == AT_ONCE, wake)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Slot {
    fn mark(&mut self, position: Position, wake: &mut Vec<Arc<Notify>>) {
        if self.pending.is_none() {
            self.pending = Some(position);
            wake.push(Arc::clone(&self.wake));
        }
    }
}

/// A watcher; dropping it ends the watch.
pub(crate) struct Watcher {
    watchers: Arc<Watchers>,
    id: u64,
    wake: Arc<Notify>,
    scopes: Vec<WatchFilter>,
    /// The next that it has to look at.
    position: Position,
    /// How many changes of it are looked at already.
    within: usize,
    /// Older changes are not its affair.
    from: Revision,
}

/// The changes of one revision that somebody watches, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TellResult {
    /// The revision.
    pub revision: Revision,
    /// The changes.
    pub changes: Vec<Change>,
    /// Whether nothing more of this revision is to come.
    pub complete: bool,
}

impl Watcher {
    /// Begins at a revision.
    pub(crate) fn start_at(&mut self, from: Revision) -> Result<(), Compacted> {
        let from = if planted::has(Bug::WatchSkipsOne) { from.next() } else { from };
        self.position = self.watchers.ring.position_of(from)?;
        self.from = from;
        Ok(())
    }

    /// Begins after the last event that is known here, which must be one of that revision or before it.
    pub(crate) fn start_after(&mut self, revision: Revision) {
        self.position = self.watchers.ring.end();
        self.from = revision.next();
    }

    /// Looks at the next changes, so many of its own at most; `None` at the end of what is known. What it looked at may well not
    /// concern it. Of a revision that it has seen in part it keeps nothing but the place.
    pub(crate) fn look(&mut self) -> Result<Option<Vec<TellResult>>, Compacted> {
        let news = self.watchers.ring.from(self.position, AT_ONCE)?;
        if news.is_empty() {
            return Ok(None);
        }
        let (mut told, mut left) = (Vec::new(), CHANGES_AT_ONCE);
        for changes in news {
            let mine = if changes.revision >= self.from { self.look_at(&changes, left) } else { None };
            let complete = mine.as_ref().is_none_or(|mine| mine.complete);
            left = left.saturating_sub(mine.as_ref().map_or(0, |mine| mine.changes.len()));
            told.extend(mine);
            if complete {
                (self.position, self.within) = (self.position + 1, 0);
            }
            if !complete || left == 0 {
                break;
            }
        }
        Ok(Some(told))
    }

    /// The next changes of one revision that concern it, so many at most; none where none does.
    fn look_at(&mut self, changes: &Changes, most: usize) -> Option<TellResult> {
        let covered = |change: &Change| self.scopes.iter().any(|scope| scope.covers(change.subject()));
        let mut mine = (self.within..).zip(changes.list.iter().skip(self.within)).filter(|(_, change)| covered(change));
        let list: Vec<Change> = mine.by_ref().take(most).map(|(_, change)| change.clone()).collect();
        let next = mine.next().map(|(index, _)| index);
        self.within = next.unwrap_or(0);
        (!list.is_empty()).then_some(TellResult { revision: changes.revision, changes: list, complete: next.is_none() })
    }

    /// Waits until something may concern it. Only after it has looked up to the end: then what lies between is known not to.
    pub(crate) async fn woken(&mut self) {
        self.wake.notified().await;
        if let Some(slot) = self.watchers.table().watchers.get_mut(&self.id)
            && let Some(pending) = slot.pending.take()
        {
            self.position = self.position.max(pending);
        }
    }

    /// Passes over all that is known not to concern it, and says up to which revision that is; `None` where something may.
    /// Only after it has looked up to the end.
    pub(crate) fn pass_over(&mut self) -> Option<Revision> {
        let table = self.watchers.table();
        let early = planted::has(Bug::BookmarkTooEarly);
        if !early && table.watchers.get(&self.id).is_none_or(|slot| slot.pending.is_some()) {
            return None;
        }
        self.position = self.position.max(table.cried);
        Some(table.revision)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut guard = self.watchers.table();
        let table = &mut *guard;
        table.watchers.remove(&self.id);
        for scope in &self.scopes {
            if let Some(ids) = table.by_scope.get_mut(scope) {
                ids.remove(&self.id);
                if ids.is_empty() {
                    table.by_scope.remove(scope);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Path;
    use futures_util::FutureExt;

    /// Room for a few revisions.
    const SMALL: u64 = 1_000;

    fn watchers(bytes: u64) -> Arc<Watchers> {
        Arc::new(Watchers::new(bytes))
    }

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn push(watchers: &Watchers, revision: u64, text: &str) {
        watchers.push(Changes { revision: Revision(revision), list: [Change::NodeCreated(path(text))].into() });
    }

    fn watch(watchers: &Arc<Watchers>, text: &str) -> Watcher {
        let mut watcher = watchers.enter(vec![WatchFilter::Subtree(path(text))]).unwrap();
        watcher.start_after(Revision(0));
        assert_eq!(watcher.look(), Ok(None));
        watcher
    }

    fn cry(watchers: &Watchers) -> usize {
        watchers.cry_at_once()
    }

    fn is_woken(watcher: &mut Watcher) -> bool {
        watcher.woken().now_or_never().is_some()
    }

    fn revisions(watcher: &mut Watcher) -> Result<Vec<u64>, Compacted> {
        let told = watcher.look()?;
        Ok(told.into_iter().flatten().map(|told| told.revision.0).collect())
    }

    #[test]
    fn a_change_wakes_those_whom_it_concerns_and_the_others_know_that_it_did_not() {
        let watchers = watchers(u64::MAX);
        let (mut a, mut b) = (watch(&watchers, "/a"), watch(&watchers, "/b"));
        push(&watchers, 1, "/a/x");
        push(&watchers, 2, "/a/y");
        assert_eq!(cry(&watchers), 1, "once for both");
        assert_eq!((a.pass_over(), is_woken(&mut b)), (None, false));
        assert!(is_woken(&mut a));
        assert_eq!(revisions(&mut a), Ok(vec![1, 2]));
        assert_eq!((b.pass_over(), a.pass_over()), (Some(Revision(2)), Some(Revision(2))));
        drop(a);
        push(&watchers, 3, "/a/z");
        assert_eq!(cry(&watchers), 0, "nobody watches it any more");
    }

    #[test]
    fn a_change_between_entering_and_looking_is_seen_and_its_wake_up_finds_nothing_new() {
        let watchers = watchers(u64::MAX);
        let mut watcher = watchers.enter(vec![WatchFilter::Subtree(path("/a"))]).unwrap();
        push(&watchers, 1, "/a");
        watcher.start_at(Revision(1)).unwrap();
        assert_eq!(revisions(&mut watcher), Ok(vec![1]));
        assert_eq!(cry(&watchers), 1);
        assert!(is_woken(&mut watcher));
        assert_eq!(watcher.look(), Ok(None), "not twice");
    }

    #[test]
    fn a_watcher_of_something_quiet_is_never_too_far_behind() {
        let watchers = watchers(SMALL);
        let mut quiet = watch(&watchers, "/quiet");
        for revision in 1..1_000 {
            push(&watchers, revision, "/busy");
            cry(&watchers);
        }
        push(&watchers, 1_000, "/quiet");
        assert_eq!(cry(&watchers), 1);
        assert!(is_woken(&mut quiet));
        assert_eq!(revisions(&mut quiet), Ok(vec![1_000]));
    }

    #[test]
    fn a_watcher_that_does_not_read_learns_that_events_are_gone() {
        let watchers = watchers(SMALL);
        let mut slow = watch(&watchers, "/busy");
        let woken: usize = (1..1_000)
            .map(|revision| {
                push(&watchers, revision, "/busy");
                cry(&watchers)
            })
            .sum();
        assert_eq!(woken, 1, "it is not woken again before it looks");
        assert!(is_woken(&mut slow));
        let Err(Compacted { oldest }) = slow.look() else { panic!("it missed something and was not told") };
        assert!(slow.start_at(Revision(oldest.0 - 1)).is_err() && slow.start_at(oldest).is_ok());
    }

    #[test]
    fn what_the_crier_could_not_look_at_may_have_concerned_anybody() {
        let watchers = watchers(SMALL);
        let mut quiet = watch(&watchers, "/quiet");
        (1..1_000).for_each(|revision| push(&watchers, revision, "/busy"));
        let mut late = watch(&watchers, "/quiet");
        assert_eq!(cry(&watchers), 2);
        assert!(is_woken(&mut quiet) && is_woken(&mut late));
        assert!(quiet.look().is_err());
        assert_eq!(late.look(), Ok(None), "it came after what was lost");
    }

    #[test]
    fn a_snapshot_cuts_off_all_earlier_watchers() {
        let watchers = watchers(u64::MAX);
        let mut before = watch(&watchers, "/a");
        watchers.reset(Revision(50));
        let mut after = watch(&watchers, "/a");
        assert_eq!(cry(&watchers), 2);
        assert!(is_woken(&mut before) && is_woken(&mut after));
        assert_eq!(before.look(), Err(Compacted { oldest: Revision(51) }));
        assert_eq!((after.look(), after.pass_over()), (Ok(None), Some(Revision(50))));
    }

    #[test]
    fn a_large_revision_is_fetched_in_parts_of_which_only_the_last_completes_it() {
        let watchers = watchers(u64::MAX);
        let mut watcher = watch(&watchers, "/a");
        let mut list: Vec<Change> =
            (0..CHANGES_AT_ONCE * 2).map(|number| Change::NodeDeleted(path(&format!("/a/{number}")))).collect();
        let all = list.clone();
        // What is another's lies between, and behind.
        list.insert(CHANGES_AT_ONCE, Change::NodeDeleted(path("/b")));
        list.push(Change::NodeDeleted(path("/b")));
        push(&watchers, 1, "/a");
        watchers.push(Changes { revision: Revision(2), list: list.into() });
        push(&watchers, 3, "/a");
        let (mut seen, mut ends) = (Vec::new(), Vec::new());
        while let Some(told) = watcher.look().unwrap() {
            assert!(told.iter().map(|told| told.changes.len()).sum::<usize>() <= CHANGES_AT_ONCE);
            for TellResult { revision, changes, complete } in told {
                ends.push((revision.0, complete));
                seen.extend(changes.into_iter().filter(|_| revision.0 == 2));
            }
        }
        assert_eq!(ends, [(1, true), (2, false), (2, false), (2, true), (3, true)]);
        assert_eq!(seen, all, "each once and in order");
    }

    #[test]
    fn there_is_a_most_of_watchers() {
        let watchers = watchers(SMALL);
        let enter = || watchers.enter(vec![WatchFilter::Locks]);
        let mut all: Vec<Watcher> = std::iter::from_fn(enter).take(WATCHERS_MAX + 1).collect();
        assert_eq!(all.len(), WATCHERS_MAX);
        all.pop();
        assert!(enter().is_some() && enter().is_some());
    }
}
