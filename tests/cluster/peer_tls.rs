//! A running cluster gets TLS between its nodes, node by node, with certificates of `fairhold cert`.

use crate::{
    certificates::cert,
    client::Call,
    harness::{Cluster, LONG, NODES, eventually, run_exclusive, signal_pid},
    members::create_token,
};
use rustix::process::Signal;
use serde_json::json;
use std::{path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Nodes check their certificates every two seconds, and dial each other all the time.
const SOON: Duration = Duration::from_secs(30);
/// The first byte of a TLS alert.
const ALERT: u8 = 21;

/// The options of a node with this certificate.
pub(crate) fn options(folder: &Path, name: &str, mode: &str, cluster: &str) -> Vec<String> {
    let file = |suffix: &str| folder.join(format!("certs/{name}.{suffix}")).display().to_string();
    let ca = folder.join("certs/ca.crt").display().to_string();
    let options = [
        ("--peer-cert", file("crt")),
        ("--peer-key", file("key")),
        ("--peer-ca", ca),
        ("--peer-tls", mode.to_owned()),
        ("--cluster-name", cluster.to_owned()),
    ];
    options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// The sum of a node's series with this name.
async fn sum(cluster: &Cluster, index: usize, series: &str) -> u64 {
    let answer = cluster.client(index).send_to(index, &Call::get("/metrics")).await.expect("the node runs").expect_status(200);
    let lines = answer.text.lines().filter(|line| line.starts_with(&format!("{series}{{")));
    lines.map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")).sum()
}

/// How many connections to a node's peer port were not from nodes.
async fn strangers(cluster: &Cluster, index: usize) -> u64 {
    let answer = cluster.client(index).send_to(index, &Call::get("/metrics")).await.expect("the node runs").expect_status(200);
    let value = answer.text.lines().find_map(|line| line.strip_prefix("fairhold_peer_strangers_total "));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// Waits until all connections of a node have TLS.
pub(crate) async fn all_with_tls(cluster: &Cluster, index: usize) {
    eventually("all connections have TLS", SOON, || async move {
        let all = sum(cluster, index, "fairhold_peer_connections_open").await;
        let with_tls = sum(cluster, index, "fairhold_peer_tls_connections_open").await;
        (all > 0 && all == with_tls).then_some(())
    })
    .await;
}

/// Writes through one node, and reads the value at all others.
async fn assert_works(cluster: &Cluster, index: usize, value: &str) {
    let path = "/v1/nodes/tls";
    cluster.client(index).write(&Call::put(path, value)).await;
    for other in 0..cluster.nodes.len() {
        assert_eq!(cluster.client(other).value("tls").await, value, "at node index {other}");
    }
}

async fn issue(cluster: &Cluster) {
    for line in [
        "ca --name prod --out ca",
        "node --ca ca --id 1 --host 127.0.0.1 --out certs",
        "node --ca ca --id 2 --host 127.0.0.1,localhost --out certs",
        "node --ca ca --id 3 --host 127.0.0.1 --out certs",
        "node --ca ca --host 127.0.0.1 --out certs",
        "client --ca ca --user ci --out certs",
    ] {
        let (code, text) = cert(cluster.folder(), line).await;
        assert_eq!(code, 0, "{line}: {text}");
    }
}

#[test]
fn a_cluster_goes_from_plain_text_to_tls_node_by_node() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        issue(&cluster).await;
        assert_eq!(sum(&cluster, 0, "fairhold_peer_tls_connections_open").await, 0);
        for mode in ["optional", "required"] {
            for index in 0..NODES {
                cluster.nodes[index].terminate().await;
                let name = format!("node-{}", index + 1);
                cluster.nodes[index].flags = options(cluster.folder(), &name, mode, "prod");
                cluster.restart(index).await;
                assert_works(&cluster, index, &format!("node {} has {mode} TLS", index + 1)).await;
            }
            for index in 0..NODES {
                all_with_tls(&cluster, index).await;
            }
        }

        // A health check, which sends nothing, is counted.
        let before = strangers(&cluster, 0).await;
        drop(TcpStream::connect(&cluster.nodes[0].peer_address).await.expect("the port is open"));
        eventually("the health check is counted", SOON, || async { (strangers(&cluster, 0).await > before).then_some(()) }).await;

        // Plain text is refused with an alert.
        let mut plain = TcpStream::connect(&cluster.nodes[0].peer_address).await.expect("the port is open");
        plain.write_all(b"FAIRHOLD\x04\x00").await.expect("the port takes bytes");
        assert_eq!(plain.read_u8().await.expect("an alert"), ALERT);
        // A warning about the health check would be in the log by now.
        assert!(!cluster.nodes[0].log_text().contains("before it sent anything"), "{}", cluster.nodes[0].log_text());

        // A renewed certificate is used after SIGHUP, which ends no node.
        let (code, text) = cert(cluster.folder(), "renew --ca ca certs/node-1.crt --days 30").await;
        assert_eq!(code, 0, "{text}");
        signal_pid(cluster.nodes[0].pid(), Signal::HUP);
        eventually("the renewed certificate", SOON, || async {
            let log = cluster.nodes[0].log_text();
            log.contains("new connections use the new certificate of fairhold://prod/node/1").then_some(())
        })
        .await;
        assert_works(&cluster, 0, "renewed").await;

        // A new node joins over TLS.
        let token = create_token(&cluster.client(0), &json!({})).await.string("token").to_owned();
        let index = cluster.add_node(&token, None);
        cluster.nodes[index].flags = options(cluster.folder(), "node", "required", "prod");
        cluster.nodes[index].start();
        cluster.admitted(index).await;
        cluster.node_ready(index).await;
        assert_works(&cluster, index, "joined").await;
        all_with_tls(&cluster, index).await;
    });
}

#[test]
fn a_node_does_not_start_with_a_certificate_that_is_not_its_own() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        issue(&cluster).await;
        for (name, cluster_name, complaint) in [
            ("node-1", "prod", "names fairhold://prod/node/1: as a URI, it needs fairhold://prod/node/3"),
            ("node-3", "test", "names fairhold://prod/node/3: as a URI, it needs fairhold://test/node/3"),
            ("client-ci", "prod", "the certificate of fairhold://prod/user/ci"),
            ("absent", "prod", "absent.crt cannot be read"),
        ] {
            if cluster.nodes[2].runs() {
                cluster.nodes[2].terminate().await;
            }
            cluster.nodes[2].flags = options(cluster.folder(), name, "required", cluster_name);
            cluster.nodes[2].start();
            let status = cluster.nodes[2].exited().await;
            let log = cluster.nodes[2].log_text();
            assert_eq!(status.code(), Some(2), "{name}: {log}");
            let last = log.lines().last().unwrap_or_default();
            assert!(last.contains(complaint), "{name}: {last}");
        }
        // The other nodes did not notice.
        cluster.client(0).write(&Call::put("/v1/nodes/tls", "two of three")).await;
    });
}
