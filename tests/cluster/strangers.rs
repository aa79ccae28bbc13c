//! A node that could lose acknowledged writes, or is not a part of the cluster, is kept out: wiped, removed, cloned, or
//! of another cluster. It disturbs nobody, and ends with an exit code that says that a restart does not help.

use crate::{
    client::{Call, Client},
    harness::{
        Cluster, LONG, NodeProcess, Origin, SHORT, eventually, free_port, pass_time, program, run_exclusive, run_parallel,
    },
    members::{CANNOT_TAKE_PART, assert_same_state, delete, ids, settled, silent, term, view},
    trial,
};
use rustix::process::Signal;
use serde_json::json;
use std::{fs, path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
};

const NODES_WRITTEN: usize = 100;
const LOGGED_WITHIN: Duration = Duration::from_secs(30);
const BETWEEN_WRITES: Duration = Duration::from_millis(25);

/// How often each of them is started.
fn times() -> usize {
    trial::size(2, 20)
}

/// Waits for a line of a node's log that contains all these words, and starts after this many bytes.
pub(crate) async fn log_line(node: &NodeProcess, after: usize, words: &[&str]) -> String {
    eventually(&format!("node {} logs a line with {words:?}", node.id), LOGGED_WITHIN, || async {
        let log = node.log_text();
        log[after.min(log.len())..].lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    })
    .await
}

async fn write_some(client: &Client) {
    for number in 0..NODES_WRITTEN {
        client.write(&Call::put(&format!("/v1/nodes/precious-{number}"), number.to_string())).await;
    }
}

async fn assert_all_there(client: &Client) {
    for number in 0..NODES_WRITTEN {
        assert_eq!(client.value(&format!("precious-{number}")).await, number.to_string());
    }
}

async fn is_ready(client: &Client, node: usize) -> bool {
    let call = Call::get("/readyz").within(Duration::from_secs(1));
    client.send_to(node, &call).await.is_ok_and(|answer| answer.status == 200)
}

async fn cluster_id(client: &Client) -> String {
    client.send(&Call::get("/v1/cluster")).await.expect_status(200).string("cluster").to_owned()
}

/// The leader and its term, which no stranger may change.
async fn leadership(cluster: &Cluster) -> (usize, u64) {
    let leader = cluster.leader().await;
    (leader, term(&cluster.client(leader)).await)
}

/// Starts a node that cannot take part, and returns the last line of its log. The cluster must not notice it.
async fn starts_in_vain(cluster: &mut Cluster, index: usize, before: (usize, u64)) -> String {
    let log_before = cluster.nodes[index].log_text().len();
    cluster.nodes[index].start();
    let status = cluster.nodes[index].exited().await;
    let log = cluster.nodes[index].log_text()[log_before..].to_owned();
    assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "a restart does not help, which its supervisor must know: {log}");
    assert_eq!(leadership(cluster).await, before, "the leader and its term are the same");
    log.lines().last().unwrap_or_default().to_owned()
}

async fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().await.expect("cp runs");
    assert!(copied.success());
}

/// The refused start has made files in the directory, so the next step is to delete them.
async fn joins_after_it_was_refused(cluster: &Cluster, refused: usize) {
    let node = &cluster.nodes[refused];
    let mut join = program();
    join.arg("serve").arg("--data").arg(&node.data).args(["--join-file", "join.token", "--advertise"]);
    let join = join.arg(format!("{},{}", node.url, node.peer_address)).output().await.expect("it runs");
    let text = String::from_utf8_lossy(&join.stderr);
    assert_eq!(join.status.code(), Some(2), "{text}");
    assert!(text.contains("delete the directory first"), "{text}");
}

#[test]
fn a_node_with_a_wiped_data_directory_is_kept_out_with_advice() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [wiped, other] = cluster.followers().await;
        let client = cluster.client(leader);
        write_some(&client).await;
        let before = leadership(&cluster).await;
        cluster.nodes[wiped].kill().await;
        for _ in 0..times() {
            fs::remove_dir_all(&cluster.nodes[wiped].data).expect("its data can be removed");
            let line = starts_in_vain(&mut cluster, wiped, before).await;
            let id = format!("node {}", cluster.nodes[wiped].id);
            assert!(line.contains("data directory") && line.contains(&id), "{line}");
            assert!(line.contains("remove") || line.contains("replace"), "it says what to do: {line}");
        }
        assert!(!is_ready(&client, wiped).await, "a wiped node is not ready");
        joins_after_it_was_refused(&cluster, wiped).await;

        // If the wiped node's vote counted, it and one other node could elect a leader without the acknowledged writes.
        cluster.nodes[leader].kill().await;
        let write = Call::put("/v1/nodes/precious-0", "lost").with("fairhold-timeout", "3s");
        let refused = cluster.client(other).once(&write).await;
        assert!(matches!(refused.status, 503 | 504), "one node and a wiped one are no quorum: {refused:?}");
        assert!(!is_ready(&client, wiped).await);

        cluster.restart(leader).await;
        cluster.leader().await;
        let unknown = client.value("precious-0").await;
        assert!(unknown == "0" || (refused.status == 504 && unknown == "lost"), "precious-0 is {unknown}");
        client.write(&Call::put("/v1/nodes/precious-0", "0")).await;
        assert_all_there(&client).await;
        assert_all_there(&cluster.client(other)).await;
    });
}

