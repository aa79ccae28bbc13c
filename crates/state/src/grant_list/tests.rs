//! Tests of `grant_list`.

use super::*;
use crate::{
    command::{Acquire, Command, Outcome, Owner},
    request_for_tests::{acquire_in, open_session},
};
use fairhold_types::{GrantId, SessionId};

/// A state, and the next grant id.
struct World {
    state: State,
    ids: u128,
}

impl World {
    fn new() -> World {
        World { state: State::new(), ids: 0 }
    }

    fn apply(&mut self, command: &Command) -> Outcome {
        self.state.apply(command).answer.result.unwrap()
    }

    fn session(&mut self, id: u64) -> (SessionId, SessionNumber) {
        let id = SessionId(id.into());
        let Outcome::SessionOpened { number, .. } = self.apply(&open_session(id)) else { panic!("not opened") };
        (id, number)
    }

    fn acquire(&mut self, session: SessionId, owner: &str, locks: &[&str]) -> GrantId {
        self.acquire_as(session, owner, locks, |acquire| acquire)
    }

    fn acquire_as(
        &mut self,
        session: SessionId,
        owner: &str,
        locks: &[&str],
        change: impl FnOnce(Acquire) -> Acquire,
    ) -> GrantId {
        self.ids += 1;
        let grant = GrantId::from_ulid(self.ids << 64);
        let owner = Owner { text: owner.to_owned(), given: true };
        let acquire = Acquire { owner, ..acquire_in(session, grant, locks, Mode::Exclusive) };
        self.apply(&Command::Acquire(change(acquire)));
        grant
    }

    fn release(&mut self, grant: GrantId) {
        self.apply(&Command::Release { grant, session: None, at: WallMillis(1) });
    }

    /// The entries of all pages of that query, as `owner lock`, and the number of pages.
    fn all(&self, query: &GrantQuery) -> (Vec<String>, usize) {
        let (mut query, mut found, mut pages) = (query.clone(), Vec::new(), 0);
        loop {
            let mut listing = self.state.grant_listing(&query);
            while !listing.visit(1) {}
            let page = listing.into_page();
            assert_eq!(page, self.state.grants_page(&query), "step by step, it is another page");
            assert!(page.items.len() <= query.limit);
            found.extend(page.items.iter().map(line));
            pages += 1;
            match page.next {
                Some(next) => query.after = Some(next),
                None => return (found, pages),
            }
        }
    }

    fn lines(&self, query: &GrantQuery) -> Vec<String> {
        self.all(query).0
    }
}

fn line(entry: &GrantEntry) -> String {
    format!("{} {}", entry.owner, entry.lock.as_str())
}

fn any(sort: GrantSort) -> GrantQuery {
    GrantQuery { prefix: String::new(), owner: None, session: None, phase: None, sort, after: None, limit: PAGE_MAX }
}

const SORTS: [GrantSort; 2] = [GrantSort::Queued, GrantSort::Lock];

/// ann holds stock and dock with one grant, in session 1. bob holds crane, and waits for dock, in session 2. cy waits for
/// crane and then for dock, in session 1.
fn port() -> (World, SessionNumber) {
    let mut world = World::new();
    let (first, number) = world.session(1);
    let (second, _) = world.session(2);
    world.acquire(first, "ann", &["stock", "dock"]);
    world.acquire(second, "bob", &["crane"]);
    world.acquire(first, "cy", &["crane"]);
    world.acquire(second, "bob", &["dock"]);
    world.acquire(first, "cy", &["dock"]);
    (world, number)
}

#[test]
fn grants_come_as_they_queued_or_by_lock() {
    let (world, _) = port();
    let queued = ["ann stock", "ann dock", "bob crane", "cy crane", "bob dock", "cy dock"];
    assert_eq!(world.lines(&any(GrantSort::Queued)), queued);
    let by_lock = ["bob crane", "cy crane", "ann dock", "bob dock", "cy dock", "ann stock"];
    assert_eq!(world.lines(&any(GrantSort::Lock)), by_lock);
}

