//! A stranger at the peer port without the cluster's key learns nothing and changes nothing. Nodes refuse requests
//! that no node may send, even without keys.

use crate::{
    client::Call,
    harness::{Cluster, LONG, NodeProcess, PEER_KEY, SHORT, eventually, program, run_exclusive, run_parallel, write_secret},
};
use bytes::Bytes;
use fairhold_peer::{client::TcpPeer, key::PeerKeys};
use fairhold_raft::peer::{
    ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, KeyMismatch, Lane, Peer, PeerError, Refusal, Requester,
    Service, Target,
};
use fairhold_types::{Incarnation, NodeId, SupportedVersions};
use futures_util::future::BoxFuture;
use std::{process::Stdio, sync::Arc, time::Duration};
use tokio::{io::AsyncReadExt, net::TcpStream, runtime::Handle};

/// The key that replaces the key of these tests' clusters.
const NEW_KEY: &str = "another peer key, for the clusters that exchange theirs";
/// Nodes check their key files every two seconds, so they use the new key by then.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);
/// The version byte of requests between nodes.
const WIRE_VERSION: u8 = 3;
/// The numbers of a heartbeat, of a batch of commands, and of a refusal in a follower's answer.
const APPEND: u8 = 0;
const PROPOSE: u8 = 7;
const DECLINED: u8 = 8;
/// Numbers of commands.
const EXPIRE_SESSION: u8 = 3;
const END_SESSION: u8 = 14;

/// Claims a given identity, and trusts everyone.
struct Imposter(Introduction);

impl Service for Imposter {
    fn introduction(&self) -> Introduction {
        self.0.clone()
    }

    fn admit(&self, _: &Introduction, _: ConnectionSide) -> Result<(), Refusal> {
        Ok(())
    }

    fn join(&self, _: JoinRequest) -> BoxFuture<'static, Result<Joined, JoinRefusal>> {
        Box::pin(std::future::pending())
    }

    fn serve(&self, _: Requester, _: Bytes) -> BoxFuture<'static, Bytes> {
        Box::pin(std::future::pending())
    }

    fn disconnected(&self, _: NodeId, _: Lane) {}
}

fn stranger(introduction: Introduction, keys: PeerKeys) -> TcpPeer {
    let peer = TcpPeer::new(Handle::current(), keys);
    peer.set_service(Arc::new(Imposter(introduction)));
    peer
}

fn nobody() -> Introduction {
    Introduction {
        id: 3,
        cluster: None,
        incarnation: Incarnation(7),
        empty: true,
        members: Vec::new(),
        // Unknown, as of an older program: with a number, the leader would see that two processes claim to be node 3.
        boot: 0,
        program: None,
        supports: SupportedVersions::OWN,
    }
}

fn target(node: &NodeProcess) -> Target {
    Target { id: node.id as u64, address: node.peer_address.clone(), incarnation: None }
}

/// A request in its wire format: version, body, CRC-32.
fn sealed(body: &[u8]) -> Bytes {
    let mut bytes = [&[WIRE_VERSION], body].concat();
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    });
    bytes.extend_from_slice(&(!crc).to_le_bytes());
    bytes.into()
}

/// An integer has one byte up to 250, and above that a mark and eight bytes.
fn number(number: u64) -> Vec<u8> {
    match u8::try_from(number) {
        Ok(small) if small <= 250 => vec![small],
        Ok(_) | Err(_) => [&[253][..], &number.to_le_bytes()].concat(),
    }
}

/// A heartbeat of the highest possible term, in the name of node 3 as the leader.
fn last_heartbeat() -> Bytes {
    let vote = [number(u64::MAX), vec![3, 1]].concat();
    sealed(&[&[APPEND][..], &vote, &[0, 0, 0]].concat())
}

/// One command, forwarded for a client that waits a second.
fn proposed(command: &[u8]) -> Bytes {
    sealed(&[&[PROPOSE, 1][..], command, &number(200)].concat())
}

fn end_session(session: u64) -> Bytes {
    let words = [&[12][..], b"root@console", &[0, 0]].concat();
    proposed(&[&[END_SESSION][..], &number(session), &words].concat())
}

fn expire_session(session: u64) -> Bytes {
    proposed(&[&[EXPIRE_SESSION][..], &number(session), &[0]].concat())
}

async fn term(cluster: &Cluster, node: usize) -> u64 {
    let call = Call::get("/v1/cluster").within(Duration::from_secs(5));
    cluster.client(node).send_to(node, &call).await.expect("a node that runs answers").number("term")
}

