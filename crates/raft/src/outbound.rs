//! Requests of Raft to other nodes: openraft's network over the transport.

pub(crate) mod network;
pub(crate) mod pipeline;
pub(crate) mod raft_client;
