//! The transport between nodes: it carries bytes. `fairhold-peer` implements it over framed TCP, the simulator over a
//! simulated network.
//!
//! `wire.rs` defines the bytes. `Service::admit` decides which nodes may connect, before their first request.

use crate::base::{join_token::JoinSecret, lost_entries::LostEntries, program::UnsupportedVersion};
use bytes::Bytes;
use fairhold_state::command::JoinTokenFault;
use fairhold_types::{
    ClusterId, ClusterVersion, Incarnation, JoinTokenNumber, MemberRole, NodeId, Revision, SupportedVersions, Timing,
    cluster_version::MEMBERSHIP_SINCE,
    planted::{self, Bug},
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// The newest version of the protocol between nodes that this program speaks.
pub const WIRE_VERSION: u16 = 4;

/// The oldest one. Two nodes speak the newest version that both know; without one they refuse each other.
pub const WIRE_VERSION_OLDEST: u16 = 3;

/// Requests of one lane keep their order and share a connection. Lanes do not delay each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Heartbeats, votes and leadership transfers: never queued behind anything large.
    Heartbeat,
    /// The replicated log, pipelined.
    Append,
    /// Snapshots, in chunks.
    Snapshot,
    /// What a follower forwards to the leader for its clients: proposals, read barriers, keepalives. Also what a node asks
    /// another member about itself.
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

impl Target {
    /// Checks that the dialled node is the one that answered.
    ///
    /// # Errors
    ///
    /// Another node answered, or the node has another data directory.
    pub fn check(&self, answered: &Introduction) -> Result<(), Refusal> {
        let (id, found) = (self.id, answered.incarnation);
        if answered.id != id {
            return Err(Refusal::Identity { expected: id, found: answered.id });
        }
        match self.incarnation {
            Some(expected) if is_wiped(expected, found) => Err(Refusal::Incarnation { id, expected, found }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether a member's data directory is not the one that the cluster knows.
pub(crate) fn is_wiped(expected: Incarnation, found: Incarnation) -> bool {
    expected != found && !planted::has(Bug::AdmitsWipedMember)
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

    /// Whether a node with this introduction may connect. Both sides check it before any request. `side` is this node's
    /// side of the connection.
    fn admit(&self, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal>;

    /// Lets a node with a join token join the cluster. A repeated request of the same data directory gets the same
    /// answer.
    fn join(&self, request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>>;

    /// Serves one request. The transport calls this in the order of the connection's requests; answers may come in any
    /// order.
    fn serve(&self, from: Requester, request: Bytes) -> BoxFuture<'static, Bytes>;

    /// Another node's connection to this one has ended, and this node did not close it.
    fn disconnected(&self, from: NodeId, lane: Lane);
}

/// Where the requests of a connection come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The node.
    pub node: NodeId,
    /// The boot number of its process, with which a copy of the leader is recognized. 0 if it is unknown.
    pub boot: u64,
    /// The lane.
    pub lane: Lane,
}

/// Which node opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionSide {
    /// This node dialled, so the other one listens at the address that this node uses for it.
    Dialled,
    /// The other node dialled.
    Accepted,
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
    /// The version of its program, such as `0.1.0`; `None` if it speaks wire version 3, which does not tell.
    pub program: Option<String>,
    /// The cluster versions that its program supports.
    pub supports: SupportedVersions,
    /// The number that its process chose at its start, so that two processes with copies of one data directory differ.
    /// 0 if it speaks wire version 3, which does not tell.
    pub boot: u64,
}

impl Introduction {
    /// Whether the node speaks wire version 4, and so knows the refusals of that version.
    pub(crate) fn speaks_version_4(&self) -> bool {
        self.boot != 0
    }
}

/// A node asks to join a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The number of its join token.
    pub token: JoinTokenNumber,
    /// The secret of its join token.
    pub secret: JoinSecret,
    /// The cluster that its join token names.
    pub cluster: ClusterId,
    /// Its data directory.
    pub incarnation: Incarnation,
    /// Its address for clients: `http://host:port`.
    pub url: String,
    /// Its address for peers: `host:port`.
    pub address: String,
    /// The version of its program.
    pub version: Option<String>,
    /// The cluster versions that its program supports.
    pub supports: SupportedVersions,
}

/// What a node learns when the cluster has admitted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Its id.
    pub id: NodeId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The role that it will have.
    pub role: MemberRole,
    /// The members, each with its address for clients and its address for peers.
    pub members: Vec<(NodeId, String, String)>,
    /// The cluster's timing profile: the node needs it before it can read the replicated state.
    pub timing: Timing,
}

/// Why a node may not join. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum JoinRefusal {
    /// The token is for another cluster.
    #[error(
        "the join token is for cluster {theirs}, but this node belongs to cluster {ours}: create a join token in the cluster \
         that the new node is to join"
    )]
    OtherCluster {
        /// The cluster that the token names.
        theirs: ClusterId,
        /// The refusing node's cluster.
        ours: ClusterId,
    },
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] JoinTokenFault),
    /// The cluster's version is too old.
    #[error(
        "the cluster has version {version}, but nodes can join only from version {} on: finalize the upgrade of the cluster \
         first",
        MEMBERSHIP_SINCE
    )]
    NeedsUpgrade {
        /// The cluster's version.
        version: ClusterVersion,
    },
    /// The new node's program does not support the cluster's version.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedVersion),
    /// A member, or a node that is joining, has this address.
    #[error(
        "node {node} has the address {address}: give the new node an address of its own, or replace node {node}. If node {node} \
         is joining, you can also give up its join: `fairhold cluster remove {node}`"
    )]
    AddressInUse {
        /// The address.
        address: String,
        /// The node that has it.
        node: NodeId,
    },
    /// The cluster has as many members as it can have.
    #[error("the cluster already has {max} members with this role, which is the maximum: remove one first")]
    TooManyMembers {
        /// The maximum.
        max: u64,
    },
    /// The member that the new node would replace cannot be replaced now.
    #[error("node {node} cannot be replaced now: {why}")]
    Unreplaceable {
        /// The member.
        node: NodeId,
        /// The reason.
        why: String,
    },
    /// Too many nodes are joining.
    #[error("{max} nodes are joining already: try again when one of them has joined")]
    TooManyJoins {
        /// The maximum.
        max: u64,
    },
    /// No leader is known or reachable. The node may have been admitted: a repeated request gets the same id.
    #[error("there is no known leader: a majority of the nodes must be able to reach each other")]
    NoLeader,
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
}

