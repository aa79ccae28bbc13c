//! The cost of commands, one at a time, and of encoding and decoding them: `cargo bench -p fairhold-state`.
//!
//! Each sample is one command, so the medians are those of single commands, not of means over many. Preparing and
//! undoing a command is not measured. A keepalive is not a command: the machine only has to find the session.

mod world;

use crate::world::{WARM_UP, World, end};
use divan::{Bencher, black_box, counter::BytesCount};
use fairhold_state::{
    command::{Command, LOG_FORMAT, Outcome},
    record::SessionRecord,
};
use fairhold_types::SessionId;
use std::cell::RefCell;

/// Unrelated actors. Each holds `HELD_BY_EACH` locks and waits for a lock of the next actor.
const ACTORS: usize = 10_000;
const HELD_BY_EACH: usize = 10;

/// The length of the chain of holders that the measured request waits for.
const CHAIN: usize = 3;

fn main() {
    divan::main();
}

/// A world with `ACTORS` actors that hold and wait only among themselves, or without any.
fn among(around: &str) -> World {
    let mut world = World::new();
    let actors = if around == CROWDED { ACTORS } else { 0 };
    let sessions: Vec<SessionId> = (0..actors).map(|_| world.open()).collect();
    for (actor, session) in sessions.iter().enumerate() {
        for lock in 0..HELD_BY_EACH {
            let held = world.acquire(*session, "worker", &format!("elsewhere/{actor}/{lock}"));
            assert!(matches!(world.apply(held), Outcome::Held(_)), "it is free");
        }
    }
    // The last actor waits, under another owner, for a lock of the one before it, so that there is no cycle.
    for (actor, session) in sessions.iter().enumerate() {
        let next = if actor + 1 < ACTORS { actor + 1 } else { actor - 1 };
        let owner = if actor + 1 < ACTORS { "worker" } else { "another" };
        let waits = world.acquire(*session, owner, &format!("elsewhere/{next}/0"));
        assert!(matches!(world.apply(waits), Outcome::Queued(_)), "it is held");
    }
    world
}

/// Measures the commands of `next`, one at a time. `undo` restores the world after each.
fn measure(
    bencher: Bencher<'_, '_>,
    mut world: World,
    mut next: impl FnMut(&mut World) -> Command,
    mut undo: impl FnMut(&mut World, &Command),
) {
    for _ in 0..WARM_UP {
        let command = next(&mut world);
        world.apply(command.clone());
        undo(&mut world, &command);
    }
    let world = RefCell::new(world);
    let last: RefCell<Option<Command>> = RefCell::new(None);
    let prepare = || {
        let mut world = world.borrow_mut();
        if let Some(last) = last.borrow_mut().take() {
            undo(&mut world, &last);
        }
        let command = next(&mut world);
        *last.borrow_mut() = Some(command.clone());
        command
    };
    // The answer is dropped after the sample.
    bencher.with_inputs(prepare).bench_local_values(|command| world.borrow_mut().state.apply(&command));
}

/// What else is in the state: nothing, or 100,000 held locks and 10,000 waiters that are unrelated to the command.
const ALONE: &str = "alone";
const CROWDED: &str = "100,000 held, 10,000 wait";
const AROUND: [&str; 2] = [ALONE, CROWDED];

/// A request that must wait, by an actor that holds something, for the first of a chain of `CHAIN` actors that each
/// hold and wait.
fn waits(bencher: Bencher<'_, '_>, around: &str, owner: &'static str) {
    let mut world = among(around);
    let me = world.open();
    let held = world.acquire(me, owner, "mine");
    world.apply(held);
    let chain: Vec<SessionId> = (0..=CHAIN).map(|_| world.open()).collect();
    for (link, session) in chain.iter().enumerate() {
        let held = world.acquire(*session, "link", &format!("chain/{link}"));
        world.apply(held);
    }
    for (link, session) in chain[..CHAIN].iter().enumerate() {
        let waits = world.acquire(*session, "link", &format!("chain/{}", link + 1));
        assert!(matches!(world.apply(waits), Outcome::Queued(_)), "it is held");
    }
    let next = move |world: &mut World| world.acquire(me, owner, "chain/0");
    let undo = |world: &mut World, command: &Command| {
        assert!(matches!(world.apply(end(command)), Outcome::Done), "it was queued");
    };
    measure(bencher, world, next, undo);
}

