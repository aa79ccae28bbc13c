//! Lists grants over all locks, page by page: one entry for each lock of a grant.
//!
//! Both orders follow an index, so a page continues where the last one ended, and examines a bounded number of entries.

use crate::{State, owned::OwnedKey, queue_view::QueueKey, record::Contender};
use fairhold_types::{
    FencingToken, GrantNumber, LockName, Mode, SessionNumber,
    limits::{PAGE_MAX, PAGE_SCANNED_MAX},
    time::WallMillis,
};
use std::{fmt, iter, ops::Bound};

/// The position of a waiter is counted along its queue. Counting this many contenders costs as much as an entry.
const COUNTED_PER_ENTRY: u64 = 128;

/// The phase of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantPhase {
    /// It waits.
    Queued,
    /// It holds.
    Held,
    /// Its session expired, and its lock delay runs.
    Cooling,
}

/// The order of a list of grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantSort {
    /// In the order in which they queued. The locks of a grant are in the order of its request.
    Queued,
    /// By the names of their locks. Those of one lock are in the order of its queue.
    Lock,
}

/// The position of an entry in a list of grants. It stays valid when the grant has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantKey {
    /// In the order in which they queued.
    Queued(OwnedKey),
    /// By lock.
    Lock(LockName, QueueKey),
}

/// A query of grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantQuery {
    /// The prefix of the locks' names; it need not be a valid name.
    pub prefix: String,
    /// Only grants of this owner.
    pub owner: Option<String>,
    /// Only grants of this session. A cooling grant is no longer one of them.
    pub session: Option<SessionNumber>,
    /// Only grants in this phase.
    pub phase: Option<GrantPhase>,
    /// The order of the list.
    pub sort: GrantSort,
    /// Only entries after this key. A key of the other order has no effect.
    pub after: Option<GrantKey>,
    /// The maximum number of entries, 1 to `PAGE_MAX`.
    pub limit: usize,
}

/// A grant in one of its locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantEntry {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number.
    pub session: SessionNumber,
    /// Its owner, for people to read.
    pub owner: String,
    /// Its phase.
    pub phase: GrantPhase,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The number of permits.
    pub permits: u32,
    /// The number of contenders ahead of it, holders included, plus 1; `None` unless it waits.
    pub position: Option<u64>,
    /// Its token while it holds.
    pub token: Option<FencingToken>,
    /// When it queued.
    pub queued_at: WallMillis,
    /// When it was granted.
    pub held_since: Option<WallMillis>,
    /// The number and the owner of the contender that it waits for.
    pub waits_for: Option<(GrantNumber, String)>,
}

/// A page of grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantPage {
    /// The entries, in order. A page can be short or empty without being the last.
    pub items: Vec<GrantEntry>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<GrantKey>,
}

/// Where the entries come from.
enum Entries<'a> {
    /// The grants, as they queued.
    Queued(Box<dyn Iterator<Item = (OwnedKey, &'a Contender, &'a LockName)> + Send + 'a>),
    /// The locks, and the rest of the queue of the newest one.
    Lock(Box<dyn Iterator<Item = &'a LockName> + Send + 'a>, Box<dyn Iterator<Item = &'a Contender> + Send + 'a>),
}

/// What a step along the entries meets.
enum Met<'a> {
    /// A contender, and the index of its lock in the grant's request, if its order needs one.
    Contender(&'a Contender, usize),
    /// Nothing to show.
    Nothing,
    /// The end.
    End,
}

/// A page of grants under construction. It visits a given number of entries at a time, so that the caller can let other
/// tasks run in between.
pub struct GrantListing<'a> {
    state: &'a State,
    query: &'a GrantQuery,
    limit: usize,
    /// Which locks the list may show; `None`: all.
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    entries: Entries<'a>,
    /// The number of visible entries that were visited, and the newest of them.
    seen: usize,
    last_seen: Option<(&'a Contender, usize)>,
    is_complete: bool,
    found: Vec<GrantEntry>,
    /// The last entry of a full page, and whether there is one beyond it.
    last_found: Option<(&'a Contender, usize)>,
    has_more: bool,
}

impl fmt::Debug for GrantListing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} entries", self.found.len(), self.seen)
    }
}

