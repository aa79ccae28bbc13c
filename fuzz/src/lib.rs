//! What must hold for any bytes at all, wherever Fairhold reads bytes of strangers: no panic, no allocation that the bytes do not
//! pay for, and an answer that says what was wrong.
//!
//! Each module is one target: `run` takes bytes and panics where something does not hold. libFuzzer drives them from
//! `fuzz_targets/`; `tests/corpus.rs` replays what it found, in every run of the tests.

pub mod codec;
pub mod frames;
pub mod machine;
mod memory;
pub mod paths;
#[cfg(feature = "recovery")]
pub mod recovery;
pub mod requests;
