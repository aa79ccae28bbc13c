//! One node without faults: how long each call takes, and its answers.

use super::{
    disconnects::{TIMEOUT, TTL, call, lock},
    on_one_node, put,
};
use crate::host::HostRuntime;
use fairhold_node::{
    Node,
    api::{
        AcquireCall, Acquired, CallError, Freshness, GrantLookup, HoldCall, HoldEvent, OpenSessionCall, OwnedAfter, PageQuery,
        ReadOptions, SessionRef,
    },
    elections::{LeaderEvent, Observation, ProclaimCall},
};
use fairhold_state::{
    command::{Claimant, Meta, Want},
    value::Value,
};
use fairhold_types::{GrantId, Mode, Path, SessionId, SessionNumber};
use openraft_rt::{AsyncRuntime, Instant as _};
use openraft_rt_sim::{SimInstant, SimRuntime};
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// The maximum time of an answer that does not wait.
pub(super) const SOON: Duration = Duration::from_millis(200);

pub(super) fn fresh() -> ReadOptions {
    ReadOptions { freshness: Freshness::Linearizable, timeout: TIMEOUT }
}

pub(super) fn id(number: u128) -> GrantId {
    GrantId::from_ulid(number)
}

pub(super) async fn take(node: &Node<HostRuntime>, number: u128, name: &str) {
    let answer = node.acquire(call(number, name, Duration::ZERO)).await.unwrap();
    assert!(matches!(answer.value, Acquired::Held(_)), "{answer:?}");
}

pub(super) async fn is_live(node: &Node<HostRuntime>, number: u128) -> bool {
    let found = node.grant(id(number), Duration::ZERO, fresh()).await.unwrap();
    matches!(found.value, GrantLookup::Live(_))
}

/// Waits until a grant has ended for a waiter of its lock. Returns how long that took.
pub(super) async fn until_ended(node: &Node<HostRuntime>, number: u128) -> Duration {
    let begun = SimInstant::now();
    while is_live(node, number).await {
        assert!(since(begun) < 30 * SECOND, "grant {number} does not end");
        SimRuntime::sleep(Duration::from_millis(10)).await;
    }
    since(begun)
}

pub(super) fn since(begun: SimInstant) -> Duration {
    SimInstant::now() - begun
}

/// The next event of a stream, without its keepalives.
pub(super) async fn next(hold: &mut HoldCall) -> HoldEvent {
    loop {
        let received = hold.events.recv().await.expect("it sends its last event").value;
        if !matches!(received, HoldEvent::Alive) {
            return received;
        }
    }
}

#[test]
fn a_waiter_that_disconnects_leaves_the_queue_and_an_undelivered_grant_ends() {
    on_one_node(async |node| {
        take(&node, 1, "a").await;
        let gone = SimRuntime::timeout(SECOND, node.acquire(call(2, "a", 60 * SECOND))).await;
        assert!(gone.is_err());
        let left = until_ended(&node, 2).await;
        assert!(left < SECOND, "it left after {left:?}");
        // The listener could not deliver the answer.
        take(&node, 3, "b").await;
        node.abandon_soon(id(3), 1);
        let ended = until_ended(&node, 3).await;
        assert!(ended < SECOND, "it ended after {ended:?}");
        // Whether it was granted is unknown: the grant ends, or never begins.
        take(&node, 4, "c").await;
        node.release_unknown_soon(id(4));
        assert!(until_ended(&node, 4).await < SOON);
        node.release_unknown_soon(id(5));
        SimRuntime::sleep(SOON).await;
        let refused = node.acquire(call(5, "c", Duration::ZERO)).await;
        assert!(refused.is_err(), "{refused:?}");
    });
}

#[test]
fn a_caller_that_disconnects_before_its_answer_keeps_nothing() {
    on_one_node(async |node| {
        // When the disconnect is noticed depends on the disk, so the test tries every time.
        let mut gone = 0;
        for moment in 0..80 {
            let (id, name) = (1_000 + u128::from(moment), format!("held/{moment}"));
            let patience = Duration::from_micros(100 * moment);
            let answer = SimRuntime::timeout(patience, node.acquire(call(id, &name, Duration::ZERO))).await;
            if answer.is_err() {
                gone += 1;
                // The grant may not exist yet.
                SimRuntime::sleep(SECOND).await;
                assert!(!is_live(&node, id).await, "it did not end although its caller disconnected after {patience:?}");
            }
        }
        assert!(gone > 5, "{gone} callers disconnected");
    });
}

