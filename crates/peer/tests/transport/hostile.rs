//! Invalid bytes on the peer port close their connection, and the server continues to serve all others. A client
//! survives invalid bytes from its server.

use crate::{
    node::{Node, PATIENCE, Running, assert_serves, call, call_until_answered, client, introduction, target},
    raw::{self, Raw, admitted},
};
use bytes::{Bytes, BytesMut};
use fairhold_peer::{
    frame::{FRAME_BYTES_MAX, Frame, FrameCodec, FrameKind, HANDSHAKE_BYTES_MAX},
    handshake::{PREAMBLE_BYTES, preamble},
    key::PeerKeys,
    pending::PENDING_PER_ADDRESS_MAX,
    reader::{FRAME_BYTES_FREE, FrameLimits, INCOMPLETE_BYTES_MAX},
    server::{PeerServer, UNANSWERED_BYTES_MAX, UNANSWERED_MAX},
    slots::CONNECTIONS_PER_LANE_MAX,
};
use fairhold_raft::peer::{Lane, PeerError, WIRE_VERSION};
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
    raw::opening(&raw::hello(Lane::Append))
}

fn frame(kind: FrameKind, number: u64, payload: &'static [u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    FrameCodec::for_handshake().encode(Frame { kind, number, payload: Bytes::from_static(payload) }, &mut bytes).unwrap();
    bytes.to_vec()
}

pub(crate) fn announce(length: usize) -> Vec<u8> {
    [&u32::try_from(length).unwrap().to_le_bytes()[..], &[0; 100]].concat()
}

fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    bytes
}

/// Reads until the other side closes the connection. A reset also counts.
pub(crate) async fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection was not closed") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    bytes
}

/// Sends the bytes and keeps its own side open. The server must close the connection.
async fn assert_closed(address: SocketAddr, story: &str, bytes: &[u8]) -> Vec<u8> {
    assert_closed_on(TcpStream::connect(address).await.unwrap(), address, story, bytes).await
}

async fn assert_closed_on(mut stream: TcpStream, address: SocketAddr, story: &str, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).await.unwrap();
    let answer = read_to_close(&mut stream).await;
    assert_serves(address).await;
    assert!(answer.len() < 1_000, "{story}: {} bytes of answer", answer.len());
    answer
}

#[tokio::test]
async fn a_connection_that_is_not_from_a_node_is_closed_without_an_answer() {
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
async fn an_invalid_introduction_closes_the_connection() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let unsealed = [&preamble(WIRE_VERSION)[..], &frame(FrameKind::Hello, 0, b"no introduction")].concat();
    for (story, bytes) in [
        ("a giant length", [&preamble(WIRE_VERSION)[..], &announce(u32::MAX as usize)].concat()),
        ("too long for a handshake", [&preamble(WIRE_VERSION)[..], &announce(HANDSHAKE_BYTES_MAX + 1)].concat()),
        ("a flipped byte", [&preamble(WIRE_VERSION)[..], &flipped(hello()[PREAMBLE_BYTES..].to_vec())].concat()),
        ("a request instead", [&preamble(WIRE_VERSION)[..], &frame(FrameKind::Request, 1, b"let me in")].concat()),
        ("a frame with other content", unsealed),
    ] {
        assert_eq!(assert_closed(server.address, story, &bytes).await, preamble(WIRE_VERSION), "{story}");
    }
    assert!(node.requests().iter().all(|request| request == "still there?"));
}

#[tokio::test]
async fn an_invalid_frame_of_an_admitted_node_closes_its_connection() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    for (story, bytes) in [
        ("a giant length", announce(u32::MAX as usize)),
        ("one byte over the frame limit", announce(FRAME_BYTES_MAX + 1)),
        ("a length too short", announce(3)),
        ("a flipped byte", flipped(frame(FrameKind::Request, 1, b"flipped"))),
        ("an answer to the answering side", frame(FrameKind::Answer, 1, b"an answer")),
        ("a second introduction", hello()[PREAMBLE_BYTES..].to_vec()),
    ] {
        assert_closed_on(admitted(server.address, Lane::Append).await, server.address, story, &bytes).await;
    }
    assert!(node.requests().iter().all(|request| request == "still there?"));
}

