//! Hostile crowds: slow, idle and silent connections, and invalid bytes at the peer ports, while honest clients lock
//! and unlock.

use crate::{
    client::{Call, Client},
    fairness::Dice,
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    trial,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

const HONEST: usize = 16;

/// Source addresses of the crowd: 127.0.0.2 and the next ones.
const SOURCES: usize = 8;

/// The highest 99th percentile of honest operations, while the machine runs nothing but this trial.
const P99_MAX: Duration = Duration::from_secs(1);

fn crowd() -> usize {
    trial::size(300, 5_000)
}

fn lasts() -> Duration {
    Duration::from_secs(trial::size(5, 40))
}

/// Raises the limit of open files of this process to the maximum.
pub(crate) fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("a process may raise its own limit");
}

pub(crate) async fn connect(address: SocketAddr, number: usize) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("127.0.0.{}:0", 2 + number % SOURCES).parse().expect("an address"))?;
    socket.connect(address).await
}

/// The state that the crowd and the honest clients share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trial {
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) connected: Arc<AtomicUsize>,
}

impl Trial {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }
}

/// Sends a text byte by byte, one a second.
async fn dribble(stream: &mut TcpStream, text: &[u8], trial: &Trial) -> std::io::Result<()> {
    for byte in text {
        if trial.is_over() {
            return Ok(());
        }
        stream.write_all(&[*byte]).await?;
        pass_time(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Waits until the server closes the connection, or the trial ends.
pub(crate) async fn stay(stream: &mut TcpStream, trial: &Trial) -> std::io::Result<()> {
    let mut answer = [0; 1024];
    while !trial.is_over() {
        if let Ok(read) = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut answer)).await
            && read? == 0
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Repeats one kind of nuisance, selected by the number; reconnects whenever the server closes the connection.
pub(crate) async fn dawdle(address: SocketAddr, number: usize, trial: Trial) {
    const HALF_A_HEAD: &[u8] = b"POST /v1/locks/x?wait=10m HTTP/1.1\r\nHost: x\r\nX-Some";
    while !trial.is_over() {
        let Ok(mut stream) = connect(address, number).await else {
            pass_time(Duration::from_millis(200)).await;
            continue;
        };
        trial.open.fetch_add(1, SeqCst);
        trial.connected.fetch_add(1, SeqCst);
        // Starts again, however the connection ended.
        let _ended = match number % 5 {
            0 => async { stream.write_all(HALF_A_HEAD).await }.await,
            1 => dribble(&mut stream, HALF_A_HEAD, &trial).await,
            2 => Ok(()),
            3 => never_read(&mut stream, &trial).await,
            _ => slow_body(&mut stream, &trial).await,
        };
        if number % 5 != 3 {
            let _ended = stay(&mut stream, &trial).await;
        }
        trial.open.fetch_sub(1, SeqCst);
    }
}

/// Repeatedly requests large answers, and never reads them.
async fn never_read(stream: &mut TcpStream, trial: &Trial) -> std::io::Result<()> {
    while !trial.is_over() {
        let asked = stream.write_all(b"GET /v1/nodes/large HTTP/1.1\r\nHost: x\r\n\r\n");
        if let Ok(asked) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            asked?;
        }
        pass_time(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn slow_body(stream: &mut TcpStream, trial: &Trial) -> std::io::Result<()> {
    stream.write_all(b"PUT /v1/nodes/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n").await?;
    dribble(stream, &[b'x'; 1_000], trial).await
}

/// Locks and unlocks its own lock until the trial is over; returns how long each round took, refusals included.
async fn honest(client: Client, number: usize, trial: Trial) -> Vec<Duration> {
    let mut took = Vec::new();
    while !trial.is_over() {
        let begun = Instant::now();
        let grant = client.acquire(&format!("honest-{number}"), "wait=30s").await;
        client.release(&grant.id).await;
        took.push(begun.elapsed());
    }
    took
}

/// The current terms of the nodes.
pub(crate) async fn terms(cluster: &Cluster) -> Vec<u64> {
    let mut terms = Vec::new();
    for node in 0..NODES {
        let answer = cluster.client(node).once(&Call::get("/v1/cluster")).await.expect_status(200);
        terms.push(answer.number("term"));
    }
    terms
}

/// Runs the honest clients next to the crowd, which must not affect them.
pub(crate) async fn endure(
    story: &str,
    cluster: &mut Cluster,
    client: &Client,
    trial: Trial,
    crowd: Vec<tokio::task::JoinHandle<()>>,
) {
    let before = terms(cluster).await;
    let working: Vec<_> =
        (0..HONEST).map(|number| tokio::spawn(honest(client.beginning_with(number), number, trial.clone()))).collect();
    pass_time(lasts()).await;
    let open = trial.open.load(SeqCst);
    let after = terms(cluster).await;
    trial.over.store(true, SeqCst);
    let mut took: Vec<Duration> = all(working).await.into_iter().flatten().collect();
    all(crowd).await;
    took.sort();
    let (p50, p99, max) = (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]);
    let connected = trial.connected.load(SeqCst);
    report(&format!(
        "{story}: {open} connections open at the end, {connected} made in all; {} honest lock-unlock rounds by {HONEST} clients: \
         p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}; terms {before:?} then {after:?}",
        took.len()
    ));
    assert_eq!(before, after, "there was an election");
    assert!(p99 < P99_MAX, "p99 is {p99:?}");
    for node in 0..NODES {
        assert!(!cluster.nodes[node].has_exited(), "node {} has ended", node + 1);
    }
}

#[test]
fn honest_clients_do_not_notice_a_crowd_of_slow_and_idle_connections() {
    raise_files();
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        cluster.leader().await;
        cluster.client(0).write(&Call::put("/v1/nodes/large", vec![b'x'; 1024 * 1024])).await;
        let (client, trial) = (cluster.client(0), Trial::default());
        let addresses: Vec<SocketAddr> =
            cluster.nodes.iter().map(|node| node.url.trim_start_matches("http://").parse().expect("an address")).collect();
        let dawdlers: Vec<_> =
            (0..crowd()).map(|number| tokio::spawn(dawdle(addresses[number % NODES], number / NODES, trial.clone()))).collect();
        eventually("the crowd is there", Duration::from_secs(60), || async {
            (trial.open.load(SeqCst) >= crowd() * 9 / 10).then_some(())
        })
        .await;
        endure(&format!("{} slow and idle connections", crowd()), &mut cluster, &client, trial, dawdlers).await;
    });
}

/// Begins a request and never ends it, again and again, all from one address.
async fn begin_only(address: SocketAddr, trial: Trial) {
    while !trial.is_over() {
        if let Ok(mut stream) = connect(address, 0).await {
            trial.open.fetch_add(1, SeqCst);
            trial.connected.fetch_add(1, SeqCst);
            if stream.write_all(b"POST /v1/locks/x?wait=10m HTTP/1.1\r\nHost: x\r\nX-Some").await.is_ok() {
                let _ended = stay(&mut stream, &trial).await;
            }
            trial.open.fetch_sub(1, SeqCst);
        }
        // A connection over the limit is closed at once.
        pass_time(Duration::from_secs(1)).await;
    }
}

#[test]
fn two_thousand_half_requests_from_one_address_do_not_hold_up_honest_clients() {
    const HALF_REQUESTS: usize = 2_000;
    raise_files();
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (client, trial) = (cluster.client(0), Trial::default());
        let address: SocketAddr = cluster.nodes[leader].url.trim_start_matches("http://").parse().expect("an address");
        let crowd: Vec<_> = (0..HALF_REQUESTS).map(|_| tokio::spawn(begin_only(address, trial.clone()))).collect();
        eventually("the half requests are there", Duration::from_secs(60), || async {
            (trial.connected.load(SeqCst) >= HALF_REQUESTS).then_some(())
        })
        .await;
        endure(&format!("{HALF_REQUESTS} half requests from one address at the leader"), &mut cluster, &client, trial, crowd)
            .await;
    });
}

