//! Shows each invariant a correct history, and then a violation.

mod rights;
mod stage;

use crate::facts::Fact;
use crate::watch_events::Watched;
use fairhold_state::State;
use fairhold_state::command::{ActOrigin, Command, Event, Lifetime, SetLock};
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantNumber, Incarnation, LockName, Mode, Revision, SessionId, SessionNumber, Timing,
};
use rights::{a_mark_that_stays, decisions, needless_refusal, quotas, user_rights, watchers_rights};
use stage::{AT, BLOCK, Judged, SECOND, Stage, acquire, create, everything, fresh, granted, id, lock, open_session, release};
use std::collections::BTreeSet;

/// A state with an ephemeral node of a session that does not exist. No command leads to it, so it is assembled from the
/// snapshots of two states.
fn unsound() -> State {
    let blocks = |first: [Command; 2]| {
        let (mut state, ephemeral) = (State::new(), Lifetime::Ephemeral { session: SessionId(1) });
        let nodes = [create("/a-block", BLOCK, Lifetime::Persistent), create("/z", 1, ephemeral)];
        first.into_iter().chain(nodes).for_each(|command| drop(state.apply(&command).answer.result.unwrap()));
        state.check().unwrap();
        let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
        assert_eq!(blocks.len(), 2, "the sessions are in the first, and the ephemeral node is in the second");
        blocks
    };
    let form = Command::FormCluster { cluster: ClusterId(1) };
    // The session's number is the revision at which it was opened.
    let (late, early) = (blocks([form.clone(), open_session()]), blocks([open_session(), form]));
    State::from_snapshot_blocks([&late[0], &early[1]].into_iter()).unwrap()
}

fn machine(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let state = unsound();
    stage.show_as(1, true, &state, state.revision(), &[])
}

fn holders(stage: &mut Stage) -> Judged {
    let [first, second] = [1, 2].map(|id| stage.acquire(id, |acquire| acquire.limit = Some(2)));
    // The invariant does not see the administrator's limit: it sees two grants that hold a lock with a limit of 1.
    let (key, by) = (None, "an administrator".to_owned());
    let set = SetLock { key, lock: lock(), limit: Some(1), max_waiters: None, max_hold_ms: None, by, at: AT };
    stage.state.apply(&Command::SetLock(set)).answer.result.unwrap();
    assert_eq!(stage.state.lock(&lock()).holders.len(), 2);
    let silent = Event::Holds { lock: lock(), grant: first, holds: 1 };
    stage.show(&[silent]).unwrap_err();
    stage.show(&[granted(second, second.0)])
}

fn order(stage: &mut Stage) -> Judged {
    let grants = [1, 2, 3].map(|id| stage.acquire(id, |_| ()));
    stage.show(&[granted(grants[1], 8)]).unwrap();
    stage.show(&[granted(grants[2], 8)])
}

fn tokens(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let grant = stage.acquire(1, |_| ());
    let state = stage.state.clone();
    stage.show_as(1, true, &state, Revision(grant.0 - 1), &[granted(grant, grant.0 - 1)])
}

fn agreement(stage: &mut Stage) -> Judged {
    let before = stage.state.clone();
    let events = stage.state.apply(&Command::Acquire(acquire(1))).events;
    stage.show(&events).unwrap();
    let state = stage.state.clone();
    stage.show_as(2, false, &state, state.revision(), &events).unwrap();
    stage.show_as(3, false, &state, state.revision(), &events[..1]).unwrap_err();
    stage.show_as(3, false, &before, state.revision(), &events)
}

fn durability(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |_| ());
    let held = |number| Fact::Held { lock: lock(), number, token: FencingToken(grant.0) };
    stage.invariant.observe(&held(grant.0)).unwrap();
    stage.invariant.observe(&held(grant.0 + 1))
}

fn freshness(stage: &mut Stage) -> Judged {
    let answered = |floor| Fact::Answered { what: "GET".to_owned(), floor: Revision(floor), revision: Revision(4) };
    stage.invariant.observe(&answered(4)).unwrap();
    stage.invariant.observe(&answered(5))
}