async fn assert_writes(cluster: &Cluster) {
    for node in 0..cluster.nodes.len() {
        cluster.client(node).write(&Call::put("/v1/nodes/still", "here")).await;
        assert!(term(cluster, node).await < 1_000);
    }
}

#[test]
fn a_stranger_at_the_peer_port_learns_nothing_and_ends_neither_a_session_nor_the_cluster() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let session = cluster.client(0).open_session("60s", "worker").await;
        for keys in [PeerKeys::none(), PeerKeys::parse(NEW_KEY.as_bytes()).expect("a key")] {
            let mismatch = if keys.now() == PeerKeys::none().now() { KeyMismatch::DiallerHasNone } else { KeyMismatch::Differ };
            let refused = PeerError::Refused(Refusal::Key(mismatch));
            let imposter = stranger(nobody(), keys);
            for node in &cluster.nodes {
                assert_eq!(imposter.greet(&target(node)).await, Err(refused.clone()));
                for (lane, request) in [(Lane::Heartbeat, last_heartbeat()), (Lane::Forward, end_session(session.number))] {
                    assert_eq!(imposter.call(&target(node), lane, request).await, Err(refused.clone()));
                }
            }
            imposter.close().await;
        }
        assert_writes(&cluster).await;
        cluster.client(1).keepalive(&session).await.expect_status(200);
        let lines = |node: &NodeProcess| node.log_text().lines().filter(|line| line.contains("--peer-key-file")).count();
        for node in &cluster.nodes {
            assert_eq!(lines(node), 1, "one line for one address, with what to do:\n{}", node.log_text());
        }
    });
}

#[test]
fn a_member_cannot_end_the_cluster_by_a_term_or_propose_a_verdict_of_the_leader() {
    run_exclusive(LONG, async {
        // Without a key, every connection counts as a member.
        let mut cluster = Cluster::plan();
        for node in &mut cluster.nodes {
            node.peer_key_file = None;
            node.start();
        }
        cluster.ready().await;
        let leader = cluster.leader().await;
        let session = cluster.client(0).open_session("60s", "worker").await;
        let asking = stranger(nobody(), PeerKeys::none());
        let met = asking.greet(&target(&cluster.nodes[0])).await.expect("without a key it answers everyone");
        let (_, incarnation) = met.members.iter().find(|(id, _)| *id == 3).copied().expect("the third member");
        let member = stranger(Introduction { id: 3, incarnation, empty: false, boot: 0, ..met }, PeerKeys::none());
        for node in cluster.nodes.iter().filter(|node| node.id != 3) {
            let answer = member.call(&target(node), Lane::Heartbeat, last_heartbeat()).await.expect("an answer");
            assert_eq!(answer[1], DECLINED, "{answer:?}");
        }
        assert_writes(&cluster).await;
        if leader != 2 {
            let answer = member.call(&target(&cluster.nodes[leader]), Lane::Forward, expire_session(session.number)).await;
            let answer = answer.expect("an answer");
            let text = String::from_utf8_lossy(&answer);
            assert!(text.contains("a verdict of the leader from a node that does not lead"), "{text}");
        }
        cluster.client(1).keepalive(&session).await.expect_status(200);
        assert!(cluster.nodes[leader].log_text().contains("no real cluster advances that far") || leader == 2);
        asking.close().await;
        member.close().await;
    });
}

#[test]
fn a_node_with_another_key_stays_outside_until_it_has_the_right_one() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let wrong = cluster.nodes[2].data.with_extension("key");
        write_secret(&wrong, NEW_KEY);
        cluster.nodes[2].terminate().await;
        let right = cluster.nodes[2].peer_key_file.replace(wrong.clone());
        let before = cluster.nodes[2].log_text().len();
        cluster.nodes[2].start();
        let advice = "the two nodes have different peer keys: give all nodes of the cluster the same --peer-key-file";
        for node in [0, 2] {
            let what = format!("node {} reports that the keys differ", node + 1);
            eventually(&what, TAKEN_OVER_WITHIN, || async {
                let log = cluster.nodes[node].log_text();
                log[if node == 2 { before } else { 0 }..].contains(advice).then_some(())
            })
            .await;
        }
        cluster.client(0).write(&Call::put("/v1/nodes/two", "are enough")).await;
        let ready = Call::get("/readyz").within(Duration::from_secs(5));
        assert_eq!(cluster.client(2).send_to(2, &ready).await.expect("it answers").status, 503);
        // The node checks the file while it runs.
        write_secret(&wrong, PEER_KEY);
        cluster.node_ready(2).await;
        assert_ne!(right, cluster.nodes[2].peer_key_file);
    });
}

