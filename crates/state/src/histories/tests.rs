//! Tests of `histories`.

use super::*;
use crate::{
    command::{Acquire, Command, Owner, SetLock},
    request_for_tests::{acquire_in, open_session, set_lock},
};
use fairhold_types::{GrantId, Mode, Revision, SessionId};

const SESSION: SessionId = SessionId(1);

/// A state, and the next grant id.
struct World {
    state: State,
    ids: u128,
}

impl World {
    fn new() -> World {
        let mut state = State::new();
        assert!(state.apply(&open_session(SESSION)).answer.result.is_ok());
        World { state, ids: 0 }
    }

    /// Holds a lock from one time to another, in seconds, or until now.
    fn hold(&mut self, lock: &str, owner: &str, from: u64, to: Option<u64>) {
        self.ids += 1;
        let grant = GrantId::from_ulid(self.ids << 64);
        let acquire = Acquire {
            owner: Owner { text: owner.to_owned(), given: true },
            at: seconds(from),
            ..acquire_in(SESSION, grant, &[lock], Mode::Exclusive)
        };
        self.apply(Command::Acquire(acquire));
        if let Some(to) = to {
            self.apply(Command::Release { grant, session: None, at: seconds(to) });
        }
    }

    fn apply(&mut self, command: Command) {
        let applied = self.state.apply(&command).answer.result;
        assert!(applied.is_ok(), "{applied:?}");
    }

    /// The holds of all pages of that query, as `lock owner`, and the number of pages.
    fn all(&self, query: &HistoriesQuery) -> (Vec<String>, usize) {
        let (mut query, mut found, mut pages) = (query.clone(), Vec::new(), 0);
        loop {
            let mut listing = self.state.histories_listing(&query);
            while !listing.visit(1) {}
            let page = listing.into_page();
            assert_eq!(page, self.state.histories(&query), "step by step, it is another page");
            found.extend(page.items.iter().map(line));
            pages += 1;
            match page.next {
                Some(next) => query.after = Some(next),
                None => return (found, pages),
            }
        }
    }

    fn lines(&self, query: &HistoriesQuery) -> Vec<String> {
        self.all(query).0
    }
}

fn seconds(at: u64) -> WallMillis {
    WallMillis(at * 1_000)
}

fn line(entry: &HistoryEntry) -> String {
    format!("{} {}", entry.holding.lock.as_str(), entry.holding.owner)
}

fn any() -> HistoriesQuery {
    HistoriesQuery { limit: PAGE_MAX, ..HistoriesQuery::default() }
}

fn at(time: u64) -> HistoriesQuery {
    HistoriesQuery { when: Some(HoldPeriod::At(When::At(seconds(time)))), ..any() }
}

fn within(from: Option<u64>, to: Option<u64>) -> HistoriesQuery {
    let when = |time| When::At(seconds(time));
    HistoriesQuery { when: Some(HoldPeriod::Overlapping { from: from.map(when), to: to.map(when) }), ..any() }
}

/// crane: ann from 10 to 20, bob from 30. dock: cy from 15 to 40. stock: ann from 50 to 60.
fn port() -> World {
    let mut world = World::new();
    world.hold("crane", "ann", 10, Some(20));
    world.hold("dock", "cy", 15, Some(40));
    world.hold("crane", "bob", 30, None);
    world.hold("stock", "ann", 50, Some(60));
    world
}

#[test]
fn a_point_in_time_has_its_holders_and_those_that_still_hold() {
    let world = port();
    for (time, wanted) in [
        (9, vec![]),
        (10, vec!["crane ann"]),
        (19, vec!["crane ann", "dock cy"]),
        (20, vec!["dock cy"]),
        (35, vec!["crane bob", "dock cy"]),
        (55, vec!["crane bob", "stock ann"]),
        (1_000, vec!["crane bob"]),
    ] {
        assert_eq!(world.lines(&at(time)), wanted, "at {time} s");
    }
}