#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn acquire_that_waits_unchecked(bencher: Bencher<'_, '_>, around: &str) {
    waits(bencher, around, "");
}

#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn acquire_that_waits_checked_for_deadlock(bencher: Bencher<'_, '_>, around: &str) {
    waits(bencher, around, "me");
}

#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn acquire_of_a_free_lock(bencher: Bencher<'_, '_>, around: &str) {
    let mut world = among(around);
    let me = world.open();
    let next = move |world: &mut World| world.acquire(me, "me", "free");
    measure(bencher, world, next, |world, command| drop(world.apply(end(command))));
}

/// The same while a copy of the state exists, as if each command could be undone: nothing that the copy shares is
/// changed in place.
#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn acquire_of_a_free_lock_beside_a_copy(bencher: Bencher<'_, '_>, around: &str) {
    let world = RefCell::new(among(around));
    let me = world.borrow_mut().open();
    let last: RefCell<Option<Command>> = RefCell::new(None);
    let prepare = || {
        let mut world = world.borrow_mut();
        if let Some(last) = last.borrow_mut().take() {
            drop(world.apply(end(&last)));
        }
        let command = world.acquire(me, "me", "free");
        *last.borrow_mut() = Some(command.clone());
        (command, world.state.clone())
    };
    bencher.with_inputs(prepare).bench_local_values(|(command, copy)| {
        let applied = world.borrow_mut().state.apply(&command);
        drop(copy);
        applied
    });
}

#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn release_to_the_next_in_line(bencher: Bencher<'_, '_>, around: &str) {
    let mut world = among(around);
    let me = world.open();
    let first = world.acquire(me, "", "busy");
    world.apply(first.clone());
    let mut holder = first;
    // One more grant queues behind the holder. The measured release grants it.
    let next = move |world: &mut World| {
        let waits = world.acquire(me, "", "busy");
        world.apply(waits.clone());
        end(&std::mem::replace(&mut holder, waits))
    };
    measure(bencher, world, next, |_, _| {});
}

#[divan::bench(args = AROUND, sample_count = 5_000, sample_size = 1)]
fn write_of_a_node(bencher: Bencher<'_, '_>, around: &str) {
    measure(bencher, among(around), |world| world.put(100), |world, _| world.forget());
}

#[divan::bench(args = AROUND)]
fn session_of_a_keepalive(bencher: Bencher<'_, '_>, around: &str) {
    let mut world = among(around);
    let id = world.open();
    bencher.bench_local(|| world.state.session_by_id(black_box(&id)).map(|session: &SessionRecord| session.number));
}

/// The commands to encode and decode.
const COMMANDS: [&str; 2] = ["acquire", "write of 100 bytes"];

fn command(name: &str) -> Command {
    let mut world = World::new();
    if name == "acquire" { world.acquire(SessionId(u128::MAX / 3), "ci-7", "orders/42") } else { world.put(100) }
}

#[divan::bench(args = COMMANDS)]
fn encode(bencher: Bencher<'_, '_>, name: &str) {
    let command = command(name);
    let bytes = fairhold_codec::encode(LOG_FORMAT, &command).expect("it is small");
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| fairhold_codec::encode(LOG_FORMAT, black_box(&command)));
}

#[divan::bench(args = COMMANDS)]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = fairhold_codec::encode(LOG_FORMAT, &command(name)).expect("it is small");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| fairhold_codec::decode::<Command>(LOG_FORMAT, black_box(&bytes)));
}
