//! The transport between nodes: bytes there and back. Framed TCP in `fairhold-peer` is one, a simulated net the other.
//!
//! What the bytes mean is `wire.rs`; who may speak at all is decided by `Service::admit`, before the first request.

use crate::base::lost_entries::LostEntries;
use bytes::Bytes;
use fairhold_types::{ClusterId, Incarnation, NodeId};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The version of all that nodes say to one another. Nodes of different versions refuse each other.
pub const WIRE_VERSION: u16 = 2;

/// Requests of one lane keep their order and share a connection; lanes do not hold one another up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Heartbeats, votes and leadership transfers: never behind anything large.
    Heartbeat,
    /// The replicated log, pipelined.
    Append,
    /// Snapshots, in chunks.
    Snapshot,
    /// What a follower passes on to the leader for its clients: proposals, read barriers, keepalives.
    Forward,
}

/// A node to speak to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its number.
    pub id: NodeId,
    /// Where it listens for peers: `host:port`.
    pub address: String,
    /// The data directory it must have, where the membership knows one. Another one answering is refused.
    pub incarnation: Option<Incarnation>,
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Surely not delivered: no connection, or no room in the lane's queue.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// It may have been delivered and acted upon.
    #[error("the connection broke before the answer: {0}")]
    Lost(String),
    /// One of the two nodes refuses the other.
    #[error("refused: {0}")]
    Refused(Refusal),
}

/// The sending side.
pub trait Peer: Send + Sync + 'static {
    /// Sends one request. It takes its place in the lane when this is called, not when the future is first polled, and
    /// requests of one lane to one node arrive in that order. Dropping the future gives up the answer, not the request.
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>>;

    /// Asks a node who it is, on a connection of its own: used before a cluster has formed.
    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>>;

    /// Whether nobody listens there: its machine refuses the connection, as it does when the process has ended. `false` also
    /// where that cannot be known, as with a machine or a net that is gone.
    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool>;
}

/// The receiving side.
pub trait Service: Send + Sync + 'static {
    /// How this node introduces itself, when it dials and when it answers.
    fn introduction(&self) -> Introduction;

    /// Whether a node that introduced itself so may speak: asked by both sides, before any request.
    fn admit(&self, other: &Introduction) -> Result<(), Refusal>;

    /// Takes one request. Requests of one connection are handed over in their order; answers may come in any.
    fn serve(&self, from: NodeId, lane: Lane, request: Bytes) -> BoxFuture<'static, Bytes>;

    /// A connection that another node had opened has ended, and this node did not end it.
    fn hung_up(&self, from: NodeId, lane: Lane);
}

/// What a node says of itself first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// Its number.
    pub id: NodeId,
    /// Its cluster, once it knows.
    pub cluster: Option<ClusterId>,
    /// Its data directory.
    pub incarnation: Incarnation,
    /// Whether its log is empty, so that a cluster may be formed with it.
    pub empty: bool,
    /// The members that it knows, with their data directories: the replicated membership, empty before the cluster formed.
    pub members: Vec<(NodeId, Incarnation)>,
}

/// Why one node does not speak with another. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Another version of Fairhold.
    #[error(
        "it speaks peer protocol {theirs}, this node {ours}: run versions of fairhold on both nodes that speak the same protocol"
    )]
    Version {
        /// The refused node's.
        theirs: u16,
        /// The refusing node's.
        ours: u16,
    },
    /// Another cluster.
    #[error("it belongs to cluster {theirs}, this node to cluster {ours}: check the --member addresses and --data of both")]
    Cluster {
        /// The refused node's.
        theirs: ClusterId,
        /// The refusing node's.
        ours: ClusterId,
    },
    /// A member whose data directory was wiped or exchanged.
    #[error(
        "node {id} was a member with data directory {expected} and comes with another one ({found}): \
         its log and its votes are gone, and letting it vote could lose acknowledged writes. \
         Start it with its old data directory, or remove it from the cluster and add it again under a new id"
    )]
    Incarnation {
        /// The refused node.
        id: NodeId,
        /// The data directory in the membership.
        expected: Incarnation,
        /// The one it has.
        found: Incarnation,
    },
    /// Not the node that the address was thought to be.
    #[error("it says that it is node {found}, but node {expected} was expected: check the --member addresses and --id of both")]
    Identity {
        /// The node that was dialled.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// The node is starting and does not know yet whom it may speak to.
    #[error("it is starting: this node will retry")]
    Starting,
    /// No member of the cluster.
    #[error("node {id} is not a member of this cluster: add it first, or check its --member list")]
    Stranger {
        /// The refused node.
        id: NodeId,
    },
    /// The refusing node has lost log entries that it had acknowledged, and takes no part.
    #[error(transparent)]
    LostEntries(LostEntries),
    /// The two have no key in common.
    #[error("{0}")]
    Key(KeyMismatch),
}

/// How the keys of two nodes differ. The text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum KeyMismatch {
    /// Both have a key, and not the same.
    #[error(
        "they have different peer keys: give all nodes of the cluster the same --peer-key-file; during a key rotation, the file \
         needs both keys"
    )]
    Differ,
    /// The one that dials has none.
    #[error(
        "the dialling node has no peer key, but the other node has one: give all nodes of the cluster the same --peer-key-file"
    )]
    DiallerHasNone,
    /// The one that is dialled has none.
    #[error(
        "the dialled node has no peer key, but the other node has one: give all nodes of the cluster the same --peer-key-file"
    )]
    AcceptorHasNone,
}
