//! The receiving side: takes connections, lets nodes in, hands their requests to the service in order and sends the answers
//! back.

use crate::{
    frame::{Frame, FrameCodec, FrameError, Kind, WriteBuffer},
    handshake::{self, Accepted, Connection, HANDSHAKE_TIMEOUT},
    lobby::{Lobby, Visit},
    metrics::{Flow, PeerMetrics},
    notice::Notice,
};
use bytes::Bytes;
use fairhold_raft::peer::{Lane, Refusal, Service};
use fairhold_types::NodeId;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, poll, stream::FuturesUnordered};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};
use tokio::{
    net::{
        TcpListener, TcpStream, ToSocketAddrs,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc},
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::codec::FramedRead;

/// Connections of admitted nodes at a time; more are closed at once.
pub const CONNECTIONS_MAX: usize = 256;

/// Of those, from one address: a whole cluster may sit behind one.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 64;

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
    handshake_timeout: Duration,
    metrics: PeerMetrics,
}

impl PeerServer {
    /// Takes the port. Connections wait until `serve`.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(PeerServer {
            listener: TcpListener::bind(address).await?,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            metrics: PeerMetrics::default(),
        })
    }

    /// Another limit for introductions.
    #[must_use]
    pub fn with_handshake_timeout(self, handshake_timeout: Duration) -> Self {
        PeerServer { handshake_timeout, ..self }
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
        let door = Arc::new(Door::new(service, self.handshake_timeout, self.metrics.clone()));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => log_panic(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let (visit, another_left) = door.lobby.enter(from.ip());
                        if another_left {
                            door.metrics.turned_away.inc();
                            door.crowd.say(|kept_back| {
                                tracing::warn!(%from, kept_back, "too many connections that are no nodes: the oldest was closed");
                            });
                        }
                        connections.spawn(attend(stream, from, door.clone(), visit));
                    }
                    Err(error) => {
                        door.failures.say(|kept_back| {
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

/// What all connections of one server share.
struct Door {
    service: Arc<dyn Service>,
    handshake_timeout: Duration,
    lobby: Lobby,
    taken: Arc<Mutex<Taken>>,
    strangers: Notice,
    refusals: Notice,
    crowd: Notice,
    failures: Notice,
    metrics: PeerMetrics,
}

impl Door {
    fn new(service: Arc<dyn Service>, handshake_timeout: Duration, metrics: PeerMetrics) -> Self {
        Door {
            service,
            handshake_timeout,
            lobby: Lobby::default(),
            taken: Arc::default(),
            strangers: Notice::default(),
            refusals: Notice::default(),
            crowd: Notice::default(),
            failures: Notice::default(),
            metrics,
        }
    }
}

/// How many connections there are.
#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's share of the limits, given back when it is dropped.
struct Place {
    taken: Arc<Mutex<Taken>>,
    address: IpAddr,
}

impl Place {
    fn take(taken: &Arc<Mutex<Taken>>, address: IpAddr) -> Option<Place> {
        let mut counts = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.total >= CONNECTIONS_MAX || here >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        counts.total += 1;
        counts.by_address.insert(address, here + 1);
        Some(Place { taken: taken.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        match counts.by_address.get(&self.address).copied() {
            Some(others) if others > 1 => counts.by_address.insert(self.address, others - 1),
            Some(_) | None => counts.by_address.remove(&self.address),
        };
    }
}

/// One connection, from its first byte to its end.
async fn attend(stream: TcpStream, address: SocketAddr, door: Arc<Door>, visit: Visit) {
    let met = tokio::select! {
        biased;
        met = handshake::accept(stream, &*door.service, door.handshake_timeout) => met,
        () = visit.ended() => return,
    };
    match &met {
        Ok(Accepted::Refused { refusal, .. }) => door.metrics.refuse(refusal),
        Ok(Accepted::Admitted { .. } | Accepted::Greeted) => {}
        Err(_) => {
            door.metrics.strangers.inc();
        }
    }
    match met {
        Ok(Accepted::Admitted { connection, from, lane }) => {
            let Some(_place) = Place::take(&door.taken, address.ip()) else {
                door.metrics.turned_away.inc();
                door.crowd.say(|kept_back| {
                    tracing::warn!(peer = from, %address, kept_back, "too many connections of nodes: one more was closed");
                });
                return;
            };
            match converse(connection, from, lane, &door).await {
                Ok(()) => tracing::debug!(peer = from, ?lane, "a peer closed its connection"),
                Err(error) => tracing::info!(peer = from, %address, ?lane, "a connection broke: {error}"),
            }
            door.service.hung_up(from, lane);
        }
        Ok(Accepted::Greeted) => tracing::debug!(%address, "greeted"),
        Ok(Accepted::Refused { from, refusal: Refusal::Starting }) => {
            tracing::debug!(peer = from, %address, "put off until this node has started");
        }
        Ok(Accepted::Refused { from, refusal }) => door.refusals.say(|kept_back| {
            tracing::warn!(peer = from, %address, kept_back, "a peer and this node do not speak to each other: {refusal}");
        }),
        Err(error) => door.strangers.say(|kept_back| {
            tracing::warn!(%address, kept_back, "a connection to the peer port was closed: {error}");
        }),
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("the task of a peer connection failed: {error}");
    }
}

/// Serves an admitted node until one of the two directions ends.
async fn converse(connection: Connection, from: NodeId, lane: Lane, door: &Door) -> Result<(), FrameError> {
    let Connection { mut reader, mut writer } = connection;
    let (answers, waiting) = mpsc::channel(UNANSWERED_MAX);
    let flow = &door.metrics.accepted;
    let _open = flow.open();
    tokio::select! {
        biased;
        ended = take_requests(&mut reader, &answers, (from, lane), door) => ended,
        ended = write_answers(&mut writer, waiting, flow) => ended,
    }
}

/// An answer, and the count of the bytes that its connection owes.
struct Answered {
    frame: Frame,
    size: Size,
}

/// The bytes of all that a connection has not yet answered.
#[derive(Default)]
struct Owed {
    bytes: AtomicUsize,
    less: Notify,
}

/// Bytes of a request, and then of its answer, counted until that is written.
struct Size {
    bytes: usize,
    owed: Arc<Owed>,
}

impl Size {
    fn new(owed: &Arc<Owed>, bytes: usize) -> Size {
        owed.bytes.fetch_add(bytes, Relaxed);
        Size { bytes, owed: owed.clone() }
    }
}

impl Drop for Size {
    fn drop(&mut self) {
        self.owed.bytes.fetch_sub(self.bytes, Relaxed);
        self.owed.less.notify_one();
    }
}

async fn take_requests(
    requests: &mut FramedRead<OwnedReadHalf, FrameCodec>,
    answers: &mpsc::Sender<Answered>,
    (from, lane): (NodeId, Lane),
    door: &Door,
) -> Result<(), FrameError> {
    let mut working: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
    let owed = Arc::new(Owed::default());
    loop {
        let too_much = owed.bytes.load(Relaxed) >= UNANSWERED_BYTES_MAX;
        let done = tokio::select! {
            biased;
            Some(answer) = working.next(), if !working.is_empty() => answer,
            request = requests.next(), if working.len() < UNANSWERED_MAX && !too_much => {
                let Some(request) = request.transpose()? else { return Ok(()) };
                door.metrics.accepted.came(request.payload.len());
                let mut answer = begin(request, from, lane, &*door.service, &owed)?;
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
        Kind::Request => {
            let (number, size) = (request.number, Size::new(owed, request.payload.len()));
            let answer = service.serve(from, lane, request.payload);
            let answered = move |payload: Bytes| {
                let answer = Size::new(&size.owed, payload.len());
                Answered { frame: Frame { kind: Kind::Answer, number, payload }, size: answer }
            };
            Ok(answer.map(answered).boxed())
        }
        Kind::Hello | Kind::Welcome | Kind::Refused | Kind::Answer => Err(FrameError::UnexpectedKind(request.kind)),
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
