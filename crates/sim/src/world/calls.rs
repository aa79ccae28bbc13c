//! The calls that clients make to the machines.

use super::World;
use crate::{
    host::{Host, HostRuntime},
    net::CLIENTS,
};
use axum::body::Body;
use bytes::Bytes;
use fairhold_http::{Peer, Undelivered};
use fairhold_types::NodeId;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use openraft_rt::AsyncRuntime;
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};
use tokio::sync::oneshot;

/// Adds what the listener adds before the router.
pub(crate) fn from_client(mut request: Request<Body>) -> Request<Body> {
    request.extensions_mut().insert(Peer::at(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    request
}

/// How long the server may take for a request, including its wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredWithin(pub(crate) Duration);

/// How often a server's lateness is checked, and the tolerance.
const LOOK: Duration = Duration::from_millis(250);
const LATE: Duration = Duration::from_millis(500);

/// The answer to an HTTP call.
pub(crate) struct CallReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer in flight. If no client takes it, the server's connection reports it as undelivered.
struct Delivery {
    reply: CallReply,
    undelivered: Option<Undelivered>,
    host: Arc<Host>,
}

impl Delivery {
    fn take(mut self) -> CallReply {
        self.undelivered = None;
        CallReply { body: std::mem::take(&mut self.reply.body), headers: std::mem::take(&mut self.reply.headers), ..self.reply }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let host = &self.host;
        if let Some(undelivered) = self.undelivered.take().filter(|_| !host.is_dead()) {
            host.within(|| undelivered.run());
        }
    }
}

impl World {
    /// Sends a client's HTTP request to a node. `None` if no answer arrived: the machine was off, or the connection
    /// broke.
    pub(crate) async fn call(&self, to: NodeId, request: Request<Body>) -> Option<CallReply> {
        if !self.net.pass(CLIENTS, to).await {
            return None;
        }
        let (host, running) = (self.host(to)?, self.running(to)?);
        let (mut answer, answered) = oneshot::channel();
        let server = Arc::clone(&host);
        let late = self.clone().report_if_late(&request);
        drop(host.spawn(async move {
            let serve = async {
                let mut response = running.api.call(from_client(request)).await;
                let undelivered = response.extensions_mut().remove();
                let (parts, body) = response.into_parts();
                let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                Delivery { reply: CallReply { status: parts.status, headers: parts.headers, body }, undelivered, host: server }
            };
            // As in the real server, the work for a disconnected client is dropped.
            let served = tokio::select! {
                biased;
                reply = serve => Some(reply),
                () = answer.closed() => None,
                () = late => None,
            };
            if let Some(delivery) = served {
                // The caller may have disconnected.
                answer.send(delivery).ok();
            }
        }));
        let delivery = answered.await.ok()?;
        self.net.pass(to, CLIENTS).await.then(|| delivery.take())
    }

    /// Reports a server that works on a request for longer than allowed, by its own clock. No fault excuses it. Runs on
    /// the server, so a pause counts as one check only.
    fn report_if_late(self, request: &Request<Body>) -> impl Future<Output = ()> + Send + 'static {
        let within = request.extensions().get::<AnsweredWithin>().copied();
        let what = format!("{} {}", request.method(), request.uri());
        async move {
            let Some(AnsweredWithin(within)) = within else { return std::future::pending().await };
            let looks = (within + LATE).as_millis() / LOOK.as_millis();
            for _ in 0..looks {
                HostRuntime::sleep(LOOK).await;
            }
            self.oracle.violation(format!("{what} has no answer after {:?}; allowed were {within:?}", within + LATE));
        }
    }
}
