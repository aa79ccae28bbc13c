//! The members as a log entry or a snapshot lists them.

use fairhold_raft::types::Member;
use fairhold_types::{Incarnation, NodeId};
use openraft::Membership;
use std::collections::{BTreeMap, BTreeSet};

/// The members as a log entry or a snapshot lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemberList {
    /// The voters. Two sets while they change: the old ones and the new ones decide together.
    pub(crate) voters: Vec<BTreeSet<NodeId>>,
    /// All members, with their data directories.
    pub(crate) nodes: BTreeMap<NodeId, Incarnation>,
}

impl MemberList {
    /// Whether the voters are changing.
    pub(crate) fn is_joint(&self) -> bool {
        self.voters.len() > 1
    }

    /// The voters after the change.
    pub(crate) fn next_voters(&self) -> BTreeSet<NodeId> {
        self.voters.last().cloned().unwrap_or_default()
    }
}

impl From<&Membership<NodeId, Member>> for MemberList {
    fn from(members: &Membership<NodeId, Member>) -> MemberList {
        MemberList {
            voters: members.get_joint_config().clone(),
            nodes: members.nodes().map(|(id, member)| (*id, member.incarnation)).collect(),
        }
    }
}
