//! Watches and reads under load and through failures: everything is counted, nothing sampled.

use crate::{
    client::{Answer, Call, Client, whole},
    fairness::Dice,
    harness::{Cluster, LONG, NODES, all, eventually, pass_time, report, run_exclusive},
    trial,
    watching::Watching,
};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use serde::Deserialize;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

/// Each path has its own writer, so the versions of a path determine its events.
const PATHS: usize = 20;
/// A watcher that reads again has everything by then.
const REST_WITHIN: Duration = Duration::from_secs(60);
/// The pause before another node is tried.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// The parts of a line that these tests check.
#[derive(Debug, Deserialize)]
struct Event {
    revision: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    version: u32,
}

fn node_of(dice: &mut Dice) -> usize {
    usize::try_from(dice.below(NODES as u64)).expect("a small number")
}

/// Writers of `/{folder}/0`, `/{folder}/1` …, which count the acknowledged writes.
fn writers(cluster: &Cluster, folder: &str, writes: usize, written: &Arc<AtomicUsize>) -> Vec<JoinHandle<()>> {
    let writer = |path: usize| {
        let (client, written, path) = (cluster.client(path), Arc::clone(written), format!("/v1/nodes/{folder}/{path}"));
        tokio::spawn(async move {
            for _ in 0..writes / PATHS {
                client.write(&Call::put(&path, "")).await;
                written.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    (0..PATHS).map(writer).collect()
}

/// A client that watches a whole folder, and moves to another node whenever its own fails.
struct Follower {
    client: Client,
    dice: Dice,
    last: u64,
    versions: [u32; PATHS],
    seen: usize,
    reconnects: usize,
    compacted: usize,
}

impl Follower {
    /// Reads until it has seen this many events, each exactly once and in order.
    async fn follow(mut self, first_node: usize, count: usize) -> Follower {
        let mut node = first_node;
        while self.seen < count {
            match Watching::try_open(&self.client, node, &format!("path=/news&recursive&from={}", self.last + 1)).await {
                Ok(Ok(watching)) => self.read(watching, count).await,
                Ok(Err(answer)) => self.refused(&answer),
                Err(_) => {}
            }
            if self.seen < count {
                self.reconnects += 1;
                node = node_of(&mut self.dice);
                pass_time(RETRY_AFTER).await;
            }
        }
        self
    }

    /// A node that has just restarted keeps only the events after its snapshot; the others have more.
    fn refused(&mut self, answer: &Answer) {
        match answer.status {
            410 => self.compacted += 1,
            503 | 504 => {}
            _ => panic!("{answer:?}"),
        }
    }

    async fn read(&mut self, mut watching: Watching, count: usize) {
        while self.seen < count {
            let Ok(Some(line)) = watching.raw().await else { return };
            let event: Event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            match event.kind.as_str() {
                "created" | "changed" => self.count(&event),
                "bookmark" => assert!(event.revision >= self.last, "a bookmark went back: {line}"),
                "goaway" => return,
                _ => panic!("{line}"),
            }
        }
    }

    fn count(&mut self, event: &Event) {
        assert!(event.revision > self.last, "after {} came {event:?}", self.last);
        self.last = event.revision;
        let path: usize = event.path.strip_prefix("/news/").and_then(|name| name.parse().ok()).expect("a path that is watched");
        assert_eq!(event.version, self.versions[path], "an event is missing or came twice: {event:?}");
        self.versions[path] += 1;
        self.seen += 1;
    }
}

#[test]
fn every_watcher_sees_every_event_once_and_in_order_through_killed_leaders() {
    run_exclusive(3 * LONG, async {
        let (watchers, events, kills) = (trial::size(60, 1_000), trial::size(600, 10_000), trial::size(1, 2));
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let begin = client.write(&Call::put("/v1/nodes/news", "")).await.number("revision");
        let started = Instant::now();
        let followers = (0..watchers).map(|index| {
            let (client, dice) = (client.clone(), Dice::new(index as u64 + 1));
            let follower = Follower { client, dice, last: begin, versions: [0; PATHS], seen: 0, reconnects: 0, compacted: 0 };
            tokio::spawn(follower.follow(index % NODES, events))
        });
        let followers: Vec<_> = followers.collect();
        let written = Arc::new(AtomicUsize::new(0));
        let writing = writers(&cluster, "news", events, &written);
        for kill in 1..=kills {
            let enough = events * kill / (kills + 1);
            eventually("enough is written", LONG, || async { (written.load(Ordering::Relaxed) >= enough).then_some(()) }).await;
            let leader = cluster.leader().await;
            cluster.nodes[leader].kill().await;
            cluster.restart(leader).await;
        }
        all(writing).await;
        let wrote = started.elapsed();
        let followers = all(followers).await;
        let sum = |count: fn(&Follower) -> usize| followers.iter().map(count).sum::<usize>();
        assert_eq!(sum(|follower| follower.seen), watchers * events);
        assert!(sum(|follower| follower.reconnects) > 0, "a killed leader had watchers");
        report(&format!(
            "{watchers} watchers saw {events} events each, {} in all, none missing, none twice, none out of order; \
             {kills} leaders killed, {} reconnects, {} of them to a node without enough history; written in {wrote:.1?}, \
             the last was seen after {:.1?}",
            sum(|follower| follower.seen),
            sum(|follower| follower.reconnects),
            sum(|follower| follower.compacted),
            started.elapsed()
        ));
    });
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says how much it occupies");
    line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes")
}

/// Opens a watch of everything and never reads, over a connection whose buffer does not grow.
///
/// The node's kernel gives up a connection whose client takes nothing for 25 s, and says so only in answer to a packet. A
/// client that sends none, because its window opened too little to tell, learns of that by its keepalive probes.
async fn stalled(url: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("a URL").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(256 << 10).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("the node listens");
    set_tcp_keepidle(&stream, Duration::from_secs(1)).expect("probes after a second");
    set_tcp_keepintvl(&stream, Duration::from_secs(1)).expect("a probe each second");
    set_socket_keepalive(&stream, true).expect("it probes");
    let request = "GET /v1/watch?path=/bulk&recursive HTTP/1.1\r\nhost: fairhold\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("it takes the request");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("it answers");
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

/// Reads the rest; returns whether it ends with the message that events are gone, and the last revision before that.
async fn rest(mut stream: TcpStream) -> (bool, Option<u64>) {
    let mut bytes = Vec::new();
    // A connection that was closed because of its silence is also an end; bytes that arrived earlier are still read.
    let ended = tokio::time::timeout(REST_WITHIN, stream.read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        ended.is_ok(),
        "a watch that fell behind has no end {REST_WITHIN:?} after it reads again: {} bytes, the last lines {:?}",
        bytes.len(),
        text.lines().rev().take(3).collect::<Vec<_>>()
    );
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut last = None;
    for line in lines {
        if line["type"] == "error" {
            assert_eq!((line["code"].as_str(), line["status"].as_u64()), (Some("compacted"), Some(410)), "{line}");
            return (true, last);
        }
        last = line["revision"].as_u64();
    }
    (false, last)
}

#[test]
fn a_watcher_that_stops_reading_costs_nothing_delays_no_one_and_learns_of_its_gap() {
    run_exclusive(trial::size(LONG, 6 * LONG), async {
        let (changes, ring, slow) = (trial::size(30_000, 1_000_000), trial::size("2097152", "67108864"), trial::size(20, 50));
        let cluster = Cluster::start_with(&["--event-ring-bytes", ring]).await;
        let client = cluster.client(0);
        let [with, without] = cluster.followers().await;
        // Long names, so that the kernel cannot buffer the unread events of a slow watcher: it may buffer some 10 MB for
        // each.
        let name = "x".repeat(480);
        client.write(&Call::put("/v1/nodes/bulk", "")).await;
        let mut paths = Vec::new();
        for index in 0..16 {
            let path = format!("/v1/nodes/bulk/{name}-{index}");
            client.write(&Call::put(&path, "")).await;
            paths.push(path);
        }
        let mut streams = Vec::new();
        for _ in 0..slow {
            streams.push(stalled(&cluster.nodes[with].url).await);
        }
        let before = [with, without].map(|node| resident(cluster.nodes[node].pid()));
        let mut quick = Watching::open(&client, with, "path=/bulk&recursive").await;
        let counting = tokio::spawn(async move {
            let (mut seen, mut slowest) = (0, Duration::ZERO);
            while seen < changes {
                let asked = Instant::now();
                let line = quick.next_event().await;
                assert_eq!(line["type"], "changed", "{line}");
                slowest = slowest.max(asked.elapsed());
                seen += 1;
            }
            (Instant::now(), slowest)
        });
        let left = Arc::new(AtomicUsize::new(changes));
        let writers = (0..trial::size(32, 64)).map(|writer: usize| {
            let (client, left, path) = (cluster.client(writer), Arc::clone(&left), paths[writer % paths.len()].clone());
            tokio::spawn(async move {
                let one_less = |left: usize| left.checked_sub(1);
                while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    client.write(&Call::put(&path, "")).await;
                }
            })
        });
        let started = Instant::now();
        all(writers.collect()).await;
        let written = Instant::now();
        let (seen, slowest) = counting.await.expect("the fast watcher sees all");
        let after = [with, without].map(|node| resident(cluster.nodes[node].pid()));
        let grown = [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])];
        let lag = seen.saturating_duration_since(written);
        let mut reported = 0;
        for stream in streams {
            let (by_a_line, last) = rest(stream).await;
            reported += usize::from(by_a_line);
            // The connection was cut before the event was sent: a reconnected watch gets it then.
            if let (false, Some(last)) = (by_a_line, last) {
                let parameters = format!("path=/bulk&recursive&from={}", last + 1);
                let back = Watching::try_open(&client, with, &parameters).await.expect("the node runs");
                back.expect_err("it is gone").expect_problem(410, "compacted");
            }
        }
        report(&format!(
            "{changes} changes in {:.1?} while {slow} watchers read nothing: the node with them grew by {} kB, one without by {} \
             kB; a reader next to them had the last event {lag:.1?} after it was written, its longest silence was {slowest:.1?}; \
             {reported} learned of the gap by their last line, {} after reconnecting",
            written - started,
            grown[0],
            grown[1],
            slow - reported
        ));
        // Together they leave over 300 MB unread.
        assert!(grown[0] < grown[1] + 48 * 1_024, "{grown:?}");
        // A reader slower than the writers would fall behind by a share of all their writes.
        let behind_max = Duration::from_secs(2).max((written - started) / 4);
        assert!(lag < behind_max, "{lag:?}, but at most {behind_max:?}");
    });
}

#[test]
fn a_client_reads_its_own_writes_through_any_node() {
    run_exclusive(LONG, async {
        let tries: usize = trial::size(500, 10_000);
        let cluster = Cluster::start().await;
        let started = Instant::now();
        let workers: usize = 8;
        let reading = (0..workers).map(|worker| {
            let client = cluster.client(worker);
            tokio::spawn(async move {
                let mut dice = Dice::new(worker as u64 + 77);
                let path = format!("/v1/nodes/own-{worker}");
                for number in 0..tries.div_ceil(workers) {
                    let (writer, reader) = (node_of(&mut dice), node_of(&mut dice));
                    let written = client.beginning_with(writer).write(&Call::put(&path, number.to_string())).await;
                    let revision = written.number("revision");
                    let expect = |answer: Answer, how: &str| {
                        assert_eq!(answer.text, number.to_string(), "{how}, from node {writer} to {reader}: {answer:?}");
                        assert!(answer.revision() >= revision, "{how}: {answer:?}");
                    };
                    let read = client.send_to(reader, &Call::get(&path)).await.expect("it runs").expect_status(200);
                    expect(read, "linearizable");
                    let local = Call::get(&format!("{path}?consistency=local"));
                    let local = local.with("fairhold-min-revision", &revision.to_string());
                    let read = client.send_to(reader, &local).await.expect("it runs").expect_status(200);
                    expect(read, "local, of that revision");
                }
            })
        });
        all(reading.collect()).await;
        report(&format!("{tries} writes, each read through a random node in two ways, in {:.1?}", started.elapsed()));
        let far = Call::get("/v1/sessions?consistency=local").with("fairhold-min-revision", "1000000000000");
        for node in 0..NODES {
            let late = cluster.client(node).send_to(node, &far.clone().with("fairhold-timeout", "100ms")).await;
            late.expect("it runs").expect_problem(504, "deadline_exceeded");
        }
    });
}

/// The linearizable reads per second that one node serves to this many concurrent readers.
async fn reads_a_second(client: &Client, node: usize, readers: usize) -> usize {
    let each = 1_000 / readers;
    let started = Instant::now();
    let reading = (0..readers).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..each {
                client.send_to(node, &Call::get("/v1/locks/read")).await.expect("it runs").expect_status(200);
            }
        })
    });
    all(reading.collect()).await;
    usize::try_from(readers as u128 * each as u128 * 1_000_000 / started.elapsed().as_micros()).expect("a small number")
}

