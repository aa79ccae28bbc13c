//! Notifies watchers of changes: a change wakes only the watchers whose filters select it.
//!
//! Apply only adds a change to the ring and notifies the dispatcher, a separate task. The dispatcher reads the new
//! changes, marks the watchers of each with the position of the first change for them, and wakes them. So a watcher
//! costs apply nothing, needs no queue, and skips all changes that its filters do not select.

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

/// Revisions, or wake-ups, between two yields to other tasks.
const BATCH: usize = 256;

pub(crate) struct WatchDispatcher {
    pub(crate) ring: Ring,
    /// Watches that this node ended because it no longer has their events.
    pub(crate) compacted: Counter,
    /// Notified after every addition to the ring.
    added: Notify,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    watchers: BTreeMap<u64, Slot>,
    by_filter: BTreeMap<WatchFilter, BTreeSet<u64>>,
    /// The watchers of all changes before this position are marked.
    dispatched: Position,
    /// The last revision before that position.
    revision: Revision,
}

struct Slot {
    /// The first position with a change for this watcher that it has not learned of yet.
    pending: Option<Position>,
    wake: Arc<Notify>,
}

impl WatchDispatcher {
    pub(crate) fn new(ring_bytes: u64) -> WatchDispatcher {
        WatchDispatcher {
            ring: Ring::new(ring_bytes),
            compacted: Counter::default(),
            added: Notify::new(),
            table: Mutex::default(),
        }
    }

    /// Adds the changes of a revision. Never waits for a watcher.
    pub(crate) fn push(&self, changes: Changes) {
        if changes.list.is_empty() {
            // Nobody is woken for it. The next bookmark names it.
            self.ring.skip(changes.revision);
            return;
        }
        self.ring.push(changes);
        self.added.notify_one();
    }

    /// A snapshot replaced the state.
    pub(crate) fn reset(&self, revision: Revision) {
        self.ring.reset(revision);
        self.added.notify_one();
    }

    /// Wakes all watchers, so that each is decided again.
    pub(crate) fn wake_all(&self) {
        self.table().watchers.values().for_each(|slot| slot.wake.notify_one());
    }

    /// Registers a watcher that starts at the end of the ring; `None` if there are too many. Everything that is added
    /// to the ring after this call wakes the watcher, so the watcher reads the ring only after it.
    pub(crate) fn register(self: &Arc<Self>, filters: Vec<WatchFilter>) -> Option<Watcher> {
        let wake = Arc::new(Notify::new());
        let mut table = self.table();
        if table.watchers.len() >= WATCHERS_MAX {
            return None;
        }
        table.next_id += 1;
        let id = table.next_id;
        table.watchers.insert(id, Slot { pending: None, wake: Arc::clone(&wake) });
        for filter in &filters {
            table.by_filter.entry(filter.clone()).or_default().insert(id);
        }
        drop(table);
        let position = self.ring.end();
        Some(Watcher { dispatcher: Arc::clone(self), id, wake, filters, position, offset: 0, from: Revision(0) })
    }

    /// The number of watchers.
    pub(crate) fn count(&self) -> usize {
        self.table().watchers.len()
    }