/// CRC-32 as in frames and values, bit by bit.
fn crc32(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

/// A frame with the right checksum, whatever its payload.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(1 + 8 + payload.len() + 4).expect("a short frame").to_le_bytes();
    let body = [&length[..], &[kind], &0_u64.to_le_bytes(), payload].concat();
    let checksum = crc32(&body);
    [body, checksum.to_vec()].concat()
}

/// A value in an intact envelope, but full of false lengths.
fn bomb() -> Vec<u8> {
    // 253 precedes a 64-bit number.
    let giant = [&[253][..], &(1_u64 << 60).to_le_bytes()].concat();
    let value = [&[1][..], &giant.repeat(4)].concat();
    [value.clone(), crc32(&value).to_vec()].concat()
}

const PREAMBLE: &[u8] = b"FAIRHOLD\x01\x00";

/// The bytes for a peer port, selected by the number, and whether the sender then waits.
fn nonsense(number: usize, dice: &mut Dice) -> Vec<u8> {
    let random: Vec<u8> = (0..200).map(|_| u8::try_from(dice.below(256)).expect("a byte")).collect();
    match number % 6 {
        0 => random,
        1 => [PREAMBLE, &u32::MAX.to_le_bytes(), &random].concat(),
        2 => PREAMBLE.to_vec(),
        3 => [PREAMBLE, &frame(1, &random)].concat(),
        4 => [PREAMBLE, &frame(1, &bomb())].concat(),
        _ => PREAMBLE[..5].to_vec(),
    }
}

pub(crate) async fn pester(address: SocketAddr, number: usize, trial: Trial) {
    let mut dice = Dice::new(number as u64);
    while !trial.is_over() {
        let Ok(mut stream) = connect(address, number).await else {
            pass_time(Duration::from_millis(200)).await;
            continue;
        };
        trial.open.fetch_add(1, SeqCst);
        trial.connected.fetch_add(1, SeqCst);
        if stream.write_all(&nonsense(number, &mut dice)).await.is_ok() {
            let _ended = stay(&mut stream, &trial).await;
        }
        trial.open.fetch_sub(1, SeqCst);
        // Many reconnect repeatedly, but not as fast as this machine can.
        pass_time(Duration::from_millis(100)).await;
    }
}

#[test]
fn nonsense_at_the_peer_ports_disturbs_no_honest_client_and_keeps_no_node_out() {
    raise_files();
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let [_, follower] = cluster.followers().await;
        let (client, trial) = (cluster.client(0), Trial::default());
        let addresses: Vec<SocketAddr> =
            cluster.nodes.iter().map(|node| node.peer_address.parse().expect("an address")).collect();
        let pesterers: Vec<_> =
            (0..crowd()).map(|number| tokio::spawn(pester(addresses[number % NODES], number / NODES, trial.clone()))).collect();
        eventually("nonsense arrives", Duration::from_secs(60), || async {
            (trial.connected.load(SeqCst) >= crowd() * 2).then_some(())
        })
        .await;
        // A restarted node must survive all of it.
        cluster.nodes[follower].kill().await;
        let began = Instant::now();
        cluster.restart(follower).await;
        report(&format!("nonsense at the peer ports: a restarted node was ready after {:.0?}", began.elapsed()));
        endure(&format!("nonsense of {} at the peer ports", crowd()), &mut cluster, &client, trial, pesterers).await;
    });
}
