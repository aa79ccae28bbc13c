//! Whatever comes in at the peer port, the connection is closed and the others are served on; and a client survives its
//! server's nonsense.

use crate::node::{Node, PATIENCE, Running, assert_serves, call, call_until_answered, client, introduction, target};
use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{FRAME_BYTES_MAX, Frame, FrameCodec, HANDSHAKE_BYTES_MAX, Kind},
    handshake::{Hello, PREAMBLE_BYTES, Purpose, opening, preamble, welcome},
    lobby::STRANGERS_PER_ADDRESS_MAX,
    server::{CONNECTIONS_PER_ADDRESS_MAX, PeerServer, UNANSWERED_BYTES_MAX, UNANSWERED_MAX},
};
use fairhold_raft::peer::{Lane, PeerError};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::codec::Encoder;

fn hello() -> Vec<u8> {
    let hello = Hello { introduction: introduction(1), to: 2, purpose: Purpose::Lane(Lane::Append) };
    opening(&hello).unwrap().to_vec()
}

fn frame(kind: Kind, number: u64, payload: &'static [u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    FrameCodec::for_handshake().encode(Frame { kind, number, payload: Bytes::from_static(payload) }, &mut bytes).unwrap();
    bytes.to_vec()
}

fn announce(length: usize) -> Vec<u8> {
    [&u32::try_from(length).unwrap().to_le_bytes()[..], &[0; 100]].concat()
}

fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    bytes
}

/// Reads until the other side has closed. A reset counts: it has.
async fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection was not closed") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    bytes
}

/// Sends the bytes and keeps its own side open: the server must close.
async fn assert_closed(address: SocketAddr, story: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let answer = read_to_close(&mut stream).await;
    assert_serves(address).await;
    assert!(answer.len() < 1_000, "{story}: {} bytes of answer", answer.len());
    answer
}

#[tokio::test]
async fn strangers_are_closed_without_a_word() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let random: Vec<u8> = (0..1_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (story, bytes) in [
        ("random bytes", &random[..]),
        ("an HTTP request", b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a TLS hello", &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 0, 0]),
        ("nearly the magic", b"FAIRHOLE\x01\x00"),
    ] {
        assert!(assert_closed(server.address, story, bytes).await.is_empty(), "{story} was answered");
    }
    assert!(node.requests().iter().all(|request| request == "still there?"));
}

#[tokio::test]
async fn a_broken_introduction_closes_the_connection() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let unsealed = [&preamble()[..], &frame(Kind::Hello, 0, b"no introduction")].concat();
    for (story, bytes) in [
        ("a giant length", [&preamble()[..], &announce(u32::MAX as usize)].concat()),
        ("more than a handshake may have", [&preamble()[..], &announce(HANDSHAKE_BYTES_MAX + 1)].concat()),
        ("a flipped byte", [&preamble()[..], &flipped(hello()[PREAMBLE_BYTES..].to_vec())].concat()),
        ("a request instead", [&preamble()[..], &frame(Kind::Request, 1, b"let me in")].concat()),
        ("something else in the frame", unsealed),
    ] {
        assert_eq!(assert_closed(server.address, story, &bytes).await, preamble(), "{story}");
    }
    assert!(node.requests().iter().all(|request| request == "still there?"));
}

#[tokio::test]
async fn a_broken_frame_of_an_admitted_node_closes_its_connection() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    for (story, bytes) in [
        ("a giant length", announce(u32::MAX as usize)),
        ("one byte more than a frame may have", announce(FRAME_BYTES_MAX + 1)),
        ("a length too short", announce(3)),
        ("a flipped byte", flipped(frame(Kind::Request, 1, b"flipped"))),
        ("an answer to the answering side", frame(Kind::Answer, 1, b"an answer")),
        ("a second introduction", hello()[PREAMBLE_BYTES..].to_vec()),
    ] {
        assert_closed(server.address, story, &[hello(), bytes].concat()).await;
    }
    assert!(node.requests().iter().all(|request| request == "still there?"));
}

#[tokio::test]
async fn a_frame_cut_off_by_the_end_of_its_connection_is_not_served() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let whole = [hello(), frame(Kind::Request, 1, b"cut off")].concat();
    for length in [4, PREAMBLE_BYTES, hello().len() - 1, hello().len(), hello().len() + 3, whole.len() - 1] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&whole[..length]).await.unwrap();
        stream.shutdown().await.unwrap();
        read_to_close(&mut stream).await;
    }
    assert_serves(server.address).await;
    assert_eq!(node.requests(), [&b"still there?"[..]]);
}

#[tokio::test]
async fn a_handshake_that_dawdles_is_cut_at_the_time_limit() {
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_handshake_timeout(Duration::from_millis(50));
    let server = Running::run(server, Arc::new(Node::new(2)));
    let opening = hello();
    for length in [0, 1, PREAMBLE_BYTES - 1, PREAMBLE_BYTES, PREAMBLE_BYTES + 2, opening.len() - 1] {
        assert_closed(server.address, "dawdling", &opening[..length]).await;
    }
}

