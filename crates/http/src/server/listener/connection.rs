//! One connection: passes its requests to the API one at a time, and drops them when the client disconnects.

use super::{
    calls::ConnectionCalls,
    context::ConnectionContext,
    handshake, head,
    timed_stream::{TimedStream, lingering_close},
    transport::{SharedSocket, Transport},
};
use crate::{
    api::hold::Streamed,
    edge::delivery::Undelivered,
    edge::headers,
    edge::memory_quota::{AlreadyCounted, ConnectionMemory, NoMemory, with_share},
    edge::problem::{Problem, outcome},
    edge::quota::Share,
    edge::request::HttpPeer,
    server::connection_slots::ClientSlot,
};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fairhold_trust::client_port::ClientPortTls;
use fairhold_types::{
    Code,
    limits::{CONNECTION_BUFFER_BYTES, HEAD_BYTES_MAX},
    problem::Effect,
};
use futures_util::FutureExt;
use http::{HeaderValue, Method, header};
use hyper::{
    body::{Body as _, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use socket2::{SockRef, TcpKeepalive};
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{io::Interest, net::TcpStream, time::Instant};

/// A silent connection is probed after this time. It is closed after `PROBES` unanswered probes.
const PROBE_AFTER: Duration = Duration::from_secs(10);
/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// How long sent bytes may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(25);
/// Bytes of answers that the system buffers before it can send them.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;
/// How long the server waits for a reset from a client that closed its socket before the answer arrived.
const RESET_ARRIVES_MAX: Duration = Duration::from_millis(100);

/// Serves one connection until it ends, or until another connection gets its slot.
pub(super) async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ClientPortTls>>,
    context: ConnectionContext,
    slot: ClientSlot,
    watcher: Watcher,
) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%peer, %error, "cannot set the socket options of a connection");
    }
    let memory = ConnectionMemory::new(&context.bodies, &context.answers, peer.ip());
    let stream = Arc::new(stream);
    let client = HttpPeer::at(peer.ip()).with_memory(Arc::clone(&memory));
    let calls = Arc::new(ConnectionCalls::new(memory, Arc::clone(&slot.slot_state)));
    let socket = SharedSocket::new(Arc::clone(&stream), Arc::clone(&calls));
    let (transport, client, closes_at) = match tls {
        None => (Transport::Plain(socket), client, None),
        Some(tls) => {
            // In a box, so that connections without TLS need no room for it.
            let accepted = Box::pin(handshake::accept(&tls, socket, peer, &context, &slot.slot_state)).await;
            let Some(accepted) = accepted else { return };
            (accepted.transport, client.with_user(accepted.user), Some(accepted.closes_at))
        }
    };
    let timed = TimedStream::new(transport, context.clone(), Arc::clone(&calls));
    let connection = ClientConnection { peer, client, stream: Arc::clone(&stream), calls: Arc::clone(&calls), context };
    let connection = Arc::new(connection);
    let service = service_fn(move |request| Arc::clone(&connection).serve(request));
    // A client that shuts its side of the connection has disconnected: hyper then drops its request, because half-closing
    // is off. `TimedStream` bounds heads and idle time. hyper's own limit on headers is `HEADERS_MAX`: to set it again would
    // fill two tables for every request.
    let connection = http1::Builder::new()
        .half_close(false)
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .serve_connection(TokioIo::new(timed), service);
    tokio::select! {
        biased;
        // Disconnects, timeouts and malformed requests are the client's doing: they are logged at trace level only.
        ended = watcher.watch(connection) => {
            if let Err(error) = ended {
                tracing::trace!(%peer, %error, "a connection ended");
            }
        }
        () = expired(closes_at) => tracing::debug!(%peer, "closed a connection whose certificate has expired"),
        () = slot.slot_state.given_up() => {
            tracing::debug!(%peer, "closed a connection of an address that has many, to admit an address that has few");
        }
    }
    if let Some(undelivered) = calls.take_unconfirmed() {
        // A client that closes its socket without reading the answer resets the connection. A client that has read the
        // answer closes cleanly. A later failure says nothing about the answer; the ttl covers it.
        tokio::time::sleep(RESET_ARRIVES_MAX).await;
        if calls.broken.load(Ordering::Relaxed) || !matches!(stream.take_error(), Ok(None)) {
            undelivered.run();
        }
    }
    if !calls.broken.load(Ordering::Relaxed) {
        lingering_close(&stream).await;
    }
}

