//! Pages of events, from a ring without a node.

use super::*;
use crate::feed::change::ChangedContender;
use fairhold_access::{Attributes, Principal, Rights, RoleName, Rule};
use fairhold_types::{FencingToken, GrantNumber, Path, watch::SessionEnd};

fn created(path: &str) -> Change {
    Change::NodeCreated(Path::parse(path).unwrap())
}

fn contender(lock: &str, session: u64) -> ChangedContender {
    let lock = LockName::parse(lock).unwrap();
    ChangedContender { lock, number: GrantNumber(7), session: SessionNumber(session), owner: "ci".into() }
}

/// A ring whose revision N has N % 4 events.
fn filled(revisions: std::ops::RangeInclusive<u64>, bytes_max: u64) -> Ring {
    let ring = Ring::new(bytes_max);
    for revision in revisions {
        let list: Box<[Change]> = (0..revision % 4).map(|index| created(&format!("/{revision:04}/{index}"))).collect();
        if list.is_empty() {
            ring.skip(Revision(revision));
        } else {
            ring.push(Changes { revision: Revision(revision), list });
        }
    }
    ring
}

fn page_at(ring: &Ring, query: &EventQuery, revision: u64) -> Result<EventPage, Compacted> {
    page_for(&Visible::Everything, ring, query, revision)
}

fn page_for(visible: &Visible, ring: &Ring, query: &EventQuery, revision: u64) -> Result<EventPage, Compacted> {
    query.check_kept(ring.first().1)?;
    let mut scan = EventScan::new(ring, query, visible, Revision(revision));
    while !scan.visit(1) {}
    scan.into_page()
}

fn limited(limit: usize) -> EventQuery {
    EventQuery { limit, ..EventQuery::default() }
}

/// All events of a listing, page by page, and the sizes of the pages.
fn all_pages(ring: &Ring, query: &EventQuery, revision: u64) -> (Vec<(Revision, Change)>, Vec<usize>) {
    let (mut query, mut all, mut sizes) = (query.clone(), Vec::new(), Vec::new());
    loop {
        let page = page_at(ring, &query, revision).unwrap();
        sizes.push(page.items.len());
        all.extend(page.items);
        match page.next {
            Some(next) => query.before = Some(next),
            None => return (all, sizes),
        }
    }
}

/// The events of these revisions of `filled`, the newest first.
fn expected(revisions: std::ops::RangeInclusive<u64>) -> Vec<(Revision, Change)> {
    let of = |revision: u64| {
        (0..revision % 4).rev().map(move |index| (Revision(revision), created(&format!("/{revision:04}/{index}"))))
    };
    revisions.rev().flat_map(of).collect()
}

#[test]
fn pages_of_any_size_have_each_event_once_and_the_newest_first() {
    let ring = filled(1..=40, u64::MAX);
    for limit in 1..=70 {
        let (all, sizes) = all_pages(&ring, &limited(limit), 40);
        assert_eq!(all, expected(1..=40), "limit {limit}");
        let (last, full) = sizes.split_last().unwrap();
        assert!(full.iter().all(|size| *size == limit) && (1..=limit).contains(last), "limit {limit}: {sizes:?}");
    }
}

#[test]
fn a_range_excludes_both_its_ends_and_what_came_later() {
    let ring = filled(1..=40, u64::MAX);
    let before = |revision| Some(EventPosition { revision: Revision(revision), index: 0 });
    for (query, events) in [
        (EventQuery { before: before(21), ..limited(3) }, expected(1..=20)),
        (EventQuery { after: Some(Revision(20)), ..limited(3) }, expected(21..=30)),
        (EventQuery { after: Some(Revision(9)), before: before(15), ..limited(3) }, expected(10..=14)),
        (EventQuery { after: Some(Revision(30)), ..limited(3) }, Vec::new()),
        (EventQuery { before: before(1), ..limited(3) }, Vec::new()),
        (EventQuery { before: before(u64::MAX), ..limited(3) }, expected(1..=30)),
    ] {
        assert_eq!(all_pages(&ring, &query, 30).0, events, "{query:?}");
    }
}

