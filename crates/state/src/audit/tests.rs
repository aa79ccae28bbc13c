//! The ring and its chain, and which commands have an entry.

use super::*;
use crate::{
    State,
    command::{Command, OpenSession, WriteKey},
    request_for_tests::{acquire_in, open_session},
};
use fairhold_access::Principal;
use fairhold_types::{
    ClusterId, GrantId, Mode, Revision, SessionId, SessionNumber,
    cluster_version::AUDIT_SINCE,
    limits::{AUDIT_BYTES_MAX, AUDIT_ENTRIES_MAX, REASON_BYTES_MAX},
    time::WallMillis,
};

const AT: WallMillis = WallMillis(1_763_700_840_120);

fn formed() -> State {
    let mut state = State::new();
    state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: AUDIT_SINCE });
    state
}

fn origin(text: usize) -> ActOrigin {
    let principal = Principal::parse("user:ann").unwrap();
    ActOrigin { principal, address: "a".repeat(text), request: "r".repeat(text) }
}

/// A refused act, because there is no such session.
fn act(reason: usize, origin: ActOrigin) -> Command {
    let end = Command::EndSession { session: SessionNumber(9), by: String::new(), reason: "x".repeat(reason), at: AT };
    end.attributed(origin)
}

fn reread(state: &State) -> State {
    let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
    State::from_snapshot_blocks(blocks.into_iter()).unwrap()
}

#[test]
fn the_ring_keeps_the_newest_entries_and_their_chain() {
    let mut state = formed();
    let acts = AUDIT_ENTRIES_MAX as u64 + 20;
    for _ in 0..acts {
        drop(state.apply(&act(0, origin(10))));
    }
    let ring = state.audit();
    assert_eq!((ring.len(), ring.head().unwrap().seq), (AUDIT_ENTRIES_MAX, acts));
    assert_eq!(ring.from(0).next().unwrap().0, 21);
    assert!(ring.bytes() <= AUDIT_BYTES_MAX && ring.get(20).is_none());
    state.check().unwrap();
    let mut read = reread(&state);
    assert!(read == state);
    drop(read.apply(&act(1, origin(10))));
    drop(state.apply(&act(1, origin(10))));
    assert_eq!(read.audit().head(), state.audit().head(), "the chain goes on from a snapshot");
}

#[test]
fn an_administrator_in_a_loop_only_turns_the_ring() {
    let mut state = formed();
    let mut most = 0;
    for _ in 0..AUDIT_ENTRIES_MAX {
        drop(state.apply(&act(REASON_BYTES_MAX, origin(120))));
        most = most.max(state.audit().bytes());
    }
    assert!(most <= AUDIT_BYTES_MAX && most > AUDIT_BYTES_MAX / 100 * 99, "{most} bytes");
    assert_eq!(state.bytes() - state.audit().bytes(), formed().bytes(), "nothing else grows");
    state.check().unwrap();
}

/// A long entry after many short ones drops several of them.
#[test]
fn a_long_entry_takes_the_room_of_short_ones() {
    let mut ring = AuditRing::default();
    let record = |text: usize| ActRecord {
        revision: Revision(1),
        at: AT,
        origin: origin(text),
        verb: "end".to_owned(),
        on: "x".repeat(4 * text),
        detail: "x".repeat(4 * text),
        reason: "x".repeat(4 * text),
        result: "ok".to_owned(),
        hash: GENESIS,
    };
    (0..100).for_each(|_| ring.append(record(0), 47_000));
    let full = ring.bytes();
    ring.append(record(150), 47_000);
    assert!(ring.bytes() <= 47_000 && full <= 47_000 && ring.len() < 100, "{} of {full} bytes", ring.bytes());
    // A ring that must become much smaller does so little by little, and keeps its newest entry.
    let before = ring.len();
    ring.append(record(150), 1);
    assert_eq!(ring.len(), before - 15);
    (0..100).for_each(|_| ring.append(record(150), 1));
    assert_eq!(ring.len(), 1);
}

#[test]
fn a_small_budget_has_a_small_ring() {
    let mut state = formed();
    let bytes = 1024 * 1024;
    state.apply(&Command::RecordCapacity { node: 1, bytes });
    for _ in 0..500 {
        drop(state.apply(&act(0, origin(10))));
    }
    assert!(state.audit().bytes() <= bytes / 16 && state.audit().len() > 50, "{} bytes", state.audit().bytes());
    state.check().unwrap();
}

#[test]
fn a_refused_act_is_recorded_even_if_the_state_is_full() {
    let mut state = formed();
    drop(state.apply(&act(0, origin(10))));
    state.apply(&Command::RecordCapacity { node: 1, bytes: state.bytes() });
    let set = crate::command::SetLock { limit: Some(2), at: AT, ..crate::request_for_tests::set_lock("printer") };
    let before = state.revision();
    let applied = state.apply(&Command::SetLock(set).attributed(origin(3)));
    assert!(matches!(applied.answer.result, Err(crate::command::Rejection::StateFull { .. })), "{applied:?}");
    assert_eq!((applied.answer.revision, applied.events.len()), (before.next(), 0));
    let newest = state.audit().from(0).next_back().map(|(_, record)| (record.verb.clone(), record.result.clone()));
    assert_eq!(newest, Some(("set".to_owned(), "state_full".to_owned())));
    state.check().unwrap();
}

