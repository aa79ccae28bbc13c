//! Lists locks page by page. A page sorted by name visits only the locks that it shows; with a filter, it visits a bounded
//! number of locks and contenders. Other sort orders visit every matching lock.

use crate::{State, queue::Queue, record::Contender};
use fairhold_types::{
    FencingToken, GrantNumber, LockName, Mode, SessionNumber,
    limits::{PAGE_MAX, PAGE_SCANNED_MAX},
    time::WallMillis,
};
use std::{collections::BTreeSet, fmt, iter::Peekable, ops::Bound};

/// Which locks to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockFilter {
    /// Locks with a holder.
    Held,
    /// Locks with a waiter.
    Queued,
    /// Locks whose holder expired and whose lock delay runs.
    Cooling,
    /// Locks without contenders that are not forgotten yet.
    Idle,
    /// Elections, with or without contenders.
    Election,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LockSort {
    /// By name.
    #[default]
    Name,
    /// The most waiters first.
    Waiters,
    /// The longest current wait first.
    LongestWait,
    /// The longest current hold first.
    HeldFor,
    /// The longest total wait of all granted contenders first.
    Wait,
    /// The longest total hold of all ended holders first.
    Hold,
    /// The most grants that had to wait first.
    Contention,
}

/// The position of a lock in a listing. It stays valid when the lock is gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockKey {
    /// The sort value, lower first; 0 if the list is sorted by name.
    pub rank: u64,
    /// The name, which orders locks of equal rank.
    pub name: LockName,
}

/// A query of locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockQuery {
    /// The prefix of the names; it need not be a valid name.
    pub prefix: String,
    /// A text that the names contain, in upper or lower case; empty: all names.
    pub part: String,
    /// Only locks that a grant of this owner holds or waits for.
    pub owner: Option<String>,
    /// Which locks to list; `None`: all.
    pub filter: Option<LockFilter>,
    /// The order of the list.
    pub sort: LockSort,
    /// Only locks after this key.
    pub after: Option<LockKey>,
    /// The maximum number of locks, 1 to `PAGE_MAX`.
    pub limit: usize,
}

impl LockQuery {
    /// Whether a page may examine many more locks than it shows.
    #[must_use]
    pub fn is_search(&self) -> bool {
        self.sort != LockSort::Name || !self.part.is_empty() || self.owner.is_some()
    }
}

/// The grant that has held a lock longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongestHolder {
    /// Its number.
    pub number: GrantNumber,
    /// Its owner.
    pub owner: String,
    /// Its session, unless it was made for this grant alone.
    pub session: Option<SessionNumber>,
}

/// One lock of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockEntry {
    /// Its name.
    pub name: LockName,
    /// The number of holders.
    pub holders: usize,
    /// The number of cooling grants.
    pub cooling: usize,
    /// The number of waiters.
    pub waiting: usize,
    /// The mode of its holders; `None` if it has none.
    pub mode: Option<Mode>,
    /// Its limit.
    pub limit: u32,
    /// The last token issued.
    pub last_token: Option<FencingToken>,
    /// Its longest holder.
    pub holder: Option<LongestHolder>,
    /// Since when its longest holder has held it.
    pub held_since: Option<WallMillis>,
    /// How long recent holders have usually held it, in milliseconds.
    pub usual_hold_ms: Option<u64>,
    /// Since when its longest waiter has waited.
    pub waiting_since: Option<WallMillis>,
    /// The total wait of all granted contenders, in milliseconds.
    pub waited_ms: u64,
    /// The total hold of all ended holders, in milliseconds.
    pub held_ms: u64,
    /// How many grants had to wait.
    pub hand_overs: u64,
}

/// A page of locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockPage {
    /// The locks, in order. A page can be short or empty without being the last.
    pub items: Vec<LockEntry>,
    /// The key after which the next page begins; `None` on the last page.
    pub next: Option<LockKey>,
}

type Contenders<'a> = Box<dyn Iterator<Item = &'a Contender> + Send + 'a>;

