//! The histories of all locks, page by page: the locks in the order of their names, and the holds of each as in its own
//! history.
//!
//! A page by name continues where the last one ended, and examines a bounded number of holds. In the order of time, every
//! page would examine all of them.

use crate::{
    State,
    history::{Ending, HistoryKey, PastHolding},
    history_page::{HistoryEntry, When},
    record::{Contender, Moment},
    recording::{holding_of, holding_since},
};
use fairhold_types::{
    HoldingEnd, LockName,
    limits::{PAGE_MAX, PAGE_SCANNED_MAX},
    time::WallMillis,
};
use std::{fmt, iter, ops::Bound};

/// A query of the histories of all locks.
#[derive(Debug, Clone, Default)]
pub struct HistoriesQuery {
    /// The prefix of the names; it need not be a valid name.
    pub prefix: String,
    /// Only holds of this time.
    pub when: Option<HoldPeriod>,
    /// Only holds of this owner.
    pub owner: Option<String>,
    /// Only holds that ended in this way.
    pub ended: Option<HoldingEnd>,
    /// Only holds after this key.
    pub after: Option<HistoriesKey>,
    /// The maximum number of holds, 1 to `PAGE_MAX`.
    pub limit: usize,
}

/// The time of the holds that a query selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldPeriod {
    /// At this point.
    At(When),
    /// At some point of a window: it ends after `from` and begins before `to`.
    Overlapping {
        /// The beginning of the window; `None`: it has none.
        from: Option<When>,
        /// The end of the window; `None`: it has none.
        to: Option<When>,
    },
}

/// The position of a hold among the histories. It stays valid when the hold or the lock is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoriesKey {
    /// The lock.
    pub lock: LockName,
    /// The position in its history.
    pub hold: HistoryKey,
}

/// A page of the histories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoriesPage {
    /// The holds, in order. A page can be short or empty without being the last.
    pub items: Vec<HistoryEntry>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<HistoriesKey>,
    /// When the oldest kept hold of all ended; `None` if there is none, or if the page is only of some locks.
    pub oldest: Option<WallMillis>,
}

impl HoldPeriod {
    fn includes(self, from: Moment, to: Option<Moment>) -> bool {
        match self {
            HoldPeriod::At(when) => when.is_within(from, to),
            HoldPeriod::Overlapping { from: begin, to: end } => {
                begin.is_none_or(|begin| to.is_none_or(|to| begin.is_before(to))) && end.is_none_or(|end| end.is_after(from))
            }
        }
    }
}

/// A hold in the state.
#[derive(Clone, Copy)]
enum Hold<'a> {
    Current(&'a Contender),
    Past(&'a PastHolding),
}

impl Hold<'_> {
    fn key(self) -> HistoryKey {
        match self {
            Hold::Current(holder) => HistoryKey { ended: HistoryKey::END.ended, number: holder.number },
            Hold::Past(past) => past.key(),
        }
    }

    fn matches(self, query: &HistoriesQuery) -> bool {
        let (from, ending, owner) = match self {
            // The hold of a cooling grant has ended, so it is also among the past ones.
            Hold::Current(holder) if holder.cooling => return false,
            Hold::Current(holder) => match holding_since(holder) {
                Some(from) => (from, None, &holder.owner.text),
                None => return false,
            },
            Hold::Past(past) => (past.holding.from, Some(&past.ending), &past.holding.owner),
        };
        query.when.is_none_or(|when| when.includes(from, ending.map(|ending: &Ending| ending.to)))
            && query.owner.as_ref().is_none_or(|wanted| wanted == owner)
            && query.ended.is_none_or(|wanted| ending.is_some_and(|ending| ending.how == wanted))
    }

    fn to_entry(self) -> Option<HistoryEntry> {
        match self {
            Hold::Current(holder) => holding_of(holder).map(|holding| HistoryEntry { holding, ending: None }),
            Hold::Past(past) => Some(HistoryEntry { holding: past.holding.clone(), ending: Some(past.ending.clone()) }),
        }
    }
}

/// A page under construction. It visits a given number of locks and holds at a time, so that the caller can let other
/// tasks run in between.
pub struct HistoriesListing<'a> {
    state: &'a State,
    query: &'a HistoriesQuery,
    limit: usize,
    /// Which locks the page may show; `None`: all.
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    locks: Box<dyn Iterator<Item = &'a LockName> + Send + 'a>,
    /// The rest of the history of the newest lock.
    holds: Box<dyn Iterator<Item = Hold<'a>> + Send + 'a>,
    /// The number of visible locks and their holds that were visited, and the position of the newest.
    seen: usize,
    last_seen: Option<(&'a LockName, HistoryKey)>,
    is_complete: bool,
    found: Vec<(HistoryKey, HistoryEntry)>,
}

