//! The accepting side: it admits nodes, passes their requests to the service in order, and sends the answers.

use crate::{
    acceptor::Acceptor,
    exchange::Connection,
    frame::{Frame, FrameError, FrameKind, WriteBuffer},
    handshake::{self, Accepted, HANDSHAKE_TIMEOUT, HandshakeSettings},
    handshake_error::HandshakeError,
    key::PeerKeys,
    metrics::{Flow, PeerMetrics},
    peer_socket::WriteSocket,
    pending::PendingSlot,
    reader::{FrameLimits, FrameReader},
    security::PeerSecurity,
    serve_join::{self, JOIN_TIMEOUT},
};
use bytes::Bytes;
use fairhold_raft::peer::{Refusal, Requester, Service};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, poll, stream::FuturesUnordered};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::{Notify, mpsc},
    task::{JoinError, JoinSet},
    time::sleep,
};

/// The maximum number of a connection's requests in progress, and of its answers that wait to be written. At the limit,
/// the server stops reading the connection until one is done. A client of this version keeps within the limit: it has
/// no more than this in flight.
pub const UNANSWERED_MAX: usize = crate::lane::LANE_IN_FLIGHT_MAX;

/// The maximum number of bytes of these requests and answers. A client of this version keeps within it.
pub const UNANSWERED_BYTES_MAX: usize = crate::lane::LANE_BYTES_MAX;

/// The pause after the operating system fails to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens for other nodes.
#[derive(Debug)]
pub struct PeerServer {
    listener: TcpListener,
    settings: HandshakeSettings,
    join_timeout: Duration,
    metrics: PeerMetrics,
}

impl PeerServer {
    /// Binds the port. Connections wait until `serve`.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(PeerServer {
            listener: TcpListener::bind(address).await?,
            settings: HandshakeSettings {
                keys: PeerKeys::none(),
                security: PeerSecurity::plain(),
                frame_limits: FrameLimits::default(),
                time_limit: HANDSHAKE_TIMEOUT,
            },
            join_timeout: JOIN_TIMEOUT,
            metrics: PeerMetrics::default(),
        })
    }

    /// Sets the timeout of handshakes.
    #[must_use]
    pub fn with_handshake_timeout(self, time_limit: Duration) -> Self {
        PeerServer { settings: HandshakeSettings { time_limit, ..self.settings }, ..self }
    }

    /// Sets how long the cluster's decision on a join may take.
    #[must_use]
    pub fn with_join_timeout(self, join_timeout: Duration) -> Self {
        PeerServer { join_timeout, ..self }
    }

    /// Sets the keys with which nodes authenticate. Without keys, the server accepts every node.
    #[must_use]
    pub fn with_keys(self, keys: PeerKeys) -> Self {
        PeerServer { settings: HandshakeSettings { keys, ..self.settings }, ..self }
    }

    /// Sets how connections are protected. Pass a clone of what the client of this node has.
    #[must_use]
    pub fn with_security(self, security: PeerSecurity) -> Self {
        PeerServer { settings: HandshakeSettings { security, ..self.settings }, ..self }
    }

    /// Sets the limits of incomplete frames.
    #[must_use]
    pub fn with_frame_limits(self, frame_limits: FrameLimits) -> Self {
        PeerServer { settings: HandshakeSettings { frame_limits, ..self.settings }, ..self }
    }

    /// Sets the counters.
    #[must_use]
    pub fn with_metrics(self, metrics: PeerMetrics) -> Self {
        PeerServer { metrics, ..self }
    }

    /// The address of the listening socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is ready, then closes every connection and waits for the tasks.
    pub async fn serve(self, service: Arc<dyn Service>, shutdown: impl Future<Output = ()> + Send) {
        let acceptor = Arc::new(Acceptor::new(service, self.settings, self.join_timeout, self.metrics));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => log_panic(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let slot = acceptor.enter_pending(from);
                        connections.spawn(handle_connection(stream, from, acceptor.clone(), slot));
                    }
                    Err(error) => {
                        acceptor.accept_error_log.log(|suppressed| {
                            tracing::warn!(suppressed, "cannot accept a peer connection: {error}");
                        });
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        connections.shutdown().await;
    }
}

