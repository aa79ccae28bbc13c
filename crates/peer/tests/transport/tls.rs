//! TLS between nodes: right and wrong certificates, the way from plain text to TLS, and certificates that change.

use crate::node::{Node, PATIENCE, Running, call, call_until_answered, introduction, joined, target};
use bytes::Bytes;
use fairhold_metrics::Format;
use fairhold_peer::{
    PeerMetrics,
    client::TcpPeer,
    handshake::{Hello, PREAMBLE_BYTES, Purpose},
    join::{JoinError, join},
    key::PeerKeys,
    security::PeerSecurity,
    server::PeerServer,
};
use fairhold_raft::{
    JoinSecret,
    peer::{JoinRequest, Lane, Peer, PeerError},
};
use fairhold_trust::{
    authority_for_tests::{TestAuthority, TestPair, Wanted, prod, write},
    careless_for_tests::{accept_carelessly, connect_carelessly},
    file_check::FileCheck,
    live_pair::LivePair,
    pair::PairUse,
    peer::{PeerTls, TLS_FIRST_BYTE},
};
use fairhold_types::{Incarnation, JoinTokenNumber, NodeId, SupportedVersions};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    time::timeout,
};

/// The files of a node, and the pair that follows them.
struct Files {
    folder: tempfile::TempDir,
    pair: Arc<LivePair>,
}

impl Files {
    fn new(authority: &TestAuthority, id: NodeId) -> Files {
        Files::with(&authority.issue(&wanted(id)), authority.cert(), Some(id))
    }

