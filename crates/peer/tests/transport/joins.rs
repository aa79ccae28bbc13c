//! A node without an id joins by a token: the decision reaches it, its secret reaches no other cluster, and a hostile
//! process on this path keeps out nobody.

use crate::{
    hostile::{announce, assert_serves_on, read_to_close},
    node::{CLUSTER, Node, PATIENCE, Running, assert_serves, introduction, join_when_free, joined},
    raw::{self, Raw, admitted, join_hello},
};
use fairhold_peer::{
    frame::{FrameKind, HANDSHAKE_BYTES_MAX},
    handshake::{self, Hello, preamble},
    join::{JoinError, join},
    join_slots::{JOINS_MAX, JOINS_PER_ADDRESS_MAX},
    key::PeerKeys,
    pending::PENDING_PER_ADDRESS_MAX,
    security::PeerSecurity,
    server::PeerServer,
};
use fairhold_raft::{
    JoinSecret,
    peer::{
        ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, KeyMismatch, Lane, Refusal, WIRE_VERSION,
        WIRE_VERSION_OLDEST,
    },
};
use fairhold_types::{ClusterId, Incarnation, JoinTokenNumber, Revision, SupportedVersions, limits::MEMBER_ADDRESS_BYTES_MAX};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SECRET: [u8; 32] = [0x5e; 32];
const KEY: &str = "the key of this cluster: 0123456789abcdef";
const OTHER_KEY: &str = "the key of another cluster: fedcba987654";

fn request() -> JoinRequest {
    JoinRequest {
        token: JoinTokenNumber(7),
        secret: JoinSecret::new(SECRET),
        cluster: CLUSTER,
        incarnation: Incarnation(33),
        url: "http://n3:7171".to_owned(),
        address: "n3:7271".to_owned(),
        version: Some("0.2.0".to_owned()),
        supports: SupportedVersions::OWN,
    }
}

fn keys(line: &str) -> PeerKeys {
    PeerKeys::parse(line.as_bytes()).unwrap()
}

async fn join_at(address: SocketAddr) -> Result<Result<Joined, JoinRefusal>, JoinError> {
    join_with(address, &PeerKeys::none()).await
}

async fn join_with(address: SocketAddr, keys: &PeerKeys) -> Result<Result<Joined, JoinRefusal>, JoinError> {
    timeout(PATIENCE, join(&address.to_string(), request(), keys, &PeerSecurity::plain())).await.expect("the join hangs")
}

fn has_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET)
}

/// A node that wants to join, up to its request.
async fn joiner(address: SocketAddr) -> Raw {
    let mut raw = Raw::dial(address, &join_hello(), &PeerKeys::none()).await;
    raw.prove().await;
    raw.receive_with_proof().await;
    raw
}

/// A server at a member's address, up to its introduction.
async fn impostor(listener: &TcpListener, keys: &PeerKeys, own: &Introduction) -> Raw {
    let (stream, _) = listener.accept().await.unwrap();
    let mut raw = Raw::accept(stream, keys).await;
    raw.receive_with_proof().await;
    raw.welcome(own).await;
    raw
}

fn decision(value: &[u8]) -> Result<Joined, JoinRefusal> {
    fairhold_codec::decode(1, value).unwrap()
}

#[tokio::test]
async fn a_node_without_an_id_joins_through_any_node() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    assert_eq!(join_at(server.address).await, Ok(Ok(joined())));
    assert_eq!(*node.joins.lock().unwrap(), [request()]);
    assert_eq!((node.admits.load(SeqCst), node.requests().len()), (0, 0), "a node that joins is no member");
    assert_serves(server.address).await;
    assert_eq!(*node.sides.lock().unwrap(), [ConnectionSide::Accepted]);
}

#[tokio::test]
async fn a_refused_join_gets_the_reason() {
    for refusal in [JoinRefusal::NoLeader, JoinRefusal::AddressInUse { address: "n3:7271".to_owned(), node: 1 }] {
        let node = Arc::new(Node { decision: Err(refusal.clone()), ..Node::new(2) });
        let server = Running::start(node).await;
        assert_eq!(join_at(server.address).await, Ok(Err(refusal)));
    }
}

