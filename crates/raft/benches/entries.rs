//! The cost of encoding the commands of a log entry, of decoding the entry, and of the message that carries it to a
//! follower: `cargo bench --workspace --bench entries`.

use divan::{Bencher, black_box, counter::BytesCount};
use fairhold_raft::{
    encoding::Encodable,
    types::{Batch, Types},
};
use fairhold_state::command::{Acquire, Claimant, Command, IfBusy, LOG_FORMAT, Meta, Owner, Want};
use fairhold_types::{GrantId, LockName, Mode, SessionId, time::WallMillis};
use openraft::{
    EntryPayload, Vote,
    alias::{EntryOf, LogIdOf},
    impls::leader_id_adv::LeaderId,
    raft::AppendEntriesRequest,
};
use openraft_rt_tokio::TokioRuntime;

type Real = Types<TokioRuntime>;
type Entry = EntryOf<Real>;
type Append = AppendEntriesRequest<Real>;

/// Commands in an entry: from a single client, from a busy cluster, and a large one.
const COMMANDS: [usize; 3] = [1, 32, 256];

fn main() {
    divan::main();
}

fn leader() -> LeaderId<u64, u64> {
    LeaderId { term: 3, node_id: 1 }
}

fn log_id(index: u64) -> LogIdOf<Real> {
    LogIdOf::<Real>::new(leader(), index)
}

fn command(index: u128) -> Command {
    Command::Acquire(Acquire {
        grant: GrantId::from_ulid(index << 64 | index),
        id_given: true,
        wants: vec![Want { lock: LockName::parse("orders/42").expect("a name"), mode: Mode::Exclusive }],
        claimant: Claimant::Session(SessionId(u128::MAX / 3)),
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: "ci-7".to_owned(), given: true },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: WallMillis(1_763_700_840_120),
    })
}

fn commands_of(entry: &Entry) -> &[Command] {
    let EntryPayload::Normal(batch) = &entry.payload else { return &[] };
    batch.commands()
}

fn entry(commands: usize) -> Entry {
    let batch = Batch::new((1..=commands as u128).map(command).collect()).expect("they are small");
    Entry { log_id: log_id(1_000_000), payload: EntryPayload::Normal(batch) }
}

fn append(commands: usize) -> Append {
    let vote = Vote { leader_id: leader(), committed: true };
    Append { vote, prev_log_id: Some(log_id(999_999)), entries: vec![entry(commands)], leader_commit: Some(log_id(999_999)) }
}

#[divan::bench(args = COMMANDS)]
fn encode_the_commands(bencher: Bencher<'_, '_>, commands: usize) {
    let entry = entry(commands);
    let commands = commands_of(&entry);
    let bytes = fairhold_codec::encode(LOG_FORMAT, &commands).expect("they are small");
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| fairhold_codec::encode(LOG_FORMAT, &black_box(commands)));
}

#[divan::bench(args = COMMANDS)]
fn decode_an_entry(bencher: Bencher<'_, '_>, commands: usize) {
    let bytes = fairhold_codec::encode(LOG_FORMAT, &Encodable(&entry(commands))).expect("it is small");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| fairhold_codec::decode::<Encodable<Entry>>(LOG_FORMAT, black_box(&bytes)));
}

#[divan::bench(args = COMMANDS)]
fn encode_an_append(bencher: Bencher<'_, '_>, commands: usize) {
    let append = append(commands);
    let bytes = fairhold_codec::encode(LOG_FORMAT, &Encodable(&append)).expect("it is small");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| fairhold_codec::encode(LOG_FORMAT, &Encodable(black_box(&append))));
}

#[divan::bench(args = COMMANDS)]
fn decode_an_append(bencher: Bencher<'_, '_>, commands: usize) {
    let bytes = fairhold_codec::encode(LOG_FORMAT, &Encodable(&append(commands))).expect("it is small");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| fairhold_codec::decode::<Encodable<Append>>(LOG_FORMAT, black_box(&bytes)));
}
