//! The trace of a run, as one number: two runs that differ anywhere have different traces. Also the virtual time since
//! the start.

use openraft_rt_sim::SimInstant;
use std::{cell::Cell, time::Duration};

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

thread_local! {
    static HASH: Cell<u64> = const { Cell::new(FNV_START) };
    static LOUD: Cell<bool> = const { Cell::new(false) };
}

/// Starts a new trace; `loud` prints every event to standard error.
pub(crate) fn begin(loud: bool) {
    HASH.set(FNV_START);
    LOUD.set(loud);
}

/// The trace so far.
pub(crate) fn hash() -> u64 {
    HASH.get()
}

/// Virtual time since the world began.
pub(crate) fn since_start() -> Duration {
    SimInstant::try_now().map_or(Duration::ZERO, SimInstant::elapsed_since_start)
}

fn mix(word: u64) {
    HASH.set((HASH.get() ^ word).wrapping_mul(FNV_PRIME).rotate_left(23));
}

/// Adds a turn of a task.
pub(crate) fn step(host: u64, task: u64) {
    mix(u64::try_from(since_start().as_nanos()).unwrap_or(u64::MAX));
    mix(host << 48 ^ task);
}

/// Adds bytes that were sent.
pub(crate) fn bytes(bytes: &[u8]) {
    bytes.chunks(8).for_each(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(u64::from_le_bytes(word));
    });
    mix(bytes.len() as u64);
}

/// Adds an event, and prints it if the run is loud.
pub(crate) fn event(text: &str) {
    bytes(text.as_bytes());
    if LOUD.get() {
        eprintln!("{:>12.6} {text}", since_start().as_secs_f64());
    }
}