/// Resolves when a certificate of the connection has expired for too long.
async fn expired(closes_at: Option<Instant>) {
    match closes_at {
        // In a box, so that connections without TLS need no room for a timer.
        Some(closes_at) => Box::pin(tokio::time::sleep_until(closes_at)).await,
        None => std::future::pending().await,
    }
}

/// One client's connection.
struct ClientConnection {
    peer: SocketAddr,
    client: HttpPeer,
    stream: Arc<TcpStream>,
    calls: Arc<ConnectionCalls>,
    context: ConnectionContext,
}

impl ClientConnection {
    async fn serve(self: Arc<Self>, mut request: http::Request<Incoming>) -> io::Result<http::Response<AnswerBody>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !self.calls.slot_state.begin(is_read) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if let Err(problem) = self.check_head(&request) {
            self.calls.begin();
            let response = self.refuse(problem);
            return Ok(response.map(|body| AnswerBody { body, connection: self, client_closed: None, share: None }));
        }
        request.extensions_mut().insert(self.client.clone());
        self.calls.begin();
        // Most requests have no body. An empty body needs no box.
        let request = request.map(|body| if body.is_end_stream() { Body::empty() } else { Body::new(body) });
        let answer = self.context.api.call(request);
        let mut response = tokio::select! {
            biased;
            answer = answer => answer,
            () = client_closed(&self.stream, &self.calls) => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        if let Some(streamed) = response.extensions_mut().remove::<Streamed>() {
            let bounded = streamed.limit_send_buffer(&SockRef::from(&*self.stream));
            if let Err(error) = bounded.and_then(|()| bound_silence(&self.stream, streamed.silence_max)) {
                tracing::debug!(peer = %self.peer, %error, "cannot set the keepalive timeout of a stream");
            }
            self.calls.set_stream(streamed.caller_silent);
        }
        let undelivered = response.extensions_mut().remove::<Undelivered>();
        let (response, share) = match reserve_memory(&response, &self.calls.memory) {
            Ok(share) => {
                self.calls.answer_ready(undelivered);
                (response, share)
            }
            Err(NoMemory) => {
                // The answer is lost, as if the connection had broken.
                undelivered.iter().for_each(Undelivered::run);
                self.calls.answer_ready(None);
                (out_of_memory_answer(&response, is_read), None)
            }
        };
        Ok(response.map(|body| AnswerBody { body, connection: self, client_closed: None, share }))
    }

    /// Checks that run before the server reads the body.
    fn check_head(&self, request: &http::Request<Incoming>) -> Result<(), Problem> {
        head::check(request.version(), request.method(), request.headers())?;
        self.context.hosts.check(request.method(), request.uri(), request.headers())
    }

    /// Refuses a request before it reaches the router. The body stays unread, so no request can follow on this
    /// connection.
    fn refuse(&self, problem: Problem) -> Response {
        let mut response = problem.into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(cluster) = self.context.cluster.value() {
            response.headers_mut().insert(headers::CLUSTER, cluster.clone());
        }
        response
    }
}

/// Reserves memory for an answer until its socket has taken it. A stream has no known length, so it reserves memory as
/// it writes.
fn reserve_memory(response: &Response, memory: &ConnectionMemory) -> Result<Option<Share>, NoMemory> {
    if response.extensions().get::<AlreadyCounted>().is_some() {
        return Ok(None);
    }
    memory.answer(usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX))
}

/// The answer to send if there is no memory for the real one. The client can repeat a read; any other call may have been done, so
/// the outcome is unknown, as after a broken connection.
fn out_of_memory_answer(response: &Response, is_read: bool) -> Response {
    let problem = if is_read {
        Problem::new(Code::Overloaded, "too many large answers are waiting for clients to read them: read again later")
    } else {
        Problem::new(
            Code::DeadlineExceeded,
            "the call was made, but too many large answers are waiting for clients to read them: retry with the same \
             Idempotency-Key",
        )
        .facts(outcome(Effect::Unknown, None))
    };
    let mut refused = problem.into_response();
    for name in [headers::CLUSTER, headers::REVISION, headers::LEADER, headers::REQUEST_ID] {
        if let Some(value) = response.headers().get(&name) {
            refused.headers_mut().insert(name, value.clone());
        }
    }
    refused
}

