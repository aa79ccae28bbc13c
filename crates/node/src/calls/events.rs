//! Pages of recent events, newest first. They come from the ring that this node keeps for watches, so they cost apply
//! nothing.

use crate::{
    access::Visible,
    api::{CallError, Compacted, ReadOptions},
    base::walks::walk_in_turns,
    feed::{
        change::{Change, Changes},
        ring::Ring,
        watch_filter::WatchFilter,
    },
    node::Node,
};
use fairhold_types::{LockName, Revision, SessionNumber, call::EventType, limits::PAGE_SCANNED_MAX};
use openraft_rt::{AsyncRuntime, Instant};
use std::sync::Arc;

/// Revisions that are read from the ring at a time.
const REVISIONS_AT_ONCE: usize = 256;

/// A position among the events that a caller may see. All earlier revisions are before it, and `index` of those events of its
/// own revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition {
    /// The revision.
    pub revision: Revision,
    /// The number of events of this revision that are before the position. It counts only those that the caller may see.
    pub index: usize,
}

/// A request for a page of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events before this position.
    pub before: Option<EventPosition>,
    /// Only events of later revisions.
    pub after: Option<Revision>,
    /// Only events of this lock.
    pub lock: Option<LockName>,
    /// Only events of locks whose name has this prefix; empty: also all others.
    pub prefix: String,
    /// Only events of this session and its grants.
    pub session: Option<SessionNumber>,
    /// Only events of this type.
    pub event_type: Option<EventType>,
    /// The maximum number of events, at least 1.
    pub limit: usize,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events, the newest first.
    pub items: Vec<(Revision, Change)>,
    /// The next page has the events before this position; `None` on the last page.
    pub next: Option<EventPosition>,
    /// How many events after `after` are on the following pages; `None` without `after`, or if not all are examined.
    pub skipped: Option<u64>,
    /// This node keeps all events from this revision on.
    pub oldest: Revision,
    /// The revision up to which events were examined.
    pub revision: Revision,
}

impl EventQuery {
    fn selects(&self, change: &Change) -> bool {
        let subject = change.subject();
        let lock = subject.lock();
        self.event_type.is_none_or(|wanted| wanted == change.event_type())
            && self.lock.as_ref().is_none_or(|wanted| lock == Some(wanted))
            && (self.prefix.is_empty() || lock.is_some_and(|lock| lock.as_str().starts_with(&self.prefix)))
            && self.session.is_none_or(|wanted| WatchFilter::Session(wanted).covers(subject))
    }

    /// Refuses a range that begins or ends below what is kept.
    fn check_kept(&self, oldest: Revision) -> Result<(), Compacted> {
        let newest = self.before.map(|EventPosition { revision, index }| match index {
            // There is nothing before the first revision, so nothing is missing.
            0 => Revision(revision.0.saturating_sub(1).max(1)),
            _ => revision,
        });
        let is_kept = newest.is_none_or(|newest| newest >= oldest) && self.after.is_none_or(|after| after.next() >= oldest);
        if is_kept { Ok(()) } else { Err(Compacted { oldest }) }
    }
}

impl<RT: AsyncRuntime> Node<RT> {
    /// A page of the events that this node keeps and the caller may see. The node reads no further revisions once it has
    /// examined `PAGE_SCANNED_MAX` events. `after` may not be later than the revision of the cluster.
    pub async fn events(&self, query: &EventQuery, read: ReadOptions) -> Result<EventPage, CallError> {
        let deadline = RT::Instant::now() + read.timeout;
        self.freshen_by(read.freshness, deadline).await?;
        if let Some(after) = query.after {
            self.reach(after.next(), deadline).await?;
        }
        let visible = self.visible()?;
        // Deciding the rights on each event is as much work as a walk. A caller that may see no event needs no slot.
        let needs_slot = visible.has_some_changes() && !visible.has_all_changes();
        let _slot = if needs_slot { Some(self.walk_slot(deadline).await?) } else { None };
        // The ring has the events of this revision, and the access data is never older than it.
        let revision = self.revision();
        let visible = self.visible()?;
        let ring = &self.0.hub.dispatcher.ring;
        let oldest = ring.first().1;
        query.check_kept(oldest)?;
        if !visible.has_some_changes() {
            return Ok(EventPage { items: Vec::new(), next: None, skipped: query.after.map(|_| 0), oldest, revision });
        }
        let mut scan = EventScan::new(ring, query, &visible, revision);
        walk_in_turns(|count| scan.visit(count)).await;
        Ok(scan.into_page()?)
    }
}