#[tokio::test]
async fn a_node_gets_in_through_a_crowd_of_silent_connections() {
    let server = Running::start(Arc::new(Node::new(2))).await;
    let mut silent = Vec::new();
    for _ in 0..STRANGERS_PER_ADDRESS_MAX {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let peer = client(Node::new(1));
    assert_eq!(call(&peer, &target(2, server.address), b"room?").await.unwrap(), Bytes::from_static(b"room?"));
    assert!(read_to_close(&mut silent[0]).await.is_empty(), "the oldest made room");
}

#[tokio::test]
async fn connections_of_nodes_from_one_address_are_limited_and_the_limit_is_given_back() {
    let server = Running::start(Arc::new(Node::new(2))).await;
    let mut admitted = Vec::new();
    for _ in 0..CONNECTIONS_PER_ADDRESS_MAX {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&[hello(), frame(Kind::Request, 1, b"let in?")].concat()).await.unwrap();
        stream.read_exact(&mut [0; PREAMBLE_BYTES + 1]).await.unwrap();
        assert_serves_on(&mut stream).await;
        admitted.push(stream);
    }
    let mut one_too_many = TcpStream::connect(server.address).await.unwrap();
    one_too_many.write_all(&hello()).await.unwrap();
    read_to_close(&mut one_too_many).await;
    drop(admitted);
    let peer = client(Node::new(1));
    call_until_answered(&peer, &target(2, server.address), Lane::Append, Bytes::from_static(b"room?")).await;
}

/// Reads until the echo of the request has come: from then on the connection has its place.
async fn assert_serves_on(stream: &mut TcpStream) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 256]);
    while !bytes.windows(7).any(|window| window == b"let in?") {
        let length = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("no answer").unwrap();
        assert!(length > 0, "closed");
        bytes.extend_from_slice(&buffer[..length]);
    }
}

#[tokio::test]
async fn a_node_that_asks_without_end_is_not_read_until_something_is_answered() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let asked = UNANSWERED_MAX * 2;
    let requests: Vec<u8> = (0..asked as u64).flat_map(|number| frame(Kind::Request, number, b"hold")).collect();
    stream.write_all(&[hello(), requests].concat()).await.unwrap();
    node.arrived(u32::try_from(UNANSWERED_MAX).unwrap()).await;
    // Whoever is served in between takes turns with the server: it would have read on by now.
    assert_serves(server.address).await;
    assert_eq!(node.holding_peak.load(SeqCst), UNANSWERED_MAX);
    node.release.add_permits(asked);
    node.arrived(u32::try_from(UNANSWERED_MAX).unwrap()).await;
    assert!(node.holding_peak.load(SeqCst) <= UNANSWERED_MAX);
}

#[tokio::test]
async fn a_node_that_asks_for_large_things_without_end_is_not_read_until_something_is_answered() {
    const REQUEST_BYTES: usize = 32 * 1024 * 1024;
    const ASKED: usize = 7;
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&hello()).await.unwrap();
    let (mut answers, mut requests) = stream.into_split();
    let asking = tokio::spawn(async move {
        let payload = Bytes::from([&b"hold"[..], &vec![b'x'; REQUEST_BYTES - 4]].concat());
        for number in 0..ASKED as u64 {
            let mut bytes = BytesMut::new();
            let frame = Frame { kind: Kind::Request, number, payload: payload.clone() };
            let mut codec = FrameCodec::for_handshake();
            codec.admit();
            codec.encode(frame, &mut bytes).unwrap();
            requests.write_all(&bytes).await.unwrap();
        }
        requests
    });
    let most = UNANSWERED_BYTES_MAX / REQUEST_BYTES;
    node.arrived(u32::try_from(most).unwrap()).await;
    assert_serves(server.address).await;
    assert_eq!(node.holding_peak.load(SeqCst), most);
    node.release.add_permits(ASKED);
    // All are answered in the end, in pieces that the reader takes.
    let mut rest = ASKED * REQUEST_BYTES;
    let mut buffer = vec![0; 1024 * 1024];
    while rest > 0 {
        let length = timeout(PATIENCE, answers.read(&mut buffer)).await.unwrap().unwrap();
        assert!(length > 0, "closed with {rest} bytes to come");
        rest = rest.saturating_sub(length);
    }
    drop(asking.await.unwrap());
}

#[tokio::test]
async fn a_server_that_answers_nonsense_loses_the_request_and_no_more() {
    for (story, nonsense) in [
        ("a flipped byte", flipped(frame(Kind::Answer, 1, b"flipped"))),
        ("an answer to nothing", frame(Kind::Answer, 77, b"who asked?")),
        ("a request", frame(Kind::Request, 1, b"you first")),
        ("a giant length", announce(u32::MAX as usize)),
        ("a frame cut off", frame(Kind::Answer, 1, b"cut off")[..10].to_vec()),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut welcome_bytes = BytesMut::from(&preamble()[..]);
            FrameCodec::for_handshake().encode(welcome(&introduction(2)).unwrap(), &mut welcome_bytes).unwrap();
            stream.write_all(&welcome_bytes).await.unwrap();
            let expected = hello().len() + frame(Kind::Request, 1, b"a question").len();
            stream.read_exact(&mut vec![0; expected]).await.unwrap();
            stream.write_all(&nonsense).await.unwrap();
            stream.shutdown().await.unwrap();
            read_to_close(&mut stream).await;
            listener
        });
        let peer = client(Node::new(1));
        let error = call(&peer, &target(2, address), b"a question").await.unwrap_err();
        assert!(matches!(error, PeerError::Lost(_)), "{story}: {error}");
        drop(timeout(PATIENCE, server).await.unwrap().unwrap());
        let _server = Running::start_at(address, Arc::new(Node::new(2))).await;
        call_until_answered(&peer, &target(2, address), Lane::Append, Bytes::from_static(b"again")).await;
    }
}
