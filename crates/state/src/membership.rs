//! What the cluster knows about changes of its members: join tokens, pending joins and removals, the ids of removed
//! nodes, and settings of members.
//!
//! Raft's membership is the only list of members. This is what was requested and what was given out; the leader makes
//! the members follow it. Every id is given to one node, once.

mod check;
mod fault;
mod joins;
mod reads;
mod records;
mod removals;
mod requests;
mod settings;
#[cfg(test)]
mod tests;
mod token_times;
mod tokens;

pub use fault::JoinTokenFault;
pub use records::{Join, JoinToken, Placement, Removal, Removed};
pub use requests::{AdmitNode, CreateJoinToken, RequestRemoval, SetMember};

use fairhold_types::{JoinTokenNumber, NodeId, Timing};
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

/// Join tokens, pending changes of members, removed nodes, and settings. A clone shares all its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// No id up to this one is given to a node again.
    ids_through: NodeId,
    /// How many join tokens were ever created.
    tokens_created: u64,
    tokens: OrdMap<JoinTokenNumber, JoinToken>,
    joins: OrdMap<NodeId, Join>,
    removals: OrdMap<NodeId, Removal>,
    removed: OrdMap<NodeId, Removed>,
    /// The members whose placement differs from the default.
    placements: OrdMap<NodeId, Placement>,
    /// The members whose address the cluster has set.
    set_addresses: OrdSet<NodeId>,
    timing: Timing,
}
