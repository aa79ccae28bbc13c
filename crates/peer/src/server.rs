//! The receiving side: takes connections, lets nodes in, hands their requests to the service in order and sends the answers
//! back.

use crate::{
    frame::{Frame, FrameError, FrameKind, WriteBuffer},
    handshake::{self, Accepted, HANDSHAKE_TIMEOUT, Manners},
    key::PeerKeys,
    lobby::{Lobby, Visit},
    meeting::Connection,
    metrics::{Flow, PeerMetrics},
    notice::{Notice, NoticeByAddress},
    places::Places,
    reader::{Arrivals, FrameReader},
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

/// Requests of one connection that are being worked on, and answers of it that wait to be written. A connection with more is
/// not read until one is done. A client of this version never gets there: it has no more than this in flight itself.
pub const UNANSWERED_MAX: usize = crate::lane::LANE_IN_FLIGHT_MAX;

/// Bytes of those requests and answers. Here too a client of this version has no more in flight.
pub const UNANSWERED_BYTES_MAX: usize = crate::lane::LANE_BYTES_MAX;

/// After the operating system could not give a connection, it is asked again this much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens for other nodes.
#[derive(Debug)]
pub struct PeerServer {
    listener: TcpListener,
    manners: Manners,
    metrics: PeerMetrics,
}

impl PeerServer {
    /// Takes the port. Connections wait until `serve`.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(PeerServer {
            listener: TcpListener::bind(address).await?,
            manners: Manners { keys: PeerKeys::none(), arrivals: Arrivals::default(), time_limit: HANDSHAKE_TIMEOUT },
            metrics: PeerMetrics::default(),
        })
    }

    /// Another limit for handshakes.
    #[must_use]
    pub fn with_handshake_timeout(self, time_limit: Duration) -> Self {
        PeerServer { manners: Manners { time_limit, ..self.manners }, ..self }
    }

    /// Nodes authenticate with these keys. Without keys, every connection is accepted.
    #[must_use]
    pub fn with_keys(self, keys: PeerKeys) -> Self {
        PeerServer { manners: Manners { keys, ..self.manners }, ..self }
    }

    /// Other limits for frames that are not complete.
    #[must_use]
    pub fn with_arrivals(self, arrivals: Arrivals) -> Self {
        PeerServer { manners: Manners { arrivals, ..self.manners }, ..self }
    }

    /// Counts into these.
    #[must_use]
    pub fn with_metrics(self, metrics: PeerMetrics) -> Self {
        PeerServer { metrics, ..self }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is ready; then every connection is ended, and none of its tasks remains.
    pub async fn serve(self, service: Arc<dyn Service>, shutdown: impl Future<Output = ()> + Send) {
        let acceptor = Arc::new(Acceptor::new(service, self.manners, self.metrics.clone()));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => log_panic(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let (visit, another_left) = acceptor.lobby.enter(from.ip());
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

/// The side of a node that accepts the connections of its peers: the state that all of them share.
struct Acceptor {
    service: Arc<dyn Service>,
    manners: Manners,
    lobby: Lobby,
    places: Places,
    strangers: Notice,
    unproved: NoticeByAddress,
    refusals: Notice,
    crowd: Notice,
    failures: Notice,
    broken: Notice,
    metrics: PeerMetrics,
}

impl Acceptor {
    fn new(service: Arc<dyn Service>, manners: Manners, metrics: PeerMetrics) -> Self {
        Acceptor {
            service,
            manners,
            lobby: Lobby::default(),
            places: Places::default(),
            strangers: Notice::default(),
            unproved: NoticeByAddress::default(),
            refusals: Notice::default(),
            crowd: Notice::default(),
            failures: Notice::default(),
            broken: Notice::default(),
            metrics,
        }
    }
}

/// One connection, from its first byte to its end.
async fn attend(stream: TcpStream, address: SocketAddr, acceptor: Arc<Acceptor>, visit: Visit) {
    let met = tokio::select! {
        biased;
        met = handshake::accept(stream, &*acceptor.service, &acceptor.manners) => met,
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

/// Serves an admitted node until its connection ends, or it has opened newer ones.
async fn serve(connection: Connection, from: NodeId, lane: Lane, address: SocketAddr, acceptor: &Acceptor) {
    let (place, another_left) = acceptor.places.take(from, lane);
    if another_left {
        acceptor.metrics.turned_away.inc();
        acceptor.crowd.say(|kept_back| {
            tracing::info!(peer = from, %address, ?lane, kept_back, "newer connections of node {from}: the oldest was closed");
        });
    }
    let ended = tokio::select! {
        biased;
        ended = converse(connection, from, lane, acceptor) => ended,
        () = place.ended() => return,
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
async fn converse(connection: Connection, from: NodeId, lane: Lane, acceptor: &Acceptor) -> Result<(), FrameError> {
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

/// An answer, and the count of the bytes that its connection owes.
struct Answered {
    frame: Frame,
    size: ServerLimits,
}

/// The bytes of all that a connection has not yet answered.
#[derive(Default)]
struct Owed {
    bytes: AtomicUsize,
    less: Notify,
}

/// Bytes of a request, and then of its answer, counted until that is written.
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
                // Polled here once, so that requests also start in their order, whatever the service does before its first
                // wait.
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
