//! The work whose instructions `bench/instructions` counts, under valgrind's callgrind.
//!
//! Each case runs its steps one by one within `measured`, and prepares each step outside it. Callgrind counts only what
//! runs within `measured`, and `case_done` makes it write the sum of a case. The program prints the name and the number
//! of steps of each case, in the order of those sums. Run alone, it measures nothing.
//!
//! The allocator is the server's. Nothing here depends on time or randomness, so two runs of a build count nearly the
//! same.

mod calls;
#[path = "../../state/benches/world/mod.rs"]
mod world;

use calls::{NOW, new_id};
use fairhold_http::workbench;
use fairhold_state::command::{Answer, Command, LOG_FORMAT};
use fairhold_types::{Path, Revision, SessionId};
use openraft_rt_tokio::TokioRuntime;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    hint::black_box,
    io::{self, Write as _},
};
use world::{AT, WARM_UP, World, end, opening};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of counted steps in a case.
const STEPS: usize = 500;

/// The number of commands in one log entry of a busy cluster.
const TOGETHER: usize = 32;

fn main() -> io::Result<()> {
    let runtime = calls::runtime();
    let _inside = runtime.enter();
    commands()?;
    bytes()?;
    routes()
}

/// What callgrind counts.
#[inline(never)]
fn measured(step: &mut dyn FnMut()) {
    step();
}

/// Makes callgrind write what it counted since the last call.
#[inline(never)]
fn case_done(name: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{name}\t{STEPS}")
}

/// One case: `step` is counted, `prepare` is not.
fn case<T, R>(name: &str, warm_up: usize, mut prepare: impl FnMut() -> T, mut step: impl FnMut(T) -> R) -> io::Result<()> {
    for _ in 0..warm_up {
        black_box(step(prepare()));
    }
    for _ in 0..STEPS {
        let mut input = Some(prepare());
        let mut result = None;
        measured(&mut || result = input.take().map(&mut step));
        // The result is dropped here, uncounted: in the server other code drops it.
        black_box(result);
    }
    case_done(name)
}

/// Applies a command to the state machine repeatedly. `next` makes the command, and first restores the world.
fn applied(name: &str, world: World, mut next: impl FnMut(&mut World) -> Command) -> io::Result<()> {
    let world = RefCell::new(world);
    // The log frees a command later.
    let apply = |command: Command| (world.borrow_mut().state.apply(&command), command);
    case(name, WARM_UP, || next(&mut world.borrow_mut()), apply)
}

fn commands() -> io::Result<()> {
    let mut world = World::new();
    let me = world.open();
    let mut last: Option<Command> = None;
    applied("apply: acquire of a free lock", world, |world| {
        if let Some(last) = last.take() {
            world.apply(end(&last));
        }
        let acquire = world.acquire(me, "ci-7", "orders/42");
        last = Some(acquire.clone());
        acquire
    })?;

    let mut world = World::new();
    let me = world.open();
    applied("apply: release, nobody waits", world, |world| {
        let acquire = world.acquire(me, "ci-7", "orders/42");
        world.apply(acquire.clone());
        end(&acquire)
    })?;

    let (mut world, mut last) = (World::new(), None::<Command>);
    let (holder, me) = (world.open(), world.open());
    let held = world.acquire(holder, "ci-7", "orders/42");
    world.apply(held);
    applied("apply: acquire that waits", world, |world| {
        if let Some(last) = last.take() {
            world.apply(end(&last));
        }
        let acquire = world.acquire(me, "ci-8", "orders/42");
        last = Some(acquire.clone());
        acquire
    })?;

    let mut world = World::new();
    let me = world.open();
    let mut holder = world.acquire(me, "", "orders/42");
    world.apply(holder.clone());
    applied("apply: release, the next in line is granted", world, |world| {
        let waits = world.acquire(me, "", "orders/42");
        world.apply(waits.clone());
        end(&std::mem::replace(&mut holder, waits))
    })?;

    applied("apply: write of a node, 100 bytes", World::new(), |world| {
        if world.state.revision() > Revision(0) {
            world.forget();
        }
        world.put(100)
    })?;

    let mut closes = None;
    applied("apply: open a session", World::new(), |world| {
        if let Some(session) = closes.replace(SessionId(7)) {
            world.apply(Command::CloseSession { session, at: AT });
        }
        opening(SessionId(7))
    })?;

    let mut world = World::new();
    let sessions: Vec<SessionId> = (0..1_000).map(|_| world.open()).collect();
    let mut turn = sessions.iter().cycle();
    let id = || *turn.next().unwrap_or(&sessions[0]);
    case("a keepalive's look at the state, 1,000 sessions", 0, id, |id| world.state.session_by_id(&id).map(|found| found.number))
}

fn bytes() -> io::Result<()> {
    let mut world = World::new();
    let me = world.open();
    let acquire = world.acquire(me, "ci-7", "orders/42");
    round_trip("an acquire", &acquire)?;
    round_trip("a release", &end(&acquire))?;
    round_trip("a write of 100 bytes", &world.put(100))?;
    let answer: Answer = world.state.apply(&acquire).answer;
    round_trip("an acquire's answer", &answer)?;
    let batch: Vec<_> = (0..TOGETHER).map(|_| world.acquire(me, "ci-7", "orders/42")).collect();
    round_trip("32 acquires", &batch)
}

fn round_trip<T: Serialize + DeserializeOwned>(name: &str, value: &T) -> io::Result<()> {
    let encode = |value: &T| fairhold_codec::encode(LOG_FORMAT, value).expect("it is small");
    let bytes = encode(value);
    case(&format!("encode: {name}"), 10, || value, encode)?;
    case(&format!("decode: {name}"), 10, || &bytes, |bytes| fairhold_codec::decode::<T>(LOG_FORMAT, bytes).expect("it is whole"))
}

fn routes() -> io::Result<()> {
    let read = |request| workbench::read_acquire::<TokioRuntime>(request, new_id()).expect("a call");
    case("HTTP: read an acquire by its query", 10, calls::by_query, read)?;
    case("HTTP: read an acquire by its JSON", 10, calls::by_body, read)?;
    let revision = Revision(1_000_042);
    case("HTTP: write a grant", 10, calls::grant, |grant| workbench::write_grant(grant, revision, NOW))?;
    let (node, path) = (calls::node(), || Path::parse("/app/config").expect("a path"));
    case("HTTP: write a node's value", 10, path, |path| workbench::write_node(path, &node, false, revision))?;
    case("HTTP: write a node's stat", 10, path, |path| workbench::write_node(path, &node, true, revision))
}
