//! The receiving side: accepts connections, admits nodes, passes their requests to the service in order, and sends the answers.

use crate::{
    exchange::Connection,
    frame::{Frame, FrameError, FrameKind, WriteBuffer},
    handshake::{self, Accepted, HANDSHAKE_TIMEOUT, HandshakeSettings},
    key::PeerKeys,
    log_limit::{LogLimit, LogLimitByAddress},
    metrics::{Flow, PeerMetrics},
    pending::{PendingConnections, PendingSlot},
    reader::{Arrivals, FrameReader},
    slots::ConnectionSlots,
};
use bytes::Bytes;
use fairhold_raft::peer::{Lane, Refusal, Service};
use fairhold_types::NodeId;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, poll, stream::FuturesUnordered};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, ToSocketAddrs, tcp::OwnedWriteHalf},
    sync::{Notify, mpsc},
    task::{JoinError, JoinSet},
    time::sleep,
};

/// Requests of one connection in progress, and its answers waiting to be written. At the limit, the connection is not read until
/// one is done. A client of this version never reaches the limit: it has no more than this in flight.
pub const UNANSWERED_MAX: usize = crate::lane::LANE_IN_FLIGHT_MAX;

/// Bytes of those requests and answers. A client of this version has no more than this in flight.
pub const UNANSWERED_BYTES_MAX: usize = crate::lane::LANE_BYTES_MAX;

/// The pause after the operating system fails to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens for other nodes.
#[derive(Debug)]
pub struct PeerServer {
    listener: TcpListener,
    settings: HandshakeSettings,
    metrics: PeerMetrics,
}