#[test]
fn with_after_the_page_counts_what_it_leaves_out() {
    let ring = filled(1..=40, u64::MAX);
    let page = page_at(&ring, &EventQuery { after: Some(Revision(0)), ..limited(10) }, 40).unwrap();
    assert_eq!((page.items.len(), page.skipped, page.revision, page.oldest), (10, Some(50), Revision(40), Revision(1)));
    assert!(page.next.is_some());
    let page = page_at(&ring, &EventQuery { after: Some(Revision(0)), ..limited(60) }, 40).unwrap();
    assert_eq!((page.items.len(), page.skipped, page.next), (60, Some(0), None));
    let page = page_at(&ring, &limited(10), 40).unwrap();
    assert_eq!(page.skipped, None);
}

#[test]
fn a_call_examines_a_limited_number_of_events_and_the_next_one_continues() {
    let ring = Ring::new(u64::MAX);
    let list: Box<[Change]> = (0..PAGE_SCANNED_MAX).map(|index| created(&format!("/busy/{index}"))).collect();
    ring.push(Changes { revision: Revision(1), list: [Change::Queued(contender("rare", 3))].into() });
    ring.push(Changes { revision: Revision(2), list });
    let query = EventQuery { after: Some(Revision(0)), lock: Some(LockName::parse("rare").unwrap()), ..limited(10) };
    let page = page_at(&ring, &query, 2).unwrap();
    assert_eq!((page.items.len(), page.skipped), (0, None));
    assert_eq!(page.next, Some(EventPosition { revision: Revision(2), index: 0 }));
    let page = page_at(&ring, &EventQuery { before: page.next, ..query }, 2).unwrap();
    assert_eq!((page.items.len(), page.skipped, page.next), (1, Some(0), None));
}

/// What a caller with one rule sees.
fn covered(rule: &str) -> Visible {
    let (principal, rules) = (Principal::anonymous(), [Rule::parse(rule).unwrap()]);
    let (attributes, role) = (Attributes::of(&principal, []), RoleName::parse("few").unwrap());
    let rights = Rights::compile(&principal, &attributes, |_| vec![role.clone()], |_| Some(rules.as_slice()));
    Visible::Covered(Arc::new(rights))
}

#[test]
fn a_caller_sees_no_event_some_or_all() {
    let seen = |visible: Visible| (visible.has_some_changes(), visible.has_all_changes());
    assert_eq!(seen(Visible::Everything), (true, true));
    assert_eq!(seen(Visible::Covered(Arc::default())), (false, false));
    for (rule, some) in
        [("read nodes:app/**", true), ("inspect locks:deploy/**", true), ("status cluster", true), ("acquire locks:**", false)]
    {
        assert_eq!(seen(covered(rule)), (some, false), "{rule}");
    }
}

#[test]
fn a_cursor_counts_only_what_the_caller_may_see() {
    let ring = Ring::new(u64::MAX);
    let list = ["/hidden/1", "/app/1", "/hidden/2", "/app/2", "/hidden/3"].map(created);
    ring.push(Changes { revision: Revision(1), list: list.into() });
    let (visible, mut query) = (covered("read nodes:app/**"), limited(1));
    let first = page_for(&visible, &ring, &query, 1).unwrap();
    assert_eq!(first.items, [(Revision(1), created("/app/2"))]);
    assert_eq!(first.next, Some(EventPosition { revision: Revision(1), index: 1 }));
    query.before = first.next;
    let last = page_for(&visible, &ring, &query, 1).unwrap();
    assert_eq!((last.items, last.next), (vec![(Revision(1), created("/app/1"))], None));
}

