//! Watches which nodes a node admits.

use super::{World, WorldInner, slot::RunningNode};
use crate::{
    coverage::{Coverage, Probe},
    facts::Fact,
    oracle::Oracle,
};
use bytes::Bytes;
use fairhold_raft::{
    ConnectionSide, JoinRefusal, JoinRequest, Joined,
    peer::{Introduction, Lane, Refusal, Requester, Service},
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
    coverage: Coverage,
    id: NodeId,
    inner: Arc<dyn Service>,
}

impl WitnessedService {
    pub(super) fn new(world: &World, id: NodeId, inner: Arc<dyn Service>) -> WitnessedService {
        let (oracle, coverage) = (world.oracle.clone(), world.coverage.clone());
        WitnessedService { world: Arc::downgrade(&world.inner), oracle, coverage, id, inner }
    }

    /// This node, once it runs.
    fn running(&self) -> Option<RunningNode> {
        self.world.upgrade().and_then(|inner| inner.lock().slots.get(&self.id)?.running.clone())
    }

    fn admitted(&self, other: NodeId) {
        let Some(running) = self.running() else { return };
        let removed = running.replica.read(|state| state.membership().removed_node(other).is_some());
        self.oracle.observe(&Fact::Admitted { by: self.id, other, removed });
        let members = running.replica.status().members;
        if !members.is_empty() && members.iter().all(|member| member.id != other) {
            self.coverage.probe(Probe::OutsiderAdmitted);
        }
    }
}

impl Service for WitnessedService {
    fn introduction(&self) -> Introduction {
        self.inner.introduction()
    }

    fn admit(&self, other: &Introduction, side: ConnectionSide) -> Result<(), Refusal> {
        let admitted = self.inner.admit(other, side);
        match &admitted {
            Ok(()) => self.admitted(other.id),
            Err(Refusal::Duplicate { .. }) => self.coverage.probe(Probe::DuplicateRefused),
            Err(_) => {}
        }
        admitted
    }

    fn join(&self, request: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        self.inner.join(request)
    }

    fn serve(&self, from: Requester, request: Bytes) -> BoxFuture<'static, Bytes> {
        self.inner.serve(from, request)
    }

    fn disconnected(&self, from: NodeId, lane: Lane) {
        self.inner.disconnected(from, lane);
    }
}
