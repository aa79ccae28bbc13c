//! Framed TCP between nodes: an implementation of raft's `Peer` trait. `proto/peer-protocol.md` specifies the bytes.
//!
//! A node dials every other node once per lane, and answers on the connections that others dialled. This crate does not
//! know what a request means.

pub mod client;
mod exchange;
pub mod frame;
pub mod handshake;
mod handshake_error;
pub mod key;
pub mod lane;
mod lane_context;
mod log_limit;
mod metrics;
pub mod pending;
pub mod reader;
pub mod server;
pub mod slots;
mod socket;

pub use metrics::PeerMetrics;
