//! What all lanes of one client need.

use crate::{handshake::Manners, metrics::PeerMetrics};
use fairhold_raft::peer::{Refusal, Service, Target};
use fairhold_types::NodeId;
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, sync::Arc};
use tokio_util::sync::CancellationToken;

pub(crate) const SHUTTING_DOWN: &str = "this node is shutting down";

pub(crate) const NOT_READY: &str = "this node is not ready to connect to others";

/// What all lanes of one client need.
pub(crate) struct LaneContext {
    pub(crate) service: RwLock<Option<Arc<dyn Service>>>,
    pub(crate) manners: Manners,
    pub(crate) closing: CancellationToken,
    /// The refusal that was last logged, by node.
    pub(crate) refusals: Mutex<HashMap<NodeId, Refusal>>,
    pub(crate) metrics: PeerMetrics,
}

impl LaneContext {
    pub(crate) fn service(&self) -> Option<Arc<dyn Service>> {
        self.service.read().clone()
    }

    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// Logs a refusal, unless it was the last one logged for the node.
    pub(crate) fn tell_refusal(&self, to: &Target, refusal: &Refusal) {
        let before = self.refusals.lock().insert(to.id, refusal.clone());
        if before.is_none_or(|before| before != *refusal) {
            let (peer, address) = (to.id, &to.address);
            tracing::warn!(peer, address, "this node and node {peer} cannot communicate: {refusal}");
        }
    }

    /// The node was admitted: a later refusal is news again.
    pub(crate) fn forget_refusal(&self, node: NodeId) {
        self.refusals.lock().remove(&node);
    }
}
