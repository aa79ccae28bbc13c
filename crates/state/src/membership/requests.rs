//! The requests about members, as fields of commands. `command` exports them.

use crate::write::WriteKey;
use fairhold_types::{Incarnation, JoinTokenNumber, MemberRole, NodeId, time::WallMillis};
use serde::{Deserialize, Serialize};

/// Creates a join token. A repeated request with the same key creates no second one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateJoinToken {
    /// The caller's key, if it gave one.
    pub key: Option<WriteKey>,
    /// The SHA-256 of the token's secret.
    pub secret_hash: [u8; 32],
    /// The role of the nodes that it admits.
    pub role: MemberRole,
    /// The member that the new node replaces.
    pub replaces: Option<NodeId>,
    /// Whether it may be used again and again, until it is revoked.
    pub standing: bool,
    /// For a standing token: it also admits nodes that replace no member, until there are this many voters.
    pub up_to: Option<u8>,
    /// When it expires; `None` for a standing token.
    pub expires_at: Option<WallMillis>,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When the request was received: by the clock of the leader, if another node received it.
    pub at: WallMillis,
}

/// Admits a node by its join token: gives it an id, and records its join. The same node gets the same id again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitNode {
    /// The number of the join token.
    pub token: JoinTokenNumber,
    /// The SHA-256 of the secret that the node has shown.
    pub secret_hash: [u8; 32],
    /// The identity of the node's data directory.
    pub incarnation: Incarnation,
    /// Its URL for clients.
    pub url: String,
    /// Its address for other nodes.
    pub address: String,
    /// The member that it replaces: by the token, or chosen by the leader for a standing token.
    pub replaces: Option<NodeId>,
    /// The highest id among the members, as the leader knows: new ids are higher.
    pub ids_through: NodeId,
    /// When the request was received.
    pub at: WallMillis,
}

/// Records that a node shall be removed. The leader then removes it from the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRemoval {
    /// The node.
    pub node: NodeId,
    /// The highest id among the members, as the leader knows.
    pub ids_through: NodeId,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When the request was received.
    pub at: WallMillis,
    /// The other voters, as the leader knows. The state does not know the voters, and another removal may be recorded
    /// between the leader's decision and this command.
    pub other_voters: Vec<NodeId>,
}

/// Changes the settings of a member. Fields that are `None` stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMember {
    /// The caller's key, if it gave one: a late repetition must not undo a newer request.
    pub key: Option<WriteKey>,
    /// The member.
    pub node: NodeId,
    /// How much it is preferred as the leader, 100 at most.
    pub priority: Option<u8>,
    /// The name of its zone; an empty one removes it.
    pub zone: Option<String>,
    /// Whether the cluster has set its address: then its own configuration no longer counts.
    pub address_set: bool,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When the request was received.
    pub at: WallMillis,
}