/// Handles one connection, from its first byte to its end.
async fn handle_connection(stream: TcpStream, address: SocketAddr, acceptor: Arc<Acceptor>, slot: PendingSlot) {
    let outcome = tokio::select! {
        biased;
        outcome = handshake::accept(stream, &*acceptor.service, &acceptor.settings) => outcome,
        () = slot.ended() => return,
    };
    match &outcome {
        Ok(Accepted::Refused { refusal, .. }) => acceptor.metrics.refuse(refusal),
        Ok(Accepted::Unauthenticated(mismatch)) => acceptor.metrics.refuse(&Refusal::Key(*mismatch)),
        Ok(Accepted::Admitted { .. } | Accepted::Greeted | Accepted::Joining(_)) => {
            acceptor.unauthenticated_log.forget(address.ip());
            acceptor.tls_log.forget(address.ip());
        }
        Err(HandshakeError::Tls(fault)) => acceptor.metrics.tls_failed(fault.reason),
        Err(_) => {
            acceptor.metrics.not_nodes.inc();
        }
    }
    match outcome {
        Ok(Accepted::Admitted { connection, requester }) => serve(connection, requester, address, &acceptor).await,
        Ok(Accepted::Greeted) => tracing::debug!(%address, "a member fetched this node's identity"),
        Ok(Accepted::Joining(joining)) => serve_join::serve(*joining, address, &acceptor).await,
        Ok(Accepted::Unauthenticated(mismatch)) => acceptor.unauthenticated_log.log(address.ip(), |suppressed| {
            tracing::warn!(%address, suppressed, "refused a connection to the peer port without an answer: {mismatch}");
        }),
        Ok(Accepted::Refused { from, refusal: Refusal::Starting }) => {
            tracing::debug!(peer = from, %address, "deferred a peer connection until this node has started");
        }
        Ok(Accepted::Refused { from, refusal }) => acceptor.refusal_log.log(|suppressed| {
            tracing::warn!(peer = from, %address, suppressed, "this node and a peer cannot communicate: {refusal}");
        }),
        // A health check, of `fairhold doctor` or of a load balancer.
        Err(error @ HandshakeError::Silent) => tracing::debug!(%address, "closed a connection to the peer port: {error}"),
        Err(HandshakeError::Tls(fault)) => acceptor.tls_log.log(address.ip(), |suppressed| {
            tracing::warn!(%address, suppressed, "refused a connection to the peer port: {fault}");
        }),
        Err(error) => acceptor.not_node_log.log(|suppressed| {
            tracing::warn!(%address, suppressed, "closed a connection to the peer port: {error}");
        }),
    }
}

/// Serves an admitted node until its connection ends or is evicted by newer ones.
async fn serve(connection: Connection, requester: Requester, address: SocketAddr, acceptor: &Acceptor) {
    let Requester { node: from, lane, .. } = requester;
    let (slot, evicted) = acceptor.slots.take(from, lane);
    if evicted {
        acceptor.metrics.evicted.inc();
        acceptor.eviction_log.log(|suppressed| {
            tracing::info!(peer = from, %address, ?lane, suppressed, "node {from} has too many connections: closed the oldest");
        });
    }
    let ended = tokio::select! {
        biased;
        ended = serve_connection(connection, requester, acceptor) => ended,
        () = slot.ended() => return,
    };
    match ended {
        Ok(()) => tracing::debug!(peer = from, ?lane, "a peer closed its connection"),
        Err(error) => acceptor.broken_connection_log.log(|suppressed| {
            tracing::info!(peer = from, %address, ?lane, suppressed, "a peer connection broke: {error}");
        }),
    }
    acceptor.service.disconnected(from, lane);
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("the task of a peer connection failed: {error}");
    }
}

/// Serves an admitted node until one of the two directions ends.
async fn serve_connection(connection: Connection, requester: Requester, acceptor: &Acceptor) -> Result<(), FrameError> {
    let (mut expired, has_tls) = (pin!(connection.certificate_expired()), connection.has_tls());
    let Connection { mut reader, mut writer, .. } = connection;
    let (answers, waiting) = mpsc::channel(UNANSWERED_MAX);
    let flow = &acceptor.metrics.accepted;
    let _open = flow.open(has_tls);
    tokio::select! {
        biased;
        ended = read_requests(&mut reader, &answers, requester, acceptor) => ended,
        ended = write_answers(&mut writer, waiting, flow) => ended,
        () = &mut expired => Err(FrameError::CertificateExpired),
    }
}