#[test]
fn a_duplicate_whose_caller_disconnects_before_its_commit_ends_nothing() {
    on_one_node(async |node| {
        take(&node, 1, "a").await;
        let (first, waits) = (node.clone(), call(2, "a", 60 * SECOND));
        let waiter = SimRuntime::spawn(async move { first.acquire(waits).await });
        SimRuntime::sleep(SECOND).await;
        let duplicate = SimRuntime::timeout(Duration::ZERO, node.acquire(call(2, "a", 60 * SECOND))).await;
        assert!(duplicate.is_err());
        let received = waiter.await.unwrap();
        assert_eq!(received.map(|answer| answer.value), Err(CallError::Superseded));
        SimRuntime::sleep(10 * SECOND).await;
        assert!(is_live(&node, 2).await, "it is probably the older request");
    });
}

#[test]
fn many_sessions_that_end_together_all_end() {
    on_one_node(async |node| {
        const MANY: u128 = 1_200;
        for number in 0..MANY {
            let mut short = call(1_000 + number, &format!("lock-{number}"), Duration::ZERO);
            short.acquire.claimant = Claimant::Anonymous { timeout_ms: 2_000 };
            node.acquire(short).await.unwrap();
        }
        SimRuntime::sleep(6 * SECOND).await;
        for number in 0..MANY {
            assert!(!is_live(&node, 1_000 + number).await, "grant {number} outlives its session");
        }
    });
}

#[test]
fn a_waiter_waits_for_its_whole_wait_and_an_async_request_gets_its_position() {
    on_one_node(async |node| {
        take(&node, 1, "a").await;
        let begun = SimInstant::now();
        let answer = node.acquire(call(2, "a", 2 * SECOND)).await;
        assert!(matches!(answer, Err(CallError::WaitTimeout { .. })), "{answer:?}");
        assert!((2 * SECOND..2 * SECOND + SOON).contains(&since(begun)), "{:?}", since(begun));
        for number in 3..6 {
            let later = AcquireCall { respond_async: true, ..call(number, "a", Duration::ZERO) };
            let begun = SimInstant::now();
            let answer = node.acquire(later).await.unwrap().value;
            let Acquired::Queued(view) = answer else { panic!("{answer:?}") };
            assert_eq!(view.queue_position.map(|queue_position| u128::from(queue_position.position)), Some(number - 1));
            assert!(since(begun) < SOON);
        }
        // A read of a queued grant is answered when it is granted.
        let (begun, node_too) = (SimInstant::now(), node.clone());
        let looking = SimRuntime::spawn(async move { node_too.grant(id(3), 60 * SECOND, fresh()).await.unwrap() });
        SimRuntime::sleep(SECOND).await;
        node.release(id(1), None, TIMEOUT).await.unwrap();
        let found = looking.await.unwrap();
        assert!(matches!(found.value, GrantLookup::Live(view) if view.token.is_some()));
        assert!((SECOND..SECOND + SOON).contains(&since(begun)));
        // If it is not granted, the read is answered after its wait.
        let begun = SimInstant::now();
        let found = node.grant(id(5), SECOND, fresh()).await.unwrap();
        assert!(matches!(found.value, GrantLookup::Live(view) if view.token.is_none()));
        assert!((SECOND..SECOND + SOON).contains(&since(begun)));
    });
}

#[test]
fn a_bounded_hold_ends_in_time_and_not_by_the_bound_of_an_earlier_hold() {
    on_one_node(async |node| {
        let bounded = async |number| {
            let mut bounded = call(number, "a", Duration::ZERO);
            bounded.acquire.max_hold_ms = Some(3_000);
            node.acquire(bounded).await.unwrap();
        };
        bounded(1).await;
        SimRuntime::sleep(2 * SECOND).await;
        node.release(id(1), None, TIMEOUT).await.unwrap();
        bounded(2).await;
        let ended = until_ended(&node, 2).await;
        assert!((3 * SECOND - SOON..4 * SECOND).contains(&ended), "it held for {ended:?}");
        take(&node, 3, "a").await;
    });
}

