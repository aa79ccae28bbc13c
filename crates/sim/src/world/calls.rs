//! What clients ask of the machines.

use super::World;
use crate::net::CLIENTS;
use axum::body::Body;
use bytes::Bytes;
use fairhold_http::PeerAddress;
use fairhold_types::NodeId;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use std::net::{IpAddr, Ipv4Addr};
use tokio::sync::oneshot;
use tower::ServiceExt;

/// As the listener hands it to the router.
pub(crate) fn from_client(mut request: Request<Body>) -> Request<Body> {
    request.extensions_mut().insert(PeerAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    request
}

/// What an HTTP call came to, where it came to anything.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl World {
    /// A client's HTTP request to a node. `None` where no answer arrived: nobody was there, or the connection broke.
    pub(crate) async fn call(&self, to: NodeId, request: Request<Body>) -> Option<Reply> {
        if !self.net.pass(CLIENTS, to).await {
            return None;
        }
        let (host, running) = (self.host(to)?, self.running(to)?);
        let (mut answer, answered) = oneshot::channel();
        drop(host.spawn(async move {
            let serve = async {
                let Ok(response) = running.router.oneshot(from_client(request)).await;
                let (parts, body) = response.into_parts();
                let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                Reply { status: parts.status, headers: parts.headers, body }
            };
            // As a server does: what nobody waits for any more is dropped.
            let served = tokio::select! {
                biased;
                reply = serve => Some(reply),
                () = answer.closed() => None,
            };
            if let Some(reply) = served {
                // The caller may have just gone.
                answer.send(reply).ok();
            }
        }));
        let reply = answered.await.ok()?;
        self.net.pass(to, CLIENTS).await.then_some(reply)
    }
}
