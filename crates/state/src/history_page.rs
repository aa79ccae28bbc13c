//! A lock's history, page by page: its current holders, then its former holders, the newest end first.

use crate::{
    State,
    history::{Ending, HistoryKey, Holding},
    record::{Contender, Moment},
    recording::{holding_of, holding_since},
};
use fairhold_types::{LockName, Revision, limits::PAGE_MAX, time::WallMillis};
use std::fmt;

/// A query of a lock's history.
#[derive(Debug, Clone)]
pub struct HistoryQuery {
    /// The lock.
    pub lock: LockName,
    /// Only the holders at this time.
    pub when: Option<When>,
    /// Only entries after this key.
    pub after: Option<HistoryKey>,
    /// The maximum number of entries, 1 to `PAGE_MAX`.
    pub limit: usize,
}

/// The point in time of a query. A grant that begins at that point counts as a holder; a grant that ends at it does
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A wall time, compared with the times in the commands.
    At(WallMillis),
    /// A revision, which is exact.
    Revision(Revision),
}

/// One entry of a lock's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The holder, and when it began to hold.
    pub holding: Holding,
    /// How it ended; `None` while it holds.
    pub ending: Option<Ending>,
}

/// A page of a lock's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries, the newest end first.
    pub items: Vec<HistoryEntry>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<HistoryKey>,
}

impl When {
    /// Whether the point is in a holding period.
    pub(crate) fn is_within(self, from: Moment, to: Option<Moment>) -> bool {
        match self {
            When::At(at) => from.at <= at && to.is_none_or(|to| at < to.at),
            When::Revision(revision) => from.revision <= revision && to.is_none_or(|to| revision < to.revision),
        }
    }

    /// Whether the point is before another one.
    pub(crate) fn is_before(self, moment: Moment) -> bool {
        match self {
            When::At(at) => at < moment.at,
            When::Revision(revision) => revision < moment.revision,
        }
    }

    /// Whether the point is after another one.
    pub(crate) fn is_after(self, moment: Moment) -> bool {
        match self {
            When::At(at) => at > moment.at,
            When::Revision(revision) => revision > moment.revision,
        }
    }
}

/// A visited entry with its key; `None` if it does not match the query.
type Found = Option<(HistoryKey, HistoryEntry)>;

/// A page under construction. It visits a given number of entries at a time, so that the caller can let other tasks run
/// in between.
pub struct HistoryListing<'a> {
    limit: usize,
    entries: Box<dyn Iterator<Item = Found> + Send + 'a>,
    found: Vec<(HistoryKey, HistoryEntry)>,
}

impl fmt::Debug for HistoryListing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries of a history", self.found.len())
    }
}

impl HistoryListing<'_> {
    /// Visits `count` more entries. Returns whether the page is complete.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            // One entry beyond the page shows that there is a next page.
            if self.found.len() > self.limit {
                return true;
            }
            let Some(entry) = self.entries.next() else { return true };
            self.found.extend(entry);
        }
        false
    }

    /// The finished page.
    #[must_use]
    pub fn into_page(mut self) -> HistoryPage {
        let has_more = self.found.len() > self.limit;
        self.found.truncate(self.limit);
        let next = self.found.last().filter(|_| has_more).map(|(key, _)| *key);
        HistoryPage { items: self.found.into_iter().map(|(_, entry)| entry).collect(), next }
    }
}

impl State {
    /// One page of a lock's history. A hold that ends between two pages may be on both, as a current and as a former
    /// one.
    #[must_use]
    pub fn history(&self, query: &HistoryQuery) -> HistoryPage {
        let mut listing = self.history_listing(query);
        while !listing.visit(PAGE_MAX) {}
        listing.into_page()
    }

    /// The page, to be built step by step.
    #[must_use]
    pub fn history_listing<'a>(&'a self, query: &'a HistoryQuery) -> HistoryListing<'a> {
        let end = query.after.unwrap_or(HistoryKey::END);
        let was_then = move |from, to| query.when.is_none_or(|when| when.is_within(from, to));
        let present = self.holders_before(&query.lock, end).map(move |holder| {
            let from = holding_since(holder).filter(|from| !holder.cooling && was_then(*from, None));
            let holding = from.and_then(|_| holding_of(holder))?;
            let key = HistoryKey { ended: HistoryKey::END.ended, number: holding.number };
            Some((key, HistoryEntry { holding, ending: None }))
        });
        let past = self.tree.locks.entries_before(&query.lock, end).rev().map(move |(key, past)| {
            let fits = was_then(past.holding.from, Some(past.ending.to));
            fits.then(|| (key, HistoryEntry { holding: past.holding.clone(), ending: Some(past.ending.clone()) }))
        });
        let entries = Box::new(present.chain(past));
        HistoryListing { limit: query.limit.clamp(1, PAGE_MAX), entries, found: Vec::new() }
    }

    /// The holders of a lock before a key in its history, the newest first.
    pub(crate) fn holders_before<'a>(
        &'a self,
        lock: &LockName,
        end: HistoryKey,
    ) -> impl Iterator<Item = &'a Contender> + Send + use<'a> {
        let record = self.tree.locks.entry(lock).filter(|_| end.ended == HistoryKey::END.ended);
        record.and_then(|(lock, record)| Some((lock, record.queue()?))).into_iter().flat_map(move |(lock, queue)| {
            queue.holders.range(..end.number).rev().filter_map(|number| self.contender_in(lock, *number))
        })
    }
}
