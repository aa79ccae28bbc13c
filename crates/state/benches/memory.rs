//! What the state's things take in memory: `cargo bench --workspace --bench memory`. The line `max alloc` has the number of
//! allocations and their bytes, for all the things together, as they were asked for: an allocator rounds each of them up.

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use fairhold_state::{
    State,
    command::{Command, Lifetime, Meta, OpenSession, Operation, Transact, WriteKey},
};
use fairhold_types::{GrantId, Path, SessionId, time::WallMillis};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

/// How many there are of each.
const THINGS: usize = 20_000;

const AT: WallMillis = WallMillis(1_763_700_840_120);

fn main() {
    divan::main();
}

/// Fills a state with what `command` makes of the numbers below `THINGS`, and forgets the id of each write at once.
fn fill(bencher: Bencher<'_, '_>, command: impl Fn(u128) -> Command) {
    let fill = |mut state: State| {
        for number in 0..THINGS as u128 {
            let answer = state.apply(command(number)).answer;
            assert!(answer.result.is_ok(), "{answer:?}");
            let through = state.revision();
            assert!(state.apply(Command::Forget { through }).answer.result.is_ok());
        }
        state
    };
    bencher.counter(ItemsCount::new(THINGS)).with_inputs(State::new).bench_local_values(fill);
}

/// An id as random as ids are, and the same in each run.
fn id(number: u128) -> u128 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// Sessions that do nothing but live, opened with an idempotency key or without.
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
