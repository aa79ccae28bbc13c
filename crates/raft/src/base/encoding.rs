//! openraft's types in the log, in the header of a snapshot, and in messages between nodes (`encoded_messages`).
//!
//! Fields and variants are encoded by position, and a release of openraft may add or reorder some. The types here are
//! Fairhold's own, so a new openraft changes the conversions, not the format. openraft is built without its feature
//! `serde`: nothing of it can be encoded by mistake.

use crate::base::{
    aliases::{LeaderId, LogId, Members},
    types::{Batch, Member},
};
use fairhold_types::NodeId;
use openraft::{Entry, EntryPayload, Membership, SnapshotMeta, Vote};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::{BTreeMap, BTreeSet};

/// A type of openraft that has an encoded form.
pub trait Encode: Sized {
    /// Its encoded form. A change needs a new format version.
    type Encoded: Serialize + for<'de> Deserialize<'de>;

    /// The encoded form of this value.
    fn to_encoded(&self) -> Self::Encoded;

    /// The value of an encoded form. The error says why it is none.
    fn from_encoded(encoded: Self::Encoded) -> Result<Self, String>;
}

/// Makes a value that has an encoded form usable with serde.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encodable<T>(pub T);

impl<T: Encode> Serialize for Encodable<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

impl<'de, T: Encode> Deserialize<'de> for Encodable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Encodable)
    }
}

/// For `#[serde(with)]`.
pub(crate) fn serialize<T: Encode, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_encoded().serialize(serializer)
}

/// For `#[serde(with)]`.
pub(crate) fn deserialize<'de, T: Encode, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::from_encoded(T::Encoded::deserialize(deserializer)?).map_err(de::Error::custom)
}

impl<T: Encode> Encode for Option<T> {
    type Encoded = Option<T::Encoded>;

    fn to_encoded(&self) -> Self::Encoded {
        self.as_ref().map(T::to_encoded)
    }

    fn from_encoded(encoded: Self::Encoded) -> Result<Self, String> {
        encoded.map(T::from_encoded).transpose()
    }
}

/// A position in the log.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedLogId {
    term: u64,
    node: NodeId,
    index: u64,
}

impl Encode for LogId {
    type Encoded = EncodedLogId;

    fn to_encoded(&self) -> EncodedLogId {
        EncodedLogId { term: self.leader_id.term, node: self.leader_id.node_id, index: self.index }
    }

    fn from_encoded(EncodedLogId { term, node, index }: EncodedLogId) -> Result<LogId, String> {
        Ok(LogId { leader_id: LeaderId { term, node_id: node }, index })
    }
}

/// A vote.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedVote {
    term: u64,
    node: NodeId,
    committed: bool,
}

impl Encode for Vote<LeaderId> {
    type Encoded = EncodedVote;

    fn to_encoded(&self) -> EncodedVote {
        EncodedVote { term: self.leader_id.term, node: self.leader_id.node_id, committed: self.committed }
    }

    fn from_encoded(EncodedVote { term, node, committed }: EncodedVote) -> Result<Self, String> {
        Ok(Vote { leader_id: LeaderId { term, node_id: node }, committed })
    }
}

/// The members: one set of voters, or two while they change; the other nodes are learners.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedMembership {
    voters: Vec<BTreeSet<NodeId>>,
    nodes: BTreeMap<NodeId, Member>,
}

impl Encode for Membership<NodeId, Member> {
    type Encoded = EncodedMembership;

    fn to_encoded(&self) -> EncodedMembership {
        let nodes = self.nodes().map(|(&id, member)| (id, member.clone())).collect();
        EncodedMembership { voters: self.get_joint_config().clone(), nodes }
    }

    fn from_encoded(EncodedMembership { voters, nodes }: EncodedMembership) -> Result<Self, String> {
        Membership::new(voters, nodes).map_err(|error| error.to_string())
    }
}

/// The members, and the log entry that set them.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedMembers {
    log_id: Option<EncodedLogId>,
    membership: EncodedMembership,
}

impl Encode for Members {
    type Encoded = EncodedMembers;

    fn to_encoded(&self) -> EncodedMembers {
        EncodedMembers { log_id: self.log_id().to_encoded(), membership: self.membership().to_encoded() }
    }

    fn from_encoded(EncodedMembers { log_id, membership }: EncodedMembers) -> Result<Members, String> {
        Ok(Members::new(Encode::from_encoded(log_id)?, Encode::from_encoded(membership)?))
    }
}

/// A log entry.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedEntry {
    log_id: EncodedLogId,
    payload: EncodedPayload,
}

#[derive(Debug, Serialize, Deserialize)]
enum EncodedPayload {
    Blank,
    Commands(Batch),
    Membership(EncodedMembership),
}

type RaftEntry = Entry<LeaderId, EntryPayload<Batch, NodeId, Member>>;

impl Encode for RaftEntry {
    type Encoded = EncodedEntry;

    fn to_encoded(&self) -> EncodedEntry {
        let payload = match &self.payload {
            EntryPayload::Blank => EncodedPayload::Blank,
            EntryPayload::Normal(batch) => EncodedPayload::Commands(batch.clone()),
            EntryPayload::Membership(membership) => EncodedPayload::Membership(membership.to_encoded()),
        };
        EncodedEntry { log_id: self.log_id.to_encoded(), payload }
    }

    fn from_encoded(EncodedEntry { log_id, payload }: EncodedEntry) -> Result<RaftEntry, String> {
        let payload = match payload {
            EncodedPayload::Blank => EntryPayload::Blank,
            EncodedPayload::Commands(batch) => EntryPayload::Normal(batch),
            EncodedPayload::Membership(membership) => EntryPayload::Membership(Encode::from_encoded(membership)?),
        };
        Ok(Entry { log_id: Encode::from_encoded(log_id)?, payload })
    }
}

/// What a snapshot covers.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedSnapshotMeta {
    last_log_id: Option<EncodedLogId>,
    members: EncodedMembers,
    /// Always empty. Programs that support only cluster version 1 read an id of the snapshot here, and ignore it.
    snapshot_id: String,
}

impl Encode for SnapshotMeta<LeaderId, NodeId, Member> {
    type Encoded = EncodedSnapshotMeta;

    fn to_encoded(&self) -> EncodedSnapshotMeta {
        EncodedSnapshotMeta {
            last_log_id: self.last_log_id.to_encoded(),
            members: self.last_membership.to_encoded(),
            snapshot_id: String::new(),
        }
    }

    fn from_encoded(EncodedSnapshotMeta { last_log_id, members, .. }: EncodedSnapshotMeta) -> Result<Self, String> {
        Ok(SnapshotMeta { last_log_id: Encode::from_encoded(last_log_id)?, last_membership: Encode::from_encoded(members)? })
    }
}
