//! The records of join tokens, joins and removals.

use crate::write::WriteKey;
use fairhold_types::{Incarnation, JoinTokenNumber, MemberRole, NodeId, Revision, limits, time::WallMillis};
use serde::{Deserialize, Serialize};

/// A join token. Its secret is not stored, only the hash of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
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
    /// When it was created.
    pub created_at: WallMillis,
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// The SHA-256 of its secret.
    pub secret_hash: [u8; 32],
    /// The key of the request that created it, if that had one.
    pub key: Option<WriteKey>,
    /// The node that it admitted. Always `None` for a standing token.
    pub used_by: Option<(NodeId, Incarnation)>,
}

impl JoinToken {
    /// Whether it has expired at this time.
    #[must_use]
    pub fn is_expired(&self, at: WallMillis) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= at)
    }
}

/// A node that was admitted, and whose join is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The identity of its data directory.
    pub incarnation: Incarnation,
    /// Its URL for clients.
    pub url: String,
    /// Its address for other nodes.
    pub address: String,
    /// The role that it will have.
    pub role: MemberRole,
    /// The member that it replaces.
    pub replaces: Option<NodeId>,
    /// The join token that admitted it.
    pub token: JoinTokenNumber,
    /// When it was admitted.
    pub requested_at: WallMillis,
}

/// A removal that was requested, and is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The administrator's client, such as `curl@127.0.0.1`.
    pub by: String,
    /// When it was requested.
    pub requested_at: WallMillis,
}

/// A node that was a member, or was about to become one, and never will be again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The identity of its data directory, if that is known.
    pub incarnation: Option<Incarnation>,
    /// The revision of its removal.
    pub revision: Revision,
    /// The administrator's client, or the node that replaced it; may be empty.
    pub by: String,
    /// When it was removed.
    pub at: WallMillis,
}

/// Where a member stands, and how much it is preferred as the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// A healthy voter with a higher priority becomes the leader.
    pub priority: u8,
    /// The name of its zone, for people and for `doctor`.
    pub zone: Option<String>,
}

impl Default for Placement {
    fn default() -> Self {
        Placement { priority: limits::MEMBER_PRIORITY_DEFAULT, zone: None }
    }
}
