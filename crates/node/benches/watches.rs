//! What it costs to tell those who watch of a change: `cargo bench --workspace --bench watches`.
//!
//! Apply and the crier find them and wake them; then each looks for itself, in a task of its own, which is not part of this.

use divan::Bencher;
use fairhold_node::bench_support::WatchBench;
use fairhold_types::Path;
use std::cell::RefCell;

const WATCHERS: [usize; 4] = [0, 1, 100, 1_000];

fn main() {
    divan::main();
}

fn square(watchers: usize) -> WatchBench {
    WatchBench::new(Path::parse("/app/config").expect("a path"), watchers).expect("there is room for them")
}

#[divan::bench(args = WATCHERS, sample_count = 1_000, sample_size = 1)]
fn one_change_is_told(bencher: Bencher<'_, '_>, watchers: usize) {
    let square = RefCell::new(square(watchers));
    bencher.with_inputs(|| square.borrow_mut().look()).bench_local_values(|_| square.borrow_mut().change());
}

#[divan::bench(args = WATCHERS, sample_count = 1_000, sample_size = 1)]
fn all_look_at_it(bencher: Bencher<'_, '_>, watchers: usize) {
    let square = RefCell::new(square(watchers));
    bencher.with_inputs(|| square.borrow_mut().change()).bench_local_values(|_| square.borrow_mut().look());
}