/// A page of locks under construction. It visits a given number of locks at a time, so that the caller can let other
/// tasks run in between.
pub struct LockListing<'a> {
    state: &'a State,
    query: &'a LockQuery,
    limit: usize,
    /// Which names the list may show; `None`: all.
    visible: Option<&'a (dyn Fn(&LockName) -> bool + Sync)>,
    /// The part of the names, in lower case.
    part: String,
    names: Peekable<Box<dyn Iterator<Item = &'a LockName> + Send + 'a>>,
    /// The lock in which the owner is searched, and the contenders that are left.
    searched: Option<(&'a LockName, Contenders<'a>)>,
    /// The number of visited locks and contenders, and the last of the locks.
    seen: usize,
    last_seen: Option<&'a LockName>,
    /// The first locks, in order, of those visited so far.
    first: BTreeSet<(u64, &'a LockName)>,
}

impl fmt::Debug for LockListing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} locks", self.first.len(), self.seen)
    }
}

impl<'a> LockListing<'a> {
    /// The same page of only these names. It may visit every lock, and says nothing of the others: a key of a hidden lock
    /// would tell its name.
    #[must_use]
    pub fn only(self, visible: &'a (dyn Fn(&LockName) -> bool + Sync)) -> LockListing<'a> {
        LockListing { visible: Some(visible), ..self }
    }

    /// Visits `count` more locks and contenders. Returns whether the page is complete.
    pub fn visit(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if let Some((name, contenders)) = self.searched.take() {
                self.visit_contender(name, contenders);
            } else if self.is_full() {
                return true;
            } else if let Some(name) = self.names.next() {
                self.visit_lock(name);
            } else {
                return true;
            }
        }
        false
    }

    /// The finished page.
    #[must_use]
    pub fn into_page(self) -> LockPage {
        let state = self.state;
        let (names, next) = self.into_names();
        LockPage { items: names.into_iter().map(|name| state.lock_entry(name)).collect(), next }
    }

    /// The names on the finished page, and the key after which the next page begins.
    #[must_use]
    pub fn into_names(mut self) -> (Vec<&'a LockName>, Option<LockKey>) {
        let page: Vec<(u64, &LockName)> = self.first.iter().take(self.limit).copied().collect();
        let next = if self.is_by_name() && self.visible.is_none() {
            self.last_seen.filter(|_| self.names.peek().is_some()).map(|name| (0, name))
        } else {
            page.last().filter(|_| self.first.len() > self.limit).copied()
        };
        let next = next.map(|(rank, name)| LockKey { rank, name: name.clone() });
        (page.into_iter().map(|(_, name)| name).collect(), next)
    }

    fn visit_lock(&mut self, name: &'a LockName) {
        self.seen += 1;
        self.last_seen = Some(name);
        if !self.is_candidate(name) {
            return;
        }
        match self.query.owner {
            Some(_) => self.searched = Some((name, Box::new(self.state.contenders_after(name, None)))),
            None => self.consider(name),
        }
    }

    /// Visits the next contender of a lock, until one has the owner.
    fn visit_contender(&mut self, name: &'a LockName, mut contenders: Contenders<'a>) {
        self.seen += 1;
        match contenders.next() {
            Some(contender) if !contender.cooling && self.query.owner.as_ref() == Some(&contender.owner.text) => {
                self.consider(name);
            }
            Some(_) => self.searched = Some((name, contenders)),
            None => {}
        }
    }

    fn is_candidate(&self, name: &LockName) -> bool {
        let has_part = self.part.is_empty() || name.as_str().to_lowercase().contains(&self.part);
        has_part && self.state.fits_filter(name, self.query.filter) && self.visible.is_none_or(|is_visible| is_visible(name))
    }

    fn is_by_name(&self) -> bool {
        self.query.sort == LockSort::Name
    }

    /// Sorted by name, the first matches are the page. In other sort orders, any lock may belong to it.
    fn is_full(&self) -> bool {
        match self.visible {
            None => self.is_by_name() && (self.first.len() == self.limit || self.seen >= PAGE_SCANNED_MAX),
            Some(_) => self.is_by_name() && self.first.len() > self.limit,
        }
    }