impl<'a> GrantListing<'a> {
    /// The same page of only these locks. It tells nothing about the others: no key has their names, and their entries do not
    /// count.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> GrantListing<'a> {
        GrantListing { visible: Some(visible), ..self }
    }

    /// Visits `count` more entries, or fewer if they have long queues. Returns whether the page is complete.
    pub fn visit(&mut self, count: usize) -> bool {
        let mut left = count as u64;
        while left > 0 {
            if self.is_complete || self.has_more || self.seen == PAGE_SCANNED_MAX {
                return true;
            }
            left = left.saturating_sub(self.step());
        }
        false
    }

    /// The finished page.
    #[must_use]
    pub fn into_page(self) -> GrantPage {
        let last = if self.has_more { self.last_found } else { self.last_seen.filter(|_| !self.is_complete) };
        let next = last.map(|(contender, index)| match self.query.sort {
            GrantSort::Queued => GrantKey::Queued(OwnedKey { number: contender.number, lock: index }),
            GrantSort::Lock => GrantKey::Lock(contender.lock.clone(), QueueKey::of(contender)),
        });
        GrantPage { items: self.found, next }
    }

    /// Visits one entry. Returns what it costs, in entries.
    fn step(&mut self) -> u64 {
        match self.next_entry() {
            Met::Contender(contender, index) => {
                self.seen += 1;
                self.last_seen = Some((contender, index));
                self.consider(contender, index)
            }
            Met::Nothing => 1,
            Met::End => {
                self.is_complete = true;
                1
            }
        }
    }

    fn next_entry(&mut self) -> Met<'a> {
        let state = self.state;
        match &mut self.entries {
            Entries::Queued(grants) => {
                let Some((key, first, lock)) = grants.next() else { return Met::End };
                let is_visible = self.visible.is_none_or(|is_visible| is_visible(lock));
                let contender = if is_visible { state.contender_in(lock, first.number) } else { None };
                contender.map_or(Met::Nothing, |contender| Met::Contender(contender, key.lock))
            }
            Entries::Lock(locks, queue) => {
                if let Some(contender) = queue.next() {
                    return Met::Contender(contender, 0);
                }
                let Some(lock) = locks.next() else { return Met::End };
                if self.visible.is_none_or(|is_visible| is_visible(lock)) {
                    let after = match &self.query.after {
                        Some(GrantKey::Lock(name, place)) if name == lock => Some(*place),
                        Some(GrantKey::Lock(..) | GrantKey::Queued(_)) | None => None,
                    };
                    *queue = Box::new(state.contenders_after(lock, after));
                }
                Met::Nothing
            }
        }
    }

    /// Adds the entry if it fits. Returns what that costs.
    fn consider(&mut self, contender: &'a Contender, index: usize) -> u64 {
        if !self.fits(contender) {
            return 1;
        }
        // One entry beyond the page shows that there is a next page.
        if self.found.len() == self.limit {
            self.has_more = true;
            return 1;
        }
        let entry = self.entry(contender);
        let counted = entry.position.unwrap_or(0);
        self.found.push(entry);
        self.last_found = Some((contender, index));
        1 + counted / COUNTED_PER_ENTRY
    }

    fn fits(&self, contender: &Contender) -> bool {
        let query = self.query;
        query.owner.as_ref().is_none_or(|owner| *owner == contender.owner.text)
            && query.session.is_none_or(|session| session == contender.session && !contender.cooling)
            && query.phase.is_none_or(|phase| phase == phase_of(contender))
            && contender.lock.as_str().starts_with(&query.prefix)
            && !self.state.is_dead(contender)
    }

    fn entry(&self, contender: &Contender) -> GrantEntry {
        let (state, lock) = (self.state, &contender.lock);
        let is_visible = |other: &&Contender| self.visible.is_none_or(|is_visible| is_visible(&other.lock));
        GrantEntry {
            lock: lock.clone(),
            number: contender.number,
            session: contender.session,
            owner: contender.owner.text.clone(),
            phase: phase_of(contender),
            mode: contender.mode,
            permits: contender.permits,
            position: state.position(lock, contender.number),
            token: contender.token(),
            queued_at: contender.queued_at,
            held_since: contender.held_since,
            // A grant of several locks may wait for a contender in a lock that the caller may not see.
            waits_for: state
                .waits_for(lock, contender.number)
                .filter(is_visible)
                .map(|other| (other.number, other.owner.text.clone())),
        }
    }
}

fn phase_of(contender: &Contender) -> GrantPhase {
    match (contender.cooling, contender.granted_at) {
        (true, _) => GrantPhase::Cooling,
        (false, Some(_)) => GrantPhase::Held,
        (false, None) => GrantPhase::Queued,
    }
}

impl State {
    /// One page of the grants.
    #[must_use]
    pub fn grants_page(&self, query: &GrantQuery) -> GrantPage {
        let mut listing = self.grant_listing(query);
        while !listing.visit(PAGE_SCANNED_MAX) {}
        listing.into_page()
    }

    /// The page, to be built step by step.
    #[must_use]
    pub fn grant_listing<'a>(&'a self, query: &'a GrantQuery) -> GrantListing<'a> {
        GrantListing {
            state: self,
            query,
            limit: query.limit.clamp(1, PAGE_MAX),
            visible: None,
            entries: self.entries_of(query),
            seen: 0,
            last_seen: None,
            is_complete: false,
            found: Vec::new(),
            last_found: None,
            has_more: false,
        }
    }

    fn entries_of<'a>(&'a self, query: &'a GrantQuery) -> Entries<'a> {
        match query.sort {
            GrantSort::Queued => {
                let after = match &query.after {
                    Some(GrantKey::Queued(key)) => Some(*key),
                    Some(GrantKey::Lock(..)) | None => None,
                };
                Entries::Queued(match query.session {
                    Some(session) => Box::new(self.grants_after(session, after)),
                    None => Box::new(self.all_grants_after(after)),
                })
            }
            GrantSort::Lock => {
                let after = match &query.after {
                    Some(GrantKey::Lock(lock, _)) => lock.as_str(),
                    Some(GrantKey::Queued(_)) | None => "",
                };
                // The lock of the key may have further contenders.
                let range = (Bound::Included(after.max(query.prefix.as_str())), Bound::Unbounded);
                let locks = self.index.busy.range::<_, str>(range);
                let locks = locks.take_while(|lock| lock.as_str().starts_with(&query.prefix));
                Entries::Lock(Box::new(locks), Box::new(iter::empty()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