#[test]
fn a_window_has_every_hold_that_overlaps_it() {
    let world = port();
    for (from, to, wanted) in [
        (Some(0), Some(10), vec![]),
        (Some(0), Some(11), vec!["crane ann"]),
        (Some(20), Some(30), vec!["dock cy"]),
        (Some(19), Some(31), vec!["crane bob", "crane ann", "dock cy"]),
        (Some(40), None, vec!["crane bob", "stock ann"]),
        (None, Some(16), vec!["crane ann", "dock cy"]),
        (None, None, vec!["crane bob", "crane ann", "dock cy", "stock ann"]),
    ] {
        assert_eq!(world.lines(&within(from, to)), wanted, "from {from:?} to {to:?}");
    }
    let first = world.state.histories(&at(10)).items.remove(0).holding.from.revision;
    let exact = |from, to| HoldPeriod::Overlapping { from: Some(When::Revision(from)), to: Some(When::Revision(to)) };
    let query = |from, to| HistoriesQuery { when: Some(exact(from, to)), ..any() };
    assert_eq!(world.lines(&query(Revision(1), first)), [""; 0]);
    assert_eq!(world.lines(&query(Revision(1), Revision(first.0 + 1))), ["crane ann"]);
}

#[test]
fn owner_prefix_and_end_are_filters() {
    let world = port();
    assert_eq!(world.lines(&HistoriesQuery { owner: Some("ann".to_owned()), ..any() }), ["crane ann", "stock ann"]);
    assert_eq!(world.lines(&HistoriesQuery { prefix: "d".to_owned(), ..any() }), ["dock cy"]);
    assert_eq!(world.lines(&HistoriesQuery { prefix: "x".to_owned(), ..any() }), [""; 0]);
    let ended = |how| world.lines(&HistoriesQuery { ended: Some(how), ..any() });
    assert_eq!(ended(HoldingEnd::Released), ["crane ann", "dock cy", "stock ann"]);
    assert_eq!(ended(HoldingEnd::Expired), [""; 0]);
}

#[test]
fn pages_of_any_size_have_each_hold_once_and_say_when_the_oldest_ended() {
    let world = port();
    let whole = world.lines(&any());
    for (limit, pages) in [(1, 4), (2, 2), (3, 2), (4, 1)] {
        let (found, count) = world.all(&HistoriesQuery { limit, ..any() });
        assert_eq!((found, count), (whole.clone(), pages), "pages of {limit}");
    }
    assert_eq!(world.state.histories(&at(1_000)).oldest, Some(seconds(20)));
    assert_eq!(World::new().state.histories(&any()).oldest, None);
}

#[test]
fn a_page_of_some_locks_never_tells_another_one() {
    let world = port();
    let is_visible = |lock: &LockName| lock.as_str() == "dock";
    let page = |query: &HistoriesQuery| {
        let mut listing = world.state.histories_listing(query).only(&is_visible);
        while !listing.visit(1) {}
        listing.into_page()
    };
    let only = page(&any());
    assert_eq!(
        (only.items.iter().map(line).collect::<Vec<_>>(), only.next, only.oldest),
        (vec!["dock cy".to_owned()], None, None)
    );
    // A key that a caller made up shows nothing of its lock either.
    let hold = HistoryKey { ended: Revision(u64::MAX), number: fairhold_types::GrantNumber(u64::MAX) };
    let after = |lock: &str| Some(HistoriesKey { lock: LockName::parse(lock).unwrap(), hold });
    let found = |lock| page(&HistoriesQuery { after: after(lock), ..any() }).items.iter().map(line).collect::<Vec<_>>();
    assert_eq!(found("crane"), ["dock cy"]);
    assert_eq!(found("stock"), [""; 0]);
}

#[test]
fn a_page_examines_a_bounded_number_and_the_next_one_continues() {
    let mut world = World::new();
    for number in 0..PAGE_SCANNED_MAX {
        world.apply(Command::SetLock(SetLock { limit: Some(2), ..set_lock(&format!("idle-{number:05}")) }));
    }
    world.hold("last", "ann", 10, None);
    let (query, is_visible) = (any(), |lock: &LockName| lock.as_str() == "last");
    let first = world.state.histories(&query);
    assert!(first.items.is_empty() && first.next.is_some(), "{first:?}");
    let rest = world.state.histories(&HistoriesQuery { after: first.next, ..any() });
    assert_eq!((rest.items.iter().map(line).collect::<Vec<_>>(), rest.next), (vec!["last ann".to_owned()], None));
    // Locks that the caller may not see do not end its page.
    let mut listing = world.state.histories_listing(&query).only(&is_visible);
    while !listing.visit(PAGE_SCANNED_MAX) {}
    assert_eq!(listing.into_page().items.len(), 1);
}
