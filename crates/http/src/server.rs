//! The sockets: what listens, accepts, limits and times connections. The rest of the crate runs under a simulator too.

pub(crate) mod connection_slots;
pub(crate) mod counted;
pub(crate) mod listener;
