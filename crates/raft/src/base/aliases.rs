//! Short names for openraft's types. None of them depends on the runtime.

use crate::base::types::Member;
use fairhold_types::NodeId;
use openraft::StoredMembership;

/// A leadership: the term and the node. Two leaderships are never equal.
pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, NodeId>;
/// A position in the log.
pub(crate) type LogId = openraft::LogId<LeaderId>;
/// The members, and the log entry that set them.
pub(crate) type Members = StoredMembership<LeaderId, NodeId, Member>;
