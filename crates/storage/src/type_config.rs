//! openraft's types as this crate uses them.

use fairhold_raft::types::Types;

/// openraft's types, on the runtime that has real threads and disks.
pub type TypeConfig = Types<openraft_rt_tokio::TokioRuntime>;
