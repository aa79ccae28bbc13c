//! Refused connections between nodes: no request reaches the service.

use crate::node::{CLUSTER, Node, PATIENCE, Running, assert_serves, call, call_until_answered, client, introduction, target};
use bytes::Bytes;
use fairhold_peer::{
    handshake::{MAGIC, preamble},
    lane::REFUSED_PAUSE,
};
use fairhold_raft::peer::{Introduction, Lane, Peer, PeerError, Refusal, Target, WIRE_VERSION};
use fairhold_types::{ClusterId, Incarnation};
use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

fn with_introduction(node: Node, change: impl FnOnce(&mut Introduction)) -> Node {
    let mut node = node;
    change(&mut node.introduction);
    node
}

#[tokio::test]
async fn a_node_of_another_cluster_is_refused() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let theirs = ClusterId(0xBAD);
    let peer = client(with_introduction(Node::new(1), |own| own.cluster = Some(theirs)));
    let error = call(&peer, &target(2, server.address), b"let me in").await.unwrap_err();
    assert_eq!(error, PeerError::Refused(Refusal::Cluster { theirs, ours: CLUSTER }));
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_member_with_another_data_directory_is_refused_by_the_node_that_it_dials() {
    let node = Arc::new(Node { known: Some(Incarnation(1)), ..Node::new(2) });
    let server = Running::start(node.clone()).await;
    let peer = client(with_introduction(Node::new(1), |own| own.incarnation = Incarnation(99)));
    let error = call(&peer, &target(2, server.address), b"vote for me").await.unwrap_err();
    let refusal = Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(99) };
    assert_eq!(error, PeerError::Refused(refusal));
    assert!(node.requests().is_empty());
    assert_serves(server.address).await;
}

#[tokio::test]
async fn a_member_with_another_data_directory_is_refused_by_the_node_that_dials_it() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let peer = client(Node::new(1));
    let to = Target { incarnation: Some(Incarnation(22)), ..target(2, server.address) };
    let error = call(&peer, &to, b"your vote").await.unwrap_err();
    let refusal = Refusal::Incarnation { id: 2, expected: Incarnation(22), found: Incarnation(2) };
    assert_eq!(error, PeerError::Refused(refusal));
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn the_dialler_checks_the_acceptor_too() {
    // Node 1 admits node 3. Node 3, the dialler, knows that node 1 lost its disk.
    let node = Arc::new(with_introduction(Node::new(1), |own| own.incarnation = Incarnation(11)));
    let server = Running::start(node.clone()).await;
    let peer = client(Node { known: Some(Incarnation(1)), ..Node::new(3) });
    let error = call(&peer, &target(1, server.address), b"your vote").await.unwrap_err();
    let refusal = Refusal::Incarnation { id: 1, expected: Incarnation(1), found: Incarnation(11) };
    assert_eq!(error, PeerError::Refused(refusal));
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_node_that_is_not_the_one_dialled_is_refused() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let peer = client(Node::new(1));
    let refused = PeerError::Refused(Refusal::Identity { expected: 3, found: 2 });
    assert_eq!(call(&peer, &target(3, server.address), b"node 3?").await.unwrap_err(), refused);
    assert_eq!(timeout(PATIENCE, peer.greet(&target(3, server.address))).await.unwrap().unwrap_err(), refused);
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_dialler_of_another_version_learns_only_our_version() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // More bytes follow the preamble, in a format that this version does not know. The answer must still arrive.
    let [low, high] = (WIRE_VERSION + 1).to_le_bytes();
    stream.write_all(&[&MAGIC[..], &[low, high], &[0; 1_000]].concat()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, preamble(WIRE_VERSION));
    // The server keeps reading, so the first write causes no reset that the second would report: a reset could overtake
    // the answer.
    stream.write_all(&[0; 1_000]).await.unwrap();
    stream.write_all(&[0; 1_000]).await.unwrap();
    assert!(node.requests().is_empty());
    assert_eq!(node.admits.load(SeqCst), 0);
}

#[tokio::test]
async fn a_server_of_another_version_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let newer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let [low, high] = 9_u16.to_le_bytes();
        stream.write_all(&[&MAGIC[..], &[low, high]].concat()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        received
    });
    let peer = client(Node::new(1));
    let error = call(&peer, &target(2, address), b"a secret").await.unwrap_err();
    assert_eq!(error, PeerError::Refused(Refusal::Version { theirs: 9, ours: WIRE_VERSION }));
    let received = timeout(PATIENCE, newer).await.unwrap().unwrap();
    assert!(!received.windows(8).any(|window| window == b"a secret"));
}

#[tokio::test]
async fn a_greeting_is_answered_even_if_the_greeter_would_be_refused() {
    let node = Arc::new(Node { known: Some(Incarnation(1)), ..Node::new(2) });
    let server = Running::start(node.clone()).await;
    let wiped = client(with_introduction(Node::new(1), |own| {
        (own.cluster, own.incarnation, own.empty, own.members) = (None, Incarnation(99), true, Vec::new());
    }));
    let received = timeout(PATIENCE, wiped.greet(&target(2, server.address))).await.unwrap().unwrap();
    assert_eq!(received, introduction(2));
    assert!(matches!(call(&wiped, &target(2, server.address), b"hm").await, Err(PeerError::Refused(_))));
    assert!(node.requests().is_empty());
}

#[tokio::test]
async fn a_refused_lane_backs_off() {
    let node = Arc::new(Node { known: Some(Incarnation(1)), ..Node::new(2) });
    let server = Running::start(node.clone()).await;
    let peer = client(with_introduction(Node::new(1), |own| own.incarnation = Incarnation(99)));
    let to = target(2, server.address);
    let started = Instant::now();
    let first = call(&peer, &to, b"let me in").await.unwrap_err();
    for _ in 0..20_000 {
        assert_eq!(peer.call(&to, Lane::Append, Bytes::new()).await.unwrap_err(), first);
    }
    let (dials, seconds) = (node.admits.load(SeqCst) as u64, started.elapsed().as_secs());
    assert!(dials <= 1 + seconds, "{dials} dials in {seconds} s");
}

#[tokio::test]
async fn a_starting_node_is_dialled_again_soon() {
    let node = Arc::new(Node::new(2));
    node.starting.store(true, SeqCst);
    let server = Running::start(node.clone()).await;
    let (peer, to) = (client(Node::new(1)), target(2, server.address));
    assert_eq!(call(&peer, &to, b"ready?").await.unwrap_err(), PeerError::Refused(Refusal::Starting));
    assert!(node.requests().is_empty());
    node.starting.store(false, SeqCst);
    let started = Instant::now();
    call_until_answered(&peer, &to, Lane::Append, Bytes::from_static(b"ready now?")).await;
    assert!(started.elapsed() < REFUSED_PAUSE, "only after {:?}", started.elapsed());
}
