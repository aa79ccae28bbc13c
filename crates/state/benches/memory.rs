//! The memory of the things in the state: `cargo bench --workspace --bench memory`.
//!
//! The line `max alloc` has the number of allocations and their bytes for all things together, as requested; an
//! allocator rounds each of them up. The line before it has the bytes that the state's budget counts for them
//! (`state/src/weight.rs`). These must be more.

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use fairhold_state::{
    State,
    command::{Acquire, Claimant, Command, IfBusy, Lifetime, Meta, OpenSession, Operation, Owner, Transact, Want, WriteKey},
};
use fairhold_types::{GrantId, LockName, Mode, Path, SessionId, time::WallMillis};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

/// The number of things in each benchmark.
const THINGS: usize = 20_000;

const AT: WallMillis = WallMillis(1_763_700_840_120);

fn main() {
    divan::main();
}

/// Fills a state with the commands for the numbers below `THINGS`. With `forgets`, it forgets the tombstone of each
/// write at once.
fn fill_with<const N: usize>(bencher: Bencher<'_, '_>, forgets: bool, commands: impl Fn(u128) -> [Command; N]) {
    let fill = |mut state: State| {
        for number in 0..THINGS as u128 {
            for command in commands(number) {
                let answer = state.apply(&command).answer;
                assert!(answer.result.is_ok(), "{answer:?}");
            }
            if forgets {
                let through = state.revision();
                assert!(state.apply(&Command::Forget { through }).answer.result.is_ok());
            }
        }
        eprintln!("{} bytes are counted", state.bytes());
        state
    };
    bencher.counter(ItemsCount::new(THINGS)).with_inputs(State::new).bench_local_values(fill);
}

/// The same with one command for each number, whose tombstone is forgotten.
fn fill(bencher: Bencher<'_, '_>, command: impl Fn(u128) -> Command) {
    fill_with(bencher, true, |number| [command(number)]);
}

/// An id that looks random and is the same in each run.
fn id(number: u128) -> u128 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// Idle sessions, opened with or without an idempotency key.
#[divan::bench(args = [false, true], sample_count = 1, sample_size = 1)]
fn idle_sessions(bencher: Bencher<'_, '_>, with_key: bool) {
    fill(bencher, |number| {
        Command::OpenSession(OpenSession {
            key: with_key.then(|| GrantId::from_ulid(id(number))),
            id: SessionId(id(number)),
            timeout_ms: 15_000,
            name: String::new(),
            meta: Meta::new(),
            at: AT,
        })
    });
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn nodes_of_100_bytes(bencher: Bencher<'_, '_>) {
    fill(bencher, |number| {
        Command::Transact(Transact {
            key: Some(WriteKey { key: GrantId::from_ulid(id(number)), fingerprint: [7; 16] }),
            conditions: Vec::new(),
            then: vec![Operation::Put {
                path: Path::parse(&format!("/app/{number:06}")).expect("a path"),
                value: vec![7; 100].into(),
                parents: true,
                lifetime: Lifetime::Persistent,
            }],
            otherwise: None,
            at: AT,
        })
    });
}

/// Sessions with a name and pairs of text of maximum length.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn sessions_with_long_texts(bencher: Bencher<'_, '_>) {
    fill(bencher, |number| {
        Command::OpenSession(OpenSession {
            key: None,
            id: SessionId(id(number)),
            timeout_ms: 15_000,
            name: "n".repeat(256),
            meta: long_meta(),
            at: AT,
        })
    });
}

fn long_meta() -> Meta {
    (0..16).map(|key| (format!("{key:02}"), "v".repeat(62))).collect()
}

fn acquire(lock: &str, number: u128, meta: Meta, owner: String) -> Command {
    Command::Acquire(Acquire {
        grant: GrantId::from_ulid(id(number)),
        id_given: true,
        wants: vec![Want { lock: LockName::parse(lock).expect("a name"), mode: Mode::Exclusive }],
        claimant: Claimant::Anonymous { timeout_ms: 10_000 },
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: owner, given: true },
        meta,
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    })
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn grants_held(bencher: Bencher<'_, '_>) {
    fill(bencher, |number| acquire(&format!("{number:06}"), number, Meta::new(), "ci".to_owned()));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn grants_held_with_long_texts(bencher: Bencher<'_, '_>) {
    let lock = |number: u128| format!("{}{number:06}", "l".repeat(503));
    fill(bencher, |number| acquire(&lock(number), number, long_meta(), "o".repeat(256)));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn grants_that_wait_for_one_lock(bencher: Bencher<'_, '_>) {
    fill(bencher, |number| acquire(&format!("{}", number / 9_000), number, Meta::new(), "ci".to_owned()));
}

/// What each leaves behind: a tombstone, and for each lock a node, statistics and a history entry.
#[divan::bench(args = [1, 1_000], sample_count = 1, sample_size = 1)]
fn grants_released(bencher: Bencher<'_, '_>, of_a_lock: u128) {
    fill_with(bencher, false, |number| {
        let release = Command::Release { grant: GrantId::from_ulid(id(number)), session: None, at: AT };
        [acquire(&format!("{:06}", number / of_a_lock), number, Meta::new(), "ci".to_owned()), release]
    });
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn ids_released_that_were_never_taken(bencher: Bencher<'_, '_>) {
    fill_with(bencher, false, |number| [Command::Release { grant: GrantId::from_ulid(id(number)), session: None, at: AT }]);
}

/// A thousand in each session.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn ended_ids_of_sessions(bencher: Bencher<'_, '_>) {
    fill_with(bencher, false, |number| {
        let session = SessionId(id(number / 1_000));
        let open = OpenSession { key: None, id: session, timeout_ms: 15_000, name: String::new(), meta: Meta::new(), at: AT };
        let release = Command::Release { grant: GrantId::from_ulid(id(number)), session: Some(session), at: AT };
        [Command::OpenSession(open), release]
    });
}

/// A transaction of 100 operations, whose results are remembered with its key.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn remembered_transactions(bencher: Bencher<'_, '_>) {
    fill_with(bencher, false, |number| {
        let check = Operation::Check { path: Path::parse("/").expect("a path"), version: None };
        [Command::Transact(Transact {
            key: Some(WriteKey { key: GrantId::from_ulid(id(number)), fingerprint: [7; 16] }),
            conditions: Vec::new(),
            then: vec![check; 100],
            otherwise: None,
            at: AT,
        })]
    });
}
