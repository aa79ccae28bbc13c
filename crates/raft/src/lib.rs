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

mod background;
mod base;
mod core;
mod inbound;
mod leadership;
mod machine;
mod metrics;
mod outbound;
mod propose;
mod queues;
mod read;
mod replica;
mod start;

pub use base::{
    config::{MemberAddress, ReplicaConfig},
    error::{self, FatalReason, FormationError, HandoverError, StartError},
    lost_entries::LostEntries,
    peer, types,
};
pub use core::{
    LeaderHandler, Leadership,
    status::{MemberStatus, ReplicaStatus, Role},
};
pub use inbound::peer_service::PeerService;
pub use machine::{apply::ApplyObserver, defect, snapshot};
pub use replica::Replica;