#[test]
fn a_page_has_the_entries_that_fit() {
    let mut state = formed();
    for number in 0..10 {
        let by = if number % 2 == 0 { origin(1) } else { ActOrigin::of_node() };
        drop(state.apply(&act(0, by)));
    }
    let page = |query: &AuditQuery| {
        let mut listing = state.audit().listing(query);
        while !listing.visit(3) {}
        let page = listing.into_page();
        let seqs: Vec<u64> = page
            .lines
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
            .collect();
        (seqs, page.next)
    };
    let all = AuditQuery { from: 1, principal: None, verb: None, newest: false, limit: 100 };
    assert_eq!(page(&all), ((1..=10).collect(), None));
    assert_eq!(page(&AuditQuery { limit: 3, ..all.clone() }), (vec![1, 2, 3], Some(3)));
    assert_eq!(page(&AuditQuery { limit: 3, from: 8, ..all.clone() }), (vec![8, 9, 10], None));
    assert_eq!(page(&AuditQuery { limit: 3, newest: true, ..all.clone() }), (vec![8, 9, 10], None));
    let ann = Some(Principal::parse("user:ann").unwrap());
    assert_eq!(page(&AuditQuery { principal: ann.clone(), limit: 2, ..all.clone() }), (vec![1, 3], Some(3)));
    assert_eq!(page(&AuditQuery { principal: ann, limit: 2, newest: true, ..all.clone() }), (vec![7, 9], None));
    assert_eq!(page(&AuditQuery { verb: Some("end".to_owned()), ..all.clone() }).0.len(), 10);
    assert_eq!(page(&AuditQuery { verb: Some("break".to_owned()), ..all }), (vec![], None));
}

#[test]
fn a_broken_chain_is_found() {
    let mut state = formed();
    (0..3).for_each(|_| drop(state.apply(&act(0, origin(1)))));
    state.check().unwrap();
    let altered = |alter: fn(&mut AuditRing)| {
        let mut state = state.clone();
        alter(std::sync::Arc::make_mut(&mut state.audit));
        state.check().unwrap_err()
    };
    let reason = altered(|ring| {
        let mut record = ring.get(2).unwrap().clone();
        record.reason.push('y');
        ring.entries.insert(2, std::sync::Arc::new(record));
    });
    assert!(reason.contains("entry 2 is wrong"), "{reason}");
    let cut = altered(|ring| drop(ring.entries.remove(&2)));
    assert!(cut.contains("entry 2 is missing"), "{cut}");
    let front = altered(|ring| drop(ring.entries.remove(&1)));
    assert!(front.contains("entry 1 is missing"), "{front}");
}

fn key() -> WriteKey {
    WriteKey { key: GrantId::from_ulid(77), fingerprint: [7; 16] }
}

fn handover() -> Command {
    Command::NoteAct(NoteAct { key: Some(key()), act: NotedAct::HandOver { to: 2 }, end: NotedEnd::Done, at: AT })
        .attributed(origin(3))
}

fn record(key: WriteKey) -> Command {
    Command::RecordKey { key, at: AT }
}

/// A caller can compute the key of a note, and send another request with it before the act.
#[test]
fn no_request_with_the_key_of_a_note_suppresses_the_entry() {
    let noted = NoteAct::key_of(key());
    let session = SessionId(5);
    let Command::OpenSession(open) = open_session(session) else { panic!("another command") };
    for planted in [
        record(WriteKey { key: noted.key, fingerprint: key().fingerprint }),
        Command::OpenSession(OpenSession { key: Some(noted.key), id: SessionId(6), ..open }),
        Command::Acquire(acquire_in(session, noted.key, &["printer"], Mode::Exclusive)),
    ] {
        let mut state = formed();
        for command in [open_session(session), planted.clone(), record(key())] {
            assert!(state.apply(&command).answer.result.is_ok(), "{command:?}");
        }
        let before = state.clone();
        drop(state.apply(&handover()));
        assert_eq!(state.audit().len(), 1, "{planted:?}");
        assert_eq!(state.use_of(&noted.key), before.use_of(&noted.key), "its request is still known: {planted:?}");
        state.check().unwrap();
        assert!(reread(&state) == state);
    }
}

/// The key of a handover is older than its note, so it is forgotten first.
#[test]
fn a_handover_that_is_made_again_has_an_entry_although_the_first_note_is_remembered() {
    let mut state = formed();
    let apply = |state: &mut State, command: &Command| {
        drop(state.apply(command));
        state.audit().len()
    };
    apply(&mut state, &record(key()));
    let recorded_at = state.revision();
    assert_eq!([apply(&mut state, &handover()), apply(&mut state, &handover())], [1, 1], "a repeated request is one act");
    apply(&mut state, &Command::Forget { through: recorded_at });
    apply(&mut state, &record(key()));
    assert_eq!([apply(&mut state, &handover()), apply(&mut state, &handover())], [2, 2], "the request was made again");
    state.check().unwrap();
}
