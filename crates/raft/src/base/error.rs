//! How a replica can fail. A caller can always tell whether a command may have taken effect.
//!
//! A storage failure is not among these errors: it stops the node.

use crate::base::{lost_entries::LostEntries, peer::Refusal, program::UnsupportedVersion};
use fairhold_types::{ClusterId, ClusterVersion, Incarnation, NodeId, Revision};
use std::io;

/// Why a proposal has no answer from the state machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// Definitely not in the log: retrying is safe.
    #[error("not proposed: {0}")]
    NotProposed(#[from] NotProposed),
    /// May have been committed, or may still be: retry with the same idempotency key.
    #[error("the outcome is unknown: {0}")]
    Unknown(#[from] UnknownReason),
}

/// Why a command definitely did not enter the log, or a read was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum NotProposed {
    /// No leader was known or reachable within the time limit.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// Too many commands are waiting to be proposed.
    #[error("too many commands are waiting: try again after a pause, or try another node")]
    Overloaded,
    /// Too few nodes have free disk space, and the command needs more.
    #[error("too few nodes have free disk space, so the leader refuses writes that need it")]
    DiskLow,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// This node lost its leadership before it proposed the command.
    #[error("this node no longer leads")]
    Deposed,
}

impl NotProposed {
    /// Whether the node retries by itself, because it only waits for a leader.
    pub(crate) fn awaits_leader(self) -> bool {
        match self {
            NotProposed::NoLeader | NotProposed::Deposed => true,
            NotProposed::Overloaded | NotProposed::DiskLow | NotProposed::ShuttingDown => false,
        }
    }
}

/// Why the outcome of a command is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum UnknownReason {
    /// The deadline passed, and the command may already be in the log.
    #[error("no answer within the timeout")]
    Deadline,
    /// The connection to the leader broke after this node had sent the command.
    #[error("the connection to the leader broke")]
    ConnectionLost,
    /// The leader lost its leadership with the command in its log.
    #[error("the leader was deposed")]
    Deposed,
}

/// A read that could not be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ReadError {
    /// No leader proved its leadership within the time limit.
    #[error("{0}")]
    NotServed(#[from] NotProposed),
    /// The local state did not catch up within the time limit.
    #[error("this node did not catch up within the timeout")]
    Deadline,
}

/// Why a replica cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The newest snapshot cannot be read.
    #[error("the snapshot cannot be read: {0}")]
    Snapshot(#[source] io::Error),
    /// The recorded defects cannot be read.
    #[error("the recorded defects cannot be read: {0}")]
    Defects(#[source] io::Error),
    /// The configuration is inconsistent.
    #[error("the configuration is not valid: {0}")]
    Config(String),
    /// The log cannot be read, or is inconsistent.
    #[error("the log cannot be read: {0}")]
    Log(String),
    /// The state is inconsistent: no answer may be based on it.
    #[error("{0}")]
    Inconsistent(String),
    /// The program does not support the cluster's version.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedVersion),
    /// This data directory is not the one that the cluster knows.
    #[error(transparent)]
    Formation(#[from] FormationError),
}

/// Why a replica has stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FatalReason {
    /// It was shut down.
    #[error("the node was shut down")]
    Stopped,
    /// It cannot join its cluster.
    #[error(transparent)]
    Formation(#[from] FormationError),
    /// The state is inconsistent: no answer may be based on it.
    #[error("{0}")]
    Inconsistent(String),
    /// Its storage lost entries that it had acknowledged.
    #[error(transparent)]
    LostEntries(#[from] LostEntries),
    /// Its program does not support the cluster's version.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedVersion),
    /// It was removed from the cluster.
    #[error(
        "node {id} was removed from the cluster (node {by} knows it at revision {revision}), and its id is never used again. To \
         use this machine again, start it with an empty data directory and a new join token: `fairhold cluster invite`"
    )]
    Removed {
        /// This node.
        id: NodeId,
        /// The revision at which it was removed; if that is not remembered any more, one after it.
        revision: Revision,
        /// The node that reported it.
        by: NodeId,
    },
    /// Another process runs with a copy of its data directory.
    #[error(
        "another process runs as node {id} with a copy of this data directory, and takes part in the cluster, as node {by} \
         knows. Two of them could vote twice, so this one stops. If this directory is the copy, delete it; otherwise stop the \
         other process, and start this one again. To use the machine of the copy as another member, start it with an empty data \
         directory and a join token: `fairhold cluster invite`"
    )]
    Duplicate {
        /// This node.
        id: NodeId,
        /// The node that reported it.
        by: NodeId,
    },
    /// The disk or the state machine failed: nothing more may be acknowledged.
    #[error("{0}")]
    Failed(String),
}

