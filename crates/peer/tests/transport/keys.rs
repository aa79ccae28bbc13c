//! A peer that cannot prove the cluster's key learns nothing and gets no access: with another key or none, with a
//! replayed handshake, with a reflected proof, and as a man in the middle.

use crate::{
    node::{CLUSTER, Node, PATIENCE, Running, call, call_until_answered, client_with, introduction, target},
    raw::{self, Raw, frame, hello, opening, read_frame},
};
use bytes::Bytes;
use fairhold_peer::{
    frame::FrameKind,
    handshake::{self, Challenge, Hello, PREAMBLE_BYTES, Purpose},
    key::{PeerKeys, Transcript},
    server::PeerServer,
};
use fairhold_raft::peer::{Introduction, KeyMismatch, Lane, Peer, PeerError, Refusal, WIRE_VERSION};
use fairhold_types::Incarnation;
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const OLD: &str = "the key of this cluster: 0123456789abcdef";
const NEW: &str = "the next key of this cluster: fedcba98765";

fn keys(lines: &[&str]) -> PeerKeys {
    PeerKeys::parse(lines.join("\n").as_bytes()).unwrap()
}

fn refused(mismatch: KeyMismatch) -> PeerError {
    PeerError::Refused(Refusal::Key(mismatch))
}

async fn start(node: Arc<Node>, keys: PeerKeys) -> Running {
    Running::run(PeerServer::bind("127.0.0.1:0").await.unwrap().with_handshake_timeout(PATIENCE * 10).with_keys(keys), node)
}

/// Bytes that an unauthenticated peer must not see: the ids of the cluster and of a data directory.
fn secrets() -> [Vec<u8>; 2] {
    let cluster = Introduction { cluster: Some(CLUSTER), ..introduction(2) };
    [cluster.cluster.unwrap().0.to_be_bytes().to_vec(), cluster.incarnation.0.to_be_bytes().to_vec()]
}

fn assert_reveals_nothing(received: &[u8]) {
    for secret in secrets() {
        assert!(!received.windows(secret.len()).any(|window| window == secret), "revealed {secret:?}");
    }
}

async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    match timeout(PATIENCE, stream.read_to_end(&mut received)).await.expect("the connection was not closed") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    received
}