#[tokio::test]
async fn a_join_needs_the_key_of_the_cluster() {
    for (ours, theirs, expected) in [
        (keys(KEY), keys(KEY), None),
        (keys(OTHER_KEY), keys(KEY), Some(KeyMismatch::Differ)),
        (PeerKeys::none(), keys(KEY), Some(KeyMismatch::DiallerHasNone)),
        (keys(KEY), PeerKeys::none(), Some(KeyMismatch::AcceptorHasNone)),
    ] {
        let node = Arc::new(Node::new(2));
        let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_handshake_timeout(PATIENCE * 10).with_keys(theirs);
        let server = Running::run(server, node.clone());
        let answered = join_with(server.address, &ours).await;
        match expected {
            None => assert_eq!(answered, Ok(Ok(joined()))),
            Some(mismatch) => {
                assert_eq!(answered, Err(JoinError::Key(mismatch)));
                assert!(node.joins.lock().unwrap().is_empty(), "{mismatch:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_secret_is_sent_only_to_a_node_with_the_key_and_the_cluster_of_the_token() {
    let theirs = ClusterId(0xBAD);
    let other = introduction(2);
    let refused = JoinRefusal::OtherCluster { theirs: CLUSTER, ours: theirs };
    let cases = [
        ("another key", keys(OTHER_KEY), other.clone(), Err(JoinError::Key(KeyMismatch::Differ))),
        ("another cluster", keys(KEY), Introduction { cluster: Some(theirs), ..other.clone() }, Ok(Err(refused))),
        ("no cluster", keys(KEY), Introduction { cluster: None, ..other }, Err(JoinError::NoCluster)),
    ];
    for (story, their_keys, own, expected) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let strange = async {
            let mut raw = impostor(&listener, &their_keys, &own).await;
            read_to_close(&mut raw.stream).await
        };
        let own_keys = keys(KEY);
        let (received, answered) = tokio::join!(strange, join_with(address, &own_keys));
        assert_eq!(answered, expected, "{story}");
        assert!(received.is_empty(), "{story}: {received:?}");
    }
}

#[tokio::test]
async fn a_node_of_another_wire_version_gets_no_secret() {
    let theirs = WIRE_VERSION + 1;
    let ours = WIRE_VERSION;
    for (version, expected) in [(WIRE_VERSION_OLDEST, JoinError::TooOld), (theirs, JoinError::TooNew { theirs, ours })] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let other = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&preamble(version)).await.unwrap();
            stream.shutdown().await.unwrap();
            read_to_close(&mut stream).await
        };
        let (received, answered) = tokio::join!(other, join_at(address));
        assert_eq!(answered, Err(expected));
        assert!(!has_secret(&received));
    }
}

#[tokio::test]
async fn a_join_over_an_older_wire_version_is_closed_without_an_answer() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&preamble(WIRE_VERSION_OLDEST)).await.unwrap();
    stream.write_all(&raw::opening(&join_hello())[handshake::PREAMBLE_BYTES..]).await.unwrap();
    assert_eq!(read_to_close(&mut stream).await, preamble(WIRE_VERSION_OLDEST));
    assert!(node.joins.lock().unwrap().is_empty());
    assert_serves(server.address).await;
}

