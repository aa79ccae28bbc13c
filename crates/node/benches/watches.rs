//! The cost of a change for its watchers: `cargo bench --workspace --bench watches`.
//!
//! Apply and the dispatcher find the watchers and wake them. Each watcher then reads in its own task, which is measured
//! separately.

use divan::Bencher;
use fairhold_node::bench_support::WatchBench;
use fairhold_types::Path;
use std::cell::RefCell;

const WATCHERS: [usize; 4] = [0, 1, 100, 1_000];

fn main() {
    divan::main();
}

fn watched(watchers: usize) -> WatchBench {
    WatchBench::new(Path::parse("/app/config").expect("a path"), watchers).expect("a server accepts as many watchers")
}

#[divan::bench(args = WATCHERS, sample_count = 1_000, sample_size = 1)]
fn dispatch_one_change(bencher: Bencher<'_, '_>, watchers: usize) {
    let watched = RefCell::new(watched(watchers));
    bencher.with_inputs(|| watched.borrow_mut().read()).bench_local_values(|_| watched.borrow_mut().change());
}

#[divan::bench(args = WATCHERS, sample_count = 1_000, sample_size = 1)]
fn read_one_change(bencher: Bencher<'_, '_>, watchers: usize) {
    let watched = RefCell::new(watched(watchers));
    bencher.with_inputs(|| watched.borrow_mut().change()).bench_local_values(|_| watched.borrow_mut().read());
}
