//! Tests of `listener`.

use super::*;
use crate::{edge::delivery::Undelivered, edge::request::HttpPeer};
use axum::{Extension, Router, extract::State, routing::get};
use bytes::Bytes;
use fairhold_types::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
};

/// Fails a test that would otherwise wait forever.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: tokio::task::JoinHandle<()>,
}

pub(super) fn serve(timeouts: Timeouts, router: Router) -> Server {
    serve_at(Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap(), timeouts, router)
}

pub(super) fn serve_at(listener: Listener, timeouts: Timeouts, router: Router) -> Server {
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    Server { address, stop, task: tokio::spawn(listener.serve_with(timeouts, router.into(), shutdown)) }
}

pub(super) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("the test timed out")
}

pub(super) async fn send(server: &Server, text: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(text.as_bytes()).await.unwrap();
    client
}

pub(super) async fn read_all(client: &mut TcpStream) -> String {
    let mut text = Vec::new();
    in_time(client.read_to_end(&mut text)).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// Reports when it is dropped.
struct ReportsDrop(mpsc::UnboundedSender<&'static str>);

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        self.0.send("dropped").unwrap();
    }
}

pub(super) async fn wait_forever(State(reports): State<mpsc::UnboundedSender<&'static str>>) {
    let _reports_drop = ReportsDrop(reports.clone());
    reports.send("waits").unwrap();
    std::future::pending().await
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_disconnects() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve(TIMEOUTS, Router::new().route("/", get(wait_forever)).with_state(reports));
    let client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(in_time(received.recv()).await, Some("waits"));
    drop(client);
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
}

/// Answers, and reports when it learns that the answer was lost.
pub(super) fn router_that_reports_loss(reports: mpsc::UnboundedSender<&'static str>) -> Router {
    let handler = move || async move {
        let lost = Undelivered::on_loss(move || reports.send("lost").unwrap());
        ([("connection", "close")], axum::Extension(lost), "the answer")
    };
    Router::new().route("/", get(handler))
}

#[tokio::test]
async fn an_unread_answer_is_reported_as_lost() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve(TIMEOUTS, router_that_reports_loss(reports));
    let client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    // The answer has arrived, and the socket is closed with it unread.
    in_time(client.readable()).await.unwrap();
    drop(client);
    assert_eq!(in_time(received.recv()).await, Some("lost"));
}

#[tokio::test]
async fn an_answer_that_was_read_is_not_reported_as_lost() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve(TIMEOUTS, router_that_reports_loss(reports));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(read_all(&mut client).await.ends_with("the answer"));
    drop(client);
    // When the server has ended, it has handled every connection and dropped everything that could report a loss.
    server.stop.send(()).unwrap();
    in_time(server.task).await.unwrap();
    assert_eq!(in_time(received.recv()).await, None);
}

#[tokio::test]
async fn shutdown_answers_running_requests_and_accepts_no_more() {
    let (entered, release) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (enter, released) = (Arc::clone(&entered), Arc::clone(&release));
    let handler = move || async move {
        enter.notify_one();
        released.notified().await;
        "the answer"
    };
    let server = serve(TIMEOUTS, Router::new().route("/", get(handler)));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    in_time(entered.notified()).await;
    server.stop.send(()).unwrap();
    // The listening socket closes first: from then on no client can connect.
    in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
    release.notify_one();
    assert!(read_all(&mut client).await.ends_with("the answer"));
    in_time(server.task).await.unwrap();
}

#[tokio::test]
async fn shutdown_cuts_off_a_request_that_does_not_end() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let timeouts = Timeouts { drain: Duration::from_millis(10), ..TIMEOUTS };
    let server = serve(timeouts, Router::new().route("/", get(wait_forever)).with_state(reports));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(in_time(received.recv()).await, Some("waits"));
    server.stop.send(()).unwrap();
    in_time(server.task).await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
    assert_eq!(read_all(&mut client).await, "");
}

