//! Tests of TLS at the port for clients.

use super::{
    tests::{TEST_TIMEOUT, in_time, router_that_reports_loss, serve_at},
    *,
};
use crate::{Exposition, HttpPeer};
use axum::{Extension, Router, routing::get};
use fairhold_trust::{
    ca_directory::CaDirectory,
    client_port::{ClientTls, TlsVersion, UserRule},
    fault::{FaultReason, TlsFault},
    file_check::FileCheck,
    files::CertificateFiles,
    live_pair::LivePair,
    name::ClusterName,
    pair::PairUse,
    stream::TlsStream,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

const ASK: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// A name that the certificate of the server has.
const HOST: &str = "localhost";

/// An authority, and the files of the server.
struct Setup {
    folder: TempDir,
    ca: CaDirectory,
    pair: Arc<LivePair>,
    metrics: Exposition,
}

impl Setup {
    fn new() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let ca = CaDirectory::create(&folder.path().join("ca"), &"prod".parse().unwrap(), 10).unwrap();
        let (cert, key) = issue_node(&ca, folder.path(), "node");
        let files = CertificateFiles { cert, key, ca: Some(folder.path().join("ca.crt")) };
        let pair = LivePair::load(files, PairUse::ClientPort).unwrap();
        Setup { folder, ca, pair, metrics: Exposition::default() }
    }

    fn tls(&self) -> ClientPortTls {
        let cluster: ClusterName = "prod".parse().unwrap();
        ClientPortTls::new(Arc::clone(&self.pair), UserRule::Uri(cluster), TlsVersion::V1_3)
    }

    fn listener(&self) -> Listener {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.with_metrics(self.metrics.http()).with_tls(self.tls())
    }

    /// A client without a certificate.
    fn client(&self) -> ClientTls {
        ClientTls::load(&self.folder.path().join("ca.crt"), None).unwrap()
    }

    /// A client with the certificate of this user, issued by this authority.
    fn client_of(&self, issuer: &CaDirectory, user: &str) -> ClientTls {
        let own = tempfile::tempdir().unwrap();
        let pair = issuer.authority().issue_client(&user.parse().unwrap(), 5).unwrap();
        let files = issuer.write_pair(own.path(), user, &pair).unwrap();
        ClientTls::load(&self.folder.path().join("ca.crt"), Some(files)).unwrap()
    }

    /// Waits until so many handshakes had this result.
    async fn wait_for(&self, result: &str, count: u64) {
        in_time(async {
            while self.handshakes(result) < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// How many handshakes had this result.
    fn handshakes(&self, result: &str) -> u64 {
        let page = self.metrics.page();
        let series = format!("fairhold_http_tls_handshakes_total{{result=\"{result}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    }
}

fn issue_node(ca: &CaDirectory, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let pair = ca.authority().issue_node(&[HOST.to_owned(), "127.0.0.1".to_owned()], Some(1), 5).unwrap();
    ca.write_pair(folder, name, &pair).unwrap()
}

async fn connect(client: &ClientTls, address: SocketAddr) -> Result<TlsStream<TcpStream>, TlsFault> {
    client.connect(TcpStream::connect(address).await.unwrap(), HOST).await
}

async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    // A server may end without a last word of TLS.
    if let Err(error) = in_time(stream.read_to_end(&mut bytes)).await {
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }
    String::from_utf8(bytes).unwrap()
}

fn answers_ok() -> Router {
    Router::new().route("/", get(|| async { "ok" }))
}

fn names_its_user() -> Router {
    let handler =
        |Extension(peer): Extension<HttpPeer>| async move { format!("user {:?}", peer.user().map(|user| user.name.to_string())) };
    Router::new().route("/", get(handler))
}

#[tokio::test]
async fn a_verified_certificate_names_the_user_of_its_requests() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, names_its_user());
    for (client, user) in [(setup.client_of(&setup.ca, "ci"), "Some(\"ci\")"), (setup.client(), "None")] {
        let mut stream = in_time(connect(&client, server.address)).await.unwrap();
        stream.write_all(ASK.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&format!("user {user}")), "{answer}");
    }
    assert_eq!(setup.handshakes("ok"), 2);
}

#[tokio::test]
async fn each_request_of_a_connection_has_the_user_of_its_certificate() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, names_its_user());
    let mut stream = in_time(connect(&setup.client_of(&setup.ca, "ci"), server.address)).await.unwrap();
    let kept = ASK.replace("Connection: close\r\n", "");
    stream.write_all(format!("{kept}{kept}{ASK}").as_bytes()).await.unwrap();
    let answers = read_all(&mut stream).await;
    assert_eq!(answers.matches("user Some(\"ci\")").count(), 3, "{answers}");
    assert_eq!(setup.handshakes("ok"), 1);
}

