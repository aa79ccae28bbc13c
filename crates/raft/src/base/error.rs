//! How a replica can fail. A caller of Raft can always tell whether something happened.
//!
//! A storage failure is none of them: the node stops.

use crate::base::{lost_entries::LostEntries, peer::Refusal};
use fairhold_types::{Incarnation, NodeId};
use std::io;

/// A proposal that got no answer from the machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// Surely not in the log: asking again is harmless.
    #[error("not proposed: {0}")]
    NotProposed(#[from] NotProposed),
    /// May have been committed, or may be yet: ask again with the same key.
    #[error("the outcome is unknown: {0}")]
    Unknown(#[from] UnknownReason),
}

/// Why a command surely did not get into the log, or a read was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum NotProposed {
    /// No leader is known, or none could be reached, within the time given.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// Too much is waiting to be proposed.
    #[error("too many commands are waiting: try again after a pause, or try another node")]
    Overloaded,
    /// Too few nodes have space on their disks, and the command would need more of it.
    #[error("too few nodes have space on their disks: the leader refuses writes that need more")]
    DiskLow,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The leadership under which it was to be proposed is over.
    #[error("this node no longer leads")]
    Deposed,
}

/// Why it is not known whether a command gets committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum UnknownReason {
    /// The deadline passed after the command was handed over.
    #[error("no answer within the time given")]
    Deadline,
    /// The connection to the leader broke after the command was handed over.
    #[error("the connection to the leader broke")]
    ConnectionLost,
    /// The leader lost its leadership with the command in its log.
    #[error("the leader was deposed")]
    Deposed,
}

/// A read that could not be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum ReadError {
    /// No leader could prove its leadership within the time given.
    #[error("{0}")]
    NotServed(#[from] NotProposed),
    /// The state here did not get there within the time given.
    #[error("this node did not catch up within the time given")]
    Deadline,
}

/// Why a replica cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The newest snapshot cannot be read.
    #[error("the snapshot cannot be read: {0}")]
    Snapshot(#[source] io::Error),
    /// What is noted of defects cannot be read.
    #[error("the notes on defects cannot be read: {0}")]
    Defects(#[source] io::Error),
    /// The configuration contradicts itself.
    #[error("the configuration is not valid: {0}")]
    Config(String),
    /// The log cannot be read, or contradicts itself.
    #[error("the log cannot be read: {0}")]
    Log(String),
    /// The state contradicts itself: nothing that is built on it may be answered.
    #[error("{0}")]
    Broken(String),
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
    /// It cannot be part of its cluster.
    #[error(transparent)]
    Formation(#[from] FormationError),
    /// The state contradicts itself: nothing that is built on it may be answered.
    #[error("{0}")]
    Broken(String),
    /// Its storage went back in time.
    #[error(transparent)]
    LostEntries(#[from] LostEntries),
    /// The disk failed, or the machine did: nothing more may be acknowledged.
    #[error("{0}")]
    Failed(String),
}

/// Why a node cannot be part of the cluster that it was configured for. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormationError {
    /// The cluster knows this node with another data directory.
    #[error(
        "node {id} is a member of the cluster with data directory {expected}, and this one is {found}: its log and its votes are \
         gone, and letting it vote could lose acknowledged writes. Start it with its old data directory, or remove node {id} \
         from the cluster and add it again under a new id"
    )]
    Wiped {
        /// This node.
        id: NodeId,
        /// The data directory that the cluster knows.
        expected: Incarnation,
        /// The one it has.
        found: Incarnation,
    },
    /// The cluster formed without this node.
    #[error(
        "node {by} is in a cluster that formed without node {id}: add node {id} to that cluster, or check the --member lists"
    )]
    NotAMember {
        /// This node.
        id: NodeId,
        /// The node that said so.
        by: NodeId,
    },
    /// Another node does not speak with this one.
    #[error("nodes {by} and {id} refuse each other: {refusal}")]
    Refused {
        /// This node.
        id: NodeId,
        /// The other one.
        by: NodeId,
        /// Why.
        refusal: Refusal,
    },
    /// The members cannot form a cluster.
    #[error("the cluster cannot be formed: {0}")]
    Impossible(String),
}

/// Why the leadership was not handed over. But for `Unfinished` nothing was tried.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
pub enum HandoverError {
    /// No such member.
    #[error("node {to} is not a member of the cluster: the members are {}", list(members))]
    NotMember {
        /// The one asked for.
        to: NodeId,
        /// The members.
        members: Vec<NodeId>,
    },
    /// A learner cannot lead.
    #[error("node {to} has no vote and cannot lead: the voters are {}", list(voters))]
    NoVote {
        /// The one asked for.
        to: NodeId,
        /// The voters.
        voters: Vec<NodeId>,
    },
    /// There is nothing to hand over.
    #[error("node {to} is already the leader")]
    LeadsAlready {
        /// The one asked for.
        to: NodeId,
    },
    /// It does not answer the leader.
    #[error("node {to} does not answer the leader: check that it runs and can be reached, then try again")]
    Silent {
        /// The one asked for.
        to: NodeId,
    },
    /// It has too little of the log.
    #[error("node {to} is {lag} log entries behind the leader: try again when it has caught up")]
    Behind {
        /// The one asked for.
        to: NodeId,
        /// By how many entries.
        lag: u64,
    },
    /// No leader is known, or it could not be reached.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// The key was used before, for something else.
    #[error("the idempotency key was already used with another request")]
    OtherRequest,
    /// The cluster remembers as many keys as it can.
    #[error("too many idempotency keys are remembered: try again in a minute")]
    Full,
    /// It was begun, and the target did not lead in time. Another one may.
    #[error("node {to} did not become the leader in time; /v1/cluster names the current leader")]
    Unfinished {
        /// The one asked for.
        to: NodeId,
    },
}

fn list(ids: &[NodeId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
