//! The cost of appending an entry to the log, in memory and on disk: `cargo bench --workspace --bench append` (without
//! `--workspace` RocksDB would be compiled a second time).
//!
//! The log is in the directory for temporary files (`TMPDIR`): on tmpfs a sync costs nothing.

use divan::{Bencher, counter::ItemsCount};
use fairhold_raft::types::Batch;
use fairhold_state::command::Command;
use fairhold_storage::{Storage, TypeConfig};
use fairhold_types::{GrantId, time::WallMillis};
use openraft::{
    EntryPayload,
    alias::{EntryOf, LogIdOf},
    entry::RaftEntry,
    impls::leader_id_adv::LeaderId,
    storage::{IOFlushed, RaftLogStorage},
    type_config::TypeConfigExt,
};
use std::cell::RefCell;
use tempfile::TempDir;

type Entry = EntryOf<TypeConfig>;

/// Commands in an entry.
const COMMANDS: [usize; 3] = [1, 32, 256];

fn main() {
    divan::main();
}

/// A log on disk, and a runtime for it.
struct Bench {
    runtime: tokio::runtime::Runtime,
    storage: Storage,
    index: u64,
    _directory: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a directory");
        let storage = Storage::open(&directory.path().join("data"), 1).expect("a new log");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Bench { runtime, storage, index: 0, _directory: directory }
    }

    fn next(&mut self, commands: usize) -> Entry {
        self.index += 1;
        let grant = GrantId::from_ulid(u128::from(self.index) << 64);
        let command = Command::Withdraw { grant, attempt: 1, at: WallMillis(1_800_000_000_000) };
        let log_id = LogIdOf::<TypeConfig>::new(LeaderId { term: 1, node_id: 1 }, self.index);
        Entry::new(log_id, EntryPayload::Normal(Batch::new(vec![command; commands]).expect("they are small")))
    }

    /// Appends an entry: the log has it in memory when this returns, and on disk when the future resolves.
    fn append(&mut self, entry: Entry) -> impl Future<Output = ()> + use<> {
        let (sender, receiver) = TypeConfig::oneshot();
        self.runtime.block_on(self.storage.log.append([entry], IOFlushed::signal(sender))).expect("the append is accepted");
        async move { receiver.await.expect("the writer reports the result").expect("it is written") }
    }
}

#[divan::bench(args = COMMANDS, sample_count = 500, sample_size = 1)]
fn until_it_can_be_read(bencher: Bencher<'_, '_>, commands: usize) {
    let bench = RefCell::new(Bench::new());
    let written: RefCell<Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>> = RefCell::default();
    let prepare = || {
        // Not measured: waits until the previous entry is on disk.
        if let Some(written) = written.take() {
            bench.borrow().runtime.block_on(written);
        }
        bench.borrow_mut().next(commands)
    };
    let append = |entry| *written.borrow_mut() = Some(Box::pin(bench.borrow_mut().append(entry)));
    bencher.counter(ItemsCount::new(commands)).with_inputs(prepare).bench_local_values(append);
}

#[divan::bench(args = COMMANDS, sample_count = 500, sample_size = 1)]
fn until_it_is_on_the_disk(bencher: Bencher<'_, '_>, commands: usize) {
    let bench = RefCell::new(Bench::new());
    let append = |entry| {
        let written = bench.borrow_mut().append(entry);
        bench.borrow().runtime.block_on(written);
    };
    let prepare = || bench.borrow_mut().next(commands);
    bencher.counter(ItemsCount::new(commands)).with_inputs(prepare).bench_local_values(append);
}