    /// Wakes the watchers of new changes until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.added.notified().await;
            if let Err(error) = failpoint!(NodeWatchCry) {
                tracing::debug!(%error, "watchers are waiting for changes: this node wakes them");
            }
            loop {
                let (more, wake) = self.dispatch_batch();
                for chunk in wake.chunks(BATCH) {
                    chunk.iter().for_each(|wake| wake.notify_one());
                    yield_now().await;
                }
                if !more {
                    break;
                }
            }
        }
    }

    /// Wakes the watchers of all new changes without yielding, and returns how many it woke.
    pub(crate) fn dispatch_now(&self) -> usize {
        let mut woken = 0;
        loop {
            let (more, wake) = self.dispatch_batch();
            woken += wake.len();
            wake.iter().for_each(|wake| wake.notify_one());
            if !more {
                return woken;
            }
        }
    }

    /// Marks the watchers of the next changes. Returns whether more changes may follow, and the watchers to wake.
    fn dispatch_batch(&self) -> (bool, Vec<Arc<Notify>>) {
        let mut wake = Vec::new();
        let mut guard = self.table();
        let table = &mut *guard;
        if table.watchers.is_empty() {
            // A watcher that registers later starts at the end of the ring.
            (table.dispatched, table.revision) = self.ring.newest();
            return (false, wake);
        }
        let Ok(new) = self.ring.from(table.dispatched, BATCH) else {
            // The lost changes may concern any watcher: the ring dropped them before they were dispatched, or a
            // snapshot replaced them.
            let lost = table.dispatched;
            for slot in table.watchers.values_mut() {
                slot.mark(lost, &mut wake);
            }
            let (first, oldest) = self.ring.first();
            table.dispatched = first;
            table.revision = Revision(oldest.0.saturating_sub(1));
            return (true, wake);
        };
        for (position, changes) in (table.dispatched..).zip(&new) {
            let subjects = changes.list.iter().map(Change::subject);
            for filter in subjects.filter(|_| !table.by_filter.is_empty()).flat_map(WatchFilter::of) {
                for id in table.by_filter.get(&filter).into_iter().flatten() {
                    if let Some(slot) = table.watchers.get_mut(id) {
                        slot.mark(position, &mut wake);
                    }
                }
            }
            table.revision = changes.revision;
        }
        table.dispatched += new.len() as u64;
        (new.len() == BATCH, wake)
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

/// A registered watcher; dropping it ends the registration.
pub(crate) struct Watcher {
    dispatcher: Arc<WatchDispatcher>,
    id: u64,
    wake: Arc<Notify>,
    filters: Vec<WatchFilter>,
    /// The next position to read.
    position: Position,
    /// How many changes at that position it has read already.
    offset: usize,
    /// It reports no earlier changes.
    from: Revision,
}

/// The changes of one revision that a watcher's filters select, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionChanges {
    /// The revision.
    pub revision: Revision,
    /// The changes.
    pub changes: Vec<Change>,
    /// Whether these are the last changes of the revision for this watcher.
    pub complete: bool,
}

impl Watcher {
    /// Starts with the changes of a revision.
    pub(crate) fn start_at(&mut self, from: Revision) -> Result<(), Compacted> {
        let from = first_reported(from);
        self.position = self.dispatcher.ring.position_of(from)?;
        self.from = from;
        Ok(())
    }

    /// Starts at the end of the ring, with the changes after a revision. No event in the ring may be later than that
    /// revision.
    pub(crate) fn start_after(&mut self, revision: Revision) {
        self.position = self.dispatcher.ring.end();
        self.from = revision.next();
    }

    /// Reads the next changes, at most `CHANGES_AT_ONCE` of its own; `None` at the end of the ring. The result is empty
    /// if its filters select none of the changes that it read. The rest of a large revision follows in the next call.
    pub(crate) fn next_changes(&mut self) -> Result<Option<Vec<RevisionChanges>>, Compacted> {
        let new = self.dispatcher.ring.from(self.position, BATCH)?;
        if new.is_empty() {
            return Ok(None);
        }
        let mut selected = Vec::new();
        let mut room = CHANGES_AT_ONCE;
        for changes in new {
            let own = if changes.revision >= self.from { self.select(&changes, room) } else { None };
            let complete = own.as_ref().is_none_or(|own| own.complete);
            room = room.saturating_sub(own.as_ref().map_or(0, |own| own.changes.len()));
            selected.extend(own);
            if complete {
                self.position += 1;
                self.offset = 0;
            }
            if !complete || room == 0 {
                break;
            }
        }
        Ok(Some(selected))
    }

    /// The next changes of one revision that its filters select, at most `max`; `None` if there are none.
    fn select(&mut self, changes: &Changes, max: usize) -> Option<RevisionChanges> {
        let is_selected = |change: &Change| self.filters.iter().any(|filter| filter.covers(change.subject()));
        let unread = (self.offset..).zip(changes.list.iter().skip(self.offset));
        let mut own = unread.filter(|(_, change)| is_selected(change));
        let list: Vec<Change> = own.by_ref().take(max).map(|(_, change)| change.clone()).collect();
        let next = own.next().map(|(index, _)| index);
        self.offset = next.unwrap_or(0);
        (!list.is_empty()).then_some(RevisionChanges { revision: changes.revision, changes: list, complete: next.is_none() })
    }

    /// Waits for a change that its filters select, and skips all changes before it. The watcher must have read up to
    /// the end of the ring.
    pub(crate) async fn woken(&mut self) {
        self.wake.notified().await;
        if let Some(slot) = self.dispatcher.table().watchers.get_mut(&self.id)
            && let Some(pending) = slot.pending.take()
        {
            self.position = self.position.max(pending);
        }
    }

