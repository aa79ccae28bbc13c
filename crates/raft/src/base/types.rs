//! openraft's type configuration. It is generic over the runtime, so that a simulator can run the same node.

use fairhold_state::command::{Answer, Command};
use fairhold_types::{Incarnation, NodeId};
use openraft::{AsyncRuntime, EntryPayload, RaftTypeConfig};
use serde::{Deserialize, Serialize};
use std::{fmt, marker::PhantomData, sync::Arc};

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

/// The commands of one log entry, in order. Each gets its own answer and revision. All clones share the commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch(Arc<Vec<Command>>);

impl Batch {
    /// A batch of these commands.
    #[must_use]
    pub fn new(commands: Vec<Command>) -> Batch {
        Batch(Arc::new(commands))
    }

    /// The commands, in order.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.0
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.0.len())
    }
}

/// One answer for each command of a batch, in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResults(pub Vec<Answer>);

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