#[tokio::test]
async fn a_refusal_that_an_older_node_cannot_read_becomes_one_that_it_can() {
    let removed = Refusal::Removed { id: 1, revision: Revision(9) };
    for (version, refusal, expected) in [
        (WIRE_VERSION_OLDEST, removed.clone(), Refusal::NotAMember { id: 1 }),
        (WIRE_VERSION, removed.clone(), removed),
        (WIRE_VERSION_OLDEST, Refusal::Duplicate { id: 1 }, Refusal::NotAMember { id: 1 }),
        (WIRE_VERSION, Refusal::Duplicate { id: 1 }, Refusal::Duplicate { id: 1 }),
    ] {
        let node = Node { refuses: Some(refusal), ..Node::new(2) };
        let server = Running::start(Arc::new(node)).await;
        let mut raw = Raw::dial_in(version, server.address, &raw::hello(Lane::Append), &PeerKeys::none()).await;
        raw.prove().await;
        raw.receive_with_proof().await;
        raw.introduce(&introduction(1)).await;
        let value = raw.receive_with_proof().await;
        assert_eq!(fairhold_codec::decode::<Refusal>(1, &value).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_request_with_a_wrong_text_does_not_reach_the_cluster() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let long = "n".repeat(MEMBER_ADDRESS_BYTES_MAX);
    for request in [
        JoinRequest { url: format!("http://{long}:7171"), ..request() },
        JoinRequest { url: "http://n3:7171/v1\u{1b}]0;me\u{7}".to_owned(), ..request() },
        JoinRequest { url: String::new(), ..request() },
        JoinRequest { address: format!("{long}:7271"), ..request() },
        JoinRequest { address: "n3:7271\n".to_owned(), ..request() },
        JoinRequest { address: "0.0.0.0:7271".to_owned(), ..request() },
        JoinRequest { version: Some("0".repeat(60_000)), ..request() },
        JoinRequest { version: Some("0.2.0\u{202e}".to_owned()), ..request() },
    ] {
        let mut raw = joiner(server.address).await;
        raw.join(&request).await;
        let refused = decision(&raw.receive_with_proof().await);
        let Err(JoinRefusal::BadRequest(why)) = refused else { panic!("{request:?}: {refused:?}") };
        assert!(why.len() < 200 && !why.contains(['\u{1b}', '\n', '\u{202e}']), "{why:?}");
    }
    assert!(node.joins.lock().unwrap().is_empty());
    let mut raw = joiner(server.address).await;
    raw.join(&JoinRequest { url: "http://n3:7171/".to_owned(), ..request() }).await;
    assert_eq!(decision(&raw.receive_with_proof().await), Ok(joined()));
    assert_eq!(*node.joins.lock().unwrap(), [request()], "one node has one URL, however it is written");
}

#[tokio::test]
async fn an_invalid_frame_instead_of_a_request_closes_the_connection() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let framed = |kind, payload: Vec<u8>| raw::bytes(fairhold_peer::frame::Frame { kind, number: 0, payload: payload.into() });
    for (story, bytes) in [
        ("a giant length", announce(u32::MAX as usize)),
        ("too long for a handshake", announce(HANDSHAKE_BYTES_MAX + 1)),
        ("a length too short", announce(3)),
        ("no proof", framed(FrameKind::Join, vec![1; 31])),
        ("a request", framed(FrameKind::Request, vec![1; 100])),
        ("a second proof", framed(FrameKind::Proof, vec![1; 100])),
    ] {
        let mut raw = joiner(server.address).await;
        raw.stream.write_all(&bytes).await.unwrap();
        let answer = read_to_close(&mut raw.stream).await;
        assert!(answer.len() < 1_000, "{story}: {} bytes of answer", answer.len());
    }
    // The proof is right, and the value is no request.
    let mut raw = joiner(server.address).await;
    let other = handshake::introduction(WIRE_VERSION, &introduction(1), &mut raw.transcript, &raw.keys).unwrap();
    raw.send(fairhold_peer::frame::Frame { kind: FrameKind::Join, ..other }).await;
    read_to_close(&mut raw.stream).await;
    // A member sends one on its lane.
    let mut lane = admitted(server.address, Lane::Append).await;
    lane.write_all(&framed(FrameKind::Join, vec![1; 100])).await.unwrap();
    read_to_close(&mut lane).await;
    assert!(node.joins.lock().unwrap().is_empty());
    assert_serves(server.address).await;
}

#[tokio::test]
async fn a_request_with_a_wrong_proof_does_not_reach_the_cluster() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut raw = joiner(server.address).await;
    raw.keys = keys(OTHER_KEY).now();
    raw.join(&request()).await;
    assert_eq!(raw.receive().await.kind, FrameKind::Refused);
    assert!(node.joins.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_ids_in_the_hello_of_a_join_have_no_effect() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut raw = Raw::dial(server.address, &Hello { from: 1, to: 9, ..join_hello() }, &PeerKeys::none()).await;
    raw.prove().await;
    raw.receive_with_proof().await;
    raw.join(&request()).await;
    assert_eq!(decision(&raw.receive_with_proof().await), Ok(joined()));
    assert_eq!(node.admits.load(SeqCst), 0);
}

#[tokio::test]
async fn an_address_with_too_many_joins_is_turned_away_and_delays_no_member() {
    let node = Arc::new(Node { holds_joins: true, ..Node::new(2) });
    let server = Running::start(node.clone()).await;
    let mut waiting = Vec::new();
    for _ in 0..JOINS_PER_ADDRESS_MAX {
        let mut raw = joiner(server.address).await;
        raw.join(&request()).await;
        node.arrived(1).await;
        waiting.push(raw);
    }
    for _ in 0..JOINS_MAX {
        assert!(matches!(join_at(server.address).await, Err(JoinError::NoAnswer(_))));
    }
    assert_eq!(node.joins.lock().unwrap().len(), JOINS_PER_ADDRESS_MAX);
    assert_serves_on(&mut admitted(server.address, Lane::Append).await).await;
    node.release.add_permits(JOINS_PER_ADDRESS_MAX + 1);
    for mut raw in waiting {
        assert_eq!(decision(&raw.receive_with_proof().await), Ok(joined()));
    }
    assert_eq!(join_when_free(server.address, request()).await, joined());
}

#[tokio::test]
async fn a_node_that_does_not_read_its_answer_keeps_no_slot() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut slow = Vec::new();
    let started = Instant::now();
    for _ in 0..JOINS_MAX * 4 {
        let mut raw = joiner(server.address).await;
        raw.join(&request()).await;
        node.arrived(1).await;
        slow.push(raw);
        assert_eq!(join_when_free(server.address, request()).await, joined());
        node.arrived(1).await;
    }
    // With their slots, every second one would delay the next join by a second.
    assert!(started.elapsed() < Duration::from_secs(4), "the joins took {:?}", started.elapsed());
}

