//! The sockets: listens for, accepts, limits and times connections. The rest of the crate also runs under a simulator.

pub(crate) mod connection_limits;
pub(crate) mod connection_slots;
pub(crate) mod handshake_slots;
pub(crate) mod listener;