/// Why a node cannot join the cluster that it is configured for. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormationError {
    /// The cluster knows this node with another data directory.
    #[error(
        "node {id} is a member of the cluster with data directory {expected}, but this one is {found}: its log and its votes are \
         gone, and letting it vote could lose acknowledged writes. Start it with its old data directory. If that is lost, \
         delete this one, and replace the node: `fairhold cluster replace {id}`. If you restore a backup, stop all nodes of the \
         old cluster first"
    )]
    Wiped {
        /// This node.
        id: NodeId,
        /// The data directory that the cluster knows.
        expected: Incarnation,
        /// The data directory that it has.
        found: Incarnation,
    },
    /// The node is no member of the cluster that the others are in.
    #[error(
        "node {id} is no member of the cluster of node {by}: the cluster formed without it, or has removed it. Check the \
         --member lists. To let this machine join, delete this directory, and start it with a join token: `fairhold cluster \
         invite`, or `fairhold cluster replace N` to replace member N if that is lost"
    )]
    NotAMember {
        /// This node.
        id: NodeId,
        /// The node that reported it.
        by: NodeId,
    },
    /// This data directory belongs to another cluster than the nodes at the addresses of all other members.
    #[error(
        "the data directory of node {id} belongs to cluster {ours}, but the addresses of all other members lead to another \
         cluster: node {by} belongs to cluster {theirs}. Start this node with the directory and the addresses of one cluster: \
         check --data and --member. If its machine is to be a new member of cluster {theirs}, start it with an empty data \
         directory and a join token: `fairhold cluster invite`"
    )]
    OtherCluster {
        /// This node.
        id: NodeId,
        /// The first of the other members.
        by: NodeId,
        /// The cluster of this data directory.
        ours: ClusterId,
        /// The cluster of the node at the address of `by`.
        theirs: ClusterId,
    },
    /// Another node refuses this one.
    #[error("nodes {by} and {id} refuse each other: {refusal}")]
    Refused {
        /// This node.
        id: NodeId,
        /// The other node.
        by: NodeId,
        /// The reason.
        refusal: Refusal,
    },
    /// The members cannot form a cluster.
    #[error("the cluster cannot be formed: {0}")]
    Impossible(String),
}

/// Why the cluster's version was not raised. Variants are encoded by position.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum FinalizeError {
    /// A member does not support the version, or does not answer.
    #[error("not every member supports the next cluster version: {}", .0.join("; "))]
    Blocked(Vec<String>),
    /// The version is not the next one.
    #[error("the cluster has version {version}, and {}", next_text(*version, *next, *to))]
    NotNext {
        /// The requested version.
        to: ClusterVersion,
        /// The cluster's version.
        version: ClusterVersion,
        /// The next version, if the leader's program supports one.
        next: Option<ClusterVersion>,
    },
    /// No leader is known or reachable. The version may have been raised: a repeated request does no harm.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// Rights were narrowed after the request was decided.
    #[error("access rights were changed while the request was on its way: it must be decided again")]
    AccessChanged {
        /// The leader's revision at that moment: by then the narrowing was applied.
        revision: Revision,
    },
}

fn next_text(version: ClusterVersion, next: Option<ClusterVersion>, to: ClusterVersion) -> String {
    match next {
        _ if to < version => format!("no version can be finalized again: version {to} is an earlier one"),
        Some(next) => format!("its next version is {next}, not {to}"),
        None => format!("the leader's program does not support version {to}: restart every node with a newer program"),
    }
}

/// Why a handover of the leadership failed. Except for `Unfinished`, it did not begin. Variants are encoded by
/// position.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum HandoverError {
    /// No such member.
    #[error("node {to} is not a member of the cluster: the members are {}", list(members))]
    NotMember {
        /// The requested node.
        to: NodeId,
        /// The members.
        members: Vec<NodeId>,
    },
    /// A learner cannot lead.
    #[error("node {to} has no vote and cannot lead: the voters are {}", list(voters))]
    NoVote {
        /// The requested node.
        to: NodeId,
        /// The voters.
        voters: Vec<NodeId>,
    },
    /// The target leads already.
    #[error("node {to} is already the leader")]
    AlreadyLeader {
        /// The requested node.
        to: NodeId,
    },
    /// The target does not answer the leader.
    #[error("node {to} does not answer the leader: check that it runs and can be reached, then try again")]
    Silent {
        /// The requested node.
        to: NodeId,
    },
    /// The target is too far behind in the log.
    #[error("node {to} is {lag} log entries behind the leader: try again when it has caught up")]
    Behind {
        /// The requested node.
        to: NodeId,
        /// The number of missing entries.
        lag: u64,
    },
    /// No leader is known or reachable.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// The idempotency key was already used with another request.
    #[error("the idempotency key was already used with another request")]
    OtherRequest,
    /// The cluster cannot remember more idempotency keys.
    #[error("too many idempotency keys are remembered: try again in a minute")]
    TooManyKeys,
    /// The handover began, but the target did not lead in time. Another node may lead.
    #[error("node {to} did not become the leader in time; /v1/cluster names the current leader")]
    Unfinished {
        /// The requested node.
        to: NodeId,
    },
    /// Rights were narrowed after the request was decided.
    #[error("access rights were changed while the request was on its way: it must be decided again")]
    AccessChanged {
        /// The leader's revision at that moment: by then the narrowing was applied.
        revision: Revision,
    },
}

/// Ids in a text.
pub(crate) fn list(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
