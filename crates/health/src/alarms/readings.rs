//! What a node sees at one look at itself.

use crate::divergence::Divergence;
use fairhold_types::{
    ClusterVersion, NodeId, Timing,
    dto::{AuditStatus, CertificateStatus},
    time::WallMillis,
};
use std::{collections::BTreeSet, time::Duration};

/// What a node sees at one look at itself.
#[derive(Debug, Clone)]
pub struct NodeReading {
    /// When, on the node's monotonic clock, since some fixed moment.
    pub now: Duration,
    /// When, for people.
    pub wall: WallMillis,
    /// Its machine and its process.
    pub machine: MachineReading,
    /// Its cluster.
    pub cluster: ClusterReading,
}

/// What a node sees of its machine and its process. What it cannot read is missing, and raises no alarm.
#[derive(Debug, Clone, Default)]
pub struct MachineReading {
    /// The file system of its data directory.
    pub disk: Option<DiskReading>,
    /// The syncs of its log since it started.
    pub syncs: Option<SyncReading>,
    /// Its memory.
    pub memory: Option<MemoryReading>,
    /// Its open files and sockets. No alarm depends on them.
    pub open_files: Option<OpenFilesReading>,
    /// Its certificates.
    pub certificates: Vec<CertificateStatus>,
    /// Its audit log, if it has one.
    pub audit: Option<AuditStatus>,
    /// Its scheduled backups, if it makes any. Before its cluster has formed, there is nothing to back up.
    pub backups: Option<BackupReading>,
    /// The members in its configuration, if it has a list.
    pub configured_members: Option<BTreeSet<NodeId>>,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskReading {
    /// The bytes that the node may still write.
    pub free_bytes: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
}

/// The syncs of a log, counted since the node started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncReading {
    /// How many there were.
    pub all: u64,
    /// How many of them took longer than `bound`.
    pub slow: u64,
    /// At least the heartbeat interval.
    pub bound: Duration,
}

/// The memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReading {
    /// The bytes that it uses.
    pub resident_bytes: u64,
    /// The bytes that it may use.
    pub limit_bytes: u64,
}

/// The open files and sockets of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesReading {
    /// How many are open.
    pub open: u64,
    /// How many can be open, if there is a limit.
    pub max: Option<u64>,
}

/// The scheduled backups of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReading {
    /// Their folder, for people.
    pub dir: String,
    /// How often one is to be made.
    pub every: Duration,
    /// The age of the newest one in the folder, if one was found.
    pub age: Option<Duration>,
    /// The time since this process began to make them.
    pub running: Duration,
    /// Why this process could not make one, unless it has made one since.
    pub fault: Option<String>,
}

/// What a node sees of its cluster.
#[derive(Debug, Clone)]
pub struct ClusterReading {
    /// This node.
    pub id: NodeId,
    /// The leader: this node, or one that it has just heard from.
    pub leader: Option<NodeId>,
    /// The timing profile.
    pub timing: Timing,
    /// The cluster version to which the cluster can be upgraded with this node's program.
    pub next_version: Option<ClusterVersion>,
    /// The size of the state in bytes.
    pub state_bytes: u64,
    /// The budget of the state, if it is known.
    pub state_bytes_max: Option<u64>,
    /// The last entry that is no longer in this node's log.
    pub purged: Option<u64>,
    /// The members; empty before the cluster has formed.
    pub members: Vec<MemberReading>,
    /// The nodes whose join is not complete.
    pub joins: Vec<NodeId>,
    /// The removed nodes that the cluster remembers.
    pub removed: Vec<NodeId>,
    /// Nodes with different states, if the last comparison found any.
    pub divergence: Option<Divergence>,
}

/// What a node sees of a member. Only the leader sees more than that there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReading {
    /// The member.
    pub id: NodeId,
    /// Whether it votes.
    pub voter: bool,
    /// The last entry that it has acknowledged.
    pub matched: Option<u64>,
    /// How many entries it is behind the leader.
    pub lag: Option<u64>,
    /// The time since its last acknowledgement.
    pub silent: Option<Duration>,
    /// The median of its round trips.
    pub round_trip_p50: Option<Duration>,
    /// Their 99th percentile.
    pub round_trip_p99: Option<Duration>,
}

impl ClusterReading {
    /// Whether this node leads, as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leader == Some(self.id)
    }
}
