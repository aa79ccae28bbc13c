//! The dialling side: `TcpPeer` keeps one connection per node and lane, and opens it on demand.

use crate::{
    frame::PAYLOAD_BYTES_MAX,
    handshake::{self, HANDSHAKE_TIMEOUT, HandshakeSettings},
    handshake_error::DialError,
    key::PeerKeys,
    lane::{LaneQueue, LaneTask},
    lane_context::{LaneContext, NOT_READY, SHUTTING_DOWN},
    log_limit::LogLimitBy,
    metrics::PeerMetrics,
    reader::FrameLimits,
    security::PeerSecurity,
};
use bytes::Bytes;
use fairhold_raft::peer::{Introduction, Lane, Peer, PeerError, Refusal, Service, Target};
use fairhold_types::NodeId;
use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The client side of TCP between nodes.
///
/// It starts without a `Service`, because the service itself needs a transport. Until `set_service`, every call fails
/// with `Unreachable`.
pub struct TcpPeer {
    shared: Arc<LaneContext>,
    /// By node and lane. While a node's address or data directory changes, a pair has more than one entry.
    lanes: Mutex<HashMap<(NodeId, Lane), Vec<OpenLane>>>,
    runtime: Handle,
    tasks: TaskTracker,
}

struct OpenLane {
    to: Target,
    queue: LaneQueue,
}

impl TcpPeer {
    /// A client that runs its tasks on this runtime and authenticates with these keys.
    #[must_use]
    pub fn new(runtime: Handle, keys: PeerKeys) -> Self {
        Self::with_handshake_timeout(runtime, keys, HANDSHAKE_TIMEOUT)
    }

    /// Like `new`, with another timeout for connections and handshakes.
    #[must_use]
    pub fn with_handshake_timeout(runtime: Handle, keys: PeerKeys, time_limit: Duration) -> Self {
        Self::with_settings(runtime, keys, PeerSecurity::plain(), time_limit)
    }

    /// Like `new`, with connections that are protected in this way.
    #[must_use]
    pub fn with_security(runtime: Handle, keys: PeerKeys, security: PeerSecurity) -> Self {
        Self::with_settings(runtime, keys, security, HANDSHAKE_TIMEOUT)
    }

    fn with_settings(runtime: Handle, keys: PeerKeys, security: PeerSecurity, time_limit: Duration) -> Self {
        let shared = LaneContext {
            service: RwLock::new(None),
            settings: HandshakeSettings { keys, security, frame_limits: FrameLimits::default(), time_limit },
            closing: CancellationToken::new(),
            refusals: Mutex::default(),
            tls_log: LogLimitBy::default(),
            metrics: PeerMetrics::default(),
        };
        TcpPeer { shared: Arc::new(shared), lanes: Mutex::default(), runtime, tasks: TaskTracker::new() }
    }

    /// The counters of this client, which the server of the same node shares.
    #[must_use]
    pub fn metrics(&self) -> PeerMetrics {
        self.shared.metrics.clone()
    }

    /// Sets the service that knows this node's identity and admits others. Call it once, before the first request.
    pub fn set_service(&self, service: Arc<dyn Service>) {
        *self.shared.service.write() = Some(service);
    }

    /// Closes all connections and waits for their tasks. Pending calls and all later ones fail.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // The service owns this client indirectly. Without this step, neither would ever be freed.
        self.shared.service.write().take();
    }

    /// The queue of a lane. The first request to the lane creates it.
    fn lane(&self, to: &Target, lane: Lane) -> LaneQueue {
        let mut lanes = self.lanes.lock();
        let open_lanes = lanes.entry((to.id, lane)).or_default();
        if let Some(found) = open_lanes.iter().find(|open| open.to == *to) {
            return found.queue.clone();
        }
        let (queue, task) = LaneTask::new(to.clone(), lane, self.shared.clone());
        self.tasks.spawn_on(task.run(), &self.runtime);
        open_lanes.push(OpenLane { to: to.clone(), queue: queue.clone() });
        queue
    }

    fn enqueue(&self, to: &Target, lane: Lane, request: Bytes) -> Result<BoxFuture<'static, Result<Bytes, PeerError>>, String> {
        if self.shared.closing.is_cancelled() {
            return Err(SHUTTING_DOWN.to_owned());
        }
        if self.shared.service().is_none() {
            return Err(NOT_READY.to_owned());
        }
        if request.len() > PAYLOAD_BYTES_MAX {
            return Err(format!("the request has {} bytes, more than {PAYLOAD_BYTES_MAX}", request.len()));
        }
        let answered = self.lane(to, lane).push(request)?;
        // The lane drops the sender without an answer only at shutdown. By then, the request may have been sent.
        let lost = |_| Err(PeerError::Lost(SHUTTING_DOWN.to_owned()));
        Ok(answered.map(move |answer| answer.unwrap_or_else(lost)).boxed())
    }
}

impl Peer for TcpPeer {
    fn call(&self, to: &Target, lane: Lane, request: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        match self.enqueue(to, lane, request) {
            Ok(answer) => answer,
            Err(reason) => std::future::ready(Err(PeerError::Unreachable(reason))).boxed(),
        }
    }

    fn greet(&self, to: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        let shared = self.shared.clone();
        let to = to.clone();
        async move {
            let Some(service) = shared.service() else {
                return Err(PeerError::Unreachable(NOT_READY.to_owned()));
            };
            tokio::select! {
                biased;
                () = shared.closed() => Err(PeerError::Unreachable(SHUTTING_DOWN.to_owned())),
                greeted = handshake::dial(&to, None, &*service, &shared.settings) => {
                    match &greeted {
                        Err(DialError::Refused(refusal @ Refusal::Key(_))) => shared.log_refusal(&to, refusal),
                        Err(DialError::Tls(fault)) => shared.record_tls_fault(&to, fault),
                        Ok(_) | Err(DialError::Refused(_) | DialError::Failed(_)) => {}
                    }
                    greeted.map(|(_, introduction)| introduction).map_err(|error| error.to_peer_error(&to))
                }
            }
        }
        .boxed()
    }

    fn is_refused(&self, to: &Target) -> BoxFuture<'static, bool> {
        let shared = self.shared.clone();
        let to = to.clone();
        async move {
            let Some(service) = shared.service() else { return false };
            tokio::select! {
                biased;
                () = shared.closed() => false,
                refused = handshake::is_refused(&to, &*service, &shared.settings) => refused,
            }
        }
        .boxed()
    }
}

impl Drop for TcpPeer {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

impl fmt::Debug for TcpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpPeer").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}