fn registers(stage: &mut Stage) -> Judged {
    stage.right(create("/x", 1, Lifetime::Persistent));
    let read = |value: &str| {
        let (path, value) = ("/x".to_owned(), value.to_owned());
        Fact::Read { path, version: 0, value, revision: Revision(1) }
    };
    stage.invariant.observe(&read("x")).unwrap();
    stage.invariant.observe(&read("y"))
}

fn fences(stage: &mut Stage) -> Judged {
    let token = FencingToken(stage.acquire(1, |_| ()).0);
    let fenced = |revision| Fact::Fenced { lock: lock(), token, exclusive: true, revision };
    stage.invariant.observe(&fenced(stage.state.revision())).unwrap();
    stage.right(release(1));
    stage.invariant.observe(&fenced(stage.state.revision().next()))
}

fn leases(stage: &mut Stage) -> Judged {
    stage.right(open_session());
    let session = SessionNumber(stage.state.revision().0);
    stage.invariant.observe(&Fact::Renewed { session, sent: stage.at, ttl: SECOND * 3 }).unwrap();
    stage.at += SECOND * 2;
    stage.apply(Command::ExpireSession { session, at: AT })
}

fn beliefs(stage: &mut Stage) -> Judged {
    let first = stage.acquire(1, |_| ());
    stage.right(release(1));
    let second = stage.acquire(2, |_| ());
    let believed = |grant: GrantNumber, from: u32| {
        let (token, mode) = (FencingToken(grant.0), Mode::Exclusive);
        Fact::Believed { lock: lock(), mode, token, from: SECOND * from, until: SECOND * (from + 2) }
    };
    stage.invariant.observe(&believed(first, 0)).unwrap();
    stage.invariant.observe(&believed(second, 1))
}

fn delays(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.lock_delay_ms = 2_000);
    let session = stage.state.contender(grant).unwrap().session;
    stage.right(Command::ExpireSession { session, at: AT });
    stage.at += SECOND;
    stage.apply(Command::EndCooling { grants: vec![grant], at: AT })
}

fn watches(stage: &mut Stage) -> Judged {
    stage.right(create("/x", 1, Lifetime::Persistent));
    stage.right(create("/y", 1, Lifetime::Persistent));
    let received = |names: &[(u64, &str)]| {
        let lines = names.iter().map(|(at, name)| (Revision(*at), format!("created path={name}"))).collect();
        Fact::WatchReceived { watched: Watched::Node("/y".to_owned()), after: Revision(0), lines, through: Revision(2) }
    };
    stage.invariant.observe(&received(&[(2, "/y")])).unwrap();
    stage.invariant.observe(&received(&[]))
}

fn elections(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.value = Some(b"x".to_vec()));
    let led = |value: &str| Fact::Led { election: lock(), token: FencingToken(grant.0), version: 0, value: value.to_owned() };
    stage.invariant.observe(&led("x")).unwrap();
    stage.invariant.observe(&led("y"))
}

fn bounds(stage: &mut Stage) -> Judged {
    let grant = stage.acquire(1, |acquire| acquire.max_hold_ms = Some(5_000));
    stage.at += SECOND * 4;
    stage.apply(Command::EndHolds { holds: vec![(grant, FencingToken(grant.0))], at: AT })
}

fn echoes(stage: &mut Stage) -> Judged {
    stage.acquire(1, |_| ());
    stage.apply(Command::Downgrade { grant: id(1), key: None, at: AT })
}

fn liveness(stage: &mut Stage) -> Judged {
    stage.at = SECOND * 10;
    let token = FencingToken(stage.acquire(1, |_| ()).0);
    let handed =
        |received| Fact::AcquireAnswered { lock: lock(), token, sent: SECOND, received: SECOND * received, within: SECOND };
    stage.invariant.observe(&handed(11)).unwrap();
    stage.invariant.observe(&handed(12))
}

fn endings(stage: &mut Stage) -> Judged {
    stage.acquire(1, |_| ());
    let held = stage.state.clone();
    stage.right(release(1));
    stage.invariant.finished(&stage.state).unwrap();
    stage.invariant.finished(&held)
}