#[tokio::test]
async fn a_frame_truncated_by_the_end_of_its_connection_is_not_served() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let cut_off = async |mut stream: TcpStream, bytes: &[u8]| {
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        read_to_close(&mut stream).await;
    };
    let opening = hello();
    for length in [4, PREAMBLE_BYTES, opening.len() - 1, opening.len()] {
        cut_off(TcpStream::connect(server.address).await.unwrap(), &opening[..length]).await;
    }
    let request = frame(FrameKind::Request, 1, b"cut off");
    for length in [0, 3, request.len() - 1] {
        cut_off(admitted(server.address, Lane::Append).await, &request[..length]).await;
    }
    assert_serves(server.address).await;
    assert_eq!(node.requests(), [&b"still there?"[..]]);
}

#[tokio::test]
async fn a_slow_handshake_is_closed_at_the_timeout() {
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_handshake_timeout(Duration::from_millis(50));
    let server = Running::run(server, Arc::new(Node::new(2)));
    let opening = hello();
    for length in [0, 1, PREAMBLE_BYTES - 1, PREAMBLE_BYTES, PREAMBLE_BYTES + 2, opening.len() - 1, opening.len()] {
        assert_closed(server.address, "dawdling", &opening[..length]).await;
    }
}

#[tokio::test]
async fn a_node_is_admitted_despite_many_silent_connections() {
    let server = Running::start(Arc::new(Node::new(2))).await;
    let mut silent = Vec::new();
    for _ in 0..PENDING_PER_ADDRESS_MAX {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let peer = client(Node::new(1));
    assert_eq!(call(&peer, &target(2, server.address), b"room?").await.unwrap(), Bytes::from_static(b"room?"));
    assert!(read_to_close(&mut silent[0]).await.is_empty(), "the oldest was evicted");
}

#[tokio::test]
async fn a_new_connection_of_a_node_closes_the_oldest_of_its_lane_and_no_other() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut other_lane = admitted(server.address, Lane::Heartbeat).await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_PER_LANE_MAX {
        let mut stream = admitted(server.address, Lane::Append).await;
        assert_serves_on(&mut stream).await;
        open.push(stream);
    }
    let mut newest = admitted(server.address, Lane::Append).await;
    assert_serves_on(&mut newest).await;
    assert!(read_to_close(&mut open[0]).await.is_empty());
    for stream in open[1..].iter_mut().chain([&mut newest, &mut other_lane]) {
        assert_serves_on(stream).await;
    }
    assert!(node.disconnected.borrow().is_empty(), "the server closed the connection, not the node");
}

/// Sends a request and reads until its echo arrives. After that, the server has admitted the connection.
pub(crate) async fn assert_serves_on(stream: &mut TcpStream) {
    stream.write_all(&frame(FrameKind::Request, 1, b"let in?")).await.unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 256]);
    while !bytes.windows(7).any(|window| window == b"let in?") {
        let length = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("no answer").unwrap();
        assert!(length > 0, "closed");
        bytes.extend_from_slice(&buffer[..length]);
    }
}

/// The first `bytes` bytes of a frame of this length.
fn beginning(length: usize, bytes: usize) -> Vec<u8> {
    let mut beginning = u32::try_from(length).unwrap().to_le_bytes().to_vec();
    beginning.resize(bytes, 0);
    beginning
}

#[tokio::test]
async fn an_incomplete_frame_closes_its_connection_at_the_timeout_and_an_idle_one_stays() {
    let frame_limits = FrameLimits::new(Duration::from_millis(100), INCOMPLETE_BYTES_MAX);
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_frame_limits(frame_limits);
    let server = Running::run(server, Arc::new(Node::new(2)));
    let mut idle = admitted(server.address, Lane::Heartbeat).await;
    for bytes in [1, 4, 60_000] {
        let mut slow = admitted(server.address, Lane::Append).await;
        slow.write_all(&beginning(FRAME_BYTES_MAX, bytes)).await.unwrap();
        assert!(read_to_close(&mut slow).await.is_empty());
    }
    assert_serves_on(&mut idle).await;
}

