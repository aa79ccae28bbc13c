//! Acts outside the state. A note about each follows it, as a command.

use crate::write::WriteKey;
use fairhold_types::{ClusterVersion, GrantId, NodeId, time::WallMillis};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Notes an act outside the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteAct {
    /// The key of the act, if it has one: a repeated act is noted once.
    pub key: Option<WriteKey>,
    /// The act.
    pub act: NotedAct,
    /// What is known of its end.
    pub end: NotedEnd,
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

/// What is known of the end of an act outside the state. The log encodes variants by position: add at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotedEnd {
    /// It had begun, and may be done.
    Unknown,
    /// It is done, perhaps by an earlier try of the same request, which noted it.
    Done,
    /// It is done, and certainly by this try.
    DoneNow,
}

impl NoteAct {
    /// The key under which the state remembers the note of an act with this key, because the act uses that one itself. A
    /// caller can compute it, and send a request with it before the act. But no request has this fingerprint, so such a
    /// request does not count as the note.
    pub(super) fn key_of(key: WriteKey) -> WriteKey {
        let mut hasher = Sha256::new();
        hasher.update(b"note of an act");
        hasher.update(key.key.to_string());
        hasher.update(key.fingerprint);
        let digest: [u8; 32] = hasher.finalize().into();
        let half = |skipped| digest.iter().skip(skipped).take(16).fold(0_u128, |half, byte| half << 8 | u128::from(*byte));
        WriteKey { key: GrantId::from_ulid(half(0)), fingerprint: half(16).to_be_bytes() }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys are in snapshots, and another program must find the same.
    #[test]
    fn the_key_of_a_note_never_changes_and_has_a_fingerprint_of_its_own() {
        let key = WriteKey { key: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(), fingerprint: [7; 16] };
        let noted = NoteAct::key_of(key);
        assert_eq!(noted.key.to_string(), "27J612NFC90B5FBT5NT95SMG5T");
        assert_eq!(u128::from_be_bytes(noted.fingerprint), 0x0545_eb59_3607_4f4c_ff0b_d5bc_5e36_2508);
        let of_another_request = NoteAct::key_of(WriteKey { fingerprint: [8; 16], ..key });
        assert!(of_another_request.key != noted.key && of_another_request.fingerprint != noted.fingerprint);
    }
}
