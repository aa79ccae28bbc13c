//! The transport between nodes: it carries bytes. `fairhold-peer` implements it over framed TCP, the simulator over a
//! simulated network.
//!
//! `wire.rs` defines the bytes. `Service::admit` decides which nodes may connect, before their first request.

use crate::base::lost_entries::LostEntries;
use bytes::Bytes;
use fairhold_types::{ClusterId, Incarnation, NodeId};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The version of the protocol between nodes. Nodes with different versions refuse each other.
pub const WIRE_VERSION: u16 = 3;

/// Requests of one lane keep their order and share a connection. Lanes do not delay each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Heartbeats, votes and leadership transfers: never queued behind anything large.
    Heartbeat,
    /// The replicated log, pipelined.
    Append,
    /// Snapshots, in chunks.
    Snapshot,
    /// What a follower forwards to the leader for its clients: proposals, read barriers, keepalives.
    Forward,
}

/// A node to send requests to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: NodeId,
    /// Its address for peers: `host:port`.
    pub address: String,
    /// The data directory that it must have, if the membership has one. A node with another one is refused.
    pub incarnation: Option<Incarnation>,
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Definitely not delivered: no connection, or no room in the lane's queue.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// May have been delivered and processed.
    #[error("the connection broke before the answer: {0}")]
    Lost(String),
    /// One of the two nodes refuses the other.
    #[error("refused: {0}")]
    Refused(Refusal),
}

/// The sending side.
pub trait Peer: Send + Sync + 'static {
    /// Sends one request. The request enters the lane's queue during this call, not when the future is first polled,
    /// and requests of one lane to one node arrive in that order. Dropping the future gives up the answer, not the
    /// request.
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>>;

    /// Requests a node's introduction, on a separate connection. Used before a cluster has formed.
    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>>;

    /// Whether the node's machine refuses connections, as it does after the process has ended. `false` if that cannot
    /// be known, for example if the machine or the network is down.
    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool>;
}

/// The receiving side.
pub trait Service: Send + Sync + 'static {
    /// This node's introduction, sent when it dials and when it answers.
    fn introduction(&self) -> Introduction;

    /// Whether a node with this introduction may connect. Both sides check it before any request.
    fn admit(&self, other: &Introduction) -> Result<(), Refusal>;

    /// Serves one request. The transport calls this in the order of the connection's requests; answers may come in any
    /// order.
    fn serve(&self, from: NodeId, lane: Lane, request: Bytes) -> BoxFuture<'static, Bytes>;

    /// Another node's connection to this one has ended, and this node did not close it.
    fn disconnected(&self, from: NodeId, lane: Lane);
}

/// The first message of a node: its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// Its id.
    pub id: NodeId,
    /// Its cluster, once it knows it.
    pub cluster: Option<ClusterId>,
    /// Its data directory.
    pub incarnation: Incarnation,
    /// Whether its log is empty, so that it can take part in forming a cluster.
    pub empty: bool,
    /// The members that it knows, with their data directories, from the replicated membership; empty before the cluster
    /// has formed.
    pub members: Vec<(NodeId, Incarnation)>,
}

/// Why a node refuses another. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Another version of Fairhold.
    #[error(
        "it uses peer protocol {theirs}, but this node uses {ours}: run versions of fairhold with the same peer protocol on both \
         nodes"
    )]
    Version {
        /// The refused node's.
        theirs: u16,
        /// The refusing node's.
        ours: u16,
    },
    /// Another cluster.
    #[error("it belongs to cluster {theirs}, but this node belongs to {ours}: check --member and --data on both nodes")]
    Cluster {
        /// The refused node's.
        theirs: ClusterId,
        /// The refusing node's.
        ours: ClusterId,
    },
    /// A member whose data directory was wiped or replaced.
    #[error(
        "node {id} was a member with data directory {expected}, but now has {found}: \
         its log and its votes are gone, and letting it vote could lose acknowledged writes. \
         Start it with its old data directory, or remove it from the cluster and add it again under a new id"
    )]
    Incarnation {
        /// The refused node.
        id: NodeId,
        /// The data directory in the membership.
        expected: Incarnation,
        /// The data directory that it has.
        found: Incarnation,
    },
    /// Not the node that was expected at this address.
    #[error("it is node {found}, but node {expected} was expected: check --member and --id on both nodes")]
    Identity {
        /// The node that was dialled.
        expected: NodeId,
        /// The node that answered.
        found: NodeId,
    },
    /// The node is starting and does not know its members yet.
    #[error("it is starting: this node will retry")]
    Starting,
    /// Not a member of the cluster.
    #[error("node {id} is not a member of this cluster: add it first, or check its --member list")]
    NotAMember {
        /// The refused node.
        id: NodeId,
    },
    /// The refusing node has lost log entries that it had acknowledged, and takes no part.
    #[error(transparent)]
    LostEntries(LostEntries),
    /// The two nodes share no key.
    #[error("{0}")]
    Key(KeyMismatch),
}

/// How the peer keys of two nodes differ. The text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum KeyMismatch {
    /// Both have a key, but not the same.
    #[error(
        "they have different peer keys: give all nodes of the cluster the same --peer-key-file. During a key rotation, the file \
         needs both keys"
    )]
    Differ,
    /// The dialling node has no key.
    #[error(
        "the dialling node has no peer key, but the other node has one: give all nodes of the cluster the same --peer-key-file"
    )]
    DiallerHasNone,
    /// The dialled node has no key.
    #[error(
        "the dialled node has no peer key, but the other node has one: give all nodes of the cluster the same --peer-key-file"
    )]
    AcceptorHasNone,
}
