//! openraft's type configuration. It is generic over the runtime, so that a simulator can run the same node.

use crate::base::raw;
use fairhold_codec::EncodeError;
use fairhold_state::command::{Answer, Command, LOG_FORMAT};
use fairhold_types::{Incarnation, NodeId};
use openraft::{AsyncRuntime, EntryPayload, RaftTypeConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

/// The types that Fairhold configures openraft with.
pub struct Types<RT>(PhantomData<fn() -> RT>);

impl<RT: AsyncRuntime> RaftTypeConfig for Types<RT> {
    type D = Batch;
    type R = BatchResults;
    type NodeId = NodeId;
    type Node = Member;
    type Term = u64;
    type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, NodeId>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Batch, NodeId, Member>;
    type Entry = openraft::Entry<<Self::LeaderId as openraft::vote::RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = RT;
    type Responder<T>
        = openraft::impls::ProgressResponder<Self, T>
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// The commands of one log entry, in order. Each gets its own answer and revision.
///
/// The leader encodes them once, and every node stores and sends the same bytes. Clones share the commands and their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch(Arc<EncodedCommands>);

#[derive(Debug, PartialEq, Eq)]
struct EncodedCommands {
    commands: Vec<Command>,
    /// The encoded commands, with the codec's header and checksum.
    bytes: Box<[u8]>,
}

impl Batch {
    /// Encodes these commands. Fails only if they are larger than `fairhold_codec::BYTES_MAX`.
    pub fn new(commands: Vec<Command>) -> Result<Batch, EncodeError> {
        let bytes = fairhold_codec::encode(LOG_FORMAT, &commands)?.into();
        Ok(Batch(Arc::new(EncodedCommands { commands, bytes })))
    }

    /// The commands, in order.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.0.commands
    }

    /// About how many bytes of memory it takes: its commands, what they point to, and their encoded form.
    #[must_use]
    pub fn memory(&self) -> usize {
        // A command points to about as many bytes as its encoded form has.
        2 * self.0.bytes.len() + size_of_val(self.commands())
    }
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        raw::serialize(&self.0.bytes, serializer)
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Batch, D::Error> {
        let bytes = raw::deserialize(deserializer)?;
        let commands = fairhold_codec::decode(LOG_FORMAT, &bytes).map_err(D::Error::custom)?;
        Ok(Batch(Arc::new(EncodedCommands { commands, bytes: bytes.into() })))
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.commands().len())
    }
}

/// What came of a batch on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResults {
    /// One answer for each command, in the same order.
    pub answers: Vec<Answer>,
    /// How long this node applied them.
    pub took: Duration,
}

/// A member of the cluster, as stored in the replicated membership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its address for clients: `http://host:port`.
    pub url: String,
    /// Its address for peers: `host:port`.
    pub address: String,
    /// The identity of the data directory with which it joined.
    pub incarnation: Incarnation,
}

impl Default for Member {
    fn default() -> Self {
        Member { url: String::new(), address: String::new(), incarnation: Incarnation(0) }
    }
}

// Implemented by hand: a derive would require the same traits of `RT`, which is only a marker.
impl<RT> fmt::Debug for Types<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

impl<RT> Clone for Types<RT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<RT> Copy for Types<RT> {}

impl<RT> Default for Types<RT> {
    fn default() -> Self {
        Types(PhantomData)
    }
}

impl<RT> PartialEq for Types<RT> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<RT> Eq for Types<RT> {}

impl<RT> PartialOrd for Types<RT> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<RT> Ord for Types<RT> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
