//! A flood of TLS handshakes, complete ones and ones that stop in the middle, while honest clients lock with TLS.
//!
//! The long form has 2,000 connections that stop in the middle, and as many complete handshakes a second as the machine
//! can do beside the three nodes.

use crate::{
    client::Call,
    harness::{LONG, NODES, eventually, pass_time, report, run_exclusive},
    hostile::{Trial, connect, endure, raise_files, stay},
    tls::SecureCluster,
    trial,
};
use fairhold_trust::client_port::ClientTls;
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{io::AsyncWriteExt as _, task::JoinHandle};

/// The beginning of a TLS record with a ClientHello that has 512 bytes.
const HALF_A_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

fn halves() -> usize {
    trial::size(200, 2_000)
}

/// How many tasks do handshakes one after the other.
fn dialers() -> usize {
    trial::size(4, 64)
}

/// Begins a handshake and never ends it, again and again.
async fn begin_only(address: SocketAddr, number: usize, trial: Trial) {
    while !trial.is_over() {
        if let Ok(mut stream) = connect(address, number).await {
            trial.open.fetch_add(1, SeqCst);
            trial.connected.fetch_add(1, SeqCst);
            if stream.write_all(HALF_A_HELLO).await.is_ok() {
                let _ended = stay(&mut stream, &trial).await;
            }
            trial.open.fetch_sub(1, SeqCst);
        }
        // A connection over the limit is closed at once.
        pass_time(Duration::from_millis(200)).await;
    }
}

/// Does complete handshakes, one after the other, and sends nothing.
async fn dial(address: SocketAddr, number: usize, tls: Arc<ClientTls>, done: Arc<AtomicUsize>, trial: Trial) {
    while !trial.is_over() {
        let Ok(stream) = connect(address, number).await else {
            pass_time(Duration::from_millis(50)).await;
            continue;
        };
        let connected = tokio::time::timeout(Duration::from_secs(5), tls.connect(stream, "127.0.0.1")).await;
        done.fetch_add(usize::from(matches!(connected, Ok(Ok(_)))), SeqCst);
    }
}

/// How many handshakes the nodes have counted, with each result.
async fn counted(secure: &SecureCluster) -> String {
    let mut lines = Vec::new();
    for node in 0..NODES {
        let metrics = secure.cluster.client(node).send_to(node, &Call::get("/metrics")).await.expect("the node runs");
        let of_node = metrics.text.lines().filter(|line| line.starts_with("fairhold_http_tls_handshakes_total{"));
        lines.extend(of_node.filter_map(|line| line.split_once('{')).map(|(_, rest)| format!("node {}: {rest}", node + 1)));
    }
    lines.join(", ")
}

#[test]
fn honest_clients_with_tls_do_not_notice_a_flood_of_handshakes() {
    raise_files();
    run_exclusive(LONG, async {
        let mut secure = SecureCluster::start().await;
        let authority = std::fs::read(secure.ca_file()).expect("the authority");
        let honest = secure.cluster.client(0).trusting(&authority, secure.urls.clone());
        let tls = Arc::new(ClientTls::load(Path::new(&secure.ca_file()), None).expect("the authority"));
        let address = |number: usize| secure.urls[number % NODES].trim_start_matches("https://").parse().expect("an address");
        let (trial, done) = (Trial::default(), Arc::new(AtomicUsize::new(0)));
        let mut crowd: Vec<JoinHandle<()>> =
            (0..halves()).map(|number| tokio::spawn(begin_only(address(number), number / NODES, trial.clone()))).collect();
        eventually("half handshakes are there", Duration::from_secs(60), || async {
            (trial.open.load(SeqCst) >= halves() * 9 / 10).then_some(())
        })
        .await;
        crowd.extend(
            (0..dialers())
                .map(|number| tokio::spawn(dial(address(number), number, Arc::clone(&tls), Arc::clone(&done), trial.clone()))),
        );
        let story = format!("{} half handshakes and {} dialers", halves(), dialers());
        endure(&story, &mut secure.cluster, &honest, trial, crowd).await;
        let complete = done.load(SeqCst);
        report(&format!("{story}: {complete} complete handshakes; {}", counted(&secure).await));
        assert!(complete > 0, "no handshake was complete, so the flood proves nothing");
    });
}