#[test]
fn a_removed_node_that_does_not_know_it_yet_is_kept_out_and_learns_it() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [removed, other] = cluster.followers().await;
        let client = cluster.client(leader);
        write_some(&client).await;
        let id = cluster.nodes[removed].id;
        cluster.nodes[removed].kill().await;
        silent(&client, id).await;
        client.send(&delete(id)).await.expect_status(204);
        assert_eq!(ids(&settled(&client).await, "removed"), [id]);
        cluster.nodes[removed].leave();
        let before = leadership(&cluster).await;
        let note = cluster.nodes[removed].data.join("REMOVED");
        for time in 0..times() {
            let line = starts_in_vain(&mut cluster, removed, before).await;
            assert!(line.contains("removed") && line.contains(&format!("node {id}")), "{line}");
            assert!(note.exists(), "it remembers that");
            // Without the note it learns it anew, from the other nodes.
            if time % 2 == 1 {
                fs::remove_file(&note).expect("the note can be removed");
            }
        }
        assert_eq!(ids(&view(&client).await, "members").len(), 2);
        assert_all_there(&cluster.client(other)).await;
    });
}

/// Copies the data of a node while it is stopped, and makes a node of the copy. The addresses in the copy are those of
/// the original, so it listens elsewhere.
pub(crate) async fn clone_of(cluster: &mut Cluster, original: usize) -> usize {
    assert!(cluster.nodes[original].terminate().await.success());
    let data = cluster.folder().join("clone");
    copy(&cluster.nodes[original].data, &data).await;
    cluster.restart(original).await;
    let clone = cluster.add_node("", None);
    let node = &mut cluster.nodes[clone];
    node.move_to(&data);
    node.origin = Origin::Directory;
    for flag in ["--listen", "--peer-listen"] {
        node.flags.extend([flag.to_owned(), format!("127.0.0.1:{}", free_port())]);
    }
    node.leave();
    clone
}

#[test]
fn a_copy_of_a_running_member_is_kept_out() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        write_some(&client).await;
        let [original, _] = cluster.followers().await;
        let clone = clone_of(&mut cluster, original).await;
        let data = cluster.nodes[clone].data.clone();
        let pristine = data.with_extension("pristine");
        copy(&data, &pristine).await;
        let before = leadership(&cluster).await;
        for _ in 0..times() {
            let line = starts_in_vain(&mut cluster, clone, before).await;
            assert!(line.contains(&format!("node {}", cluster.nodes[original].id)), "{line}");
            fs::remove_dir_all(&data).expect("the copy can be removed");
            copy(&pristine, &data).await;
        }
        client.write(&Call::put("/v1/nodes/later", "x")).await;
        assert_eq!(cluster.client(original).value("later").await, "x");
        assert_all_there(&cluster.client(original)).await;
    });
}

/// Whether the node at this address, which is no member's, takes a write.
async fn writes_at(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let head = format!("PUT /v1/nodes/by-the-copy HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let request = format!("{head}content-length: 1\r\n\r\nx");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && ["HTTP/1.1 200", "HTTP/1.1 201"].iter().any(|status| answer.starts_with(status))
}

/// While the original is paused, the leader cannot tell its copy from a restarted process.
#[test]
fn a_copy_that_takes_part_while_its_original_is_paused_ends_once_that_continues() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        write_some(&client).await;
        let [original, _] = cluster.followers().await;
        let clone = clone_of(&mut cluster, original).await;
        let before = leadership(&cluster).await;
        cluster.nodes[original].signal(Signal::STOP);
        silent(&client, cluster.nodes[original].id).await;
        let flags = &cluster.nodes[clone].flags;
        let listen = flags.iter().position(|flag| flag == "--listen").expect("it listens elsewhere");
        let address = flags[listen + 1].clone();
        cluster.nodes[clone].start();
        eventually("the copy passes a write to the leader", LOGGED_WITHIN, || async { writes_at(&address).await.then_some(()) })
            .await;
        cluster.nodes[original].signal(Signal::CONT);
        let status = cluster.nodes[clone].exited().await;
        let log = cluster.nodes[clone].log_text();
        assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "{log}");
        assert!(log.lines().last().unwrap_or_default().contains("copy"), "{log}");
        cluster.node_ready(original).await;
        assert_eq!(leadership(&cluster).await, before, "the leader and its term are the same");
        assert_eq!(cluster.client(original).value("by-the-copy").await, "x");
        assert_all_there(&cluster.client(original)).await;
    });
}

