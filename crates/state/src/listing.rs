//! Listing locks page by page. A page in the order of names costs what it shows; another order looks at every lock that fits.

use crate::{State, index::Queue};
use fairhold_types::{
    FencingToken, GrantNumber, LockName, Mode,
    limits::{PAGE_MAX, PAGE_SCANNED_MAX},
    time::WallMillis,
};
use std::{collections::BTreeMap, ops::Bound};

/// Which locks are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockFilter {
    /// Somebody holds it.
    Held,
    /// Somebody waits for it.
    Queued,
    /// Its holder expired, and its lock delay runs.
    Cooling,
    /// Nobody stands in it, and it is not forgotten yet.
    Idle,
}

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockSort {
    /// By name.
    Name,
    /// Where most wait comes first.
    Waiters,
    /// Where somebody waits since longest comes first.
    LongestWait,
    /// Where those who were granted have waited longest, all together, comes first.
    Wait,
    /// Where those who have ended have held longest, all together, comes first.
    Hold,
    /// Where most were granted who had to wait comes first.
    Contention,
}

/// Where a lock stands in a listing: also one that is gone by now, so that a page can begin after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockKey {
    /// Lower comes first; all are 0 in the order of names.
    pub rank: u64,
    /// Among equals.
    pub name: LockName,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct LockQuery {
    /// How the names begin; it need not be a name.
    pub prefix: String,
    /// Which.
    pub filter: Option<LockFilter>,
    /// In which order.
    pub sort: LockSort,
    /// The page begins after this.
    pub after: Option<LockKey>,
    /// How many at most; 1 to `PAGE_MAX`.
    pub limit: usize,
}

/// One lock of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockEntry {
    /// Its name.
    pub name: LockName,
    /// How many hold it.
    pub holders: usize,
    /// How many of those who held it cool.
    pub cooling: usize,
    /// How many wait.
    pub waiting: usize,
    /// How it is held; none where nobody holds it.
    pub mode: Option<Mode>,
    /// Its limit.
    pub limit: u32,
    /// The token that was given out last.
    pub last_token: Option<FencingToken>,
    /// Since when the first of those who hold it does.
    pub held_since: Option<WallMillis>,
    /// Since when somebody waits.
    pub waiting_since: Option<WallMillis>,
    /// How long those who were granted have waited, all together, in milliseconds.
    pub waited_ms: u64,
    /// How long those who have ended have held, all together, in milliseconds.
    pub held_ms: u64,
    /// Grants to one who had to wait.
    pub hand_overs: u64,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockPage {
    /// The locks, in order. A page may be short, or empty, and not be the last.
    pub items: Vec<LockEntry>,
    /// Where the next page begins; none after the last.
    pub next: Option<LockKey>,
}

impl State {
    /// One page of the locks.
    #[must_use]
    pub fn locks_page(&self, query: &LockQuery) -> LockPage {
        match query.sort {
            LockSort::Name => self.page_by_name(query),
            LockSort::Waiters | LockSort::LongestWait | LockSort::Wait | LockSort::Hold | LockSort::Contention => {
                self.page_by_rank(query)
            }
        }
    }

    fn page_by_name(&self, query: &LockQuery) -> LockPage {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let mut items = Vec::new();
        let mut last_seen = None;
        let names = self.names_from(query, query.after.as_ref().map(|after| &after.name));
        for (seen, name) in names.enumerate() {
            if items.len() == limit || seen == PAGE_SCANNED_MAX {
                let next = last_seen.map(|name: &LockName| LockKey { rank: 0, name: name.clone() });
                return LockPage { items, next };
            }
            last_seen = Some(name);
            if self.fits_filter(name, query.filter) {
                items.push(self.lock_entry(name));
            }
        }
        LockPage { items, next: None }
    }

    fn page_by_rank(&self, query: &LockQuery) -> LockPage {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let mut first: BTreeMap<(u64, &LockName), ()> = BTreeMap::new();
        for name in self.names_from(query, None).filter(|name| self.fits_filter(name, query.filter)) {
            let key = (self.rank(name, query.sort), name);
            if query.after.as_ref().is_some_and(|after| key <= (after.rank, &after.name)) {
                continue;
            }
            first.insert(key, ());
            // One more than the page has tells whether there is a next one.
            if first.len() > limit + 1 {
                first.pop_last();
            }
        }
        let more = first.len() > limit;
        let page = || first.keys().take(limit);
        let next = page().next_back().filter(|_| more).map(|(rank, name)| LockKey { rank: *rank, name: (*name).clone() });
        LockPage { items: page().map(|(_, name)| self.lock_entry(name)).collect(), next }
    }

