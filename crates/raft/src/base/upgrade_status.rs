//! What a leader tells about the upgrade of its cluster.

use crate::base::program::Program;
use fairhold_types::{ClusterVersion, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Whether and how far the cluster is upgraded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeStatus {
    /// The cluster's version.
    pub version: ClusterVersion,
    /// The next version, if the answering program supports it.
    pub next: Option<ClusterVersion>,
    /// The members with their programs.
    pub members: Vec<MemberProgram>,
    /// Why the upgrade to the next version cannot be finalized yet. Each text names a member and what to do.
    pub blockers: Vec<String>,
}

/// A member and its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberProgram {
    /// The member.
    pub id: NodeId,
    /// Its program; `None` if the answering node has not heard from it since its own start.
    pub program: Option<Program>,
    /// The time since its last acknowledgement; `None` for the leader itself, and if unknown.
    pub silent: Option<Duration>,
}