impl fmt::Debug for HistoriesListing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} holds", self.found.len(), self.seen)
    }
}

impl<'a> HistoriesListing<'a> {
    /// The same page of only these locks. It tells nothing about the others: no key has their names, and they do not count.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> HistoriesListing<'a> {
        HistoriesListing { visible: Some(visible), ..self }
    }

    /// Visits `count` more locks and holds. Returns whether the page is complete.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            // One hold beyond the page shows that there is a next page.
            if self.is_complete || self.found.len() > self.limit || self.seen == PAGE_SCANNED_MAX {
                return true;
            }
            match self.holds.next() {
                Some(hold) => self.consider(hold),
                None => self.begin_next_lock(),
            }
        }
        false
    }

    /// The finished page.
    #[must_use]
    pub fn into_page(mut self) -> HistoriesPage {
        let last = if self.found.len() > self.limit {
            self.found.truncate(self.limit);
            self.found.last().map(|(hold, entry)| (&entry.holding.lock, *hold))
        } else {
            self.last_seen.filter(|_| !self.is_complete)
        };
        let next = last.map(|(lock, hold)| HistoriesKey { lock: lock.clone(), hold });
        let oldest = if self.visible.is_none() { self.state.oldest_hold_ended() } else { None };
        HistoriesPage { items: self.found.into_iter().map(|(_, entry)| entry).collect(), next, oldest }
    }

    fn consider(&mut self, hold: Hold<'a>) {
        let key = hold.key();
        self.seen += 1;
        self.last_seen = self.last_seen.map(|(lock, _)| (lock, key));
        if hold.matches(self.query) {
            self.found.extend(hold.to_entry().map(|entry| (key, entry)));
        }
    }

    fn begin_next_lock(&mut self) {
        let Some(lock) = self.locks.next() else {
            self.is_complete = true;
            return;
        };
        if self.visible.is_some_and(|is_visible| !is_visible(lock)) {
            return;
        }
        let after = self.query.after.as_ref().filter(|after| after.lock == *lock);
        let end = after.map_or(HistoryKey::END, |after| after.hold);
        self.seen += 1;
        self.last_seen = Some((lock, end));
        self.holds = Box::new(self.state.holds_before(lock, end));
    }
}

impl State {
    /// One page of the histories.
    #[must_use]
    pub fn histories(&self, query: &HistoriesQuery) -> HistoriesPage {
        let mut listing = self.histories_listing(query);
        while !listing.visit(PAGE_SCANNED_MAX) {}
        listing.into_page()
    }

    /// The page, to be built step by step.
    #[must_use]
    pub fn histories_listing<'a>(&'a self, query: &'a HistoriesQuery) -> HistoriesListing<'a> {
        // The lock of the key may have further holds.
        let begin = query.after.as_ref().map_or("", |after| after.lock.as_str()).max(query.prefix.as_str());
        let range = (Bound::Included(begin), Bound::Unbounded);
        let locks = self.tree.locks.records.range::<_, str>(range).map(|(lock, _)| lock);
        HistoriesListing {
            state: self,
            query,
            limit: query.limit.clamp(1, PAGE_MAX),
            visible: None,
            locks: Box::new(locks.take_while(|lock| lock.as_str().starts_with(&query.prefix))),
            holds: Box::new(iter::empty()),
            seen: 0,
            last_seen: None,
            is_complete: false,
            found: Vec::new(),
        }
    }

    /// The holds of a lock before a key, in the order of its history.
    fn holds_before<'a>(&'a self, lock: &LockName, end: HistoryKey) -> impl Iterator<Item = Hold<'a>> + Send + use<'a> {
        let past = self.tree.locks.entries_before(lock, end).rev();
        self.holders_before(lock, end).map(Hold::Current).chain(past.map(|(_, past)| Hold::Past(past)))
    }

    /// When the oldest kept hold ended.
    fn oldest_hold_ended(&self) -> Option<WallMillis> {
        let (_, lock) = self.tree.locks.oldest.get_min()?;
        self.tree.locks.get(lock.as_str())?.history.front().map(|past| past.ending.to.at)
    }
}

#[cfg(test)]
mod tests;