    /// Skips all dispatched changes, and returns the last revision that it skipped, with or without changes; `None` if a
    /// change for it is pending. The watcher must have read up to the end of the ring.
    pub(crate) fn skip_unrelated(&mut self) -> Option<Revision> {
        let table = self.dispatcher.table();
        let is_pending = table.watchers.get(&self.id).is_none_or(|slot| slot.pending.is_some());
        if is_pending && !skips_pending() {
            return None;
        }
        self.position = self.position.max(table.dispatched);
        Some(self.dispatcher.ring.newest_before(table.dispatched).unwrap_or(table.revision))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut guard = self.dispatcher.table();
        let table = &mut *guard;
        table.watchers.remove(&self.id);
        for filter in &self.filters {
            if let Some(ids) = table.by_filter.get_mut(filter) {
                ids.remove(&self.id);
                if ids.is_empty() {
                    table.by_filter.remove(filter);
                }
            }
        }
    }
}

/// The revision itself, unless a bug is planted.
fn first_reported(from: Revision) -> Revision {
    if planted::has(Bug::WatchSkipsOne) { from.next() } else { from }
}

/// Whether a bookmark may skip a pending change: only as a planted bug.
fn skips_pending() -> bool {
    planted::has(Bug::BookmarkTooEarly)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::Path;
    use futures_util::FutureExt;

    /// Room for a few revisions.
    const SMALL: u64 = 1_000;

    fn dispatcher(bytes: u64) -> Arc<WatchDispatcher> {
        Arc::new(WatchDispatcher::new(bytes))
    }

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn push(dispatcher: &WatchDispatcher, revision: u64, text: &str) {
        dispatcher.push(Changes { revision: Revision(revision), list: [Change::NodeCreated(path(text))].into() });
    }

    fn watch(dispatcher: &Arc<WatchDispatcher>, text: &str) -> Watcher {
        let mut watcher = dispatcher.register(vec![WatchFilter::Subtree(path(text))]).unwrap();
        watcher.start_after(Revision(0));
        assert_eq!(watcher.next_changes(), Ok(None));
        watcher
    }

    fn dispatch(dispatcher: &WatchDispatcher) -> usize {
        dispatcher.dispatch_now()
    }

    fn is_woken(watcher: &mut Watcher) -> bool {
        watcher.woken().now_or_never().is_some()
    }

    fn revisions(watcher: &mut Watcher) -> Result<Vec<u64>, Compacted> {
        let read = watcher.next_changes()?;
        Ok(read.into_iter().flatten().map(|read| read.revision.0).collect())
    }

    #[test]
    fn a_change_wakes_only_its_watchers_and_the_others_skip_it() {
        let dispatcher = dispatcher(u64::MAX);
        let (mut a, mut b) = (watch(&dispatcher, "/a"), watch(&dispatcher, "/b"));
        push(&dispatcher, 1, "/a/x");
        push(&dispatcher, 2, "/a/y");
        assert_eq!(dispatch(&dispatcher), 1, "once for both");
        assert_eq!((a.skip_unrelated(), is_woken(&mut b)), (None, false));
        assert!(is_woken(&mut a));
        assert_eq!(revisions(&mut a), Ok(vec![1, 2]));
        assert_eq!((b.skip_unrelated(), a.skip_unrelated()), (Some(Revision(2)), Some(Revision(2))));
        drop(a);
        push(&dispatcher, 3, "/a/z");
        assert_eq!(dispatch(&dispatcher), 0, "its watcher is gone");
    }

    #[test]
    fn a_revision_without_changes_wakes_nobody_and_is_in_the_next_bookmark() {
        let dispatcher = dispatcher(u64::MAX);
        let nothing = |revision| Changes { revision: Revision(revision), list: [].into() };
        let mut watcher = watch(&dispatcher, "/a");
        dispatcher.push(nothing(1));
        assert_eq!((dispatch(&dispatcher), watcher.skip_unrelated()), (0, Some(Revision(1))));
        push(&dispatcher, 2, "/b");
        dispatcher.push(nothing(3));
        assert_eq!(watcher.skip_unrelated(), Some(Revision(0)), "a change before it is not dispatched yet");
        assert_eq!((dispatch(&dispatcher), watcher.skip_unrelated()), (0, Some(Revision(3))));
        push(&dispatcher, 4, "/a");
        dispatcher.push(nothing(5));
        dispatch(&dispatcher);
        assert_eq!(watcher.skip_unrelated(), None);
        assert!(is_woken(&mut watcher));
        assert_eq!((revisions(&mut watcher), watcher.skip_unrelated()), (Ok(vec![4]), Some(Revision(5))));
    }

    #[test]
    fn a_change_between_registration_and_the_first_read_is_seen_once() {
        let dispatcher = dispatcher(u64::MAX);
        let mut watcher = dispatcher.register(vec![WatchFilter::Subtree(path("/a"))]).unwrap();
        push(&dispatcher, 1, "/a");
        watcher.start_at(Revision(1)).unwrap();
        assert_eq!(revisions(&mut watcher), Ok(vec![1]));
        assert_eq!(dispatch(&dispatcher), 1);
        assert!(is_woken(&mut watcher));
        assert_eq!(watcher.next_changes(), Ok(None), "it has seen the change");
    }

    #[test]
    fn a_watcher_without_changes_never_falls_behind() {
        let dispatcher = dispatcher(SMALL);
        let mut quiet = watch(&dispatcher, "/quiet");
        for revision in 1..1_000 {
            push(&dispatcher, revision, "/busy");
            dispatch(&dispatcher);
        }
        push(&dispatcher, 1_000, "/quiet");
        assert_eq!(dispatch(&dispatcher), 1);
        assert!(is_woken(&mut quiet));
        assert_eq!(revisions(&mut quiet), Ok(vec![1_000]));
    }

    #[test]
    fn a_watcher_that_does_not_read_learns_that_events_are_gone() {
        let dispatcher = dispatcher(SMALL);
        let mut slow = watch(&dispatcher, "/busy");
        let woken: usize = (1..1_000)
            .map(|revision| {
                push(&dispatcher, revision, "/busy");
                dispatch(&dispatcher)
            })
            .sum();
        assert_eq!(woken, 1, "it is not woken again before it reads");
        assert!(is_woken(&mut slow));
        let Err(Compacted { oldest }) = slow.next_changes() else { panic!("it missed changes without an error") };
        assert!(slow.start_at(Revision(oldest.0 - 1)).is_err() && slow.start_at(oldest).is_ok());
    }

    #[test]
    fn changes_that_are_lost_before_they_are_dispatched_wake_every_watcher() {
        let dispatcher = dispatcher(SMALL);
        let mut quiet = watch(&dispatcher, "/quiet");
        (1..1_000).for_each(|revision| push(&dispatcher, revision, "/busy"));
        let mut late = watch(&dispatcher, "/quiet");
        assert_eq!(dispatch(&dispatcher), 2);
        assert!(is_woken(&mut quiet) && is_woken(&mut late));
        assert!(quiet.next_changes().is_err());
        assert_eq!(late.next_changes(), Ok(None), "it was registered after the loss");
    }

    #[test]
    fn a_snapshot_cuts_off_all_earlier_watchers() {
        let dispatcher = dispatcher(u64::MAX);
        let mut before = watch(&dispatcher, "/a");
        dispatcher.reset(Revision(50));
        let mut after = watch(&dispatcher, "/a");
        assert_eq!(dispatch(&dispatcher), 2);
        assert!(is_woken(&mut before) && is_woken(&mut after));
        assert_eq!(before.next_changes(), Err(Compacted { oldest: Revision(51) }));
        assert_eq!((after.next_changes(), after.skip_unrelated()), (Ok(None), Some(Revision(50))));
    }

    #[test]
    fn a_large_revision_is_read_in_parts_and_only_the_last_one_is_complete() {
        let dispatcher = dispatcher(u64::MAX);
        let mut watcher = watch(&dispatcher, "/a");
        let mut list: Vec<Change> =
            (0..CHANGES_AT_ONCE * 2).map(|number| Change::NodeDeleted(path(&format!("/a/{number}")))).collect();
        let all = list.clone();
        // Changes for other watchers, in between and at the end.
        list.insert(CHANGES_AT_ONCE, Change::NodeDeleted(path("/b")));
        list.push(Change::NodeDeleted(path("/b")));
        push(&dispatcher, 1, "/a");
        dispatcher.push(Changes { revision: Revision(2), list: list.into() });
        push(&dispatcher, 3, "/a");
        let mut seen = Vec::new();
        let mut ends = Vec::new();
        while let Some(read) = watcher.next_changes().unwrap() {
            assert!(read.iter().map(|read| read.changes.len()).sum::<usize>() <= CHANGES_AT_ONCE);
            for RevisionChanges { revision, changes, complete } in read {
                ends.push((revision.0, complete));
                seen.extend(changes.into_iter().filter(|_| revision.0 == 2));
            }
        }
        assert_eq!(ends, [(1, true), (2, false), (2, false), (2, true), (3, true)]);
        assert_eq!(seen, all, "each change once and in order");
    }

    #[test]
    fn the_number_of_watchers_is_limited() {
        let dispatcher = dispatcher(SMALL);
        let register = || dispatcher.register(vec![WatchFilter::Locks]);
        let mut all: Vec<Watcher> = std::iter::from_fn(register).take(WATCHERS_MAX + 1).collect();
        assert_eq!(all.len(), WATCHERS_MAX);
        all.pop();
        assert!(register().is_some() && register().is_some());
    }
}