    fn consider(&mut self, name: &'a LockName) {
        let key = (self.state.rank(name, self.query.sort), name);
        if self.query.after.as_ref().is_some_and(|after| key <= (after.rank, &after.name)) {
            return;
        }
        // Most locks of a long list come after those that were found, and an insert costs many comparisons.
        if self.first.len() > self.limit && self.first.last().is_some_and(|last| key > *last) {
            return;
        }
        self.first.insert(key);
        // One lock beyond the page shows that there is a next page.
        if self.first.len() > self.limit + 1 {
            self.first.pop_last();
        }
    }
}

impl State {
    /// One page of the locks.
    #[must_use]
    pub fn locks_page(&self, query: &LockQuery) -> LockPage {
        let mut listing = self.lock_listing(query);
        while !listing.visit(PAGE_SCANNED_MAX) {}
        listing.into_page()
    }

    /// The page, to be built step by step.
    #[must_use]
    pub fn lock_listing<'a>(&'a self, query: &'a LockQuery) -> LockListing<'a> {
        let after = query.after.as_ref().filter(|_| query.sort == LockSort::Name).map(|after| &after.name);
        LockListing {
            state: self,
            query,
            limit: query.limit.clamp(1, PAGE_MAX),
            visible: None,
            part: query.part.to_lowercase(),
            names: self.names_from(query, after).peekable(),
            searched: None,
            seen: 0,
            last_seen: None,
            first: BTreeSet::new(),
        }
    }

    /// The names with the prefix of the query, in order and after `after`: of the locks with contenders, of the elections, or
    /// of all.
    fn names_from<'a>(
        &'a self,
        query: &'a LockQuery,
        after: Option<&'a LockName>,
    ) -> Box<dyn Iterator<Item = &'a LockName> + Send + 'a> {
        let begin = match after {
            Some(name) if name.as_str() >= query.prefix.as_str() => Bound::Excluded(name.as_str()),
            Some(_) | None => Bound::Included(query.prefix.as_str()),
        };
        let range = (begin, Bound::Unbounded);
        let fits = |name: &&LockName| name.as_str().starts_with(&query.prefix);
        let names = match query.filter {
            Some(LockFilter::Held | LockFilter::Queued | LockFilter::Cooling) => &self.index.busy,
            Some(LockFilter::Election) => &self.index.elections,
            Some(LockFilter::Idle) | None if query.owner.is_some() => &self.index.busy,
            Some(LockFilter::Idle) | None => &self.index.locks,
        };
        Box::new(names.range::<_, str>(range).take_while(fits))
    }

    fn fits_filter(&self, name: &LockName, filter: Option<LockFilter>) -> bool {
        let queue = || self.queue_of(name);
        match filter {
            // `names_from` has only elections.
            Some(LockFilter::Election) | None => true,
            Some(LockFilter::Held) => queue().is_some_and(|queue| queue.holders.len() > self.cooling_in(queue)),
            Some(LockFilter::Queued) => queue().is_some_and(|queue| !queue.waiting.is_empty()),
            Some(LockFilter::Cooling) => queue().is_some_and(|queue| self.cooling_in(queue) > 0),
            Some(LockFilter::Idle) => queue().is_none(),
        }
    }

    fn cooling_in(&self, queue: &Queue) -> usize {
        let cooling = &self.index.cooling;
        if cooling.len() < queue.holders.len() {
            cooling.iter().filter(|number| queue.holders.contains(number)).count()
        } else {
            queue.holders.iter().filter(|number| cooling.contains(*number)).count()
        }
    }

    fn rank(&self, name: &LockName, sort: LockSort) -> u64 {
        let queue = || self.queue_of(name);
        match sort {
            LockSort::Name => 0,
            LockSort::Waiters => u64::MAX - queue().map_or(0, |queue| queue.waiting.len() as u64),
            LockSort::LongestWait => queue().and_then(longest_waiter).map_or(u64::MAX, |number| number.0),
            LockSort::HeldFor => {
                let since = queue().and_then(|queue| self.longest_holder(name, queue)).and_then(|holder| holder.held_since);
                since.map_or(u64::MAX, |since| since.0)
            }
            LockSort::Wait => u64::MAX - self.statistics(name).map_or(0, |counted| counted.waited.sum_ms),
            LockSort::Hold => u64::MAX - self.statistics(name).map_or(0, |counted| counted.held.sum_ms),
            LockSort::Contention => u64::MAX - self.statistics(name).map_or(0, |counted| counted.hand_overs),
        }
    }

    /// The holder that queued first and is not cooling.
    fn longest_holder(&self, name: &LockName, queue: &Queue) -> Option<&Contender> {
        let number = queue.holders.iter().find(|number| !self.index.cooling.contains(*number))?;
        self.contender_in(name, *number)
    }

    fn lock_entry(&self, name: &LockName) -> LockEntry {
        let queue = self.queue_of(name);
        let settings = self.settings(name);
        let cooling = queue.map_or(0, |queue| self.cooling_in(queue));
        let first = queue.and_then(|queue| self.longest_holder(name, queue));
        let oldest = queue.and_then(longest_waiter).and_then(|number| self.contender(number));
        let counted = self.statistics(name);
        LockEntry {
            name: name.clone(),
            holders: queue.map_or(0, |queue| queue.holders.len()) - cooling,
            cooling,
            waiting: queue.map_or(0, |queue| queue.waiting.len()),
            mode: first.map(|holder| holder.mode),
            limit: settings.and_then(|settings| settings.limit).unwrap_or(1),
            last_token: settings.and_then(|settings| settings.last_token),
            holder: first.map(|holder| LongestHolder {
                number: holder.number,
                owner: holder.owner.text.clone(),
                session: (!holder.anonymous).then_some(holder.session),
            }),
            held_since: first.and_then(|holder| holder.held_since),
            usual_hold_ms: self.usual_hold_ms(name),
            waiting_since: oldest.map(|waiter| waiter.queued_at),
            waited_ms: counted.map_or(0, |counted| counted.waited.sum_ms),
            held_ms: counted.map_or(0, |counted| counted.held.sum_ms),
            hand_overs: counted.map_or(0, |counted| counted.hand_overs),
        }
    }
}