#[tokio::test]
async fn nodes_connect_only_with_the_same_key() {
    for (ours, theirs, expected) in [
        (keys(&[OLD]), keys(&[OLD]), None),
        (keys(&[OLD]), keys(&[NEW]), Some(KeyMismatch::Differ)),
        (PeerKeys::none(), keys(&[OLD]), Some(KeyMismatch::DiallerHasNone)),
        (keys(&[OLD]), PeerKeys::none(), Some(KeyMismatch::AcceptorHasNone)),
        // The acceptor accepts the dialler's key, but proves itself with one that the dialler does not know.
        (keys(&[OLD]), keys(&[NEW, OLD]), Some(KeyMismatch::Differ)),
    ] {
        let node = Arc::new(Node::new(2));
        let server = start(node.clone(), theirs).await;
        let (peer, to) = (client_with(Node::new(1), ours), target(2, server.address));
        let called = call(&peer, &to, b"a question").await;
        let greeted = timeout(PATIENCE, peer.greet(&to)).await.unwrap();
        match expected {
            None => assert_eq!((called.unwrap(), greeted.unwrap()), (Bytes::from_static(b"a question"), introduction(2))),
            Some(mismatch) => {
                assert_eq!((called.unwrap_err(), greeted.unwrap_err()), (refused(mismatch), refused(mismatch)));
                assert_eq!((node.admits.load(SeqCst), node.requests().len()), (0, 0), "{mismatch:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_peer_without_the_key_learns_nothing_from_a_greeting_a_lane_or_a_join() {
    let server = start(Arc::new(Node::new(2)), keys(&[OLD])).await;
    for purpose in [Purpose::Greet, Purpose::Lane(Lane::Heartbeat), Purpose::Join] {
        for stranger in [PeerKeys::none(), keys(&[NEW])] {
            let mut raw = Raw::dial(server.address, &Hello { purpose, ..hello(Lane::Append) }, &stranger).await;
            raw.prove().await;
            let received = read_to_end(&mut raw.stream).await;
            assert_eq!(frame(&received).kind, FrameKind::Refused);
            assert_reveals_nothing(&received);
        }
    }
}

#[tokio::test]
async fn a_server_without_the_key_at_a_members_address_learns_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = target(2, listener.local_addr().unwrap());
    let peer = client_with(Node::new(1), keys(&[OLD]));
    let refusing = Refusal::Incarnation { id: 1, expected: Incarnation(5), found: Incarnation(1) };
    for (story, sends_welcome) in [("a welcome", true), ("a refusal that would end the node", false)] {
        let strange = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut raw = Raw::accept(stream, &keys(&[NEW])).await;
            let proof = raw.receive_with_proof().await;
            if sends_welcome {
                raw.welcome(&introduction(2)).await;
            } else {
                let frame = handshake::refused(&refusing, &mut raw.transcript, &raw.keys).unwrap();
                raw.send(frame).await;
            }
            let received = read_to_end(&mut raw.stream).await;
            assert!(received.is_empty(), "{story}: {received:?}");
            assert_reveals_nothing(&proof);
        };
        let (_, greeted) = timeout(PATIENCE, async { tokio::join!(strange, peer.greet(&to)) }).await.unwrap();
        assert_eq!(greeted.unwrap_err(), refused(KeyMismatch::Differ), "{story}");
    }
}

#[tokio::test]
async fn a_key_rotation_never_interrupts_the_connections_of_nodes() {
    let (node, server_keys, client_keys) = (Arc::new(Node::new(2)), keys(&[OLD]), keys(&[OLD]));
    let server = start(node, server_keys.clone()).await;
    let call_once = async || {
        let peer = client_with(Node::new(1), client_keys.clone());
        assert_eq!(call(&peer, &target(2, server.address), b"still?").await.unwrap(), b"still?"[..]);
        peer.close().await;
    };
    // In each step, first one node replaces its keys, then the other.
    for lines in [&[OLD, NEW][..], &[NEW, OLD], &[NEW]] {
        assert!(server_keys.replace(&keys(lines)));
        call_once().await;
        assert!(client_keys.replace(&keys(lines)));
        call_once().await;
    }
    let late = client_with(Node::new(1), keys(&[OLD]));
    let error = call(&late, &target(2, server.address), b"and the old one?").await.unwrap_err();
    assert_eq!(error, refused(KeyMismatch::Differ));
}

/// Relays a connection to a node, and records the dialler's bytes. `change` alters its frames.
async fn relay(
    to: SocketAddr,
    change: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (SocketAddr, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let relaying = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        let mut recorded = vec![0; PREAMBLE_BYTES];
        near.read_exact(&mut recorded).await.unwrap();
        far.write_all(&recorded).await.unwrap();
        let (mut from_far, mut to_far) = far.into_split();
        let (mut from_near, mut to_near) = near.into_split();
        let back = tokio::spawn(async move { tokio::io::copy(&mut from_far, &mut to_near).await });
        let mut length = [0; 4];
        while from_near.read_exact(&mut length).await.is_ok() {
            let mut rest = vec![0; u32::from_le_bytes(length) as usize];
            from_near.read_exact(&mut rest).await.unwrap();
            let frame = change([&length[..], &rest].concat());
            recorded.extend_from_slice(&frame);
            if to_far.write_all(&frame).await.is_err() {
                break;
            }
        }
        drop(to_far);
        drop(back.await);
        recorded
    });
    (address, relaying)
}

#[tokio::test]
async fn a_replayed_handshake_gets_no_access() {
    let node = Arc::new(Node::new(2));
    let server = start(node.clone(), keys(&[OLD])).await;
    let (between, relaying) = relay(server.address, |frame| frame).await;
    let peer = client_with(Node::new(1), keys(&[OLD]));
    call(&peer, &target(2, between), b"once").await.unwrap();
    peer.close().await;
    let recorded = timeout(PATIENCE, relaying).await.unwrap().unwrap();
    assert_eq!((node.admits.load(SeqCst), node.requests().len()), (1, 1));

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&recorded).await.unwrap();
    assert_reveals_nothing(&read_to_end(&mut stream).await);
    assert_eq!((node.admits.load(SeqCst), node.requests().len()), (1, 1), "a replayed handshake was admitted");
}

/// Replaces the dialler's hello, but keeps its nonce.
fn with_hello(bytes: Vec<u8>, other: Hello) -> Vec<u8> {
    let found = frame(&bytes);
    if found.kind != FrameKind::Hello {
        return bytes;
    }
    let nonce = handshake::read_hello(&found).unwrap().nonce;
    opening(&Hello { nonce, ..other })[PREAMBLE_BYTES..].to_vec()
}

