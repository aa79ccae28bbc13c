//! Framed TCP between nodes: an implementation of raft's `Peer` trait. `proto/peer-protocol.md` specifies the bytes.
//!
//! A node dials every other node once per lane, and answers on the connections that others dialled. This crate does not
//! know what a request means. A node that wants to join a cluster dials one of its nodes once, with a join token.

mod acceptor;
pub mod client;
mod compat;
mod exchange;
pub mod frame;
pub mod handshake;
mod handshake_error;
pub mod join;
pub mod join_slots;
mod join_texts;
pub mod key;
pub mod lane;
mod lane_context;
mod log_limit;
mod metrics;
mod peer_socket;
pub mod pending;
pub mod reader;
pub mod security;
pub mod serve_join;
pub mod server;
pub mod slots;
mod socket;

pub use metrics::PeerMetrics;