fn punctual(stage: &mut Stage) -> Judged {
    stage.acquire(1, |acquire| acquire.max_hold_ms = Some(5_000));
    let calm = |at| Fact::Term { term: 1, calm: true, at };
    stage.invariant.observe(&calm(stage.at)).unwrap();
    stage.invariant.observe(&calm(stage.at + SECOND * 5)).unwrap();
    stage.invariant.observe(&calm(stage.at + SECOND * 60))
}

fn versions(stage: &mut Stage) -> Judged {
    let older = State::new();
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    stage.right(open_session());
    stage.show_as(2, true, &older, stage.state.revision().next(), &[])
}

fn early_commands(stage: &mut Stage) -> Judged {
    stage.right(Command::FormCluster { cluster: ClusterId(1) });
    stage.apply(Command::SetTiming { key: None, timing: Timing::Wan, by: String::new(), at: AT })
}

fn members(stage: &mut Stage) -> Judged {
    let joined = |incarnation| Fact::Joined { node: 4, incarnation: Incarnation(incarnation) };
    stage.invariant.observe(&joined(40)).unwrap();
    stage.invariant.observe(&joined(50))
}

fn attributed(address: &str, lock: &str) -> Command {
    let lock = LockName::parse(lock).unwrap();
    let (limit, max_waiters, max_hold_ms) = (Some(2), None, None);
    let set = Command::SetLock(SetLock { key: None, lock, limit, max_waiters, max_hold_ms, by: String::new(), at: AT });
    set.attributed(ActOrigin { address: address.to_owned(), ..ActOrigin::of_node() })
}

/// Another node has another entry.
fn another_act(stage: &mut Stage) -> Judged {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let mut other = stage.state.clone();
    stage.right(attributed("10.0.0.1", "a"));
    other.apply(&attributed("10.0.0.2", "a"));
    stage.show_as(2, true, &other, other.revision(), &[])
}

/// Another node has lost its entries.
fn no_act(stage: &mut Stage) -> Judged {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let other = stage.state.clone();
    stage.right(attributed("10.0.0.1", "a"));
    let revision = stage.state.revision();
    stage.show_as(2, true, &other, other.revision(), &[]).unwrap();
    stage.show_as(2, true, &other, revision, &[])
}

type Plant = (&'static str, fn(&mut Stage) -> Judged);

const PLANTS: [Plant; 30] = [
    ("the state is sound", machine),
    ("holders are compatible", holders),
    ("nobody is overtaken", order),
    ("tokens grow", tokens),
    ("nodes agree", agreement),
    ("nothing acknowledged is lost", durability),
    ("answers are fresh", freshness),
    ("a version has one value", registers),
    ("fences hold", fences),
    ("sessions live as long as they were told", leases),
    ("two never believe that they hold", beliefs),
    ("delays last", delays),
    ("a watch tells everything once", watches),
    ("a leader's value is told once", elections),
    ("holds last as long as they may", bounds),
    ("a request acts once", echoes),
    ("without faults, nobody waits", liveness),
    ("every grant ends", endings),
    ("what is over ends soon", punctual),
    ("the cluster's version never falls", versions),
    ("the cluster's version never falls", early_commands),
    ("members change safely", members),
    ("the audit is one chain", another_act),
    ("the audit is one chain", no_act),
    ("users change only what they may", user_rights),
    ("nodes decide alike", decisions),
    ("marks move when something is lost", needless_refusal),
    ("marks move when something is lost", a_mark_that_stays),
    ("watchers see only what they may", watchers_rights),
    ("quotas bound what tenants use", quotas),
];

#[test]
fn each_invariant_holds_until_its_violation_is_planted() {
    for (name, plant) in PLANTS {
        let mut stage = Stage { state: State::new(), invariant: fresh(name), at: SECOND };
        assert!(plant(&mut stage).is_err(), "{name}: the violation is not found");
    }
}

#[test]
fn each_invariant_has_a_plant() {
    let names: BTreeSet<&str> = everything().iter().map(|invariant| invariant.name()).collect();
    assert_eq!(names, PLANTS.map(|(name, _)| name).into_iter().collect());
}