/// Replaces the proof of the introduction.
fn with_another_proof(bytes: Vec<u8>) -> Vec<u8> {
    let mut found = frame(&bytes);
    if found.kind != FrameKind::Introduction {
        return bytes;
    }
    let mut payload = found.payload.to_vec();
    payload[0] ^= 1;
    found.payload = payload.into();
    raw::bytes(found)
}

/// An alteration of a frame in transit.
type Change = fn(Vec<u8>) -> Vec<u8>;

#[tokio::test]
async fn a_handshake_altered_in_transit_gets_no_access() {
    let changes: [(&str, Change, bool); 4] = [
        ("another lane", |bytes| with_hello(bytes, hello(Lane::Forward)), false),
        ("another node", |bytes| with_hello(bytes, Hello { from: 3, ..hello(Lane::Append) }), false),
        ("another introduction", with_another_proof, false),
        ("rewritten without a change", |bytes| with_hello(bytes, hello(Lane::Append)), true),
    ];
    for (story, change, passes) in changes {
        let node = Arc::new(Node::new(2));
        let server = start(node.clone(), keys(&[OLD])).await;
        let (between, _relaying) = relay(server.address, change).await;
        let peer = client_with(Node::new(1), keys(&[OLD]));
        let called = call(&peer, &target(2, between), b"through?").await;
        assert_eq!(called.is_ok(), passes, "{story}: {called:?}");
        assert_eq!(node.requests().len(), usize::from(passes), "{story}");
        assert_eq!(node.admits.load(SeqCst), usize::from(passes), "{story}");
    }
}

#[tokio::test]
async fn a_reflected_proof_gets_no_access() {
    // A relay at node 2's address sends node 1's frames back to node 1.
    let node = Arc::new(Node::new(1));
    let server = start(node.clone(), keys(&[OLD])).await;
    let (between, _relaying) = relay(server.address, |frame| frame).await;
    let peer = client_with(Node::new(1), keys(&[OLD]));
    let error = call(&peer, &target(2, between), b"who is there?").await.unwrap_err();
    assert_eq!(error, PeerError::Refused(Refusal::Identity { expected: 2, found: 1 }));
    assert_eq!((node.admits.load(SeqCst), node.requests().len()), (0, 0));
}

#[tokio::test]
async fn an_acceptors_proof_does_not_admit_a_dialler() {
    let node = Arc::new(Node::new(2));
    let server = start(node.clone(), keys(&[OLD])).await;
    let (mut raw, member) = (Raw::dial(server.address, &hello(Lane::Append), &PeerKeys::none()).await, keys(&[OLD]).now());
    // The proof that an acceptor would send at this point, with the right key and transcript.
    let as_acceptor = handshake::admitted(&mut raw.transcript, &member).unwrap();
    raw.send(fairhold_peer::frame::Frame { kind: FrameKind::Proof, ..as_acceptor }).await;
    let received = read_to_end(&mut raw.stream).await;
    assert_eq!(frame(&received).kind, FrameKind::Refused);
    assert_reveals_nothing(&received);
    assert_eq!(node.admits.load(SeqCst), 0);
}

#[tokio::test]
async fn two_handshakes_of_a_node_differ() {
    let mut challenges = Vec::new();
    let server = start(Arc::new(Node::new(2)), keys(&[OLD])).await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&opening(&hello(Lane::Append))).await.unwrap();
        stream.read_exact(&mut [0; PREAMBLE_BYTES]).await.unwrap();
        challenges.push(timeout(PATIENCE, read_frame(&mut stream)).await.unwrap().unwrap());
    }
    assert_ne!(challenges[0], challenges[1], "the same challenge twice");
    let fixed = handshake::challenge(&Challenge { nonce: [9; 32] }, &mut Transcript::new(WIRE_VERSION)).unwrap();
    assert_eq!(raw::bytes(fixed).len(), challenges[0].len());
}

#[tokio::test]
async fn a_node_with_the_wrong_key_is_admitted_once_it_has_the_right_one() {
    let server = start(Arc::new(Node::new(2)), keys(&[OLD])).await;
    let own = keys(&[NEW]);
    let (peer, to) = (client_with(Node::new(1), own.clone()), target(2, server.address));
    assert_eq!(call(&peer, &to, b"early").await.unwrap_err(), refused(KeyMismatch::Differ));
    assert!(own.replace(&keys(&[OLD])));
    call_until_answered(&peer, &to, Lane::Append, Bytes::from_static(b"late")).await;
}
