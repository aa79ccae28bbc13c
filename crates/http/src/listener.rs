//! Sockets: accepts connections, bounds what they may cost, and hands their requests to the router.
//!
//! The one file of this crate with tasks and a clock that are not the runtime's: a simulator calls the router without it.
#![expect(clippy::disallowed_methods, reason = "real sockets need real tasks and real time")]

use crate::{delivery::Undelivered, hold::SilenceMax, metered::Metered, metrics::HttpMetrics, request::PeerAddress};
use axum::Router;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Shutdown, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, Sleep},
};
use tower::Service;

/// Connections in all.
const CONNECTIONS_MAX: usize = 10_000;
/// Connections from one address.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 5_000;
/// Connections that the kernel may keep ready.
const BACKLOG: i32 = 4_096;
/// Bounds of a server's patience.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// How long a request's head may take to arrive, from its first byte.
    head: Duration,
    /// How long a connection may be idle between two requests: longer than clients keep theirs (90 s is common), since a
    /// request that meets a closing connection is one whose fate its sender does not know.
    idle: Duration,
    /// How long requests that run may go on when the server stops.
    drain: Duration,
}

const PATIENCE: Patience =
    Patience { head: Duration::from_secs(5), idle: Duration::from_secs(120), drain: Duration::from_secs(10) };
/// Bytes that are kept of what was sent and not yet taken; a request's head must fit.
const BUFFER_BYTES_MAX: usize = 16 * 1024;
/// How long to wait when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A peer that went away without a word is noticed after this, and three probes.
const PROBE_AFTER: Duration = Duration::from_secs(10);
/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// How long what was sent may stay without acknowledgement.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(25);
/// How long after an answer the end of its connection can mean that it was not read.
const DELIVERY_OPEN_MAX: Duration = Duration::from_millis(500);
/// How long the news may take that the client had closed its socket before an answer arrived.
const RESET_ARRIVES_MAX: Duration = Duration::from_millis(100);
/// What one connection too many is told.
const TURNED_AWAY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A socket that listens for clients.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    pub(crate) metrics: HttpMetrics,
}

impl Listener {
    /// Listens at an address. Must be called within a tokio runtime.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restarted server must not wait for the connections of the one before.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Listener { socket: TcpListener::from_std(socket.into())?, metrics: HttpMetrics::default() })
    }

    /// The address that it listens at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `shutdown` is done, then accepts no more, lets what runs end within a bound, and closes.
    pub async fn serve(self, router: Router, shutdown: impl Future<Output = ()>) {
        self.serve_with(PATIENCE, router, shutdown).await;
    }

    async fn serve_with(self, patience: Patience, router: Router, shutdown: impl Future<Output = ()>) {
        let Listener { socket, metrics } = self;
        let counts = Arc::new(Counts::default());
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    report(ended);
                    continue;
                }
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = Counts::enter(&counts, peer.ip().to_canonical()) else {
                        metrics.turn_away(counts.is_full());
                        turn_away(&stream, peer);
                        continue;
                    };
                    if let Err(error) = tune(&stream) {
                        tracing::debug!(%peer, %error, "a connection could not be tuned");
                    }
                    let talk = talk(stream, peer, router.clone(), (patience, metrics.clone()), graceful.watcher());
                    connections.spawn(async move {
                        talk.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        if tokio::time::timeout(patience.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!(connections = connections.len(), "requests still ran at the end, and were cut off");
        }
        connections.shutdown().await;
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

fn turn_away(stream: &TcpStream, peer: SocketAddr) {
    tracing::debug!(%peer, "too many connections");
    if let Err(error) = stream.try_write(TURNED_AWAY) {
        tracing::debug!(%peer, %error, "a connection could not be told that there are too many");
    }
}

async fn talk(stream: TcpStream, peer: SocketAddr, router: Router, bounds: (Patience, HttpMetrics), watcher: Watcher) {
    let (address, (patience, metrics)) = (PeerAddress(peer.ip()), bounds);
    let (stream, calls) = (Arc::new(stream), Arc::new(Calls::default()));
    let (asked, socket, head) = (Arc::clone(&calls), Arc::clone(&stream), patience.head);
    let paced = Paced { stream: Arc::clone(&stream), head, calls: Arc::clone(&calls), seen: 0, head_ends: None, alarm: None };
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(address);
        asked.begin();
        let answer = router.clone().call(request);
        let (calls, socket) = (Arc::clone(&asked), Arc::clone(&socket));
        async move {
            let mut answer = answer.await;
            if let Ok(response) = &mut answer {
                if let Some(SilenceMax(limit)) = response.extensions_mut().remove()
                    && let Err(error) = bound_silence(&socket, limit)
                {
                    tracing::debug!(%peer, %error, "a stream's silence could not be bounded");
                }
                calls.end(response.extensions_mut().remove());
            }
            answer
        }
    });
    // A client that shuts its side of the connection has gone away: hyper then drops its request, unless half-closing is
    // allowed.
    let connection = http1::Builder::new()
        .half_close(false)
        .timer(TokioTimer::new())
        .header_read_timeout(patience.idle)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Metered::new(paced, metrics)), service);
    // Clients that go away, time out or send nonsense are their own affair.
    if let Err(error) = watcher.watch(connection).await {
        tracing::trace!(%peer, %error, "a connection ended");
    }
    if let Some(undelivered) = calls.unsettled() {
        // A client that closed its socket before the answer came, or without reading it, resets the connection; one that has
        // read the answer closes it in good order. What breaks later says nothing about the answer, and belongs to the ttl.
        tokio::time::sleep(RESET_ARRIVES_MAX).await;
        if calls.broken.load(Ordering::Relaxed) || !matches!(stream.take_error(), Ok(None)) {
            undelivered.act();
        }
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes)?;
    bound_silence(stream, UNACKNOWLEDGED_MAX)
}