impl PeerServer {
    /// Binds the port. Connections wait until `serve`.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(PeerServer {
            listener: TcpListener::bind(address).await?,
            settings: HandshakeSettings { keys: PeerKeys::none(), arrivals: Arrivals::default(), time_limit: HANDSHAKE_TIMEOUT },
            metrics: PeerMetrics::default(),
        })
    }

    /// Sets the timeout of handshakes.
    #[must_use]
    pub fn with_handshake_timeout(self, time_limit: Duration) -> Self {
        PeerServer { settings: HandshakeSettings { time_limit, ..self.settings }, ..self }
    }

    /// Nodes authenticate with these keys. Without keys, every connection is accepted.
    #[must_use]
    pub fn with_keys(self, keys: PeerKeys) -> Self {
        PeerServer { settings: HandshakeSettings { keys, ..self.settings }, ..self }
    }

    /// Sets the limits of incomplete frames.
    #[must_use]
    pub fn with_arrivals(self, arrivals: Arrivals) -> Self {
        PeerServer { settings: HandshakeSettings { arrivals, ..self.settings }, ..self }
    }

    /// Sets the counters.
    #[must_use]
    pub fn with_metrics(self, metrics: PeerMetrics) -> Self {
        PeerServer { metrics, ..self }
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is ready. Then it closes every connection and waits for their tasks.
    pub async fn serve(self, service: Arc<dyn Service>, shutdown: impl Future<Output = ()> + Send) {
        let acceptor = Arc::new(Acceptor::new(service, self.settings, self.metrics.clone()));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => log_panic(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let (visit, another_left) = acceptor.pending.enter(from.ip());
                        if another_left {
                            acceptor.metrics.turned_away.inc();
                            acceptor.crowd.say(|kept_back| {
                                let said = "too many unauthenticated connections to the peer port: the oldest was closed";
                                tracing::warn!(%from, kept_back, "{said}");
                            });
                        }
                        connections.spawn(attend(stream, from, acceptor.clone(), visit));
                    }
                    Err(error) => {
                        acceptor.failures.say(|kept_back| {
                            tracing::warn!(kept_back, "a peer connection could not be accepted: {error}");
                        });
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        connections.shutdown().await;
    }
}

/// The state that all accepted connections share.
struct Acceptor {
    service: Arc<dyn Service>,
    settings: HandshakeSettings,
    pending: PendingConnections,
    slots: ConnectionSlots,
    strangers: LogLimit,
    unproved: LogLimitByAddress,
    refusals: LogLimit,
    crowd: LogLimit,
    failures: LogLimit,
    broken: LogLimit,
    metrics: PeerMetrics,
}

impl Acceptor {
    fn new(service: Arc<dyn Service>, settings: HandshakeSettings, metrics: PeerMetrics) -> Self {
        Acceptor {
            service,
            settings,
            pending: PendingConnections::default(),
            slots: ConnectionSlots::default(),
            strangers: LogLimit::default(),
            unproved: LogLimitByAddress::default(),
            refusals: LogLimit::default(),
            crowd: LogLimit::default(),
            failures: LogLimit::default(),
            broken: LogLimit::default(),
            metrics,
        }
    }
}

/// One connection, from its first byte to its end.
async fn attend(stream: TcpStream, address: SocketAddr, acceptor: Arc<Acceptor>, visit: PendingSlot) {
    let met = tokio::select! {
        biased;
        met = handshake::accept(stream, &*acceptor.service, &acceptor.settings) => met,
        () = visit.ended() => return,
    };
    match &met {
        Ok(Accepted::Refused { refusal, .. }) => acceptor.metrics.refuse(refusal),
        Ok(Accepted::Unproved(mismatch)) => acceptor.metrics.refuse(&Refusal::Key(*mismatch)),
        Ok(Accepted::Admitted { .. } | Accepted::Greeted) => acceptor.unproved.forget(address.ip()),
        Err(_) => {
            acceptor.metrics.strangers.inc();
        }
    }
    match met {
        Ok(Accepted::Admitted { connection, from, lane }) => serve(connection, from, lane, address, &acceptor).await,
        Ok(Accepted::Greeted) => tracing::debug!(%address, "greeted"),
        Ok(Accepted::Unproved(mismatch)) => acceptor.unproved.say(address.ip(), |kept_back| {
            tracing::warn!(%address, kept_back, "a connection to the peer port was refused without an answer: {mismatch}");
        }),
        Ok(Accepted::Refused { from, refusal: Refusal::Starting }) => {
            tracing::debug!(peer = from, %address, "deferred until this node has started");
        }
        Ok(Accepted::Refused { from, refusal }) => acceptor.refusals.say(|kept_back| {
            tracing::warn!(peer = from, %address, kept_back, "this node and a peer cannot communicate: {refusal}");
        }),
        Err(error) => acceptor.strangers.say(|kept_back| {
            tracing::warn!(%address, kept_back, "a connection to the peer port was closed: {error}");
        }),
    }
}

/// Serves an admitted node until its connection ends, or newer ones replace it.
async fn serve(connection: Connection, from: NodeId, lane: Lane, address: SocketAddr, acceptor: &Acceptor) {
    let (slot, another_left) = acceptor.slots.take(from, lane);
    if another_left {
        acceptor.metrics.turned_away.inc();
        acceptor.crowd.say(|kept_back| {
            tracing::info!(peer = from, %address, ?lane, kept_back, "newer connections of node {from}: the oldest was closed");
        });
    }
    let ended = tokio::select! {
        biased;
        ended = serve_connection(connection, from, lane, acceptor) => ended,
        () = slot.ended() => return,
    };
    match ended {
        Ok(()) => tracing::debug!(peer = from, ?lane, "a peer closed its connection"),
        Err(error) => acceptor.broken.say(|kept_back| {
            tracing::info!(peer = from, %address, ?lane, kept_back, "a connection broke: {error}");
        }),
    }
    acceptor.service.hung_up(from, lane);
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("the task of a peer connection failed: {error}");
    }
}