#[tokio::test]
async fn an_incomplete_head_times_out() {
    let timeouts = Timeouts { head: Duration::from_millis(10), ..TIMEOUTS };
    let server = serve(timeouts, Router::new().route("/", get(|| async { "ok" })));
    let mut first = send(&server, "GET / HTTP/1.1\r\nHost:").await;
    assert_eq!(in_time(first.read(&mut [0; 1])).await.unwrap_or(0), 0);
    // The same on a connection that has already served a request.
    let mut second = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(in_time(second.read(&mut [0; 1024])).await.unwrap() > 0);
    second.write_all(b"GET").await.unwrap();
    assert_eq!(in_time(second.read(&mut [0; 1])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let timeouts = Timeouts { idle: Duration::from_millis(10), ..TIMEOUTS };
    let server = serve(timeouts, Router::new().route("/", get(|| async { "ok" })));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(read_all(&mut client).await.ends_with("ok"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_with_a_problem() {
    let server = serve(TIMEOUTS, Router::new().route("/", get(|| async { "ok" })));
    let head = |bytes: usize| {
        let frame = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: \r\n\r\n";
        frame.replace("A: ", &format!("A: {}", "a".repeat(bytes - frame.len())))
    };
    for (bytes, status) in [(HEAD_BYTES_MAX - 1, 200), (HEAD_BYTES_MAX, 200), (HEAD_BYTES_MAX + 1, 431), (100_000, 431)] {
        let answer = read_all(&mut send(&server, &head(bytes)).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes} bytes: {answer}");
        assert_eq!(answer.contains("\"code\":\"too_large\""), status == 431, "{answer}");
    }
}

#[tokio::test]
async fn a_head_with_too_many_headers_is_refused_with_a_problem() {
    let server = serve(TIMEOUTS, Router::new().route("/", get(|| async { "ok" })));
    for (count, status) in [(HEADERS_MAX, 200), (HEADERS_MAX + 1, 431)] {
        let others = "A: a\r\n".repeat(count - 2);
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{others}\r\n");
        let answer = read_all(&mut send(&server, &head).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{count} headers: {answer}");
    }
}

#[tokio::test]
async fn a_request_carries_its_peer_address() {
    let handler = |Extension(peer): Extension<HttpPeer>| async move { peer.address.to_string() };
    let server = serve(TIMEOUTS, Router::new().route("/", get(handler)));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(read_all(&mut client).await.ends_with("\r\n\r\n127.0.0.1"));
}

#[tokio::test]
async fn a_connection_over_the_limit_is_refused_with_a_problem_until_another_ends() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.with_limits(Limits { connections: 3, per_address: 2, ..Limits::default() });
    let server = serve_at(listener, TIMEOUTS, Router::new().route("/", get(|| async { "ok" })));
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (first, second) = (send(&server, "GET").await, send(&server, "GET").await);
    let refused = read_all(&mut send(&server, REQUEST).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\"code\":\"overloaded\""), "{refused}");
    drop(first);
    in_time(async { while !read_all(&mut send(&server, REQUEST).await).await.starts_with("HTTP/1.1 200 ") {} }).await;
    drop(second);
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed() {
    let timeouts = Timeouts { first: Duration::from_millis(10), ..TIMEOUTS };
    let server = serve(timeouts, Router::new().route("/", get(|| async { "ok" })));
    assert_eq!(read_all(&mut send(&server, "").await).await, "");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let handler = move || async move {
        let reports_drop = ReportsDrop(reports.clone());
        let chunks = futures_util::stream::repeat_with(move || {
            let _kept = &reports_drop;
            Ok::<_, io::Error>(vec![b'x'; 64 * 1024])
        });
        axum::body::Body::from_stream(chunks)
    };
    let timeouts = Timeouts { answer: Duration::from_millis(50), ..TIMEOUTS };
    let server = serve(timeouts, Router::new().route("/", get(handler)));
    let _client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
}

async fn send_from(address: [u8; 4], server: &Server, text: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((address, 0))).unwrap();
    let mut client = in_time(socket.connect(server.address)).await.unwrap();
    client.write_all(text.as_bytes()).await.unwrap();
    client
}

#[tokio::test]
async fn a_late_address_gets_a_slot_from_the_address_with_the_most() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let router =
        Router::new().route("/", get(|| async { "ok" })).route("/wait", axum::routing::any(wait_forever)).with_state(reports);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server =
        serve_at(listener.with_limits(Limits { connections: 40, per_address: 40, ..Limits::default() }), TIMEOUTS, router);
    let mut first = Vec::new();
    for number in 0..40 {
        let text = ["POST /wait HTTP/1.1\r\nHost: x\r\n\r\n", "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", "GET"][number % 3];
        first.push(send_from([127, 0, 0, 2], &server, text).await);
        if number % 3 < 2 && number < 38 {
            assert_eq!(in_time(received.recv()).await, Some("waits"));
        }
    }
    let mut late = Vec::new();
    for _ in 0..3 {
        let mut client = send_from([127, 0, 0, 3], &server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(status(&mut client).await, "200");
        late.push(client);
    }
    // The youngest connection that only reads or idles was dropped. A connection that may have changed something
    // continues.
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
    for number in [37, 35, 34] {
        assert_eq!(read_all(&mut first[number]).await, "", "{number}");
    }
    assert!(first[36].try_read(&mut [0; 1]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
}

#[tokio::test]
async fn a_request_from_another_site_is_refused_before_its_body_is_read() {
    let called = || async { "it was called" };
    let server = serve(TIMEOUTS, Router::new().route("/", axum::routing::any(called)));
    for (host, page) in [
        ("127.0.0.1:7171", "Origin: https://evil.example"),
        ("127.0.0.1:7171", "Origin: null"),
        ("rebound.example:7171", "Origin: http://rebound.example:7171"),
        ("127.0.0.1:7171", "Sec-Fetch-Site: cross-site"),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\n{page}\r\nContent-Length: 1000000\r\n\r\n");
        let answer = read_all(&mut send(&server, &head).await).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("\"code\":\"denied\""), "{page}: {answer}");
        assert!(answer.contains("--allowed-host NAME") && !answer.to_lowercase().contains("access-control"), "{answer}");
    }
}

/// More than the system buffers for a socket.
static LARGE: [u8; 16 * 1024 * 1024] = [b'x'; 16 * 1024 * 1024];

async fn status(client: &mut TcpStream) -> String {
    let mut line = [0; 12];
    in_time(client.read_exact(&mut line)).await.unwrap();
    String::from_utf8(line.into()).unwrap().split_off("HTTP/1.1 ".len())
}

#[tokio::test]
async fn unread_answers_are_bounded_for_every_call() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let handler = move |method: http::Method| async move {
        let lost = Undelivered::on_loss(move || reports.send("lost").unwrap());
        let matters = (method == http::Method::PUT).then_some(axum::Extension(lost));
        (matters, Bytes::from_static(&LARGE))
    };
    let server = serve(TIMEOUTS, Router::new().route("/", axum::routing::any(handler)));
    let ask = |method: &str| format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut slow = Vec::new();
    for number in 0..ANSWERS_BYTES_MAX / ADDRESS_PART / LARGE.len() {
        let mut client = send(&server, &ask(["GET", "POST"][number % 2])).await;
        assert_eq!(status(&mut client).await, "200", "{number} answers wait for their readers");
        slow.push(client);
    }
    let read = read_all(&mut send(&server, &ask("GET")).await).await;
    assert!(read.starts_with("HTTP/1.1 503 ") && read.contains("\"code\":\"overloaded\""), "{read:.200}");
    // The call ran, so the answer must not say that nothing was done. The code that depends on delivery learns of the
    // loss.
    let written = read_all(&mut send(&server, &ask("PUT")).await).await;
    assert!(written.starts_with("HTTP/1.1 504 ") && written.contains("\"outcome\":\"unknown\""), "{written:.200}");
    assert_eq!(in_time(received.recv()).await, Some("lost"));
    drop(slow);
    in_time(async { while status(&mut send(&server, &ask("GET")).await).await != "200" {} }).await;
}

#[tokio::test]
async fn a_disconnect_behind_pipelined_bytes_is_noticed_at_once() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve(TIMEOUTS, Router::new().route("/", get(wait_forever)).with_state(reports));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(in_time(received.recv()).await, Some("waits"));
    for _ in 0..3 {
        client.write_all(b"and more ahead of its time").await.unwrap();
    }
    client.shutdown().await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
}

#[tokio::test]
async fn a_disconnect_during_a_stream_behind_pipelined_bytes_is_noticed_at_once() {
    let (reports, mut received) = mpsc::unbounded_channel();
    let handler = move || async move {
        let reports_drop = ReportsDrop(reports.clone());
        let silence = futures_util::stream::once(async move {
            let _reports_drop = reports_drop;
            std::future::pending::<io::Result<Vec<u8>>>().await
        });
        axum::body::Body::from_stream(silence)
    };
    let server = serve(TIMEOUTS, Router::new().route("/", get(handler)));
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(in_time(client.read(&mut [0; 1024])).await.unwrap() > 0, "the head of the answer");
    drop(client);
    assert_eq!(in_time(received.recv()).await, Some("dropped"));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let handler = |body: String| async move { body };
    let server = serve(TIMEOUTS, Router::new().route("/", axum::routing::post(handler)));
    let ask =
        |text: &str, more: &str| format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{more}\r\n{text}", text.len());
    let text = [ask("one", ""), ask(&"two".repeat(30_000), ""), ask("three", "Connection: close\r\n")].concat();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let (mut reader, mut writer) = client.split();
    let mut answers = Vec::new();
    let (written, read) =
        in_time(async { tokio::join!(writer.write_all(text.as_bytes()), reader.read_to_end(&mut answers)) }).await;
    written.unwrap();
    read.unwrap();
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    assert!(answers.contains(&"two".repeat(30_000)) && answers.ends_with("three"));
}

#[tokio::test]
async fn malformed_http_is_refused_with_a_problem() {
    let own = || async { (http::StatusCode::BAD_REQUEST, "my own words") };
    let server = serve(TIMEOUTS, Router::new().route("/", get(|| async { "ok" })).route("/own", get(own)));
    for nonsense in ["NONSENSE\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\0\x01\x02\r\n\r\n"] {
        let answer = read_all(&mut send(&server, nonsense).await).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"code\":\"bad_request\""), "{nonsense:?}: {answer}");
    }
    // An answer with the same status that hyper did not write stays as it is.
    let mut own = send(&server, "GET /own HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(read_all(&mut own).await.ends_with("my own words"));
    // The same after a request that was answered.
    let mut client = send(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\nNONSENSE\r\n\r\n").await;
    let answers = read_all(&mut client).await;
    assert!(answers.starts_with("HTTP/1.1 200 ") && answers.contains("HTTP/1.1 400 "), "{answers}");
}