/// How long what was sent may stay without acknowledgement. Only Linux has it.
fn bound_silence(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_user_timeout(Some(limit.min(UNACKNOWLEDGED_MAX)))?;
    #[cfg(not(target_os = "linux"))]
    tracing::trace!(?stream, ?limit, "this system has no bound on silence");
    Ok(())
}

/// The requests of one connection.
#[derive(Debug, Default)]
struct Calls {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether reading or writing failed.
    broken: AtomicBool,
    /// What to do if the last answer turns out not to have arrived.
    undelivered: Mutex<Option<(Instant, Undelivered)>>,
}

impl Calls {
    /// A request came, so its sender has had the answer to the one before.
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.unsettled();
    }

    fn end(&self, undelivered: Option<Undelivered>) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let undelivered = undelivered.map(|undelivered| (Instant::now(), undelivered));
        *self.undelivered.lock().unwrap_or_else(PoisonError::into_inner) = undelivered;
    }

    /// What to do if the last answer did not arrive, while that is open.
    fn unsettled(&self) -> Option<Undelivered> {
        let (answered, undelivered) = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (answered.elapsed() < DELIVERY_OPEN_MAX).then_some(undelivered)
    }

    fn watch<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(done, Poll::Ready(Err(_))) {
            self.broken.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// A connection's bytes, of which a request's head must arrive in time once it has begun. hyper has one bound for a head and
/// for the idle time before it, which would have to be either too long for the one or too short for the other.
struct Paced {
    stream: Arc<TcpStream>,
    head: Duration,
    calls: Arc<Calls>,
    /// The requests that had begun when bytes were last read.
    seen: u64,
    /// When the head that has begun must be complete.
    head_ends: Option<Instant>,
    /// Made only for a head that comes in parts.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Paced {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        let begun = paced.calls.begun.load(Ordering::Relaxed);
        if begun != paced.seen {
            paced.seen = begun;
            paced.head_ends = None;
            paced.alarm = None;
        }
        let before = buffer.filled().len();
        let read = paced.calls.watch(poll_read(&paced.stream, cx, buffer));
        if begun != paced.calls.ended.load(Ordering::Relaxed) {
            return read;
        }
        if read.is_ready() {
            if buffer.filled().len() > before && paced.head_ends.is_none() {
                paced.head_ends = Some(Instant::now() + paced.head);
            }
            return read;
        }
        let Some(end) = paced.head_ends else { return Poll::Pending };
        let alarm = paced.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        alarm.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads from a shared socket, of which this connection is the only reader.
fn poll_read(stream: &TcpStream, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    loop {
        std::task::ready!(stream.poll_read_ready(cx))?;
        match stream.try_read(buffer.initialize_unfilled()) {
            Ok(length) => {
                buffer.advance(length);
                return Poll::Ready(Ok(()));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

/// Writes to a shared socket, of which this connection is the only writer.
fn poll_write<T>(stream: &TcpStream, cx: &mut Context<'_>, write: impl Fn() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        std::task::ready!(stream.poll_write_ready(cx))?;
        match write() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
    }
}

impl AsyncWrite for Paced {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.calls.watch(poll_write(&self.stream, cx, || self.stream.try_write(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.calls.watch(poll_write(&self.stream, cx, || self.stream.try_write_vectored(parts)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// How many connections there are, in all and by address.
#[derive(Debug, Default)]
struct Counts(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's place among those counted; given back when dropped.
#[derive(Debug)]
struct Place {
    counts: Arc<Counts>,
    address: IpAddr,
}

impl Counts {
    fn enter(counts: &Arc<Counts>, address: IpAddr) -> Option<Place> {
        let mut counted = counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = counted.by_address.get(&address).copied().unwrap_or(0);
        if counted.all >= CONNECTIONS_MAX || here >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        counted.all += 1;
        counted.by_address.insert(address, here + 1);
        drop(counted);
        Some(Place { counts: Arc::clone(counts), address })
    }

    fn is_full(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all >= CONNECTIONS_MAX
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counted = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all -= 1;
        if let Some(here) = counted.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                counted.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Extension, extract::State, routing::get};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::{mpsc, oneshot},
    };

    /// A test that would wait for ever fails instead.
    const PATIENCE_OF_A_TEST: Duration = Duration::from_secs(20);

    struct Server {
        address: SocketAddr,
        stop: oneshot::Sender<()>,
        task: tokio::task::JoinHandle<()>,
    }

    fn serve(patience: Patience, router: Router) -> Server {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        Server { address, stop, task: tokio::spawn(listener.serve_with(patience, router, shutdown)) }
    }

    async fn in_time<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE_OF_A_TEST, future).await.expect("the test waited in vain")
    }

    async fn send(server: &Server, text: &str) -> TcpStream {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        client
    }

    async fn read_all(client: &mut TcpStream) -> String {
        let mut text = Vec::new();
        in_time(client.read_to_end(&mut text)).await.unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Says when it is dropped.
    struct Said(mpsc::UnboundedSender<&'static str>);

    impl Drop for Said {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }

    async fn wait_for_ever(State(news): State<mpsc::UnboundedSender<&'static str>>) {
        let _said = Said(news.clone());
        news.send("waits").unwrap();
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_request_is_dropped_when_its_client_goes_away() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let server = serve(PATIENCE, Router::new().route("/", get(wait_for_ever)).with_state(news));
        let client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(in_time(heard.recv()).await, Some("waits"));
        drop(client);
        assert_eq!(in_time(heard.recv()).await, Some("dropped"));
    }

    /// Answers, and says when it learns that the answer was lost.
    fn answers_that_matter(news: mpsc::UnboundedSender<&'static str>) -> Router {
        let handler = move || async move {
            let lost = Undelivered::then(move || news.send("lost").unwrap());
            ([("connection", "close")], axum::Extension(lost), "the answer")
        };
        Router::new().route("/", get(handler))
    }

    #[tokio::test]
    async fn an_answer_that_nobody_read_is_known_to_be_lost() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let server = serve(PATIENCE, answers_that_matter(news));
        let client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // The answer has arrived, and the socket is closed with it unread.
        in_time(client.readable()).await.unwrap();
        drop(client);
        assert_eq!(in_time(heard.recv()).await, Some("lost"));
    }

    #[tokio::test]
    async fn an_answer_that_was_read_is_not_lost() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let server = serve(PATIENCE, answers_that_matter(news));
        let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(read_all(&mut client).await.ends_with("the answer"));
        drop(client);
        // All connections have been looked after when the server has ended, and with them everything that could say so.
        server.stop.send(()).unwrap();
        in_time(server.task).await.unwrap();
        assert_eq!(in_time(heard.recv()).await, None);
    }

    #[tokio::test]
    async fn at_the_end_what_runs_is_answered_and_nothing_more_is_taken() {
        let (go, gone) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let (wait, entered) = (Arc::clone(&go), Arc::clone(&gone));
        let handler = move || async move {
            entered.notify_one();
            wait.notified().await;
            "the answer"
        };
        let server = serve(PATIENCE, Router::new().route("/", get(handler)));
        let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        in_time(gone.notified()).await;
        server.stop.send(()).unwrap();
        // The listening socket is closed first: from then on nobody can connect.
        in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
        go.notify_one();
        assert!(read_all(&mut client).await.ends_with("the answer"));
        in_time(server.task).await.unwrap();
    }

    #[tokio::test]
    async fn at_the_end_what_does_not_end_is_cut_off() {
        let (news, mut heard) = mpsc::unbounded_channel();
        let patience = Patience { drain: Duration::from_millis(10), ..PATIENCE };
        let server = serve(patience, Router::new().route("/", get(wait_for_ever)).with_state(news));
        let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(in_time(heard.recv()).await, Some("waits"));
        server.stop.send(()).unwrap();
        in_time(server.task).await.unwrap();
        assert_eq!(in_time(heard.recv()).await, Some("dropped"));
        assert_eq!(read_all(&mut client).await, "");
    }

    #[tokio::test]
    async fn a_head_that_does_not_end_is_not_waited_for() {
        let patience = Patience { head: Duration::from_millis(10), ..PATIENCE };
        let server = serve(patience, Router::new().route("/", get(|| async { "ok" })));
        let mut first = send(&server, "GET / HTTP/1.1\r\nHost:").await;
        assert_eq!(in_time(first.read(&mut [0; 1])).await.unwrap_or(0), 0);
        // The same on a connection that has had a request before.
        let mut second = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(in_time(second.read(&mut [0; 1024])).await.unwrap() > 0);
        second.write_all(b"GET").await.unwrap();
        assert_eq!(in_time(second.read(&mut [0; 1])).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_connection_that_idles_is_closed_in_the_end() {
        let patience = Patience { idle: Duration::from_millis(10), ..PATIENCE };
        let server = serve(patience, Router::new().route("/", get(|| async { "ok" })));
        let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(read_all(&mut client).await.ends_with("ok"));
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let server = serve(PATIENCE, Router::new().route("/", get(|| async { "ok" })));
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(BUFFER_BYTES_MAX));
        let mut client = send(&server, &head).await;
        let mut status = [0; 12];
        in_time(client.read_exact(&mut status)).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 431");
    }

    #[tokio::test]
    async fn a_request_knows_where_it_comes_from() {
        let handler = |Extension(PeerAddress(address)): Extension<PeerAddress>| async move { address.to_string() };
        let server = serve(PATIENCE, Router::new().route("/", get(handler)));
        let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(read_all(&mut client).await.ends_with("\r\n\r\n127.0.0.1"));
    }

    #[test]
    fn one_connection_too_many_is_turned_away_until_another_ends() {
        let counts = Arc::new(Counts::default());
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let enter = |last: u8, count: usize| -> Vec<Place> {
            (0..count).map(|_| Counts::enter(&counts, address(last)).unwrap()).collect()
        };
        let mut first = enter(1, CONNECTIONS_PER_ADDRESS_MAX);
        assert!(Counts::enter(&counts, address(1)).is_none());
        let second = enter(2, CONNECTIONS_MAX - CONNECTIONS_PER_ADDRESS_MAX);
        assert!(Counts::enter(&counts, address(3)).is_none());
        first.pop();
        assert!(Counts::enter(&counts, address(1)).is_some());
        drop((first, second));
        assert!(counts.0.lock().unwrap().by_address.is_empty());
    }
}
