//! Connects the state machine to openraft: the type configuration, the adapter that applies entries, and `Replica`,
//! which proposes commands and serves reads.
//!
//! Build a node in this order: `PeerService::new`, a `Peer` over `PeerService::service`, `Replica::start`,
//! `Replica::set_leader_handler`, then the transport's server over the same service. The transport needs the service to
//! decide which nodes to admit, and the replica needs a transport. `Replica::formed` resolves when the node is part of
//! a cluster.
//!
//! # Model
//!
//! - One queue gathers a node's commands: into log entries on the leader, into requests to the leader elsewhere. A
//!   command is forwarded at most once, and retried only while it is certain not to be in any log.
//! - One read barrier is in flight at a time. A read waits for a barrier that starts after it, then for the local state
//!   to catch up with that barrier.
//! - Only `machine` applies log entries and snapshots to the state. It reports each change to the `ApplyObserver`
//!   before any reader can see it.
//! - `inbound` serves a node only after checking that it is a member with its own data directory. A node of this
//!   cluster that is no member here may have joined since, so it is served too, unless it certainly was removed.
//! - Raft's membership is the only list of members. The state has requests about them, and the leader's `reconciler`
//!   does what they request.
//!
//! # Folders
//!
//! Each folder imports only folders that are listed before it.
//!
//! - `base`: types, errors, configuration, and the messages between nodes.
//! - `machine`: applies log entries, writes and reads snapshots.
//! - `core`: what all parts of a running replica share.
//! - `propose`, `read`: commands and read barriers on their way to the leader.
//! - `background`: tasks that run for as long as the replica does.
//! - `leadership`: formation of the cluster, elections, handover, changes of the members.
//! - `outbound`, `inbound`: Raft's requests to other nodes, and requests from other nodes.

mod background;
mod base;
mod core;
mod inbound;
mod leadership;
mod machine;
mod member_calls;
mod metrics;
mod outbound;
mod progress;
mod proposals;
mod propose;
mod queues;
mod read;
mod replica;
mod start;

pub use base::{
    config::{MemberAddress, ReplicaConfig},
    encoding,
    error::{self, FatalReason, FinalizeError, FormationError, HandoverError, StartError},
    join_token::{JoinSecret, JoinToken, ParseJoinTokenError},
    lost_entries::LostEntries,
    membership::{JoinPhase, JoinRow, MemberChange, MemberRequest, MemberRow, MembersView, MembershipError, RemovedRow},
    peer::{self, ConnectionSide, JoinRefusal, JoinRequest, Joined},
    program::{Program, UnsupportedVersion},
    types,
    upgrade_status::{MemberProgram, UpgradeStatus},
    wall_clock::{WallClock, use_wall_clock, wall_now},
};
pub use core::{
    Leadership,
    handlers::{LeaderHandler, MemberHandler},
    status::{MemberStatus, ReplicaStatus, Role},
};
pub use inbound::peer_service::PeerService;
pub use leadership::restored::{MissingNode, RestoredService, RestoredSnapshot, restored_meta};
pub use machine::{
    apply::ApplyObserver,
    defect, snapshot,
    stopped::{StoppedMember, StoppedNode},
};
pub use proposals::Proposer;
pub use replica::Replica;