/// The waiter that has waited longest, whatever its rank.
fn longest_waiter(queue: &Queue) -> Option<GrantNumber> {
    queue.by_age.get_min().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{Acquire, Command, Owner, SetLock},
        request_for_tests::{acquire_in, open_session, set_lock},
    };
    use fairhold_types::{GrantId, SessionId};

    /// Locks that an administrator configured, without contenders.
    fn many(count: u32) -> State {
        let mut state = State::new();
        for number in 0..count {
            let set = SetLock { limit: Some(2), ..set_lock(&format!("lock-{number:05}")) };
            assert!(state.apply(&Command::SetLock(set)).answer.result.is_ok());
        }
        state
    }

    fn query(sort: LockSort, after: Option<LockKey>) -> LockQuery {
        LockQuery { prefix: "lock-".to_owned(), sort, after, limit: 7, ..LockQuery::default() }
    }

    /// Opens the session of `take`.
    fn with_session() -> State {
        let mut state = State::new();
        assert!(state.apply(&open_session(SessionId(7))).answer.result.is_ok());
        state
    }

    /// Takes a lock or queues for it, with the number as the grant's id and as the time.
    fn take(state: &mut State, number: u64, lock: &str, owner: &str) {
        let owner = Owner { text: owner.to_owned(), given: true };
        let grant = GrantId::from_ulid(u128::from(number) << 64);
        let acquire = Acquire { owner, at: WallMillis(number), ..acquire_in(SessionId(7), grant, &[lock], Mode::Exclusive) };
        assert!(state.apply(&Command::Acquire(acquire)).answer.result.is_ok());
    }

    /// The names on all pages.
    fn names(state: &State, mut query: LockQuery) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let page = state.locks_page(&query);
            names.extend(page.items.iter().map(|entry| entry.name.as_str().to_owned()));
            query.after = page.next;
            if query.after.is_none() {
                return names;
            }
        }
    }

    #[test]
    fn a_part_of_a_name_is_found_in_upper_or_lower_case() {
        let mut state = with_session();
        for (number, lock) in (1..).zip(["jobs/Nightly", "builds/nightly", "Été", "other"]) {
            take(&mut state, number, lock, "ci-7");
        }
        for (part, wanted) in [
            ("NIGHT", vec!["builds/nightly", "jobs/Nightly"]),
            ("s/n", vec!["builds/nightly", "jobs/Nightly"]),
            ("jobs/nightly", vec!["jobs/Nightly"]),
            ("éTÉ", vec!["Été"]),
            ("nightly/", vec![]),
        ] {
            for sort in [LockSort::Name, LockSort::Waiters] {
                let query = LockQuery { part: part.to_owned(), sort, limit: 1, ..LockQuery::default() };
                assert_eq!(names(&state, query), wanted, "{part} by {sort:?}");
            }
        }
    }

    #[test]
    fn a_list_of_an_owner_has_what_it_holds_or_waits_for_and_each_contender_is_one_visit() {
        let mut state = with_session();
        let contenders = [("a", "ci-7"), ("b", "ci-9"), ("b", "ci-8"), ("b", "ci-7"), ("c", "ci-9"), ("other", "ci-7")];
        for (number, (lock, owner)) in (1..).zip(contenders) {
            take(&mut state, number, &format!("lock-{lock}"), owner);
        }
        let of = |sort| LockQuery { owner: Some("ci-7".to_owned()), ..query(sort, None) };
        for (sort, wanted) in [
            (LockSort::Name, ["lock-a", "lock-b", "lock-other"]),
            (LockSort::Waiters, ["lock-b", "lock-a", "lock-other"]),
            (LockSort::HeldFor, ["lock-a", "lock-b", "lock-other"]),
        ] {
            assert_eq!(names(&state, LockQuery { limit: 1, ..of(sort) }), wanted, "{sort:?}");
        }
        let idle = LockQuery { filter: Some(LockFilter::Idle), ..of(LockSort::Name) };
        assert!(names(&state, idle).is_empty(), "an idle lock has no contender");

        let query = LockQuery { prefix: "lock-".to_owned(), ..of(LockSort::Name) };
        let is_visible = |name: &LockName| name.as_str() != "lock-a";
        for (mut listing, seen, wanted) in [
            // None of lock-c is the owner: one more visit finds no further contender.
            (state.lock_listing(&query), (1 + 1) + (1 + 3) + (1 + 2) + (1 + 1), 3),
            (state.lock_listing(&query).only(&is_visible), 1 + (1 + 3) + (1 + 2) + (1 + 1), 2),
        ] {
            while !listing.visit(1) {}
            assert_eq!((listing.seen, listing.into_page().items.len()), (seen, wanted));
        }
    }

    #[test]
    fn the_longest_hold_comes_first_and_a_lock_has_its_holder_and_its_usual_hold() {
        let mut state = with_session();
        for (number, lock) in [(10, "lock-c"), (20, "lock-a"), (30, "lock-b")] {
            take(&mut state, number, lock, "ci-7");
        }
        let release = Command::Release { grant: GrantId::from_ulid(20 << 64), session: None, at: WallMillis(60) };
        assert!(state.apply(&release).answer.result.is_ok());
        let page = state.locks_page(&query(LockSort::HeldFor, None));
        let number = |entry: &LockEntry| entry.holder.as_ref().map(|holder| holder.number);
        let shown: Vec<_> = page.items.iter().map(|entry| (entry.name.as_str(), entry.held_since, entry.usual_hold_ms)).collect();
        let held = |lock, since| (lock, Some(WallMillis(since)), None);
        assert_eq!(shown, [held("lock-c", 10), held("lock-b", 30), ("lock-a", None, Some(40))]);
        assert!(number(&page.items[0]) < number(&page.items[1]) && number(&page.items[2]).is_none(), "{page:?}");
        let holder = page.items[0].holder.as_ref().unwrap();
        assert_eq!((holder.owner.as_str(), holder.session.is_some()), ("ci-7", true));
    }

    #[test]
    fn a_page_built_step_by_step_is_the_same_and_no_step_visits_more_than_it_may() {
        let state = many(40);
        for (sort, parts_max) in [(LockSort::Name, 7), (LockSort::Waiters, 40)] {
            let mut after = None;
            loop {
                let query = query(sort, after);
                let mut listing = state.lock_listing(&query);
                let mut parts = 0;
                while !listing.visit(1) {
                    parts += 1;
                    assert_eq!(listing.seen, parts);
                }
                let page = listing.into_page();
                assert_eq!(page, state.locks_page(&query));
                assert!(parts <= parts_max, "{parts} steps for a page by {sort:?}");
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_list_of_some_names_never_tells_another_one() {
        let state = many(40);
        let is_visible = |name: &LockName| name.as_str().ends_with('0') || name.as_str().ends_with('5');
        for sort in [LockSort::Name, LockSort::Waiters] {
            let (mut names, mut after) = (Vec::new(), None);
            loop {
                let query = LockQuery { limit: 3, ..query(sort, after) };
                let mut listing = state.lock_listing(&query).only(&is_visible);
                while !listing.visit(2) {}
                let page = listing.into_page();
                names.extend(page.items.iter().map(|entry| entry.name.as_str().to_owned()));
                after = page.next;
                let Some(next) = &after else { break };
                assert!(is_visible(&next.name), "the cursor tells {}", next.name.as_str());
            }
            let wanted: Vec<String> = (0..8).map(|number| format!("lock-{:05}", number * 5)).collect();
            assert_eq!(names, wanted, "{sort:?}");
        }
    }

    #[test]
    fn a_list_of_elections_visits_no_other_lock_and_has_those_without_a_leader() {
        let mut state = many(40);
        let session = SessionId(7);
        let grant = |number: u128| GrantId::from_ulid(number << 64);
        assert!(state.apply(&open_session(session)).answer.result.is_ok());
        for (number, lock) in (1..).zip(["lock-00007", "lock-b", "lock-a", "other"]) {
            let value = Some(b"http://a".to_vec());
            let stand = Acquire { value, ..acquire_in(session, grant(number), &[lock], Mode::Exclusive) };
            assert!(state.apply(&Command::Acquire(stand)).answer.result.is_ok());
        }
        let resign = Command::Release { grant: grant(2), session: None, at: WallMillis(2) };
        assert!(state.apply(&resign).answer.result.is_ok());
        assert!(state.election(&LockName::parse("lock-b").unwrap()).is_none());
        assert_eq!(state.check(), Ok(()));

        let page = |after| {
            let query = LockQuery { filter: Some(LockFilter::Election), limit: 2, ..query(LockSort::Name, after) };
            let mut listing = state.lock_listing(&query);
            assert!(listing.visit(PAGE_SCANNED_MAX));
            let seen = listing.seen;
            let (names, next) = listing.into_names();
            (seen, names.into_iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>(), next)
        };
        let (seen, names, next) = page(None);
        assert_eq!((seen, names), (2, vec!["lock-00007".to_owned(), "lock-a".to_owned()]));
        assert_eq!(page(next), (1, vec!["lock-b".to_owned()], None));
    }

    #[test]
    fn a_page_by_name_ends_after_a_bounded_number_of_visits_and_the_next_one_continues() {
        let state = many(u32::try_from(PAGE_SCANNED_MAX).unwrap() + 1);
        let prefix = LockQuery { filter: Some(LockFilter::Idle), ..query(LockSort::Name, None) };
        let mut listing = state.lock_listing(&prefix);
        // As if no lock matched.
        listing.limit = usize::MAX;
        assert!(listing.visit(PAGE_SCANNED_MAX + 1));
        let next = listing.into_page().next.unwrap();
        assert_eq!(next.name.as_str(), format!("lock-{:05}", PAGE_SCANNED_MAX - 1));
        let rest = state.locks_page(&LockQuery { after: Some(next.clone()), ..prefix.clone() });
        assert_eq!((rest.items.len(), rest.next), (1, None));

        let last = LockQuery { part: format!("K-{PAGE_SCANNED_MAX}"), ..prefix };
        let page = state.locks_page(&last);
        assert_eq!((page.items.len(), page.next), (0, Some(next.clone())));
        let rest = state.locks_page(&LockQuery { after: Some(next), ..last });
        assert_eq!((rest.items.len(), rest.next), (1, None));
    }
}