/// It hears from no leader, because it would be the leader itself. The followers hear the original and refuse the copy.
#[test]
fn a_copy_of_the_leader_is_kept_out_and_changes_nothing() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let original = cluster.leader().await;
        write_some(&cluster.client(original)).await;
        let clone = clone_of(&mut cluster, original).await;
        let to = json!({ "to": cluster.nodes[original].id });
        eventually("the original leads again", LOGGED_WITHIN, || async {
            let leader = cluster.leader().await;
            if leader != original {
                cluster.client(leader).send(&Call::post("/v1/cluster/leader").json(&to)).await;
            }
            (leader == original).then_some(())
        })
        .await;
        let before = leadership(&cluster).await;
        cluster.nodes[clone].start();
        let client = cluster.client(original);
        for number in 0..trial::size(200, 2_000) {
            let answer = client.write(&Call::put("/v1/nodes/counted", number.to_string())).await;
            assert_eq!(answer.number("version"), number, "a write was lost, or made twice: {answer:?}");
            pass_time(BETWEEN_WRITES).await;
        }
        assert_eq!(leadership(&cluster).await, before, "the leader and its term are the same");
        let status = cluster.nodes[clone].exited().await;
        let log = cluster.nodes[clone].log_text();
        assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "{log}");
        let line = log.lines().last().unwrap_or_default();
        assert!(line.contains("copy") && line.contains(&format!("node {}", cluster.nodes[original].id)), "{line}");
        assert_same_state(&client, &[0, 1, 2]).await;
        assert_all_there(&client).await;
    });
}

/// A follower and the leader acknowledge a write that the copy of that follower and the third node do not have. While no node
/// leads, nobody but a voter can tell the two processes apart.
#[test]
fn a_copy_of_a_follower_gets_no_vote_while_no_node_leads() {
    run_exclusive(LONG, async {
        for _ in 0..trial::size(2, 10) {
            let mut cluster = Cluster::start().await;
            let leader = cluster.leader().await;
            let [original, behind] = cluster.followers().await;
            write_some(&cluster.client(leader)).await;
            let clone = clone_of(&mut cluster, original).await;
            cluster.nodes[behind].kill().await;
            let leader = cluster.leader().await;
            cluster.client(leader).write(&Call::put("/v1/nodes/precious-0", "new")).await;
            cluster.nodes[3 - original - behind].kill().await;
            cluster.nodes[clone].start();
            cluster.nodes[behind].start();
            let status = cluster.nodes[clone].exited().await;
            let log = cluster.nodes[clone].log_text();
            assert_eq!(status.code(), Some(CANNOT_TAKE_PART), "{log}");
            assert!(log.lines().last().unwrap_or_default().contains("copy"), "{log}");
            assert!(!log.contains("this node leads"), "{log}");
            assert_eq!(cluster.leader().await, original, "only it has every acknowledged write");
            assert_eq!(cluster.client(behind).value("precious-0").await, "new");
            assert!(cluster.nodes[original].runs(), "{}", cluster.nodes[original].log_text());
        }
    });
}

#[test]
fn a_node_of_another_cluster_is_kept_out_with_advice() {
    run_exclusive(LONG, async {
        let mut ours = Cluster::start().await;
        let mut theirs = Cluster::start().await;
        write_some(&ours.client(0)).await;
        let clusters = [cluster_id(&ours.client(0)).await, cluster_id(&theirs.client(0)).await];
        let [ours_out, other] = ours.followers().await;
        for node in &mut theirs.nodes {
            node.kill().await;
        }
        ours.nodes[ours_out].kill().await;
        let own = ours.nodes[ours_out].data.clone();
        ours.nodes[ours_out].move_to(&theirs.nodes[ours_out].data);
        let before = leadership(&ours).await;
        for _ in 0..times() {
            let line = starts_in_vain(&mut ours, ours_out, before).await;
            let says = clusters.iter().map(String::as_str).chain(["--member", "--data", "fairhold cluster invite"]);
            says.for_each(|what| assert!(line.contains(what), "{what} is not in the last line: {line}"));
        }
        assert!(!is_ready(&ours.client(0), ours_out).await, "a node of another cluster is not ready here");
        assert_all_there(&ours.client(other)).await;
        ours.client(other).write(&Call::put("/v1/nodes/later", "x")).await;

        ours.nodes[ours_out].move_to(&own);
        ours.restart(ours_out).await;
        assert_all_there(&ours.client(ours_out)).await;
        assert_eq!(ours.client(ours_out).value("later").await, "x");
    });
}

#[test]
fn a_peer_of_another_wire_version_is_refused_with_advice() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for node in &cluster.nodes {
            let mut stream = TcpStream::connect(&node.peer_address).await.expect("the peer port is open");
            stream.write_all(b"FAIRHOLD\xff\xff").await.expect("bytes can be sent");
            let mut preamble = [0; 10];
            stream.read_exact(&mut preamble).await.expect("the node reports its version");
            assert_eq!(preamble[..8], *b"FAIRHOLD");
            // Like a node of that version, which then notices that it cannot continue.
            drop(stream);
            let line = log_line(node, 0, &["peer protocol 65535", "run versions of fairhold"]).await;
            assert!(line.contains("WARN"), "the operator must see it: {line}");
        }
        assert_eq!(cluster.client(0).write(&Call::put("/v1/nodes/fine", "x")).await.status, 201);
    });
}