    /// The names that begin as asked, in order, from after one of them on: of those in which somebody stands, or of all.
    fn names_from<'a>(
        &'a self,
        query: &'a LockQuery,
        after: Option<&'a LockName>,
    ) -> Box<dyn Iterator<Item = &'a LockName> + 'a> {
        let begin = match after {
            Some(name) if name.as_str() >= query.prefix.as_str() => Bound::Excluded(name.as_str()),
            Some(_) | None => Bound::Included(query.prefix.as_str()),
        };
        let range = (begin, Bound::Unbounded);
        let fits = |name: &&LockName| name.as_str().starts_with(&query.prefix);
        match query.filter {
            Some(LockFilter::Held | LockFilter::Queued | LockFilter::Cooling) => {
                Box::new(self.index.queues.range::<_, str>(range).map(|(name, _)| name).take_while(fits))
            }
            Some(LockFilter::Idle) | None => Box::new(self.index.locks.range::<_, str>(range).take_while(fits)),
        }
    }

    fn fits_filter(&self, name: &LockName, filter: Option<LockFilter>) -> bool {
        let queue = self.index.queues.get(name);
        match filter {
            None => true,
            Some(LockFilter::Held) => queue.is_some_and(|queue| queue.holders.len() > self.cooling_in(queue)),
            Some(LockFilter::Queued) => queue.is_some_and(|queue| !queue.waiting.is_empty()),
            Some(LockFilter::Cooling) => queue.is_some_and(|queue| self.cooling_in(queue) > 0),
            Some(LockFilter::Idle) => queue.is_none(),
        }
    }

    fn cooling_in(&self, queue: &Queue) -> usize {
        if self.index.cooling.is_empty() {
            return 0;
        }
        queue.holders.iter().filter(|number| self.index.cooling.contains(*number)).count()
    }

    fn rank(&self, name: &LockName, sort: LockSort) -> u64 {
        let queue = self.index.queues.get(name);
        match sort {
            LockSort::Name => 0,
            LockSort::Waiters => u64::MAX - queue.map_or(0, |queue| queue.waiting.len() as u64),
            LockSort::LongestWait => queue.and_then(first_waiter).map_or(u64::MAX, |number| number.0),
            LockSort::Wait => u64::MAX - self.statistics(name).map_or(0, |counted| counted.waited.sum_ms),
            LockSort::Hold => u64::MAX - self.statistics(name).map_or(0, |counted| counted.held.sum_ms),
            LockSort::Contention => u64::MAX - self.statistics(name).map_or(0, |counted| counted.hand_overs),
        }
    }

    fn lock_entry(&self, name: &LockName) -> LockEntry {
        let queue = self.index.queues.get(name);
        let settings = self.settings(name);
        let cooling = queue.map_or(0, |queue| self.cooling_in(queue));
        let holding = |number: &&GrantNumber| !self.index.cooling.contains(*number);
        let first = queue.and_then(|queue| queue.holders.iter().find(holding));
        let first = first.and_then(|number| self.contender_in(name, *number));
        let oldest = queue.and_then(first_waiter).and_then(|number| self.contender(number));
        let counted = self.statistics(name);
        LockEntry {
            name: name.clone(),
            holders: queue.map_or(0, |queue| queue.holders.len()) - cooling,
            cooling,
            waiting: queue.map_or(0, |queue| queue.waiting.len()),
            mode: first.map(|holder| holder.mode),
            limit: settings.and_then(|settings| settings.limit).unwrap_or(1),
            last_token: settings.and_then(|settings| settings.last_token),
            held_since: first.and_then(|holder| holder.held_since),
            waiting_since: oldest.map(|waiter| waiter.queued_at),
            waited_ms: counted.map_or(0, |counted| counted.waited.sum_ms),
            held_ms: counted.map_or(0, |counted| counted.held.sum_ms),
            hand_overs: counted.map_or(0, |counted| counted.hand_overs),
        }
    }
}

/// The one that waits since longest, wherever its priority has put it.
fn first_waiter(queue: &Queue) -> Option<GrantNumber> {
    queue.by_age.get_min().copied()
}
