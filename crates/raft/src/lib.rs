//! openraft's glue: type configuration, the machine's adapter, and `Replica`, which proposes and reads.
//!
//! A node is put together in this order, because the transport needs to know who may speak, and the replica needs a transport:
//! `PeerService::new`, a `Peer` over `PeerService::service`, `Replica::start`, `Replica::set_attendant`, and only then the
//! transport's server, which hands requests to the same service. `Replica::formed` tells when the node is part of a cluster.
//!
//! # Model
//!
//! - One queue gathers a node's commands: into log entries on the leader, into requests to the leader elsewhere. A command is
//!   passed on once at most, and tried again only while it is sure that it is not in a log.
//! - One read barrier is in flight at a time; a read waits for one that starts after it, then for the state here to get there.
//! - Log entries and snapshots reach the state through `machine` alone, and each change is told to the `ApplyObserver` before
//!   anybody can read it.
//! - Nobody is listened to before `service` knows that it is a member with its own data directory.

mod addresses;
mod aliases;
mod barrier;
mod company;
mod complaint;
mod config;
mod core;
mod counters;
pub mod defect;
mod disk_room;
mod elections;
pub mod error;
mod formation;
mod handover;
mod keeper;
mod log_bytes;
mod losses;
mod lost_entries;
mod machine;
mod metrics;
mod network;
pub mod peer;
mod proposals;
mod rank;
mod replica;
mod round_trips;
mod sending;
mod service;
mod shared;
pub mod snapshot;
mod snapshot_schedule;
mod start;
mod status;
pub mod types;
mod vacancy;
mod wire;

pub use config::{MemberAddress, ReplicaConfig};
pub use core::{LeaderHandler, Leadership};
pub use error::{FatalReason, FormationError, HandoverError, StartError};
pub use lost_entries::LostEntries;
pub use machine::ApplyObserver;
pub use replica::Replica;
pub use service::PeerService;
pub use status::{MemberStatus, ReplicaStatus, Role};