/// Resolves when the client has closed its side. hyper notices that too, but not while unread bytes of a pipelined
/// request come first.
///
/// It shares its place among the socket's wakers with hyper, which runs in the same task.
async fn client_closed(stream: &TcpStream, calls: &ConnectionCalls) {
    while poll_fn(|cx| stream.poll_read_ready(cx)).await.is_ok() {
        let Some(Ok(ready)) = stream.ready(Interest::READABLE).now_or_never() else { continue };
        if ready.is_read_closed() {
            // The socket reports an error only once. The error shows whether the client ended the connection.
            if let Ok(Some(error)) = stream.take_error() {
                calls.note_broken(&error);
            }
            return;
        }
        // Bytes are waiting, but they are not read here. This consumes the readiness event, so that the loop can wait
        // for the next one.
        calls.readiness_taken.store(true, Ordering::Relaxed);
        let consumed: io::Result<()> = stream.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
        drop(consumed);
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes)?;
    bound_unsent(stream)?;
    bound_silence(stream, UNACKNOWLEDGED_MAX)
}

/// Bounds the part of an answer that the system buffers while the client does not read it. The default is up to 4 MiB
/// a connection, and a cgroup charges that to this process. Linux only.
fn bound_unsent(stream: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    #[cfg(not(target_os = "linux"))]
    tracing::trace!(?stream, "this system cannot bound the unsent bytes");
    Ok(())
}

/// Bounds how long sent bytes may stay unacknowledged. Linux only.
fn bound_silence(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_user_timeout(Some(limit.min(UNACKNOWLEDGED_MAX)))?;
    #[cfg(not(target_os = "linux"))]
    tracing::trace!(?stream, ?limit, "this system cannot bound the time until an acknowledgement");
    Ok(())
}

/// An answer's body. It notes when all of it is handed over, attaches its share to the bytes, and ends when the client
/// disconnects.
struct AnswerBody {
    body: Body,
    connection: Arc<ClientConnection>,
    /// Resolves when the client disconnects. Set on the first poll of the body.
    client_closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    share: Option<Share>,
}

impl AnswerBody {
    /// Counts the bytes handed over for writing. The share stays with the bytes and is released when they are written.
    fn hand_over(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        self.connection.calls.memory.add_unwritten(frame.data_ref().map_or(0, Bytes::len));
        match self.share.take() {
            Some(share) => frame.map_data(|bytes| with_share(bytes, share)),
            None => frame,
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.connection.calls.sent.fetch_add(1, Ordering::Relaxed);
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            return frame.map_ok(|frame| self.hand_over(frame));
        }
        let AnswerBody { connection, client_closed: closed, .. } = &mut *self;
        let closed = closed.get_or_insert_with(|| {
            let connection = Arc::clone(connection);
            Box::pin(async move { client_closed(&connection.stream, &connection.calls).await })
        });
        closed.as_mut().poll(cx).map(|()| Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::ConnectionAborted)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A connection and its other end, which is never read.
    async fn unread() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (reader, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (accepted.unwrap().0, reader.unwrap())
    }

    /// Writes until the system takes no more for now. Returns the number of bytes.
    fn fill(stream: &TcpStream) -> usize {
        let block = vec![0; 16 * 1024];
        std::iter::from_fn(|| stream.try_write(&block).ok()).sum()
    }

    /// Fills both connections in turns until one of them has buffered a lot. Without its bound the other would have
    /// buffered as much.
    #[tokio::test]
    async fn the_system_buffers_little_of_an_unread_answer() {
        let ((tuned, _reader), (untuned, _other)) = (unread().await, unread().await);
        tune(&tuned).unwrap();
        let (mut bounded, mut unbounded) = (0, 0);
        let filled = async {
            while unbounded < 16 * UNSENT_BYTES_MAX as usize {
                untuned.writable().await.unwrap();
                unbounded += fill(&untuned);
                bounded += fill(&tuned);
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), filled).await.is_ok(), "the system took only {unbounded} bytes");
        assert!(0 < bounded && bounded < unbounded / 4, "{bounded} bytes, and {unbounded} without a bound");
    }
}