#[test]
fn a_key_is_rotated_while_the_cluster_serves() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let file = cluster.nodes[0].peer_key_file.clone().expect("a key");
        for lines in [format!("{PEER_KEY}\n{NEW_KEY}\n"), format!("{NEW_KEY}\n{PEER_KEY}\n"), format!("{NEW_KEY}\n")] {
            let before: Vec<usize> = cluster.nodes.iter().map(|node| node.log_text().len()).collect();
            // Replaced in one step: a partly written file has no valid key.
            let next = file.with_extension("next");
            write_secret(&next, &lines);
            std::fs::rename(&next, &file).expect("the key can be exchanged");
            for (node, before) in cluster.nodes.iter().zip(before) {
                eventually(&format!("node {} reads its key again", node.id), TAKEN_OVER_WITHIN, || async {
                    node.log_text()[before..].contains("reloaded the peer key").then_some(())
                })
                .await;
            }
            // New connections use the current keys, and so does a new leader.
            let leader = cluster.leader().await;
            cluster.nodes[leader].kill().await;
            cluster.client((leader + 1) % 3).write(&Call::put("/v1/nodes/key", lines.as_bytes())).await;
            cluster.nodes[leader].start();
            cluster.node_ready(leader).await;
        }
        let late = stranger(nobody(), PeerKeys::parse(PEER_KEY.as_bytes()).expect("a key"));
        let refused = late.greet(&target(&cluster.nodes[0])).await;
        assert_eq!(refused, Err(PeerError::Refused(Refusal::Key(KeyMismatch::Differ))));
        late.close().await;
    });
}

/// Runs `fairhold serve` with these flags until it exits on its own; returns its exit code and its output.
async fn refused_start(flags: &str, files: u32) -> (Option<i32>, String) {
    let script = format!("ulimit -n {files}; exec \"$@\"");
    let fairhold = program();
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(fairhold.as_std().get_program()).args(fairhold.as_std().get_args());
    command.arg("serve").args(flags.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.kill_on_drop(true).output().await.expect("it starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_unsafe_start_or_a_start_with_few_descriptors_is_refused_with_advice() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = format!("--id 1 --data {}/data --member 1=http://127.0.0.1:1,127.0.0.1:2", folder.path().display());
        let (code, stderr) = refused_start(&format!("{flags} --peer-listen 0.0.0.0:2"), 4_096).await;
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("--peer-key-file") && stderr.contains("--insecure"), "{stderr}");
        let (code, stderr) = refused_start(&format!("{flags} --listen [::]:1"), 4_096).await;
        assert!(code == Some(2) && stderr.contains("--cert") && stderr.contains("--insecure"), "{code:?} {stderr}");
        let key = folder.path().join("peer.key");
        std::fs::write(&key, PEER_KEY).expect("a key");
        let (code, stderr) = refused_start(&format!("{flags} --peer-key-file {}", key.display()), 4_096).await;
        assert!(code == Some(2) && stderr.contains("chmod 600"), "{code:?} {stderr}");
        let (code, stderr) = refused_start(&flags, 1_100).await;
        assert!(code == Some(1) && stderr.contains("ulimit -n") && stderr.contains("1100"), "{code:?} {stderr}");
    });
}

#[test]
fn a_node_without_free_descriptors_closes_connections_that_it_cannot_serve() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let node = &cluster.nodes[0];
        let metrics = cluster.client(0).send_to(0, &Call::get("/metrics")).await.expect("it serves its metrics");
        let open = metrics.text.lines().find_map(|line| line.strip_prefix("fairhold_process_open_fds "));
        let open: u64 = open.and_then(|count| count.parse().ok()).expect("how many files it has open");
        let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let files = |limit: u64| {
            let limit = rustix::process::Rlimit { current: Some(limit), maximum: hard };
            let pid = i32::try_from(node.pid()).ok().and_then(rustix::process::Pid::from_raw);
            rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).expect("its limit can be set")
        };
        let before = files(open + 4);
        let address = node.url.trim_start_matches("http://").to_owned();
        let (mut connections, mut is_closed) = (Vec::new(), false);
        while !is_closed {
            assert!(connections.len() < 64, "all of them wait");
            let mut stream = TcpStream::connect(&address).await.expect("the kernel takes it");
            is_closed = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 1])).await.is_ok();
            connections.push(stream);
        }
        files(before.current.unwrap_or(4_096));
        drop(connections);
        cluster.client(0).send_to(0, &Call::get("/livez")).await.expect("it serves again").expect_status(200);
        assert!(node.log_text().contains("closed connections without an answer"));
    });
}
