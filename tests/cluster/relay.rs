//! A proxy in front of a node's peer port that blocks its clients' bytes after some number.

use crate::harness::{NodeProcess, free_port};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// Forwards this many bytes to the node, over all connections, and then no more. Always forwards what the node sends.
pub(crate) struct Relay {
    is_open: watch::Sender<bool>,
    left: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Takes the address of a stopped node, which listens elsewhere from its next start on.
    pub(crate) async fn in_front_of(node: &mut NodeProcess, bytes: usize) -> Relay {
        let node_address = format!("127.0.0.1:{}", free_port());
        node.flags.extend(["--peer-listen".to_owned(), node_address.clone()]);
        let listener = TcpListener::bind(&node.peer_address).await.expect("its node does not run");
        let (is_open, opened) = watch::channel(false);
        let left = Arc::new(AtomicUsize::new(bytes));
        let shared_left = left.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                let Ok(node) = TcpStream::connect(&node_address).await else { continue };
                let ((from_peer, mut to_peer), (mut from_node, to_node)) = (peer.into_split(), node.into_split());
                tokio::spawn(forward(from_peer, to_node, shared_left.clone(), opened.clone()));
                tokio::spawn(async move { tokio::io::copy(&mut from_node, &mut to_peer).await });
            }
        });
        Relay { is_open, left, accepting }
    }

    /// Whether it blocks bytes.
    pub(crate) fn is_blocking(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Ends the blocked connections; new ones are forwarded freely.
    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, left: Arc<AtomicUsize>, mut opened: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !*opened.borrow() {
            let subtract = |left: usize| Some(left.saturating_sub(length));
            let before =
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, subtract).expect("the closure always returns a value");
            if before < length {
                // The connection's end, or the relay's: blocked bytes are never forwarded.
                drop(opened.wait_for(|open| *open).await);
                return;
            }
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
