//! Framed TCP between nodes: one of the two transports behind raft's `Peer` trait. `proto/peer-protocol.md` has the bytes.
//!
//! A node dials each other node once for each lane, and answers what others dialled. Nothing here knows what a request means.

pub mod client;
pub mod frame;
pub mod handshake;
mod handshake_error;
pub mod key;
pub mod lane;
mod lane_context;
pub mod lobby;
mod meeting;
mod metrics;
mod notice;
pub mod places;
pub mod reader;
pub mod server;
mod socket;

pub use metrics::PeerMetrics;
