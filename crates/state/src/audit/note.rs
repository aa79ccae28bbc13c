//! Acts outside the state. A note about each follows it, as a command.

use crate::write::WriteKey;
use fairhold_types::{ClusterVersion, GrantId, NodeId, time::WallMillis};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Notes an act outside the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteAct {
    /// If the act has a key, a key made of it (`NoteAct::key_of`): a repeated act is noted once.
    pub key: Option<WriteKey>,
    /// The act.
    pub act: NotedAct,
    /// Whether it was done. Otherwise it had begun, and its end is unknown.
    pub done: bool,
    /// When the request was received.
    pub at: WallMillis,
}

/// An act outside the state. The log encodes variants by position: add at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotedAct {
    /// The leadership was transferred.
    HandOver {
        /// The next leader.
        to: NodeId,
    },
    /// A node took a snapshot.
    TakeSnapshot {
        /// The node.
        node: NodeId,
    },
    /// The cluster's version was raised.
    Finalize {
        /// The version.
        to: ClusterVersion,
    },
    /// A learner became a voter.
    Promote {
        /// The learner.
        node: NodeId,
    },
    /// A voter became a learner.
    Demote {
        /// The voter.
        node: NodeId,
    },
    /// A member got another address.
    SetAddress {
        /// The member.
        node: NodeId,
        /// Its new address for clients.
        url: Option<String>,
        /// Its new address for other nodes.
        peer: Option<String>,
    },
}

impl NoteAct {
    /// The key of a note, made of the key of its act: the act may have used that one itself.
    #[must_use]
    pub fn key_of(key: WriteKey) -> WriteKey {
        let mut hasher = Sha256::new();
        hasher.update(b"note of an act");
        hasher.update(key.key.to_string());
        let digest: [u8; 32] = hasher.finalize().into();
        let number = digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte));
        WriteKey { key: GrantId::from_ulid(number), fingerprint: key.fingerprint }
    }

    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        if let NotedAct::SetAddress { url, peer, .. } = &self.act {
            url.as_ref().map_or(0, String::len) + peer.as_ref().map_or(0, String::len)
        } else {
            0
        }
    }
}