/// Goes from event to event, back in time.
struct EventScan<'a> {
    ring: &'a Ring,
    query: &'a EventQuery,
    /// What the page may show; `None`: all.
    visible: Option<&'a Visible>,
    revision: Revision,
    /// All events from here on are examined.
    at: EventPosition,
    /// What the caller may see of the revision at that position.
    current: Arc<Changes>,
    /// The revisions before it, in order.
    earlier: Vec<Arc<Changes>>,
    items: Vec<(Revision, Change)>,
    /// The position of the last item.
    shown: EventPosition,
    /// Selected events after the page was full.
    skipped: u64,
    /// The events of the revisions that were read.
    examined: usize,
    /// Everything that the query selects is examined.
    is_complete: bool,
    oldest: Revision,
}

impl<'a> EventScan<'a> {
    fn new(ring: &'a Ring, query: &'a EventQuery, visible: &'a Visible, revision: Revision) -> EventScan<'a> {
        let end = EventPosition { revision: revision.next(), index: 0 };
        let begin = query.before.map_or(end, |before| before.min(end));
        // A part of a revision is read as the revision before the next one.
        let below = if begin.index > 0 { begin.revision.next() } else { begin.revision };
        EventScan {
            ring,
            query,
            visible: Some(visible).filter(|visible| !visible.has_all_changes()),
            revision,
            at: EventPosition { revision: below, index: 0 },
            current: Arc::new(Changes { revision: below, list: [].into() }),
            earlier: Vec::new(),
            items: Vec::new(),
            shown: begin,
            skipped: 0,
            examined: 0,
            is_complete: false,
            oldest: ring.first().1,
        }
    }

    /// Examines some events, and returns whether it is done.
    fn visit(&mut self, count: usize) -> bool {
        let mut left = count;
        while left > 0 {
            // With `after`, the rest of the range is counted.
            let has_enough = self.skipped > 0 && self.query.after.is_none();
            // The page ends between two revisions, so that its end names no event that the caller may not see.
            let is_at_limit = self.examined >= PAGE_SCANNED_MAX && self.at.index == 0;
            if has_enough || is_at_limit {
                return true;
            }
            let Some(cost) = self.step() else {
                self.is_complete = true;
                return true;
            };
            left = left.saturating_sub(cost);
        }
        false
    }

    /// Examines the next event, or reads the revision before; returns how many events it has looked at, at least 1. `None`
    /// if there is nothing more.
    fn step(&mut self) -> Option<usize> {
        if self.at.index == 0 {
            return self.read_revision();
        }
        self.at.index -= 1;
        let change = &self.current.list[self.at.index];
        if self.query.selects(change) {
            if self.items.len() < self.query.limit {
                self.items.push((self.at.revision, change.clone()));
                self.shown = self.at;
            } else {
                self.skipped += 1;
            }
        }
        Some(1)
    }

    fn read_revision(&mut self) -> Option<usize> {
        if self.earlier.is_empty() {
            (self.earlier, self.oldest) = self.ring.before(self.at.revision, REVISIONS_AT_ONCE);
        }
        let floor = self.query.after.unwrap_or_default();
        let changes = self.earlier.pop().filter(|changes| changes.revision > floor)?;
        let count = changes.list.len();
        self.examined += count;
        let changes = self.visible_part(changes);
        let begin = self.query.before.filter(|before| before.revision == changes.revision);
        let index = begin.map_or(changes.list.len(), |before| before.index.min(changes.list.len()));
        self.at = EventPosition { revision: changes.revision, index };
        self.current = changes;
        Some(count.max(1))
    }

    /// Positions count only what the caller may see.
    fn visible_part(&self, changes: Arc<Changes>) -> Arc<Changes> {
        let Some(visible) = self.visible else { return changes };
        let list = changes.list.iter().filter(|change| visible.has_change(change)).cloned().collect();
        Arc::new(Changes { revision: changes.revision, list })
    }

    fn into_page(self) -> Result<EventPage, Compacted> {
        // The ring may have dropped the end of the range meanwhile.
        if self.is_complete && self.query.after.is_some_and(|after| after.next() < self.oldest) {
            return Err(Compacted { oldest: self.oldest });
        }
        let next = match (self.skipped, self.is_complete) {
            (0, true) => None,
            (0, false) => Some(self.at),
            (_, _) => Some(self.shown),
        };
        let is_counted = self.is_complete && self.query.after.is_some();
        Ok(EventPage {
            items: self.items,
            next,
            skipped: is_counted.then_some(self.skipped),
            oldest: self.oldest,
            revision: self.revision,
        })
    }
}

#[cfg(test)]
mod tests;