#[tokio::test]
async fn silent_nodes_that_want_to_join_keep_out_neither_a_join_nor_a_member() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut silent = Vec::new();
    for _ in 0..PENDING_PER_ADDRESS_MAX {
        silent.push(joiner(server.address).await);
    }
    assert_eq!(join_at(server.address).await, Ok(Ok(joined())));
    assert_serves(server.address).await;
    assert!(read_to_close(&mut silent[0].stream).await.is_empty(), "the oldest was evicted");
}

#[tokio::test]
async fn a_join_that_the_cluster_does_not_decide_ends_at_the_timeout() {
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_join_timeout(Duration::from_millis(50));
    let server = Running::run(server, Arc::new(Node { holds_joins: true, ..Node::new(2) }));
    assert_eq!(join_at(server.address).await, Ok(Err(JoinRefusal::NoLeader)));
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_not_believed() {
    let member = |url: &str| vec![(1, url.to_owned(), "n1:7271".to_owned())];
    for (story, answer) in [
        ("another cluster", Ok(Joined { cluster: ClusterId(0xBAD), ..joined() })),
        ("no id", Ok(Joined { id: 0, ..joined() })),
        ("a long URL", Ok(Joined { members: member(&"u".repeat(MEMBER_ADDRESS_BYTES_MAX + 1)), ..joined() })),
        ("a URL that controls the terminal", Ok(Joined { members: member("http://\u{1b}]0;me\u{7}"), ..joined() })),
        ("a reason that controls the terminal", Err(JoinRefusal::BadRequest("no\u{1b}[2J".to_owned()))),
        ("a long reason", Err(JoinRefusal::BadRequest("no ".repeat(10_000)))),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let strange = async {
            let mut raw = impostor(&listener, &PeerKeys::none(), &introduction(2)).await;
            raw.receive_with_proof().await;
            raw.joined(&answer).await;
            raw
        };
        let (_open, answered) = tokio::join!(strange, join_at(address));
        let Err(JoinError::Malformed(why)) = answered else { panic!("{story}: {answered:?}") };
        assert!(why.len() < 200 && !why.contains('\u{1b}'), "{story}: {why:?}");
    }
}

#[tokio::test]
async fn a_server_that_closes_or_answers_nonsense_gives_no_decision() {
    for (story, bytes) in [("closes", Vec::new()), ("a giant length", announce(u32::MAX as usize))] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let strange = async {
            let mut raw = impostor(&listener, &PeerKeys::none(), &introduction(2)).await;
            raw.receive_with_proof().await;
            raw.stream.write_all(&bytes).await.unwrap();
            raw.stream.shutdown().await.unwrap();
            raw.stream.read_to_end(&mut Vec::new()).await.ok();
        };
        let ((), answered) = tokio::join!(strange, join_at(address));
        assert!(matches!(answered, Err(JoinError::NoAnswer(_))), "{story}: {answered:?}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert!(matches!(join_at(nobody).await, Err(JoinError::Unreachable(_))));
}