#[tokio::test]
async fn incomplete_frames_share_a_budget_by_the_bytes_that_arrived() {
    const BUDGET: usize = 1024 * 1024;
    let server = PeerServer::bind("127.0.0.1:0").await.unwrap().with_frame_limits(FrameLimits::new(PATIENCE * 10, BUDGET));
    let server = Running::run(server, Arc::new(Node::new(2)));
    // An announced length uses none of the budget.
    let mut announced = Vec::new();
    for _ in 0..CONNECTIONS_PER_LANE_MAX {
        let mut stream = admitted(server.address, Lane::Snapshot).await;
        stream.write_all(&beginning(FRAME_BYTES_MAX, 100)).await.unwrap();
        announced.push(stream);
    }
    let (mut one, mut other) = (admitted(server.address, Lane::Append).await, admitted(server.address, Lane::Append).await);
    let half = beginning(FRAME_BYTES_MAX, BUDGET / 2 + FRAME_BYTES_FREE + 1);
    one.write_all(&half).await.unwrap();
    other.write_all(&half).await.unwrap();
    // The server closes the connection whose half arrives last.
    let (mut byte, mut another) = ([0; 1], [0; 1]);
    let closed = async {
        tokio::select! {
            biased;
            read = one.read(&mut byte) => read,
            read = other.read(&mut another) => read,
        }
    };
    match timeout(PATIENCE, closed).await.expect("both connections stayed open") {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    // Small frames still get through, however much of the budget the large ones use.
    assert_serves_on(&mut admitted(server.address, Lane::Heartbeat).await).await;
}

#[tokio::test]
async fn at_the_request_limit_the_server_stops_reading_until_an_answer() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut stream = admitted(server.address, Lane::Append).await;
    let count = UNANSWERED_MAX * 2;
    let requests: Vec<u8> = (0..count as u64).flat_map(|number| frame(FrameKind::Request, number, b"hold")).collect();
    stream.write_all(&requests).await.unwrap();
    node.arrived(u32::try_from(UNANSWERED_MAX).unwrap()).await;
    // By the time the server has served another connection, it would have read more requests.
    assert_serves(server.address).await;
    assert_eq!(node.holding_peak.load(SeqCst), UNANSWERED_MAX);
    node.release.add_permits(count);
    node.arrived(u32::try_from(UNANSWERED_MAX).unwrap()).await;
    assert!(node.holding_peak.load(SeqCst) <= UNANSWERED_MAX);
}

#[tokio::test]
async fn at_the_byte_limit_the_server_stops_reading_until_an_answer() {
    const REQUEST_BYTES: usize = 32 * 1024 * 1024;
    const REQUESTS: usize = 7;
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let (mut answers, mut requests) = admitted(server.address, Lane::Append).await.into_split();
    let asking = tokio::spawn(async move {
        let payload = Bytes::from([&b"hold"[..], &vec![b'x'; REQUEST_BYTES - 4]].concat());
        for number in 0..REQUESTS as u64 {
            let mut bytes = BytesMut::new();
            let frame = Frame { kind: FrameKind::Request, number, payload: payload.clone() };
            let mut codec = FrameCodec::for_handshake();
            codec.admit();
            codec.encode(frame, &mut bytes).unwrap();
            requests.write_all(&bytes).await.unwrap();
        }
        requests
    });
    let expected = UNANSWERED_BYTES_MAX / REQUEST_BYTES;
    node.arrived(u32::try_from(expected).unwrap()).await;
    assert_serves(server.address).await;
    assert_eq!(node.holding_peak.load(SeqCst), expected);
    node.release.add_permits(REQUESTS);
    // All answers arrive, piece by piece.
    let mut rest = REQUESTS * REQUEST_BYTES;
    let mut buffer = vec![0; 1024 * 1024];
    while rest > 0 {
        let length = timeout(PATIENCE, answers.read(&mut buffer)).await.unwrap().unwrap();
        assert!(length > 0, "closed {rest} bytes too early");
        rest = rest.saturating_sub(length);
    }
    drop(asking.await.unwrap());
}

#[tokio::test]
async fn an_invalid_answer_fails_the_pending_request_and_no_later_one() {
    for (story, nonsense) in [
        ("a flipped byte", flipped(frame(FrameKind::Answer, 1, b"flipped"))),
        ("an answer without a request", frame(FrameKind::Answer, 77, b"no request has this number")),
        ("a request", frame(FrameKind::Request, 1, b"you first")),
        ("a giant length", announce(u32::MAX as usize)),
        ("a frame cut off", frame(FrameKind::Answer, 1, b"cut off")[..10].to_vec()),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut raw = Raw::accept(stream, &PeerKeys::none()).await;
            raw.receive_with_proof().await;
            raw.welcome(&introduction(2)).await;
            raw.receive_with_proof().await;
            raw.admit().await;
            raw.receive().await;
            let mut stream = raw.stream;
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
