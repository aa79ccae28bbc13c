//! Streams whose client is alive but does not read, or vanished without closing: the ttl protects their locks, and
//! limits both kinds.

use crate::{
    client::{Call, new_key, whole},
    harness::{Cluster, SHORT, report, run_exclusive},
    pace::assert_within,
    queue::wait_for_contenders,
    streams::Stream,
    trial,
    without::NETWORKS,
};
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, net::TcpSocket};

/// A network namespace that one virtual cable connects to this machine; removed when dropped.
struct Namespace {
    name: String,
    /// This machine's address on the cable.
    near: String,
    /// The address of the other end.
    far: String,
    /// This machine's end of the cable.
    cable: String,
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("ip cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Namespace {
    /// Fails if this machine does not permit it.
    fn new() -> Result<Namespace, String> {
        let id = std::process::id();
        let (name, cable, end) = (format!("fairhold-{id}"), format!("fh{id}"), format!("fhe{id}"));
        // One of the networks reserved for benchmarks (RFC 2544), selected by the process id.
        let net = format!("198.18.{}", id % 250 + 1);
        let namespace = Namespace { near: format!("{net}.1"), far: format!("{net}.2"), name, cable };
        let Namespace { name, near, far, cable } = &namespace;
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {cable} type veth peer name {end}"))?;
        ip(&format!("link set {end} netns {name}"))?;
        ip(&format!("addr add {near}/30 dev {cable}"))?;
        ip(&format!("link set {cable} up"))?;
        ip(&format!("-n {name} addr add {far}/30 dev {end}"))?;
        ip(&format!("-n {name} link set {end} up"))?;
        Ok(namespace)
    }

    /// Stops all packets: they are sent to a hardware address that does not exist.
    fn vanish(&self) {
        let Namespace { far, cable, .. } = self;
        ip(&format!("neigh replace {far} lladdr 02:00:00:00:00:99 nud permanent dev {cable}")).expect("a neighbour can be set");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Either may not exist.
        drop(ip(&format!("link del {}", self.cable)));
        drop(ip(&format!("netns del {}", self.name)));
    }
}

#[test]
fn a_client_that_vanished_silently_is_noticed_and_keeps_its_lock_for_the_ttl() {
    const TTL: Duration = Duration::from_secs(3);
    run_exclusive(SHORT, async {
        let Some(namespace) = NETWORKS.or_without(Namespace::new()) else { return };
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            node.listen_everywhere();
            node.start();
        }
        cluster.ready().await;
        let (client, key) = (cluster.client(1), new_key());
        let url = cluster.nodes[0].url.replace("127.0.0.1", &namespace.near);
        let mut curl = tokio::process::Command::new("ip");
        curl.args(["netns", "exec", &namespace.name, "curl"]);
        let mut stream = Stream::open_by(curl, &url, "lighthouse", "ttl=3s", &key);
        let held = stream.expect("held").await;
        assert_eq!(stream.line().await.expect("a line")["event"], "alive");

        let next = tokio::spawn(async move { client.acquire("lighthouse", "wait=60s&ttl=60s").await });
        wait_for_contenders(&cluster.client(1), "lighthouse", 2).await;
        namespace.vanish();
        let vanished = Instant::now();
        let next = next.await.expect("the next waiter");
        let took = vanished.elapsed();
        report(&format!("with a ttl of {TTL:?}, a client that vanished without closing held for another {took:.1?}"));
        assert!(next.token > whole(&held, "token"));
        // The server may just have received a sign of life from it, and renews the grant until it notices.
        assert!(took > TTL / 2, "{took:?}");
        assert_within(&cluster.client(1), "the time to the next grant", took, TTL * 2 + Duration::from_secs(1)).await;
        let gone = cluster.client(2).send(&Call::get(&format!("/v1/grants/{key}"))).await.expect_problem(410, "grant_gone");
        assert_eq!(gone.json["reason"], "expired", "it was not abandoned: {gone:?}");
    });
}

#[test]
fn a_live_client_that_never_reads_keeps_its_lock_for_a_limited_time() {
    const TTL: Duration = Duration::from_secs(1);
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        for receives in trial::size(vec![2_048], vec![2_048, 64 * 1024]) {
            let (client, key, lock) = (cluster.client(1), new_key(), format!("statue-{receives}"));
            let address: SocketAddr = cluster.nodes[0].url.trim_start_matches("http://").parse().expect("an address");
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(receives).expect("a buffer can be set");
            let mut stream = socket.connect(address).await.expect("the server takes connections");
            let head = format!("POST /v1/locks/{lock}?hold=stream&ttl=1s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.expect("a request can be sent");
            wait_for_contenders(&client, &lock, 1).await;
            let held = Instant::now();
            client.acquire(&lock, "wait=100s&ttl=60s").await;
            let took = held.elapsed();
            report(&format!(
                "with a ttl of {TTL:?} and room for {receives} unread bytes, a client that never reads held for {took:.1?}"
            ));
            assert!(took > TTL && took < Duration::from_secs(60), "{took:?}");
            let gone = client.send(&Call::get(&format!("/v1/grants/{key}"))).await.expect_problem(410, "grant_gone");
            assert_eq!(gone.json["reason"], "expired", "it was not abandoned: {gone:?}");
            drop(stream);
        }
    });
}