/// Serves an admitted node until one of the two directions ends.
async fn serve_connection(connection: Connection, from: NodeId, lane: Lane, acceptor: &Acceptor) -> Result<(), FrameError> {
    let Connection { mut reader, mut writer } = connection;
    let (answers, waiting) = mpsc::channel(UNANSWERED_MAX);
    let flow = &acceptor.metrics.accepted;
    let _open = flow.open();
    tokio::select! {
        biased;
        ended = take_requests(&mut reader, &answers, (from, lane), acceptor) => ended,
        ended = write_answers(&mut writer, waiting, flow) => ended,
    }
}

/// An answer, and its bytes in the connection's count.
struct Answered {
    frame: Frame,
    size: ServerLimits,
}

/// The bytes of a connection's requests in progress.
#[derive(Default)]
struct Owed {
    bytes: AtomicUsize,
    less: Notify,
}

/// Bytes of a request, and then of its answer, counted until the answer is written.
struct ServerLimits {
    bytes: usize,
    owed: Arc<Owed>,
}

impl ServerLimits {
    fn new(owed: &Arc<Owed>, bytes: usize) -> ServerLimits {
        owed.bytes.fetch_add(bytes, Relaxed);
        ServerLimits { bytes, owed: owed.clone() }
    }
}

impl Drop for ServerLimits {
    fn drop(&mut self) {
        self.owed.bytes.fetch_sub(self.bytes, Relaxed);
        self.owed.less.notify_one();
    }
}

async fn take_requests(
    requests: &mut FrameReader,
    answers: &mpsc::Sender<Answered>,
    (from, lane): (NodeId, Lane),
    acceptor: &Acceptor,
) -> Result<(), FrameError> {
    let mut working: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
    let owed = Arc::new(Owed::default());
    loop {
        let too_much = owed.bytes.load(Relaxed) >= UNANSWERED_BYTES_MAX;
        let reads = working.len() < UNANSWERED_MAX && !too_much;
        if !reads {
            requests.pause();
        }
        let done = tokio::select! {
            biased;
            Some(answer) = working.next(), if !working.is_empty() => answer,
            request = requests.next(), if reads => {
                let Some(request) = request? else { return Ok(()) };
                acceptor.metrics.accepted.came(request.payload.len());
                let mut answer = begin(request, from, lane, &*acceptor.service, &owed)?;
                // Polled once here, so that requests start in order, whatever the service does before its first await.
                match poll!(&mut answer) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        working.push(answer);
                        continue;
                    }
                }
            }
            () = owed.less.notified(), if too_much => continue,
        };
        if answers.send(done).await.is_err() {
            return Ok(());
        }
    }
}

fn begin(
    request: Frame,
    from: NodeId,
    lane: Lane,
    service: &dyn Service,
    owed: &Arc<Owed>,
) -> Result<BoxFuture<'static, Answered>, FrameError> {
    match request.kind {
        FrameKind::Request => {
            let (number, size) = (request.number, ServerLimits::new(owed, request.payload.len()));
            let answer = service.serve(from, lane, request.payload);
            let answered = move |payload: Bytes| {
                let answer = ServerLimits::new(&size.owed, payload.len());
                Answered { frame: Frame { kind: FrameKind::Answer, number, payload }, size: answer }
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
        | FrameKind::Admitted => Err(FrameError::UnexpectedKind(request.kind)),
    }
}

async fn write_answers(
    socket: &mut OwnedWriteHalf,
    mut answers: mpsc::Receiver<Answered>,
    flow: &Flow,
) -> Result<(), FrameError> {
    let mut buffer = WriteBuffer::new();
    let mut sizes = Vec::new();
    while let Some(Answered { frame, size }) = answers.recv().await {
        flow.goes(frame.payload.len());
        buffer.push(frame)?;
        sizes.push(size);
        while !buffer.is_full() {
            let Ok(Answered { frame, size }) = answers.try_recv() else { break };
            flow.goes(frame.payload.len());
            buffer.push(frame)?;
            sizes.push(size);
        }
        buffer.write_to(socket).await?;
        sizes.clear();
    }
    Ok(())
}
