//! The wall clock, which `raft` reads for both crates. Its times are for people; the only rule that depends on them is
//! when a join token expires.

pub use fairhold_raft::use_wall_clock;
pub(crate) use fairhold_raft::wall_now;
