//! Requests of other nodes: admission, and the answer to each.

pub(crate) mod admission;
pub(crate) mod append;
pub(crate) mod candidate;
pub(crate) mod forwarded;
pub(crate) mod heartbeat;
pub(crate) mod incoming_snapshot;
pub(crate) mod peer_service;
pub(crate) mod refusal_log;
pub(crate) mod term_limit;
