//! The listeners for clients and operators: binds their ports and stops their tasks.

use super::{certificates::Certificates, error::ServeError};
use crate::{
    config::{ServeConfig, start::StartingNode},
    member::client_address,
};
use fairhold_http::{Hosts, Limits, Listener};
use fairhold_types::limits::STATUS_CONNECTIONS_MAX;
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::lookup_host,
    sync::oneshot,
    task::{JoinError, JoinHandle},
    time::timeout,
};

/// A listener that runs until `stop`.
pub(super) struct ListenerTask {
    pub(super) name: &'static str,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: JoinHandle<()>,
}

impl ListenerTask {
    pub(super) fn ended(&self, result: Result<(), JoinError>) -> ServeError {
        match result {
            Ok(()) => ServeError::Ended(format!("the {} listener", self.name)),
            Err(error) => ended(error),
        }
    }

    pub(super) async fn stop(self, limit: Duration) {
        let ListenerTask { name, stop, mut task } = self;
        if stop.send(()).is_err() {
            tracing::debug!("the {name} listener had already ended");
        }
        match timeout(limit, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the {name} listener failed"),
            Err(_) => {
                tracing::warn!("the {name} listener still has connections after {} s: closing them", limit.as_secs());
                task.abort();
            }
        }
    }
}

/// The host names of this cluster, as far as the node knows its members.
pub(super) fn hosts(config: &ServeConfig, node: Option<&StartingNode>) -> Hosts {
    let members = node.into_iter().flat_map(|node| node.members.values()).chain([&config.own]);
    Hosts::new(members.map(|member| client_address(member).to_owned()), config.allowed_hosts.iter().cloned())
}

/// The port for clients, with TLS if this node has a certificate, and the plain port beside it.
pub(super) async fn listen_for_clients(config: &ServeConfig, certificates: &Certificates) -> Result<Listener, ServeError> {
    let listener = bind(&config.listen, "clients", "--listen").await?;
    let Some(tls) = certificates.clients() else { return Ok(listener) };
    let mut listener = listener.with_tls(tls.clone());
    if let Some(address) = config.client_tls.as_ref().and_then(|tls| tls.listen_plain.as_ref()) {
        let bind_plain = |address| listener.listen_plain(address);
        bind_first(address, "clients without TLS", "--listen-plain", bind_plain).await?;
    }
    Ok(listener)
}

/// The status port for operators, if configured.
pub(super) async fn listen_for_status(config: &ServeConfig, hosts: Hosts) -> Result<Option<Listener>, ServeError> {
    let Some(address) = &config.listen_status else { return Ok(None) };
    let connections = STATUS_CONNECTIONS_MAX;
    let per_address = STATUS_CONNECTIONS_MAX;
    let limits = Limits { connections, per_address, ..config.limits };
    Ok(Some(bind(address, "operators", "--listen-status").await?.with_limits(limits).with_hosts(hosts)))
}

/// Binds the first address of the name that is available.
async fn bind(listen: &str, whom: &'static str, flag: &'static str) -> Result<Listener, ServeError> {
    bind_first(listen, whom, flag, Listener::bind).await
}

async fn bind_first<T>(
    listen: &str,
    whom: &'static str,
    flag: &'static str,
    mut bind: impl FnMut(SocketAddr) -> io::Result<T>,
) -> Result<T, ServeError> {
    let failed = |error| ServeError::Listen { address: listen.to_owned(), whom, flag, error };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host(listen).await.map_err(failed)? {
        match bind(address) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// Waits until the stop signal arrives or its sender is gone.
pub(super) async fn stop_requested(stopped: oneshot::Receiver<()>) {
    drop(stopped.await);
}

/// A task of the server failed.
pub(super) fn ended(error: JoinError) -> ServeError {
    ServeError::Ended(error.to_string())
}