#[test]
fn owner_session_prefix_and_phase_are_filters() {
    let (world, session) = port();
    for sort in SORTS {
        let sorted = |query: GrantQuery| {
            let mut lines = world.lines(&query);
            lines.sort();
            lines
        };
        assert_eq!(sorted(GrantQuery { owner: Some("bob".to_owned()), ..any(sort) }), ["bob crane", "bob dock"]);
        let of_session = ["ann dock", "ann stock", "cy crane", "cy dock"];
        assert_eq!(sorted(GrantQuery { session: Some(session), ..any(sort) }), of_session);
        assert_eq!(sorted(GrantQuery { session: Some(SessionNumber(99)), ..any(sort) }), [""; 0]);
        assert_eq!(sorted(GrantQuery { prefix: "c".to_owned(), ..any(sort) }), ["bob crane", "cy crane"]);
        assert_eq!(sorted(GrantQuery { phase: Some(GrantPhase::Held), ..any(sort) }), ["ann dock", "ann stock", "bob crane"]);
        assert_eq!(sorted(GrantQuery { phase: Some(GrantPhase::Queued), ..any(sort) }), ["bob dock", "cy crane", "cy dock"]);
        assert_eq!(sorted(GrantQuery { phase: Some(GrantPhase::Cooling), ..any(sort) }), [""; 0]);
        let both = GrantQuery { session: Some(session), owner: Some("cy".to_owned()), prefix: "d".to_owned(), ..any(sort) };
        assert_eq!(sorted(both), ["cy dock"]);
    }
}

#[test]
fn pages_of_any_size_have_each_entry_once() {
    let (world, _) = port();
    for sort in SORTS {
        let whole = world.lines(&any(sort));
        for (limit, pages) in [(1, 6), (2, 3), (4, 2), (5, 2), (6, 1)] {
            assert_eq!(world.all(&GrantQuery { limit, ..any(sort) }), (whole.clone(), pages), "{sort:?}, pages of {limit}");
        }
    }
}

#[test]
fn a_page_continues_after_an_entry_that_is_gone() {
    for (sort, limit, rest) in [
        (GrantSort::Queued, 2, vec!["cy crane", "bob dock", "cy dock"]),
        (GrantSort::Lock, 1, vec!["cy crane", "ann dock", "bob dock", "cy dock"]),
    ] {
        let mut world = World::new();
        let (session, _) = world.session(1);
        world.acquire(session, "ann", &["dock"]);
        let bob = world.acquire(session, "bob", &["crane"]);
        world.acquire(session, "cy", &["crane"]);
        world.acquire(session, "bob", &["dock"]);
        world.acquire(session, "cy", &["dock"]);
        let first = world.state.grants_page(&GrantQuery { limit, ..any(sort) });
        assert_eq!(first.items.last().map(line).as_deref(), Some("bob crane"), "{sort:?}");
        world.release(bob);
        assert_eq!(world.lines(&GrantQuery { after: first.next, ..any(sort) }), rest, "{sort:?}");
    }
}

#[test]
fn a_waiter_has_its_position_and_names_what_it_waits_for_and_a_holder_has_its_token() {
    let (world, session) = port();
    let page = world.state.grants_page(&any(GrantSort::Queued));
    let shown: Vec<_> = page
        .items
        .iter()
        .map(|entry| (line(entry), entry.position, entry.waits_for.as_ref().map(|(_, owner)| owner.as_str())))
        .collect();
    let wanted: [(&str, Option<u64>, Option<&str>); 6] = [
        ("ann stock", None, None),
        ("ann dock", None, None),
        ("bob crane", None, None),
        ("cy crane", Some(2), Some("bob")),
        ("bob dock", Some(2), Some("ann")),
        ("cy dock", Some(3), Some("bob")),
    ];
    let wanted = wanted.map(|(line, position, owner)| (line.to_owned(), position, owner));
    assert_eq!(shown, wanted);
    assert_eq!(page.items[3].waits_for.as_ref().map(|(number, _)| *number), Some(page.items[2].number));
    for entry in &page.items {
        let is_held = entry.phase == GrantPhase::Held;
        assert_eq!((entry.token.is_some(), entry.held_since.is_some()), (is_held, is_held), "{entry:?}");
    }
    assert_eq!((page.items[0].number, page.items[0].session), (page.items[1].number, session), "one grant in two locks");
}

#[test]
fn a_cooling_grant_is_its_owners_but_no_longer_its_sessions() {
    let mut world = World::new();
    let (session, number) = world.session(1);
    world.acquire_as(session, "ann", &["crane"], |acquire| Acquire { lock_delay_ms: 60_000, ..acquire });
    world.apply(&Command::ExpireSession { session: number, at: WallMillis(2) });
    assert_eq!(world.state.check(), Ok(()));
    for sort in SORTS {
        let page = world.state.grants_page(&GrantQuery { owner: Some("ann".to_owned()), ..any(sort) });
        let [entry] = &page.items[..] else { panic!("not one entry: {page:?}") };
        assert_eq!((entry.phase, entry.token, entry.position), (GrantPhase::Cooling, None, None));
        assert_eq!(world.lines(&GrantQuery { phase: Some(GrantPhase::Cooling), ..any(sort) }), ["ann crane"]);
        assert_eq!(world.lines(&GrantQuery { session: Some(number), ..any(sort) }), [""; 0]);
    }
}

