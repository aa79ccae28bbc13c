//! The header of a backup: where and when it was made. It is for people, and for the checks before a restore.

use fairhold_state::State;
use fairhold_types::{ClusterId, ClusterVersion, NodeId, Revision, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Where the state of a backup comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupSource {
    /// A running node, after a read barrier: it has everything that was acknowledged before.
    Barrier,
    /// A running node without a barrier: it may be behind the leader.
    Local,
    /// The data directory of a stopped node: its snapshot and its whole log. It may lack what only other nodes
    /// acknowledged, and may have what nobody acknowledged.
    Stopped,
}

impl BackupSource {
    /// Whether acknowledged writes may be missing from it.
    #[must_use]
    pub fn may_lack_writes(self) -> bool {
        match self {
            BackupSource::Barrier => false,
            BackupSource::Local | BackupSource::Stopped => true,
        }
    }
}

/// A member of the cluster from which a backup comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupMember {
    /// Its id.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for other nodes.
    pub address: String,
    /// Whether it votes.
    pub voter: bool,
}

/// What the node that makes a backup knows beside the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupOrigin {
    /// The node.
    pub node: NodeId,
    /// The release of its program.
    pub release: String,
    /// Where the state comes from.
    pub source: BackupSource,
    /// The term and the index of the last log entry in the state, if they are known.
    pub log: Option<(u64, u64)>,
    /// The members of its cluster.
    pub members: Vec<BackupMember>,
    /// The time, by its clock.
    pub at: WallMillis,
}

/// The header of a backup. Files encode fields by position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    /// The cluster from which it comes; `None` if it was not formed yet.
    pub cluster: Option<ClusterId>,
    /// The node that made it.
    pub node: NodeId,
    /// The release of that node's program.
    pub release: String,
    /// Where the state comes from.
    pub source: BackupSource,
    /// The version of the cluster.
    pub version: ClusterVersion,
    /// The revision at which it was made. The state in the backup is one revision later: the end of all sessions.
    pub revision: Revision,
    /// The term and the index of the last log entry in it, if they are known.
    pub log: Option<(u64, u64)>,
    /// The members of the cluster.
    pub members: Vec<BackupMember>,
    /// When it was made, by the clock of the node.
    pub at: WallMillis,
    /// How many sessions were open. None of them is in it.
    pub sessions: u64,
    /// How many grants were held or waited. None of them is in it.
    pub grants: u64,
    /// How many nodes the state in it has.
    pub nodes: u64,
    /// How many bytes its values have.
    pub value_bytes: u64,
}

impl BackupHeader {
    /// The header of a backup: `before` is the state of the node, and `kept` the one in the backup.
    pub(crate) fn new(origin: BackupOrigin, before: &State, kept: &State) -> BackupHeader {
        let BackupOrigin { node, release, source, log, members, at } = origin;
        BackupHeader {
            cluster: before.cluster(),
            node,
            release,
            source,
            version: before.cluster_version(),
            revision: before.revision(),
            log,
            members,
            at,
            sessions: before.session_count() as u64,
            grants: before.live_grants() as u64,
            nodes: kept.node_count() as u64,
            value_bytes: kept.value_bytes(),
        }
    }
}