#[test]
fn an_observer_sees_each_leader_each_value_and_each_vacancy() {
    on_one_node(async |node| {
        let name = lock("chief");
        let mut observed = node.observe(&name, None, fresh()).await.unwrap();
        assert_eq!(next_event(&mut observed).await, LeaderEvent::Initial(None));
        let mut candidate = call(1, "chief", Duration::ZERO);
        candidate.acquire.value = Some(b"first".to_vec());
        node.acquire(candidate).await.unwrap();
        let LeaderEvent::Elected(leader) = next_event(&mut observed).await else { panic!("nobody was elected") };
        assert_eq!((leader.value.as_ref(), leader.version), (&b"first"[..], 0));
        let (key, value) = (id(90), Value::from(b"second".to_vec()));
        let order = ProclaimCall { key, election: name.clone(), grant: id(1), value, timeout: TIMEOUT };
        assert_eq!(node.proclaim(order).await.unwrap().value, 1);
        let LeaderEvent::Proclaimed(leader) = next_event(&mut observed).await else { panic!("nothing was proclaimed") };
        assert_eq!((leader.value.as_ref(), leader.version), (&b"second"[..], 1));
        node.release(id(1), None, TIMEOUT).await.unwrap();
        assert_eq!(next_event(&mut observed).await, LeaderEvent::Vacant);
        assert_eq!(node.leader(&name, fresh()).await.unwrap().value, None);
    });
}

/// The next event of an observer, without bookmarks.
async fn next_event(observed: &mut Observation<HostRuntime>) -> LeaderEvent {
    loop {
        let seen = observed.next().await.expect("it goes on").value;
        if seen != LeaderEvent::Bookmark {
            return seen;
        }
    }
}

