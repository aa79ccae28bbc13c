//! A single node of three acknowledges nothing, and reports it.

use crate::{
    client::Call,
    harness::{Cluster, SHORT, eventually, pass_time, run_exclusive, run_parallel, signal_pid},
    lock_command::{assert_code, fairhold},
    pace::assert_within,
};
use rustix::process::Signal;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

const TIMEOUT: &str = "1s";

/// The timeout, plus a little for the network.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

#[test]
fn nothing_is_acknowledged_without_a_quorum_and_everything_is_answered_in_time() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [first, last] = cluster.followers().await;
        let client = cluster.client(last);
        client.write(&Call::put("/v1/nodes/kept", "before")).await;
        let held = client.acquire("kept", "ttl=10m").await;
        let local = Call::get("/v1/nodes/kept?consistency=local");
        eventually("the last node has applied it", Duration::from_secs(5), || async {
            (client.once(&local).await.status == 200).then_some(())
        })
        .await;
        cluster.nodes[leader].kill().await;
        cluster.nodes[first].kill().await;

        let write = Call::put("/v1/nodes/kept", "during");
        let calls = [
            Call::post("/v1/locks/other"),
            Call::post("/v1/locks/kept?wait=5s"),
            Call::post("/v1/sessions"),
            Call::delete(&format!("/v1/grants/{}", held.id)),
            Call::post(&format!("/v1/grants/{}/renew", held.id)),
            Call::get("/v1/locks/kept"),
            Call::get("/v1/nodes/kept"),
            write.clone(),
        ];
        for call in calls {
            let asked = Instant::now();
            let answer = client.once(&call.clone().with("fairhold-timeout", TIMEOUT)).await;
            assert!(matches!(answer.status, 503 | 504), "{call:?}: {answer:?}");
            assert_eq!(answer.json["retryable"], true, "{call:?}: {answer:?}");
            assert!(answer.status == 504 || answer.header("retry-after").is_some(), "{call:?}: {answer:?}");
            assert_within(&client, &format!("the answer to {call:?}"), asked.elapsed(), ANSWERED_WITHIN).await;
        }
        client.once(&Call::get("/livez")).await.expect_status(200);
        let view = client.once(&Call::get("/v1/cluster")).await.expect_status(200);
        assert_eq!(view.json["members"].as_array().map(Vec::len), Some(3), "{view:?}");
        assert_eq!(client.once(&local).await.expect_status(200).text, "before");
        eventually("it is no longer ready", Duration::from_secs(10), || async {
            (client.once(&Call::get("/readyz")).await.status == 503).then_some(())
        })
        .await;

        cluster.restart(first).await;
        cluster.node_ready(last).await;
        client.write(&write).await;
        assert_eq!(client.value("kept").await, "during");
        cluster.restart(leader).await;
        assert_eq!(cluster.client(leader).value("kept").await, "during");
    });
}

#[test]
fn a_leader_that_loses_its_majority_is_not_ready_and_names_no_leader() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let client = cluster.client(leader);
        let verbose = Call::get("/readyz?verbose");
        let ready = client.once(&verbose).await.expect_status(200);
        assert_eq!(ready.string("leader"), cluster.nodes[leader].url);
        for follower in cluster.followers().await {
            cluster.nodes[follower].kill().await;
        }
        let answer = eventually("it is no longer ready", Duration::from_secs(10), || async {
            let answer = client.once(&verbose).await;
            (answer.status == 503).then_some(answer)
        })
        .await;
        assert!(answer.string("reason").contains("no known leader") && answer.json["leader"].is_null(), "{answer:?}");
    });
}

/// A cluster whose leader and one follower were killed. Returns the index of that follower, and of the node that runs.
async fn without_majority() -> (Cluster, [usize; 2]) {
    let mut cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    let [first, last] = cluster.followers().await;
    for node in [leader, first] {
        cluster.nodes[node].kill().await;
    }
    (cluster, [first, last])
}

#[test]
fn a_command_that_waits_without_a_majority_says_so_in_one_message() {
    run_exclusive(SHORT, async {
        let (mut cluster, [first, last]) = without_majority().await;
        let mut waits = fairhold(&cluster.nodes[last].url, &["quay", "--", "echo", "held"]).spawn().expect("it starts");
        let mut stderr = BufReader::new(waits.stderr.take().expect("a pipe"));
        let mut printed = String::new();
        while !printed.contains("a node answers, but cannot serve") {
            assert!(stderr.read_line(&mut printed).await.expect("it can be read") > 0, "it ended: {printed}");
        }
        // Like an operator who needs some seconds: the command checks every three whether it is refused.
        pass_time(Duration::from_secs(7)).await;
        cluster.restart(first).await;
        stderr.read_to_string(&mut printed).await.expect("it can be read");
        let output = waits.wait_with_output().await.expect("it ends");
        assert_code(&output, 0, "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n");
        assert_eq!(printed.matches("cannot serve").count(), 1, "{printed}");
        assert!(!printed.contains("refuses the request"), "{printed}");
    });
}

#[test]
fn a_wait_that_ends_without_a_majority_is_no_conflict() {
    run_exclusive(SHORT, async {
        let (cluster, [_, last]) = without_majority().await;
        let waits = fairhold(&cluster.nodes[last].url, &["quay", "--wait", "2s", "--", "true"]).output().await.expect("it runs");
        assert_code(&waits, 69, "");
        let text = String::from_utf8_lossy(&waits.stderr);
        assert!(!text.contains("did not become free"), "{text}");
    });
}

/// A server that lives, but answers nothing else. Returns its address, and what hears of a read of a lock.
async fn mute() -> (String, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let is_read = Arc::new(Notify::new());
    let told = Arc::clone(&is_read);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(hear(stream, Arc::clone(&told)));
        }
    });
    (url, is_read)
}

async fn hear(stream: TcpStream, is_read: Arc<Notify>) {
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        // The client may have gone.
        let Ok(1..) = stream.read_line(&mut head).await else { return };
    }
    if head.starts_with("GET /livez ") {
        let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nok\n";
        stream.write_all(answer).await.ok();
        return;
    }
    if head.starts_with("GET /v1/locks/") {
        is_read.notify_one();
    }
    // Until the client has gone, which may reset the connection.
    stream.read_to_end(&mut Vec::new()).await.ok();
}

#[test]
fn a_signal_ends_a_command_that_checks_whether_the_cluster_can_serve() {
    run_parallel(SHORT, async {
        let (url, is_read) = mute().await;
        let waits = fairhold(&url, &["quay", "--quiet", "--wait", "300ms", "--", "true"]).spawn().expect("it starts");
        is_read.notified().await;
        signal_pid(waits.id().expect("it runs"), Signal::INT);
        let output = waits.wait_with_output().await.expect("it ends");
        assert_code(&output, 130, "");
    });
}
