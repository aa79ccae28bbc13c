//! Short names for openraft's types as this crate uses them. None but those with `RT` depends on the runtime.

use crate::{
    machine::Machine,
    types::{Member, Types},
};
use fairhold_types::NodeId;
use openraft::{Raft, StoredMembership};

/// Who leads: the term and the node. Two leaderships are never equal.
pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, NodeId>;
/// A place in the log.
pub(crate) type LogId = openraft::LogId<LeaderId>;
/// The members, and the log entry that made them so.
pub(crate) type Members = StoredMembership<LeaderId, NodeId, Member>;
/// The handle of a running Raft.
pub(crate) type RaftOf<RT> = Raft<Types<RT>, Machine<RT>>;