#[test]
fn a_page_of_some_locks_never_reveals_another_one() {
    let (mut world, _) = port();
    let (session, _) = world.session(3);
    // dot is first for quay, but waits for crane too, which is hidden.
    world.acquire(session, "dot", &["quay", "crane"]);
    let is_visible = |lock: &LockName| matches!(lock.as_str(), "dock" | "quay");
    for (sort, wanted) in [
        (GrantSort::Queued, ["ann dock", "bob dock", "cy dock", "dot quay"]),
        (GrantSort::Lock, ["ann dock", "bob dock", "cy dock", "dot quay"]),
    ] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = GrantQuery { limit: 1, after, ..any(sort) };
            let mut listing = world.state.grant_listing(&query).only(&is_visible);
            while !listing.visit(1) {}
            let page = listing.into_page();
            found.extend(page.items.iter().map(line));
            assert!(page.items.iter().all(|entry| entry.owner != "dot" || entry.waits_for.is_none()), "{page:?}");
            after = page.next;
            match &after {
                Some(GrantKey::Lock(lock, _)) => assert!(is_visible(lock), "the cursor reveals {}", lock.as_str()),
                Some(GrantKey::Queued(_)) => {}
                None => break,
            }
        }
        assert_eq!(found, wanted, "{sort:?}");
        // A key that a caller made up shows nothing of its lock either.
        let made_up = GrantKey::Lock(LockName::parse("crane").unwrap(), QueueKey::Holder(GrantNumber(0)));
        let query = GrantQuery { after: Some(made_up), ..any(sort) };
        let mut listing = world.state.grant_listing(&query).only(&is_visible);
        while !listing.visit(1) {}
        assert_eq!(listing.into_page().items.iter().map(line).collect::<Vec<_>>(), wanted, "{sort:?}");
    }
    let all = world.state.grants_page(&any(GrantSort::Queued));
    let dot = all.items.iter().find(|entry| line(entry) == "dot quay").unwrap();
    assert!(dot.waits_for.is_some(), "a caller that sees all locks sees what it waits for: {dot:?}");
}

#[test]
fn a_page_examines_a_bounded_number_and_the_next_one_continues() {
    let mut world = World::new();
    let (session, _) = world.session(1);
    for number in 0..PAGE_SCANNED_MAX {
        world.acquire(session, "many", &[&format!("a-{number:05}")]);
    }
    world.acquire(session, "last", &["b"]);
    let is_visible = |lock: &LockName| lock.as_str() == "b";
    for sort in SORTS {
        let query = GrantQuery { owner: Some("last".to_owned()), ..any(sort) };
        let first = world.state.grants_page(&query);
        assert!(first.items.is_empty() && first.next.is_some(), "{sort:?}: {first:?}");
        let rest = world.state.grants_page(&GrantQuery { after: first.next, ..query.clone() });
        assert_eq!((rest.items.iter().map(line).collect::<Vec<_>>(), rest.next), (vec!["last b".to_owned()], None), "{sort:?}");
        // Locks that the caller may not see do not end its page.
        let mut listing = world.state.grant_listing(&query).only(&is_visible);
        while !listing.visit(PAGE_SCANNED_MAX) {}
        assert_eq!(listing.into_page().items.len(), 1, "{sort:?}");
    }
}

#[test]
fn a_turn_visits_fewer_waiters_of_a_long_queue() {
    const WAITERS: usize = 500;
    let mut world = World::new();
    let (session, _) = world.session(1);
    for number in 0..=WAITERS {
        world.acquire(session, &format!("o{number}"), &["a"]);
    }
    for sort in SORTS {
        let query = any(sort);
        let mut listing = world.state.grant_listing(&query);
        let mut turns = 0;
        while !listing.visit(64) {
            turns += 1;
        }
        assert!(turns > WAITERS / 64 + 4, "{sort:?}: {turns} turns");
        assert_eq!(listing.into_page().items.len(), WAITERS + 1);
    }
}
