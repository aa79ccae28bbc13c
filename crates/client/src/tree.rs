//! The tree of nodes: reads, writes and transactions.

pub(crate) mod nodes;
pub(crate) mod transaction;
pub(crate) mod write;
