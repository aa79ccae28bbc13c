//! Nodes whose programs speak different wire versions.

use crate::{
    node::{Node, PATIENCE, Running, call, client, introduction, target},
    raw::{Raw, hello},
};
use fairhold_peer::{
    frame::FrameKind,
    handshake::{PREAMBLE_BYTES, preamble},
    key::PeerKeys,
};
use fairhold_raft::peer::{Introduction, Lane, WIRE_VERSION_OLDEST};
use fairhold_types::SupportedVersions;
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// How a node of the oldest wire version looks to others.
fn of_the_oldest_version() -> Introduction {
    Introduction { program: None, supports: SupportedVersions::UNTOLD, boot: 0, ..introduction(1) }
}

#[tokio::test]
async fn a_dialler_of_the_oldest_version_is_admitted() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let mut raw = Raw::dial_in(WIRE_VERSION_OLDEST, server.address, &hello(Lane::Append), &PeerKeys::none()).await;
    raw.prove().await;
    raw.receive_with_proof().await;
    raw.introduce(&introduction(1)).await;
    assert_eq!(raw.receive().await.kind, FrameKind::Admitted);
    assert_eq!(*node.introduced.lock().unwrap(), [of_the_oldest_version()]);
}

#[tokio::test]
async fn an_acceptor_of_the_oldest_version_is_dialled_again_in_its_version() {
    let node = Arc::new(Node::new(2));
    let server = Running::start(node.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = target(2, listener.local_addr().unwrap());
    let older = tokio::spawn(async move {
        // It answers a newer version with its own, and closes.
        let mut refused = listener.accept().await.unwrap().0;
        refused.read_exact(&mut [0; PREAMBLE_BYTES]).await.unwrap();
        refused.write_all(&preamble(WIRE_VERSION_OLDEST)).await.unwrap();
        drop(refused);
        let mut stream = listener.accept().await.unwrap().0;
        let mut onward = TcpStream::connect(server.address).await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut stream, &mut onward).await);
    });
    let peer = client(Node::new(1));
    assert_eq!(call(&peer, &to, b"in your version").await.unwrap(), &b"in your version"[..]);
    assert_eq!(*node.introduced.lock().unwrap(), [of_the_oldest_version()]);
    drop(peer);
    timeout(PATIENCE, older).await.unwrap().unwrap();
}
