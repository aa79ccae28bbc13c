//! Watches which nodes a node admits.

use super::{World, WorldInner};
use crate::{facts::Fact, oracle::Oracle};
use bytes::Bytes;
use fairhold_raft::{
    ConnectionSide, JoinRefusal, JoinRequest, Joined,
    peer::{Introduction, Lane, Refusal, Service},
};
use fairhold_types::NodeId;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// A node's service, and who is admitted to it.
pub(super) struct WitnessedService {
    /// Weak, because the world owns the network, and the network owns this.
    world: Weak<Mutex<WorldInner>>,
    oracle: Oracle,
    id: NodeId,
    inner: Arc<dyn Service>,
}

impl WitnessedService {
    pub(super) fn new(world: &World, id: NodeId, inner: Arc<dyn Service>) -> WitnessedService {
        WitnessedService { world: Arc::downgrade(&world.inner), oracle: world.oracle.clone(), id, inner }
    }

    /// Whether this node has applied the removal of another one.
    fn knows_removal_of(&self, other: NodeId) -> bool {
        let running = self.world.upgrade().and_then(|inner| inner.lock().slots.get(&self.id)?.running.clone());
        running.is_some_and(|running| running.replica.read(|state| state.membership().removed_node(other).is_some()))
    }
}

impl Service for WitnessedService {
    fn introduction(&self) -> Introduction {
        self.inner.introduction()
    }

    fn admit(&self, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal> {
        self.inner.admit(other, side)?;
        let removed = self.knows_removal_of(other.id);
        self.oracle.observe(&Fact::Admitted { by: self.id, other: other.id, removed });
        Ok(())
    }

    fn join(&self, request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        self.inner.join(request)
    }

    fn serve(&self, from: NodeId, lane: Lane, request: Bytes) -> BoxFuture<'static, Bytes> {
        self.inner.serve(from, lane, request)
    }

    fn disconnected(&self, from: NodeId, lane: Lane) {
        self.inner.disconnected(from, lane);
    }
}