#[test]
fn lists_come_in_pages_and_each_page_continues_after_the_last_one() {
    on_one_node(async |node| {
        for name in ["/a", "/a/b", "/a/c", "/a/c/d", "/e"] {
            put(&node, name).await;
        }
        let list = async |path: &str, recursive, after: Option<&str>, limit| {
            let found = node.list_nodes(&Path::parse(path).unwrap(), recursive, after, limit, fresh()).await.unwrap().value;
            (found.rows.iter().map(|row| row.path.to_string()).collect::<Vec<_>>().join(" "), found.more)
        };
        assert_eq!(list("/a", false, None, usize::MAX).await, ("/a/b /a/c".to_owned(), false));
        assert_eq!(list("/a", true, None, 2).await, ("/a/b /a/c".to_owned(), true));
        assert_eq!(list("/a", true, None, 3).await, ("/a/b /a/c /a/c/d".to_owned(), false));
        let mut numbers = Vec::new();
        for number in 0..5 {
            take(&node, 100 + number, &format!("lock-{number}")).await;
        }
        let mut after = None;
        loop {
            let page = PageQuery { after, limit: 2 };
            let (sessions, next) = node.sessions(page, fresh()).await.unwrap().value;
            numbers.extend(sessions.iter().map(|session| session.number));
            assert_eq!(next, (numbers.len() < 5).then(|| *numbers.last().unwrap()));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert!(numbers.len() == 5 && numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    });
}

async fn open(node: &Node<HostRuntime>, key: u128, timeout: Duration) -> (SessionId, SessionNumber) {
    let (name, meta) = ("s".to_owned(), Meta::new());
    let call = OpenSessionCall { key: id(key), key_given: true, timeout, name, meta, work_timeout: TIMEOUT };
    let opened = node.open_session(call).await.unwrap().value;
    (opened.id, opened.number)
}

#[test]
fn a_session_has_ended_with_everything_it_owns_when_the_answer_arrives() {
    on_one_node(async |node| {
        let (session, number) = open(&node, 1, TTL).await;
        // Too many grants to end in one step.
        for number in 0..800 {
            let mut of_session = call(1_000 + number, &format!("lock-{number}"), Duration::ZERO);
            of_session.acquire.claimant = Claimant::Session(session);
            node.acquire(of_session).await.unwrap();
        }
        let free = async |name: &str| node.lock(&lock(name), PageQuery::first(), fresh()).await.unwrap().value.holder_count == 0;
        assert!(!free("lock-0").await && !free("lock-799").await);
        node.close_session(session, TIMEOUT).await.unwrap();
        assert!(free("lock-0").await && free("lock-799").await);
        let page = PageQuery { after: None::<OwnedAfter>, limit: 10 };
        assert_eq!(node.session(SessionRef::Number(number), &page, fresh()).await.unwrap().value, None);
        // An administrator ends another session by its number.
        let (other, number) = open(&node, 2, TTL).await;
        let mut of_other = call(500, "lock-0", Duration::ZERO);
        of_other.acquire.claimant = Claimant::Session(other);
        of_other.acquire.wants.push(Want { lock: lock("lock-1"), mode: Mode::Exclusive });
        node.acquire(of_other).await.unwrap();
        node.end_session(number, "admin".to_owned(), "stuck".to_owned(), TIMEOUT).await.unwrap();
        assert!(free("lock-0").await && free("lock-1").await);
    });
}

#[test]
fn a_session_without_keepalives_ends_after_its_timeout_and_one_with_keepalives_does_not() {
    on_one_node(async |node| {
        let (kept, _) = open(&node, 1, 2 * SECOND).await;
        let begun = SimInstant::now();
        let (lost, _) = open(&node, 2, 2 * SECOND).await;
        let mut of_lost = call(100, "a", Duration::ZERO);
        of_lost.acquire.claimant = Claimant::Session(lost);
        node.acquire(of_lost).await.unwrap();
        while is_live(&node, 100).await {
            let answers = node.keepalive(vec![kept], TIMEOUT).await.unwrap().value;
            assert_eq!(answers, [Some(2 * SECOND)], "after {:?}", since(begun));
            SimRuntime::sleep(SOON).await;
        }
        assert!((2 * SECOND..3 * SECOND).contains(&since(begun)), "it ended after {:?}", since(begun));
        assert_eq!(node.keepalive(vec![lost, kept], TIMEOUT).await.unwrap().value, [None, Some(2 * SECOND)]);
    });
}

#[test]
fn a_node_counts_what_it_does() {
    on_one_node(async |node| {
        let mut registry = fairhold_metrics::registry();
        node.register_metrics(&mut registry);
        take(&node, 1, "a").await;
        let mut waits = node.hold(call(2, "a", 60 * SECOND)).await.unwrap();
        node.release(id(1), None, TIMEOUT).await.unwrap();
        assert!(matches!(next(&mut waits).await, HoldEvent::Held(_)));
        assert!(node.acquire(call(3, "a", Duration::ZERO)).await.is_err());
        open(&node, 4, TTL).await;
        put(&node, "/x").await;
        let text = fairhold_metrics::text(&registry, fairhold_metrics::Format::accepted(None)).unwrap();
        let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("fairhold_")).collect();
        for line in [
            r#"acquires_total{outcome="held"} 1"#,
            r#"acquires_total{outcome="queued"} 1"#,
            r#"acquires_total{outcome="lock_held"} 1"#,
            r#"acquires_total{outcome="refused"} 0"#,
            "grants_queued_total 2",
            "grants_attached_total 0",
            "grants_given_total 2",
            "grants_handed_over_total 1",
            r#"grants_ended_total{reason="released"} 1"#,
            r#"grants_ended_total{reason="expired"} 0"#,
            "grants_cooled_total 0",
            "grant_wait_seconds_count 2",
            "grant_hold_seconds_count 1",
            "sessions_opened_total 3",
            "sessions_expired_total 0",
            "sessions_closed_total 1",
            "keepalives_total 1",
            "keepalive_batches_total 1",
            "waiters_woken_total 1",
            "streams_open 1",
            "watchers_cut_total 0",
            "locks 1",
            r#"grants{state="held"} 1"#,
            r#"grants{state="queued"} 0"#,
            "history_entries 1",
            "sessions 2",
            "tree_nodes 5",
            "tree_value_bytes 0",
            "history_grants_lost_total 0",
            "history_hand_overs_total 1",
            "waiters_parked 1",
            "watchers_open 0",
            "watch_ring_revisions 5",
        ] {
            assert!(shown.contains(&line), "{line} is missing:\n{}", shown.join("\n"));
        }
        assert!(shown.iter().any(|line| line.starts_with("state_bytes ") && !line.ends_with(" 0")));
    });
}