    fn with(pair: &TestPair, ca: &str, node: Option<NodeId>) -> Files {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), pair, ca);
        let pair = LivePair::load(files, PairUse::Peers { cluster: prod(), node, host: None }).unwrap();
        Files { folder, pair }
    }

    fn tls(&self) -> PeerTls {
        PeerTls::new(self.pair.clone(), prod())
    }

    fn at(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

/// The right certificate of node 1 or 2.
fn wanted(id: NodeId) -> Wanted {
    let uri = if id == 1 { "fairhold://prod/node/1" } else { "fairhold://prod/node/2" };
    Wanted { uris: vec![uri], ..Wanted::node_2() }
}

/// Node 2, and how its connections are protected.
async fn serve(node: Arc<Node>, security: PeerSecurity) -> (Running, PeerMetrics) {
    let metrics = PeerMetrics::default();
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_handshake_timeout(PATIENCE * 10);
    (Running::run(server.with_security(security).with_metrics(metrics.clone()), node), metrics)
}

/// A client of node 1.
fn dialler(security: PeerSecurity) -> TcpPeer {
    let peer = TcpPeer::with_security(Handle::current(), PeerKeys::none(), security);
    peer.set_service(Arc::new(Node::new(1)));
    peer
}

/// The value of a series; several with one label are added up.
fn value(metrics: &PeerMetrics, series: &str) -> u64 {
    let mut registry = fairhold_metrics::registry();
    metrics.register(&mut registry);
    let text = fairhold_metrics::text(&registry, Format::Plain).unwrap();
    let of_series = text.lines().filter(|line| line.starts_with(&format!("fairhold_peer_{series}")));
    of_series.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

fn failed(metrics: &PeerMetrics, reason: &str) -> u64 {
    value(metrics, &format!("tls_handshakes_failed_total{{reason=\"{reason}\"}}"))
}

/// Waits until a failure of this kind is counted: a refused side gets its alert first.
async fn wait_for_failure(metrics: &PeerMetrics, reason: &str, story: &str) {
    let counted = async {
        while failed(metrics, reason) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, counted).await.unwrap_or_else(|_| panic!("{story}: no failure {reason}"));
    assert_eq!(value(metrics, "tls_handshakes_failed_total"), 1, "{story}");
}

/// Asserts that no frame of Raft was sent or received, and that nobody was admitted.
fn assert_untouched(metrics: &PeerMetrics, node: &Node, story: &str) {
    let frames = value(metrics, "frames_received_total") + value(metrics, "frames_sent_total");
    assert_eq!((frames, node.requests().len(), node.admits.load(SeqCst)), (0, 0, 0), "{story}");
}

fn unreachable(called: Result<Bytes, PeerError>) -> String {
    match called {
        Err(PeerError::Unreachable(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

/// Certificates that count in neither direction, and the reason with which each is counted.
fn wrong_in_both_directions(authority: &TestAuthority) -> Vec<(&'static str, TestPair, &'static str)> {
    let user =
        Wanted { purposes: Wanted::node_2().purposes, hosts: vec!["127.0.0.1"], ..Wanted::client("fairhold://prod/user/ci") };
    let right = Wanted::node_2;
    let issue = |wanted: Wanted| authority.issue(&wanted);
    vec![
        ("expired", issue(Wanted { days: (-9, -1), ..right() }), "expired"),
        ("not yet valid", issue(Wanted { days: (2, 9), ..right() }), "not_yet_valid"),
        ("another authority", TestAuthority::named("another").issue(&right()), "unknown_authority"),
        ("another authority with the same name", TestAuthority::new().issue(&right()), "unknown_authority"),
        ("another cluster", issue(Wanted { uris: vec!["fairhold://test/node/2"], ..right() }), "other_cluster"),
        ("a malformed URI", issue(Wanted { uris: vec!["fairhold://prod/node/02"], ..right() }), "no_identity"),
        ("no URI", issue(Wanted { uris: Vec::new(), ..right() }), "no_identity"),
        ("a client's certificate", issue(user), "no_identity"),
        ("RSA with 1024 bits", issue(Wanted { has_weak_key: true, ..right() }), "weak_key"),
        ("six certificates", issue(Wanted { intermediates: 5, ..right() }), "chain_too_long"),
    ]
}

fn wrong_for_a_dialler(authority: &TestAuthority) -> Vec<(&'static str, TestPair, &'static str)> {
    let nameless = |common_name| Wanted { hosts: Vec::new(), uris: Vec::new(), common_name, ..Wanted::node_2() };
    let node_3 = Wanted { uris: vec!["fairhold://prod/node/3"], ..Wanted::node_2() };
    let issue = |wanted: Wanted| authority.issue(&wanted);
    let mut wrong = wrong_in_both_directions(authority);
    wrong.extend([
        ("no alternative name", issue(nameless("nobody")), "no_identity"),
        ("a common name alone", issue(nameless("127.0.0.1")), "no_identity"),
        ("for servers alone", issue(Wanted::for_servers_alone()), "wrong_purpose"),
        ("node 3's for node 2", issue(node_3), "other_node"),
    ]);
    wrong
}

fn wrong_for_a_dialled_node(authority: &TestAuthority) -> Vec<(&'static str, TestPair, &'static str)> {
    let nameless = |common_name| Wanted { hosts: Vec::new(), uris: Vec::new(), common_name, ..Wanted::node_2() };
    let node_3 = Wanted { uris: vec!["fairhold://prod/node/3"], ..Wanted::node_2() };
    let issue = |wanted: Wanted| authority.issue(&wanted);
    let mut wrong = wrong_in_both_directions(authority);
    wrong.extend([
        ("no alternative name", issue(nameless("nobody")), "other_host"),
        ("a common name alone", issue(nameless("127.0.0.1")), "other_host"),
        ("another host", issue(Wanted { hosts: vec!["127.0.0.2"], ..Wanted::node_2() }), "other_host"),
        ("for clients alone", issue(Wanted::for_clients_alone()), "wrong_purpose"),
        ("node 3's for node 2", issue(node_3), "other_node"),
    ]);
    wrong
}

/// Dials with a wrong certificate, and says hello as node 2. Returns everything that is answered.
async fn dial_wrongly(address: SocketAddr, pair: Option<&TestPair>) -> Vec<u8> {
    let mut answer = Vec::new();
    let talk = async {
        let mut stream = connect_carelessly(pair, TcpStream::connect(address).await.unwrap()).await?;
        let hello = Hello { from: 2, to: 1, purpose: Purpose::Lane(Lane::Append), nonce: [7; 32] };
        stream.write_all(&crate::raw::opening(&hello)).await?;
        stream.flush().await?;
        stream.read_to_end(&mut answer).await
    };
    // It may end with an alert, or without TLS' own end.
    drop(timeout(PATIENCE, talk).await.expect("the connection was not closed"));
    answer
}

#[tokio::test]
async fn no_wrong_certificate_gets_in() {
    let authority = TestAuthority::new();
    let files = Files::new(&authority, 1);
    for (mode, security) in [("required", PeerSecurity::required(files.tls())), ("optional", PeerSecurity::optional(files.tls()))]
    {
        for (story, pair, reason) in wrong_for_a_dialler(&authority) {
            let node = Arc::new(Node::new(1));
            let (server, metrics) = serve(node.clone(), security.clone()).await;
            let answer = dial_wrongly(server.address, Some(&pair)).await;
            assert!(answer.len() <= PREAMBLE_BYTES, "{mode}, {story}: {} bytes of answer", answer.len());
            wait_for_failure(&metrics, reason, story).await;
            server.stop().await;
            assert_untouched(&metrics, &node, story);
        }
        let node = Arc::new(Node::new(1));
        let (server, metrics) = serve(node.clone(), security.clone()).await;
        assert!(dial_wrongly(server.address, None).await.is_empty(), "{mode}: without a certificate");
        wait_for_failure(&metrics, "no_certificate", mode).await;
        server.stop().await;
        assert_untouched(&metrics, &node, "without a certificate");
    }
}

#[tokio::test]
async fn a_node_with_a_wrong_certificate_learns_nothing_if_it_is_dialled() {
    let authority = TestAuthority::new();
    let files = Files::new(&authority, 1);
    for (mode, security) in [("required", PeerSecurity::required(files.tls())), ("optional", PeerSecurity::optional(files.tls()))]
    {
        for (story, pair, reason) in wrong_for_a_dialled_node(&authority) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let accepting = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut received = Vec::new();
                if let Ok(mut stream) = accept_carelessly(&pair, stream).await {
                    drop(stream.read_to_end(&mut received).await);
                }
                // A second connection would be the way back to plain text. The listener lives as long as the test.
                (received, listener)
            });
            let peer = dialler(security.clone());
            let error = unreachable(call(&peer, &target(2, address), b"a secret").await);
            assert!(!error.contains("a secret"), "{error}");
            let (received, listener) = timeout(PATIENCE, accepting).await.unwrap().unwrap();
            assert_eq!(received, b"", "{mode}, {story}");
            let metrics = peer.metrics();
            assert_eq!(failed(&metrics, reason), 1, "{mode}, {story}: {error}");
            assert_untouched(&metrics, &Node::new(2), story);
            peer.close().await;
            drop(listener);
        }
    }
}

#[tokio::test]
async fn nodes_with_right_certificates_exchange_requests_of_every_size() {
    let authority = TestAuthority::new();
    let (first, second) = (Files::new(&authority, 1), Files::new(&authority, 2));
    for security in [PeerSecurity::required, PeerSecurity::optional] {
        let node = Arc::new(Node::new(2));
        let (server, metrics) = serve(node.clone(), security(second.tls())).await;
        let (peer, to) = (dialler(security(first.tls())), target(2, server.address));
        assert_eq!(call(&peer, &to, b"hello").await.unwrap(), b"hello"[..]);
        for length in [0, 1, 16_384, 70_000, 8 * 1024 * 1024] {
            let request = Bytes::from(vec![b'x'; length]);
            let answered = timeout(PATIENCE, peer.call(&to, Lane::Append, request.clone())).await.unwrap().unwrap();
            assert_eq!(answered, request);
        }
        let many = (0..500).map(|_| peer.call(&to, Lane::Forward, Bytes::from_static(b"one of many")));
        for answered in timeout(PATIENCE, futures_util::future::join_all(many)).await.unwrap() {
            assert_eq!(answered.unwrap(), b"one of many"[..]);
        }
        assert_eq!(timeout(PATIENCE, peer.greet(&to)).await.unwrap().unwrap(), introduction(2));
        assert_eq!(value(&metrics, "tls_connections_open{side=\"accepted\"}"), 2);
        assert_eq!(value(&peer.metrics(), "tls_connections_open{side=\"dialled\"}"), 2);
        peer.close().await;
        server.stop().await;
        assert_eq!(value(&metrics, "tls_connections_open"), 0);
    }
}

#[tokio::test]
async fn a_certificate_for_any_node_is_enough() {
    let authority = TestAuthority::new();
    let any = || Wanted { uris: vec!["fairhold://prod/node/*"], ..Wanted::node_2() };
    let files = Files::with(&authority.issue(&any()), authority.cert(), None);
    let (server, _) = serve(Arc::new(Node::new(2)), PeerSecurity::required(files.tls())).await;
    let peer = dialler(PeerSecurity::required(files.tls()));
    assert_eq!(call(&peer, &target(2, server.address), b"hello").await.unwrap(), b"hello"[..]);
}

#[tokio::test]
async fn optional_tls_works_with_and_without_tls_on_the_other_side() {
    let authority = TestAuthority::new();
    let (first, second) = (Files::new(&authority, 1), Files::new(&authority, 2));
    let all = |files: &Files| {
        [
            ("off", PeerSecurity::plain()),
            ("optional", PeerSecurity::optional(files.tls())),
            ("required", PeerSecurity::required(files.tls())),
        ]
    };
    for (ours, dials) in all(&first) {
        for (theirs, accepts) in all(&second) {
            let node = Arc::new(Node::new(2));
            let (server, metrics) = serve(node.clone(), accepts).await;
            let peer = dialler(dials.clone());
            let called = call(&peer, &target(2, server.address), b"hello").await;
            let story = format!("{ours} dials {theirs}");
            match (ours, theirs) {
                ("off", "required") => {
                    let error = unreachable(called);
                    assert!(error.contains("the other side requires TLS: start this node with --peer-tls"), "{story}: {error}");
                    wait_for_failure(&metrics, "not_tls", &story).await;
                    assert_untouched(&metrics, &node, &story);
                }
                ("required", "off") => {
                    let error = unreachable(called);
                    assert!(error.contains("the connection ended during the TLS handshake"), "{story}: {error}");
                    assert_untouched(&metrics, &node, &story);
                }
                _ => {
                    assert_eq!(called.unwrap(), b"hello"[..], "{story}");
                    let has_tls = u64::from(ours != "off" && theirs != "off");
                    assert_eq!(value(&metrics, "tls_connections_open{side=\"accepted\"}"), has_tls, "{story}");
                }
            }
            peer.close().await;
            server.stop().await;
        }
    }
}

/// Relays connections to a node, and closes those that begin with TLS, as an attacker on the path can.
async fn strip_tls(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut first = [0];
            if near.peek(&mut first).await.unwrap() == 0 || first[0] == TLS_FIRST_BYTE {
                continue;
            }
            let mut far = TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    address
}

#[tokio::test]
async fn a_process_that_had_tls_is_not_accepted_in_plain_text() {
    let authority = TestAuthority::new();
    let (first, second) = (Files::new(&authority, 1), Files::new(&authority, 2));
    let peer = dialler(PeerSecurity::optional(first.tls()));
    // First the accepting side notices it. Then its server starts again, and knows nothing of the process before.
    for has_seen_tls in [true, false] {
        let node = Arc::new(Node::new(2));
        let (server, metrics) = serve(node.clone(), PeerSecurity::optional(second.tls())).await;
        if has_seen_tls {
            call(&peer, &target(2, server.address), b"with TLS").await.unwrap();
        }
        let before = failed(&peer.metrics(), "downgrade");
        let between = target(2, strip_tls(server.address).await);
        drop(unreachable(call(&peer, &between, b"a secret").await));
        assert!(!node.requests().iter().any(|request| request == "a secret"));
        if has_seen_tls {
            wait_for_failure(&metrics, "downgrade", "the accepting side").await;
        } else {
            assert_eq!(failed(&peer.metrics(), "downgrade") - before, 1);
        }
        server.stop().await;
    }
    // Nodes that never had TLS with each other cannot tell.
    let (server, _) = serve(Arc::new(Node::new(2)), PeerSecurity::optional(second.tls())).await;
    let fresh = dialler(PeerSecurity::optional(first.tls()));
    call(&fresh, &target(2, strip_tls(server.address).await), b"in plain text").await.unwrap();
    // Required TLS does not depend on that.
    let strict = dialler(PeerSecurity::required(first.tls()));
    drop(unreachable(call(&strict, &target(2, strip_tls(server.address).await), b"a secret").await));
}

#[tokio::test]
async fn a_new_certificate_counts_for_new_connections_and_open_ones_stay() {
    let authority = TestAuthority::new();
    let (first, second) = (Files::new(&authority, 1), Files::new(&authority, 2));
    let (server, metrics) = serve(Arc::new(Node::new(2)), PeerSecurity::required(second.tls())).await;
    let (peer, to) = (dialler(PeerSecurity::required(first.tls())), target(2, server.address));
    call(&peer, &to, b"before").await.unwrap();

    // Node 1 gets a certificate of an authority that node 2 does not know.
    let other = TestAuthority::named("the next authority");
    let both = format!("{}{}", authority.cert(), other.cert());
    let new = other.issue(&wanted(1));
    for (name, content) in [("ca.crt", &both), ("node.key", &new.key), ("node.crt", &new.cert)] {
        fs::write(first.at(name), content).unwrap();
    }
    assert_eq!(first.pair.check(), FileCheck::Replaced);
    call(&peer, &to, b"on the open connection").await.unwrap();
    let opened = value(&metrics, "connections_opened_total");
    let refused = timeout(PATIENCE, peer.call(&to, Lane::Forward, Bytes::from_static(b"on a new one"))).await.unwrap();
    let error = unreachable(refused);
    assert!(error.contains("the other side refused this side's certificate"), "{error}");
    assert_eq!(value(&metrics, "connections_opened_total"), opened);

    // Once node 2 knows the new authority too, new connections work.
    fs::write(second.at("ca.crt"), &both).unwrap();
    assert_eq!(second.pair.check(), FileCheck::Replaced);
    call_until_answered(&peer, &to, Lane::Forward, Bytes::from_static(b"on a new one")).await;
    call(&peer, &to, b"still on the open connection").await.unwrap();
    assert_eq!(value(&metrics, "connections_opened_total"), opened + 1);
}

#[tokio::test]
async fn a_file_that_is_half_written_changes_nothing() {
    let authority = TestAuthority::new();
    let (first, second) = (Files::new(&authority, 1), Files::new(&authority, 2));
    let (server, _) = serve(Arc::new(Node::new(2)), PeerSecurity::required(second.tls())).await;
    let peer = dialler(PeerSecurity::required(first.tls()));
    let before = first.pair.current().certificate().clone();
    let new = authority.issue(&wanted(1));
    for (name, content) in [("node.crt", &new.cert[..new.cert.len() / 2]), ("node.crt", &new.cert), ("node.key", "")] {
        fs::write(first.at(name), content).unwrap();
        let found = first.pair.check();
        assert!(matches!(found, FileCheck::Rejected(_) | FileCheck::StillRejected { .. }), "{name}: {found:?}");
        assert_eq!(*first.pair.current().certificate(), before);
    }
    call(&peer, &target(2, server.address), b"with the old pair").await.unwrap();
    fs::write(first.at("node.key"), &new.key).unwrap();
    assert_eq!(first.pair.check(), FileCheck::Replaced);
    let next = dialler(PeerSecurity::required(first.tls()));
    call(&next, &target(2, server.address), b"with the new pair").await.unwrap();
}

fn join_request() -> JoinRequest {
    JoinRequest {
        token: JoinTokenNumber(7),
        secret: JoinSecret::new([0x5e; 32]),
        cluster: crate::node::CLUSTER,
        incarnation: Incarnation(33),
        url: "http://n3:7171".to_owned(),
        address: "n3:7271".to_owned(),
        version: Some("0.2.0".to_owned()),
        supports: SupportedVersions::OWN,
    }
}

#[tokio::test]
async fn a_node_joins_with_a_certificate_of_the_cluster_alone() {
    let authority = TestAuthority::new();
    let second = Files::new(&authority, 2);
    let node = Arc::new(Node::new(2));
    let (server, metrics) = serve(node.clone(), PeerSecurity::required(second.tls())).await;
    let address = server.address.to_string();
    let join_with = |security: PeerSecurity| {
        let address = address.clone();
        async move {
            let keys = PeerKeys::none();
            timeout(PATIENCE, join(&address, join_request(), &keys, &security)).await.expect("the join hangs")
        }
    };
    let stranger = TestAuthority::named("another");
    let own_ca_alone = Files::new(&stranger, 1);
    let both = format!("{}{}", stranger.cert(), authority.cert());
    let unknown_to_node_2 = Files::with(&stranger.issue(&wanted(1)), &both, Some(1));
    for wrong in [&own_ca_alone, &unknown_to_node_2] {
        let error = join_with(PeerSecurity::required(wrong.tls())).await.unwrap_err();
        assert!(matches!(error, JoinError::Tls(_)), "{error}");
    }
    let error = join_with(PeerSecurity::plain()).await.unwrap_err();
    assert!(error.to_string().contains("requires TLS"), "{error}");
    assert!(node.joins.lock().unwrap().is_empty(), "no join token was sent");
    assert!(value(&metrics, "tls_handshakes_failed_total") >= 1);

    // It has no number yet, so its certificate may name any node of the cluster.
    let any = Wanted { uris: vec!["fairhold://prod/node/*"], ..Wanted::node_2() };
    let any = Files::with(&authority.issue(&any), authority.cert(), None);
    assert_eq!(join_with(PeerSecurity::required(any.tls())).await, Ok(Ok(joined())));
    assert_eq!(node.joins.lock().unwrap().len(), 1);
}
