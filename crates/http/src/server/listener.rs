//! Sockets: accepts connections, bounds what they may cost, and hands their requests to the API.
//!
//! Only this module uses real tasks and real time. The simulator calls the API directly.
#![expect(clippy::disallowed_methods, reason = "real sockets need real tasks and real time")]

mod calls;
mod connection;
mod context;
mod framing;
mod handshake;
mod handshake_log;
mod head;
mod refusal;
mod spare;
mod timed_stream;
mod transport;

use self::context::{ConnectionContext, TIMEOUTS, Timeouts};
use crate::{
    edge::api_service::ApiService,
    edge::cluster_header::ClusterHeader,
    edge::metrics::HttpMetrics,
    edge::origin::Hosts,
    edge::quota::{Quota, Share},
    server::connection_limits::ConnectionLimits,
    server::connection_slots::ClientSlots,
    server::handshake_slots::HandshakeSlots,
};
use fairhold_trust::client_port::ClientPortTls;
use fairhold_types::limits::{
    ADDRESS_PART, ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, HANDSHAKES_PER_CORE_MAX,
};
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    thread::available_parallelism,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The limits on connections and on the memory that they may pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in total.
    pub connections: usize,
    /// Connections from one address.
    pub per_address: usize,
    /// Bytes of all request bodies over 4 KiB that are being handled. One address may use half of them.
    pub body_bytes: usize,
    /// Bytes of all answers waiting for their sockets, beyond each connection's own part. One address may use half of them.
    pub answer_bytes: usize,
}

impl Limits {
    /// The limits on connections alone, which can change.
    #[must_use]
    pub fn of_connections(self) -> ConnectionLimits {
        ConnectionLimits::new(self.connections, self.per_address)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: CONNECTIONS_MAX,
            per_address: CONNECTIONS_PER_ADDRESS_MAX,
            body_bytes: BODIES_BYTES_MAX,
            answer_bytes: ANSWERS_BYTES_MAX,
        }
    }
}

/// The backlog: connections that the kernel may keep ready.
const BACKLOG: i32 = 4_096;
/// Excess connections that get an answer and some time to read it. Further ones are closed without an answer.
const TURNED_AWAY_MAX: usize = 256;
/// The pause when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens for clients, and a second one if there is a plain port beside the port with TLS.
#[derive(Debug)]
pub struct Listener {
    port: Port,
    plain_port: Option<Port>,
    limits: Limits,
    connections: ConnectionLimits,
    metrics: HttpMetrics,
    cluster: ClusterHeader,
    hosts: Hosts,
}