#[test]
fn concurrent_reads_share_one_proof_on_every_node() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let leader = cluster.leader().await;
        for node in 0..NODES {
            let (one, many) = (reads_a_second(&client, node, 1).await, reads_a_second(&client, node, 100).await);
            let role = if node == leader { "the leader" } else { "a follower" };
            report(&format!("linearizable reads at {role}: {one} a second by one reader, {many} by 100 together"));
            // If each read had its own barrier, in sequence, many readers would not be faster than one.
            assert!(many > one, "{role}: {one} by one, {many} by 100");
        }
    });
}

/// The events of each node between two revisions.
async fn events_of_all(client: &Client, from: [u64; NODES], until: u64) -> Vec<Vec<String>> {
    let mut reported = Vec::new();
    for (node, from) in from.into_iter().enumerate() {
        reported.push(Watching::open(client, node, &format!("from={from}")).await.lines_until(until).await);
    }
    reported
}

#[test]
fn every_node_reports_the_same_events_even_after_a_restart() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let begin = client.write(&Call::put("/v1/nodes/same", "")).await.number("revision");
        let written = Arc::new(AtomicUsize::new(0));
        let writing = writers(&cluster, "same", trial::size(400, 20_000), &written);
        for turn in 0..trial::size(10, 200) {
            let session = client.open_session("30s", "one of many").await;
            let held = client.acquire("same", "ttl=30s&owner=first").await;
            let next = Call::post(&format!("/v1/locks/same?session={}&owner=next", session.id)).with("prefer", "respond-async");
            client.send(&next).await.expect_status(202);
            if turn % 2 == 0 {
                client.release(&held.id).await;
            }
            client.send(&Call::delete(&format!("/v1/sessions/{}", session.id))).await.expect_status(204);
            client.release(&held.id).await;
        }
        all(writing).await;
        let end = client.write(&Call::put("/v1/nodes/end", "")).await.number("revision");
        let live = events_of_all(&client, [begin; NODES], end).await;
        for node in 1..NODES {
            assert!(live[node] == live[0], "node {} reports other events", node + 1);
        }

        let [restarted, _] = cluster.followers().await;
        cluster.nodes[restarted].kill().await;
        cluster.restart(restarted).await;
        // It keeps the events that it replayed from its log: all after its newest snapshot.
        let gone = Watching::try_open(&client, restarted, "from=1").await.expect("the node runs");
        let oldest = gone.err().map_or(1, |gone| gone.expect_problem(410, "compacted").number("oldest")).max(begin);
        let again = Watching::open(&client, restarted, &format!("from={oldest}")).await.lines_until(end).await;
        let since =
            live[0].iter().filter(|line| whole(&serde_json::from_str(line).expect("a line is JSON"), "revision") >= oldest);
        let since: Vec<&String> = since.collect();
        report(&format!("{} lines from every node, {} of them again after a restart", live[0].len(), since.len()));
        assert!(again.iter().eq(since), "node {} reports other events after its restart", restarted + 1);
    });
}
