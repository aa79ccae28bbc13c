//! openraft's types as this crate uses them.

use fairhold_raft::types::Types;
use openraft::alias::{EntryOf, LogIdOf, VoteOf};

/// openraft's types, on the runtime that has real threads and disks.
pub type TypeConfig = Types<openraft_rt_tokio::TokioRuntime>;

pub(crate) type Entry = EntryOf<TypeConfig>;
pub(crate) type LogId = LogIdOf<TypeConfig>;
pub(crate) type Vote = VoteOf<TypeConfig>;