#[tokio::test]
async fn a_wrong_certificate_of_a_client_is_refused_and_counted() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, answers_ok());
    let stranger = CaDirectory::create(&setup.folder.path().join("other"), &"prod".parse().unwrap(), 10).unwrap();
    let mut stream = in_time(connect(&setup.client_of(&stranger, "ci"), server.address)).await.unwrap();
    // With TLS 1.3 a client learns only from the first read that it was refused.
    let error = in_time(stream.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(TlsFault::of_connection(&error).unwrap().reason, FaultReason::RefusedByPeer);
    setup.wait_for("unknown_authority", 1).await;
    assert_eq!(setup.handshakes("ok"), 0);
}

#[tokio::test]
async fn plain_http_at_a_port_with_tls_is_told_where_it_is() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, answers_ok());
    for text in [ASK, "G", "\r\n", "\0"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        let body = format!("\r\n\r\nthis port speaks TLS: https://{}\n", server.address);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with(&body), "{answer}");
    }
    setup.wait_for("not_tls", 4).await;
}

#[tokio::test]
async fn tls_at_a_plain_port_is_answered_in_plain_text_and_the_client_says_so() {
    let setup = Setup::new();
    let server = serve_at(Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap(), TIMEOUTS, answers_ok());
    let fault = in_time(connect(&setup.client(), server.address)).await.unwrap_err();
    assert_eq!(fault.reason, FaultReason::NotTls, "{fault}");
}

#[tokio::test]
async fn a_second_port_is_plain_and_shares_the_limits() {
    let setup = Setup::new();
    let mut listener = setup.listener();
    listener.listen_plain("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.with_limits(Limits { connections: 2, per_address: 2, ..Limits::default() });
    let plain = listener.plain_addr().unwrap().unwrap();
    let server = serve_at(listener, TIMEOUTS, answers_ok());
    let mut stream = TcpStream::connect(plain).await.unwrap();
    stream.write_all(ASK.as_bytes()).await.unwrap();
    assert!(read_all(&mut stream).await.ends_with("ok"));
    drop(stream);
    // The slot of the first connection is free once its task has ended.
    let mut held = Vec::new();
    in_time(async {
        while held.len() < 2 {
            held.extend(connect(&setup.client(), server.address).await);
        }
    })
    .await;
    let mut stream = TcpStream::connect(plain).await.unwrap();
    assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 503 "), "both ports count together");
}

#[tokio::test]
async fn a_slow_handshake_is_closed_after_its_limit() {
    let setup = Setup::new();
    let timeouts = Timeouts { handshake: Duration::from_millis(20), ..TIMEOUTS };
    let server = serve_at(setup.listener(), timeouts, answers_ok());
    // Silence, a part of a record, and a record that never comes.
    for sent in [&b""[..], &[22], &[22, 3, 1, 2, 0, 1]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        assert_eq!(in_time(stream.read(&mut [0; 1])).await.unwrap_or(0), 0);
    }
    setup.wait_for("timeout", 3).await;
}

#[tokio::test]
async fn one_address_cannot_use_up_the_handshakes() {
    let setup = Setup::new();
    let timeouts = Timeouts { handshake: TEST_TIMEOUT, handshake_wait: Duration::from_millis(50), ..TIMEOUTS };
    let server = serve_at(setup.listener(), timeouts, answers_ok());
    let from = |last: u8| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        socket.connect(server.address)
    };
    let share = available_parallelism().map_or(1, usize::from) * HANDSHAKES_PER_CORE_MAX / 2;
    let mut slow = Vec::new();
    for _ in 0..share + 2 {
        let mut stream = in_time(from(2)).await.unwrap();
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        slow.push(stream);
    }
    // The two that are over the share of their address are closed when they have waited for too long.
    setup.wait_for("too_many", 2).await;
    assert_eq!(setup.handshakes("timeout"), 0, "the others still have their slots");
    let stream = in_time(from(3)).await.unwrap();
    let mut stream = in_time(setup.client().connect(stream, HOST)).await.unwrap();
    stream.write_all(ASK.as_bytes()).await.unwrap();
    assert!(read_all(&mut stream).await.ends_with("ok"), "another address is served");
    assert_eq!(setup.handshakes("too_many"), 2);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_handshakes() {
    let setup = Setup::new();
    let timeouts = Timeouts { handshake: 10 * TEST_TIMEOUT, drain: 10 * TEST_TIMEOUT, ..TIMEOUTS };
    let server = serve_at(setup.listener(), timeouts, answers_ok());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&[22, 3, 1]).await.unwrap();
    // A later connection is served: the listener has accepted the first one.
    drop(in_time(connect(&setup.client(), server.address)).await.unwrap());
    server.stop.send(()).unwrap();
    in_time(server.task).await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_changed_certificate_counts_for_new_connections_and_old_ones_go_on() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, answers_ok());
    let keep = ASK.replace("close", "keep-alive");
    let client = setup.client();
    let mut open = in_time(connect(&client, server.address)).await.unwrap();
    let mut ask = async || {
        open.write_all(keep.as_bytes()).await.unwrap();
        let mut answer = [0; 1_024];
        let length = in_time(open.read(&mut answer)).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..length]).starts_with("HTTP/1.1 200 "));
    };
    ask().await;
    // The files of another authority, whose servers the client does not accept.
    let other = CaDirectory::create(&setup.folder.path().join("other"), &"prod".parse().unwrap(), 10).unwrap();
    let (cert, key) = issue_node(&other, &setup.folder.path().join("other"), "node");
    let files = setup.pair.files().clone();
    std::fs::copy(cert, &files.cert).unwrap();
    assert!(matches!(setup.pair.check(), FileCheck::Rejected(_)), "a certificate without its key changes nothing");
    drop(in_time(connect(&client, server.address)).await.unwrap());
    std::fs::copy(key, &files.key).unwrap();
    assert_eq!(setup.pair.check(), FileCheck::Replaced);
    let fault = in_time(connect(&client, server.address)).await.unwrap_err();
    assert_eq!(fault.reason, FaultReason::UnknownAuthority, "{fault}");
    ask().await;
}

