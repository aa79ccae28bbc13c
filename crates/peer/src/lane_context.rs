//! The context that all lanes of one client share.

use crate::{handshake::HandshakeSettings, log_limit::LogLimitBy, metrics::PeerMetrics};
use fairhold_raft::peer::{Refusal, Service, Target};
use fairhold_trust::fault::TlsFault;
use fairhold_types::NodeId;
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, sync::Arc};
use tokio_util::sync::CancellationToken;

pub(crate) const SHUTTING_DOWN: &str = "this node is shutting down";

pub(crate) const NOT_READY: &str = "this node is not ready to connect to others";

/// The context that all lanes of one client share.
pub(crate) struct LaneContext {
    pub(crate) service: RwLock<Option<Arc<dyn Service>>>,
    pub(crate) settings: HandshakeSettings,
    pub(crate) closing: CancellationToken,
    /// The last logged refusal of each node.
    pub(crate) refusals: Mutex<HashMap<NodeId, Refusal>>,
    /// One line for each node with a certificate that does not fit.
    pub(crate) tls_log: LogLimitBy<NodeId>,
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
    pub(crate) fn log_refusal(&self, to: &Target, refusal: &Refusal) {
        let before = self.refusals.lock().insert(to.id, refusal.clone());
        if before.is_none_or(|before| before != *refusal) {
            let peer = to.id;
            let address = &to.address;
            tracing::warn!(peer, address, "this node and node {peer} cannot communicate: {refusal}");
        }
    }

    /// Counts a failure of TLS, and logs it once until a connection works again.
    pub(crate) fn record_tls_fault(&self, to: &Target, fault: &TlsFault) {
        self.metrics.tls_failed(fault.reason);
        self.tls_log.log(to.id, |suppressed| {
            let (peer, address) = (to.id, &to.address);
            tracing::warn!(peer, address, suppressed, "this node cannot connect to node {peer} with TLS: {fault}");
        });
    }

    /// The node was admitted: the next refusal is logged again.
    pub(crate) fn forget_refusal(&self, node: NodeId) {
        self.tls_log.forget(node);
        self.refusals.lock().remove(&node);
    }
}