#[test]
fn a_page_at_the_limit_ends_between_two_revisions() {
    let ring = Ring::new(u64::MAX);
    ring.push(Changes { revision: Revision(1), list: [created("/app/1")].into() });
    for revision in [2, 3] {
        let list: Box<[Change]> = (0..PAGE_SCANNED_MAX - 1).map(|index| created(&format!("/hidden/{index}"))).collect();
        ring.push(Changes { revision: Revision(revision), list });
    }
    let (visible, mut query) = (covered("read nodes:app/**"), limited(1));
    let first = page_for(&visible, &ring, &query, 3).unwrap();
    assert_eq!((first.items.len(), first.next), (0, Some(EventPosition { revision: Revision(2), index: 0 })));
    query.before = first.next;
    let last = page_for(&visible, &ring, &query, 3).unwrap();
    assert_eq!((last.items, last.next), (vec![(Revision(1), created("/app/1"))], None));
}

#[test]
fn what_is_no_longer_kept_is_an_error_with_the_oldest_revision() {
    let ring = filled(1..=40, 1_000);
    let oldest = ring.first().1;
    assert!(oldest > Revision(20) && oldest < Revision(40), "{oldest:?}");
    let gone = Err(Compacted { oldest });
    let before = |revision: Revision, index| EventQuery { before: Some(EventPosition { revision, index }), ..limited(100) };
    let earlier = Revision(oldest.0 - 1);
    let too_early = EventQuery { after: Some(Revision(earlier.0 - 1)), ..limited(100) };
    assert_eq!(page_at(&ring, &too_early, 40), gone);
    assert_eq!(page_at(&ring, &before(oldest, 0), 40), gone);
    assert_eq!(page_at(&ring, &before(earlier, 1), 40), gone);
    let kept = page_at(&ring, &EventQuery { after: Some(earlier), ..limited(100) }, 40).unwrap();
    assert_eq!(kept.items, expected(oldest.0..=40));
    assert_eq!(page_at(&ring, &limited(100), 40).unwrap().items, kept.items);
    assert_eq!(page_at(&ring, &before(oldest.next(), 0), 40).unwrap().items, expected(oldest.0..=oldest.0));
}

#[test]
fn events_that_are_dropped_while_they_are_counted_are_an_error() {
    let ring = filled(1..=400, u64::MAX);
    let query = EventQuery { after: Some(Revision(1)), ..limited(1) };
    let mut scan = EventScan::new(&ring, &query, &Visible::Everything, Revision(400));
    assert!(!scan.visit(1));
    ring.reset(Revision(500));
    while !scan.visit(usize::MAX) {}
    assert_eq!(scan.into_page(), Err(Compacted { oldest: Revision(501) }));
}

#[test]
fn each_filter_selects_what_it_names() {
    let list = [
        created("/orders/1"),
        Change::SessionOpened { session: SessionNumber(3), timeout_ms: 1_000 },
        Change::Queued(contender("orders/1", 3)),
        Change::Granted(contender("orders/1", 3), FencingToken(9)),
        Change::Granted(contender("orders", 4), FencingToken(10)),
        Change::LockForgotten(LockName::parse("other").unwrap()),
        Change::SessionEnded { session: SessionNumber(3), reason: SessionEnd::Closed },
    ];
    let ring = Ring::new(u64::MAX);
    ring.push(Changes { revision: Revision(1), list: list.clone().into() });
    let lock = |name: &str| Some(LockName::parse(name).unwrap());
    for (query, wanted) in [
        (limited(10), vec![0, 1, 2, 3, 4, 5, 6]),
        (EventQuery { lock: lock("orders/1"), ..limited(10) }, vec![2, 3]),
        (EventQuery { prefix: "orders".to_owned(), ..limited(10) }, vec![2, 3, 4]),
        (EventQuery { session: Some(SessionNumber(3)), ..limited(10) }, vec![1, 2, 3, 6]),
        (EventQuery { event_type: Some(EventType::Granted), ..limited(10) }, vec![3, 4]),
        (EventQuery { event_type: Some(EventType::Granted), lock: lock("orders"), ..limited(10) }, vec![4]),
    ] {
        let seen: Vec<Change> = page_at(&ring, &query, 1).unwrap().items.into_iter().map(|(_, change)| change).collect();
        let wanted: Vec<Change> = wanted.into_iter().rev().map(|index: usize| list[index].clone()).collect();
        assert_eq!(seen, wanted, "{query:?}");
    }
}