#[tokio::test]
async fn an_answer_that_was_read_over_tls_is_not_reported_as_lost() {
    let setup = Setup::new();
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve_at(setup.listener(), TIMEOUTS, router_that_reports_loss(reports));
    for says_goodbye in [true, false] {
        let mut stream = in_time(connect(&setup.client(), server.address)).await.unwrap();
        stream.write_all(ASK.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"the answer") {
            assert!(in_time(stream.read_buf(&mut answer)).await.unwrap() > 0);
        }
        if says_goodbye {
            stream.shutdown().await.unwrap();
        }
        // The client closes at once, whatever else the server has to say.
        drop(stream);
    }
    server.stop.send(()).unwrap();
    in_time(server.task).await.unwrap();
    assert_eq!(in_time(received.recv()).await, None);
}

#[tokio::test]
async fn an_answer_that_was_not_read_over_tls_is_reported_as_lost() {
    let setup = Setup::new();
    let (reports, mut received) = mpsc::unbounded_channel();
    let server = serve_at(setup.listener(), TIMEOUTS, router_that_reports_loss(reports));
    let mut stream = in_time(connect(&setup.client(), server.address)).await.unwrap();
    stream.write_all(ASK.as_bytes()).await.unwrap();
    in_time(stream.socket().readable()).await.unwrap();
    drop(stream);
    assert_eq!(in_time(received.recv()).await, Some("lost"));
}

#[tokio::test]
async fn a_large_answer_arrives_whole_and_an_unread_one_is_cut_off() {
    let setup = Setup::new();
    const BYTES: usize = 8 * 1024 * 1024;
    let (reports, mut received) = mpsc::unbounded_channel();
    let handler = move || {
        let lost = crate::Undelivered::on_loss({
            let reports = reports.clone();
            move || reports.send("lost").unwrap()
        });
        async move { (Extension(lost), "x".repeat(BYTES)) }
    };
    let timeouts = Timeouts { answer: Duration::from_millis(200), ..TIMEOUTS };
    let server = serve_at(setup.listener(), timeouts, Router::new().route("/", get(handler)));
    let mut stream = in_time(connect(&setup.client(), server.address)).await.unwrap();
    stream.write_all(ASK.as_bytes()).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert_eq!(answer.len() - answer.find("\r\n\r\n").unwrap() - 4, BYTES);
    let mut unread = in_time(connect(&setup.client(), server.address)).await.unwrap();
    unread.write_all(ASK.as_bytes()).await.unwrap();
    assert_eq!(in_time(received.recv()).await, Some("lost"));
}

#[tokio::test]
async fn malformed_http_over_tls_is_refused_with_a_problem() {
    let setup = Setup::new();
    let server = serve_at(setup.listener(), TIMEOUTS, answers_ok());
    let mut stream = in_time(connect(&setup.client(), server.address)).await.unwrap();
    stream.write_all(b"NONSENSE\r\n\r\n").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"code\":\"bad_request\""), "{answer}");
}

#[tokio::test]
async fn a_request_over_tls_is_dropped_when_its_client_disconnects() {
    let setup = Setup::new();
    let (reports, mut received) = mpsc::unbounded_channel();
    let router = Router::new().route("/", get(tests::wait_forever)).with_state(reports);
    let server = serve_at(setup.listener(), TIMEOUTS, router);
    for says_goodbye in [true, false] {
        let mut stream = in_time(connect(&setup.client(), server.address)).await.unwrap();
        stream.write_all(ASK.as_bytes()).await.unwrap();
        assert_eq!(in_time(received.recv()).await, Some("waits"));
        if says_goodbye {
            stream.shutdown().await.unwrap();
        }
        drop(stream);
        assert_eq!(in_time(received.recv()).await, Some("dropped"));
    }
}