impl Listener {
    /// Listens at an address. Must be called within a tokio runtime.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener {
            port: Port::bind(address)?,
            plain_port: None,
            limits: Limits::default(),
            connections: Limits::default().of_connections(),
            metrics: HttpMetrics::default(),
            cluster: ClusterHeader::from_source(|| None),
            hosts: Hosts::default(),
        })
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Listener {
        Listener { limits, connections: limits.of_connections(), ..self }
    }

    /// Takes the limits on connections from here, so that they can change while it serves.
    #[must_use]
    pub fn with_connection_limits(self, connections: ConnectionLimits) -> Listener {
        Listener { connections, ..self }
    }

    /// Adds the cluster's id to the refusals that the listener itself sends.
    #[must_use]
    pub fn with_cluster(self, cluster: ClusterHeader) -> Listener {
        Listener { cluster, ..self }
    }

    /// Sets the metrics to count in.
    #[must_use]
    pub fn with_metrics(mut self, metrics: HttpMetrics) -> Listener {
        self.metrics = metrics;
        self
    }

    /// Sets the server's own host names.
    #[must_use]
    pub fn with_hosts(self, hosts: Hosts) -> Listener {
        Listener { hosts, ..self }
    }

    /// Requires TLS of every client.
    #[must_use]
    pub fn with_tls(mut self, tls: ClientPortTls) -> Listener {
        self.port.tls = Some(Arc::new(tls));
        self
    }

    /// Listens at a second address, without TLS. Both share all limits.
    pub fn listen_plain(&mut self, address: SocketAddr) -> io::Result<()> {
        self.plain_port = Some(Port::bind(address)?);
        Ok(())
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.port.socket.local_addr()
    }

    /// The address of the second port, if there is one.
    pub fn plain_addr(&self) -> Option<io::Result<SocketAddr>> {
        self.plain_port.as_ref().map(|port| port.socket.local_addr())
    }

    /// Serves until `shutdown` resolves. Then it accepts no more connections, gives running requests a bounded time, and closes.
    pub async fn serve(self, api: ApiService, shutdown: impl Future<Output = ()>) {
        self.serve_with(TIMEOUTS, api, shutdown).await;
    }

    async fn serve_with(self, timeouts: Timeouts, api: ApiService, shutdown: impl Future<Output = ()>) {
        let Listener { port, plain_port, limits, connections: connection_limits, metrics, cluster, hosts } = self;
        let mut ports = Ports { ports: [port].into_iter().chain(plain_port).collect(), next: 0 };
        let cores = available_parallelism().map_or(1, usize::from);
        let context = ConnectionContext {
            api,
            timeouts,
            metrics,
            cluster,
            hosts,
            slots: ClientSlots::new(connection_limits),
            handshakes: HandshakeSlots::new(cores * HANDSHAKES_PER_CORE_MAX),
            handshake_log: Arc::default(),
            bodies: Quota::new(limits.body_bytes, limits.body_bytes / ADDRESS_PART),
            answers: Quota::new(limits.answer_bytes, limits.answer_bytes / ADDRESS_PART),
        };
        let turned_away = Quota::new(TURNED_AWAY_MAX, TURNED_AWAY_MAX);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut spare = spare::Spare::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let (index, accepted) = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the task of a connection failed");
                    }
                    continue;
                }
                accepted = poll_fn(|cx| ports.poll_accept(cx)) => accepted,
            };
            let port = &ports.ports[index];
            match accepted {
                Ok((stream, peer)) => match ClientSlots::take(&context.slots, peer.ip()) {
                    Some(slot) => {
                        let (tls, context) = (port.tls.clone(), context.clone());
                        connections.spawn(connection::serve_connection(stream, peer, tls, context, slot, graceful.watcher()));
                    }
                    None => {
                        context.metrics.turn_away(context.slots.is_full());
                        // A client with TLS cannot read a plain answer, and a handshake would cost too much.
                        if let (None, Some(share)) = (&port.tls, Quota::take(&turned_away, peer.ip(), 1)) {
                            connections.spawn(turn_away(stream, peer, context.cluster.clone(), share));
                        }
                    }
                },
                Err(error) if spare.shed(&error, &port.socket) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(ports);
        context.handshakes.stop();
        if tokio::time::timeout(timeouts.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "aborted the requests that were still running at the end of the shutdown"
            );
        }
        connections.shutdown().await;
    }
}

/// A socket that listens, plain or with TLS.
#[derive(Debug)]
struct Port {
    socket: TcpListener,
    tls: Option<Arc<ClientPortTls>>,
}

impl Port {
    fn bind(address: SocketAddr) -> io::Result<Port> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restarted server must not wait for the connections of its predecessor.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Port { socket: TcpListener::from_std(socket.into())?, tls: None })
    }
}

/// The ports of a listener. They take turns, so that a flood at one of them does not shut out the other.
#[derive(Debug)]
struct Ports {
    ports: Vec<Port>,
    /// The port that is asked first.
    next: usize,
}

impl Ports {
    /// The next connection, and the index of its port.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<(usize, io::Result<(TcpStream, SocketAddr)>)> {
        for turn in 0..self.ports.len() {
            let index = (self.next + turn) % self.ports.len();
            if let Poll::Ready(accepted) = self.ports[index].socket.poll_accept(cx) {
                self.next = index + 1;
                return Poll::Ready((index, accepted));
            }
        }
        Poll::Pending
    }
}

/// Answers an excess connection with a refusal.
async fn turn_away(stream: TcpStream, peer: SocketAddr, cluster: ClusterHeader, _share: Share) {
    tracing::debug!(%peer, "refused a connection: too many connections");
    match stream.try_write(&refusal::too_many_connections(&cluster)) {
        Ok(_) => timed_stream::lingering_close(&stream).await,
        Err(error) => tracing::debug!(%peer, %error, "cannot send the answer to a refused connection"),
    }
}

#[cfg(test)]
mod smuggling_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