/// An answer, and its share of the connection's bytes.
struct Answered {
    frame: Frame,
    share: ByteShare,
}

/// The bytes of a connection's requests in progress.
#[derive(Default)]
struct BytesInFlight {
    bytes: AtomicUsize,
    decreased: Notify,
}

/// Counts the bytes of a request until its answer is ready, or of an answer until it is written.
struct ByteShare {
    bytes: usize,
    in_flight: Arc<BytesInFlight>,
}

impl ByteShare {
    fn new(in_flight: &Arc<BytesInFlight>, bytes: usize) -> ByteShare {
        in_flight.bytes.fetch_add(bytes, Relaxed);
        ByteShare { bytes, in_flight: in_flight.clone() }
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.in_flight.bytes.fetch_sub(self.bytes, Relaxed);
        self.in_flight.decreased.notify_one();
    }
}

async fn read_requests(
    requests: &mut FrameReader,
    answers: &mpsc::Sender<Answered>,
    requester: Requester,
    acceptor: &Acceptor,
) -> Result<(), FrameError> {
    let mut in_progress: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
    let in_flight = Arc::new(BytesInFlight::default());
    loop {
        let over_budget = in_flight.bytes.load(Relaxed) >= UNANSWERED_BYTES_MAX;
        let may_read = in_progress.len() < UNANSWERED_MAX && !over_budget;
        if !may_read {
            requests.pause();
        }
        let done = tokio::select! {
            biased;
            Some(answer) = in_progress.next(), if !in_progress.is_empty() => answer,
            request = requests.next(), if may_read => {
                let Some(request) = request? else { return Ok(()) };
                acceptor.metrics.accepted.received(request.payload.len());
                let mut answer = start_request(request, requester, &*acceptor.service, &in_flight)?;
                // Poll once here, so that requests start in order, whatever the service does before its first await.
                match poll!(&mut answer) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        in_progress.push(answer);
                        continue;
                    }
                }
            }
            () = in_flight.decreased.notified(), if over_budget => continue,
        };
        if answers.send(done).await.is_err() {
            return Ok(());
        }
    }
}

fn start_request(
    request: Frame,
    requester: Requester,
    service: &dyn Service,
    in_flight: &Arc<BytesInFlight>,
) -> Result<BoxFuture<'static, Answered>, FrameError> {
    match request.kind {
        FrameKind::Request => {
            let number = request.number;
            let share = ByteShare::new(in_flight, request.payload.len());
            let answer = service.serve(requester, request.payload);
            let answered = move |payload: Bytes| {
                let answer = ByteShare::new(&share.in_flight, payload.len());
                Answered { frame: Frame { kind: FrameKind::Answer, number, payload }, share: answer }
            };
            Ok(answer.map(answered).boxed())
        }
        FrameKind::Hello
        | FrameKind::Welcome
        | FrameKind::Refused
        | FrameKind::Answer
        | FrameKind::Challenge
        | FrameKind::Proof
        | FrameKind::Introduction
        | FrameKind::Admitted
        | FrameKind::Join
        | FrameKind::Joined => Err(FrameError::UnexpectedKind(request.kind)),
    }
}

async fn write_answers(socket: &mut WriteSocket, mut answers: mpsc::Receiver<Answered>, flow: &Flow) -> Result<(), FrameError> {
    let mut buffer = WriteBuffer::new();
    let mut shares = Vec::new();
    while let Some(Answered { frame, share }) = answers.recv().await {
        flow.sent(frame.payload.len());
        buffer.push(frame)?;
        shares.push(share);
        while !buffer.is_full() {
            let Ok(Answered { frame, share }) = answers.try_recv() else { break };
            flow.sent(frame.payload.len());
            buffer.push(frame)?;
            shares.push(share);
        }
        buffer.write_to(socket).await?;
        shares.clear();
    }
    Ok(())
}