impl JoinRefusal {
    /// Whether trying again is useless.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            JoinRefusal::OtherCluster { .. }
            | JoinRefusal::Token(_)
            | JoinRefusal::NeedsUpgrade { .. }
            | JoinRefusal::Unsupported(_)
            | JoinRefusal::AddressInUse { .. }
            | JoinRefusal::TooManyMembers { .. }
            | JoinRefusal::BadRequest(_) => true,
            JoinRefusal::Unreplaceable { .. } | JoinRefusal::TooManyJoins { .. } | JoinRefusal::NoLeader => false,
        }
    }
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
         Start it with its old data directory. If that is lost, delete the new one, and replace the node: `fairhold cluster \
         replace {id}`"
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
    #[error(
        "it is node {found}, but node {expected} was expected: if node {found} does not replace node {expected}, check the \
         addresses of both"
    )]
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
    #[error("node {id} is not a member of this cluster: let it join with a join token, or check its --member list")]
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
    /// The node was removed from the cluster. Only for nodes that speak wire version 4.
    #[error(
        "node {id} was removed from this cluster (known at revision {revision}), and its id is never used again: stop it. To \
         use its machine again, start it with an empty data directory and a new join token"
    )]
    Removed {
        /// The refused node.
        id: NodeId,
        /// The revision at which it was removed; if that is not remembered any more, one after it.
        revision: Revision,
    },
    /// Another process has the same id and the same data directory. Only for nodes that speak wire version 4.
    #[error(
        "another process of node {id} was in contact a moment ago. After a restart, this passes within seconds. If it does not, \
         another process runs with a copy of the data directory, and the two could vote twice: stop the copy"
    )]
    Duplicate {
        /// The id of both.
        id: NodeId,
    },
}

/// How the peer keys of two nodes differ. The text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum KeyMismatch {
    /// Both have a key, but not the same.
    #[error(
        "the two nodes have different peer keys: give all nodes of the cluster the same --peer-key-file. During a key rotation, \
         the file needs both keys"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_change_by_itself_is_tried_again() {
        let unsupported = UnsupportedVersion { version: ClusterVersion(3), supports: SupportedVersions::OWN };
        let faults = [JoinTokenFault::Unknown, JoinTokenFault::Expired, JoinTokenFault::Used { node: 4 }];
        let is_final = |refusal: JoinRefusal| refusal.is_final();
        assert!(faults.map(JoinRefusal::Token).into_iter().all(is_final));
        assert!(is_final(JoinRefusal::Unsupported(unsupported)));
        assert!(is_final(JoinRefusal::OtherCluster { theirs: ClusterId(1), ours: ClusterId(2) }));
        assert!(!is_final(JoinRefusal::NoLeader) && !is_final(JoinRefusal::TooManyJoins { max: 10 }));
        let busy = JoinRefusal::Unreplaceable { node: 2, why: "it answers the leader".to_owned() };
        assert_eq!(busy.to_string(), "node 2 cannot be replaced now: it answers the leader");
        assert!(!is_final(busy));
    }

    #[test]
    fn both_nodes_are_told_that_their_peer_keys_differ() {
        let text = Refusal::Key(KeyMismatch::Differ).to_string();
        assert!(text.starts_with("the two nodes have different peer keys: give all nodes "), "{text}");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let removed = Refusal::Removed { id: 4, revision: Revision(90) }.to_string();
        assert!(removed.contains("node 4 was removed") && removed.contains("a new join token"), "{removed}");
        let wiped = Refusal::Incarnation { id: 2, expected: Incarnation(1), found: Incarnation(2) }.to_string();
        assert!(wiped.ends_with("`fairhold cluster replace 2`"), "{wiped}");
        let taken = JoinRefusal::AddressInUse { address: "http://c:7171".to_owned(), node: 6 }.to_string();
        assert!(taken.ends_with("give up its join: `fairhold cluster remove 6`"), "{taken}");
    }
}
