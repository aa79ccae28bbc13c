//! The properties of all code that reads untrusted bytes: no panic, no allocation out of proportion to the bytes, and
//! an answer that describes the problem.
//!
//! Each module is one target: `run` takes bytes and panics if a property does not hold. libFuzzer drives the targets
//! from `fuzz_targets/`; `corpus.rs` replays their corpus in every run of the tests.

pub mod codec;
#[cfg(test)]
mod corpus;
pub mod frames;
pub mod jwt;
pub mod machine;
mod memory;
pub mod paths;
#[cfg(feature = "recovery")]
pub mod recovery;
pub mod requests;
