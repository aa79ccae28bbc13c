//! `hold=stream`: a lock is held for as long as a command runs, and no longer.

use crate::{
    client::{Call, new_key, whole},
    harness::{Cluster, NODES, SHORT, eventually, report, run_exclusive, run_parallel},
    pace::assert_within,
    queue::wait_for_contenders,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The maximum time for a line: a later one would never arrive.
const LINE_WITHIN: Duration = Duration::from_secs(20);
/// A disconnected client must release its lock within this time.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);

/// A running `curl -N`.
#[derive(Debug)]
pub(crate) struct Stream {
    curl: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stream {
    /// `parameters` follows `hold=stream&`.
    pub(crate) fn open(url: &str, lock: &str, parameters: &str, key: &str) -> Stream {
        Stream::open_by(Command::new("curl"), url, lock, parameters, key)
    }

    /// Like `open`, with a command that is, or becomes, curl.
    pub(crate) fn open_by(mut command: Command, url: &str, lock: &str, parameters: &str, key: &str) -> Stream {
        command.args(["-s", "-N", "-X", "POST", "-H", &format!("Idempotency-Key: {key}")]);
        command.arg(format!("{url}/v1/locks/{lock}?hold=stream&{parameters}"));
        command.env("no_proxy", "*").stdout(Stdio::piped()).kill_on_drop(true);
        let mut curl = command.spawn().expect("curl starts");
        let lines = BufReader::new(curl.stdout.take().expect("its output")).lines();
        Stream { curl, lines }
    }

    /// The next line; `None` if the stream has ended.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(LINE_WITHIN, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line within {LINE_WITHIN:?}")).expect("curl's output");
        line.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// The next line that is not a sign of life.
    pub(crate) async fn next_event(&mut self) -> Option<Value> {
        loop {
            match self.line().await {
                Some(line) if line["event"] == "alive" => {}
                line => return line,
            }
        }
    }

    /// The next such line, which must be this event.
    pub(crate) async fn expect(&mut self, event: &str) -> Value {
        let line = self.next_event().await.unwrap_or_else(|| panic!("the stream ended before {event}"));
        assert_eq!(line["event"], event, "{line}");
        line
    }

    /// The next such line, which must be this event and the last line.
    pub(crate) async fn expect_last(&mut self, event: &str) -> Value {
        let line = self.expect(event).await;
        assert_eq!(self.line().await, None, "{event} is the last line");
        let status = self.curl.wait().await.expect("curl can be waited for");
        assert!(status.success(), "the stream ends cleanly: {status}");
        line
    }

    /// Kills it, as Ctrl-C would.
    pub(crate) async fn kill(mut self) -> Instant {
        self.curl.kill().await.expect("curl can be killed");
        Instant::now()
    }
}

#[test]
fn a_lock_is_held_while_a_curl_runs_and_is_free_within_a_second_of_its_end() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        for node in 0..NODES {
            let (client, url) = (cluster.client(node), &cluster.nodes[node].url);
            let lock = format!("crane-{node}");
            let holder = client.acquire(&lock, "ttl=60s&owner=ci-7").await;
            let key = new_key();
            let mut stream = Stream::open(url, &lock, "wait=60s&ttl=1s", &key);
            let queued = stream.line().await.expect("the first line names the id");
            assert_eq!(
                (&queued["event"], &queued["id"], &queued["position"]),
                (&"queued".into(), &key.as_str().into(), &2.into())
            );
            let ahead = &queued["ahead"][0];
            assert_eq!((&ahead["number"], &ahead["owner"]), (&holder.number.into(), &"ci-7".into()), "{queued}");
            let known = ["since", "held_for"].map(|field| ahead[field].is_string());
            assert!(known == [true, true] && ahead["token"] == holder.token, "the start of the hold: {queued}");
            // It is queued and then held, each for more than twice its ttl.
            let (mut signs, queued_at) = (0, Instant::now());
            while queued_at.elapsed() < Duration::from_millis(2_200) {
                assert!(whole(&stream.line().await.expect("a line"), "revision") > 0);
                signs += 1;
            }
            client.release(&holder.id).await;
            let held = stream.expect("held").await;
            assert_eq!(held["id"], key);
            let (token, held_at) = (whole(&held, "token"), Instant::now());
            while held_at.elapsed() < Duration::from_millis(2_200) {
                assert_eq!(stream.line().await.expect("a line")["event"], "alive");
                signs += 1;
            }
            assert!(signs >= 8, "{signs} signs of life in more than four times the ttl");
            assert!(client.fence_passes(&lock, token).await, "it still holds");

            let next = {
                let (client, lock) = (cluster.client(node + 1), lock.clone());
                tokio::spawn(async move { client.acquire(&lock, "wait=60s").await })
            };
            wait_for_contenders(&client, &lock, 2).await;
            let killed = stream.kill().await;
            let next = next.await.expect("the next waiter");
            let took = killed.elapsed();
            report(&format!("a stream at node {} was killed, and the next grant was held after {took:.0?}", node + 1));
            assert_within(&client, &format!("the release by node {}", node + 1), took, RELEASED_WITHIN).await;
            client.release(&next.id).await;
        }
    });
}

#[test]
fn a_curl_killed_while_waiting_leaves_the_queue_within_a_second() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        for node in 0..NODES {
            let client = cluster.client(node);
            let lock = format!("lift-{node}");
            let holder = client.acquire(&lock, "ttl=60s").await;
            let mut stream = Stream::open(&cluster.nodes[node].url, &lock, "wait=60s&ttl=60s", &new_key());
            stream.expect("queued").await;
            let killed = stream.kill().await;
            wait_for_contenders(&client, &lock, 1).await;
            let took = killed.elapsed();
            assert_within(&client, &format!("leaving the queue at node {}", node + 1), took, RELEASED_WITHIN).await;
            assert_eq!(client.holders(&lock).await, [holder.number]);
        }
    });
}

#[test]
fn a_stream_that_is_not_granted_in_time_reports_it_and_leaves_nothing_behind() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(1);
        let holder = client.acquire("gate", "ttl=60s").await;
        let refused = client.once(&Call::post("/v1/locks/gate?hold=stream")).await.expect_problem(409, "lock_held");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        client.once(&Call::post("/v1/locks/gate?hold=true")).await.expect_problem(400, "bad_request");

        // With a client that reads to the end: the stream ends on its own.
        let key = new_key();
        let answer = client.once(&Call::post("/v1/locks/gate?hold=stream&wait=300ms").key(&key)).await.expect_status(200);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        assert!(answer.revision() > 0);
        let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().expect("an event")).collect();
        assert_eq!(events, ["queued", "error"], "{lines:?}");
        assert_eq!((lines[1]["code"].as_str(), lines[1]["status"].as_u64()), (Some("wait_timeout"), Some(409)), "{lines:?}");
        assert_eq!(client.queue_numbers("gate").await, [holder.number], "the withdrawal is committed before the answer");

        let mut stream = Stream::open(&cluster.nodes[0].url, "gate", "wait=60s", &new_key());
        let id = stream.expect("queued").await["id"].as_str().expect("an id").to_owned();
        client.release(&id).await;
        assert_eq!(stream.expect_last("lost").await["reason"], "withdrawn");
    });
}

#[test]
fn a_retry_with_the_key_takes_over_the_grant_and_the_older_stream_ends() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let (client, key) = (cluster.client(0), new_key());
        let mut first = Stream::open(&cluster.nodes[0].url, "bridge", "ttl=60s", &key);
        let held = first.expect("held").await;
        let mut second = Stream::open(&cluster.nodes[1].url, "bridge", "ttl=60s", &key);
        assert_eq!(second.expect("held").await, held, "the same grant with the same token");
        let error = first.expect_last("error").await;
        assert_eq!((error["code"].as_str(), &error["id"]), (Some("deadline_exceeded"), &json!(key)), "{error}");
        assert!(client.fence_passes("bridge", whole(&held, "token")).await, "the end of the older stream ended nothing");
        client.release(&key).await;
        assert_eq!(second.expect_last("lost").await["reason"], "released");
    });
}

/// Stops a node with a holder and a waiter by SIGTERM; both retry at other nodes with their keys.
async fn stop_a_node_with_streams(cluster: &mut Cluster, stopped: usize) {
    let lock = format!("tunnel-{stopped}");
    let (observer, url) = (cluster.client(stopped + 1), cluster.nodes[stopped].url.clone());
    let (holds, waits) = (new_key(), new_key());
    let mut holder = Stream::open(&url, &lock, "ttl=60s", &holds);
    let held = holder.expect("held").await;
    let mut waiter = Stream::open(&url, &lock, "ttl=60s&wait=10m", &waits);
    waiter.expect("queued").await;
    let places = observer.queue_numbers(&lock).await;

    cluster.nodes[stopped].signal(Signal::TERM);
    assert_eq!(holder.expect_last("goaway").await["id"], json!(holds));
    assert_eq!(waiter.expect_last("goaway").await["id"], json!(waits));
    let status = cluster.nodes[stopped].exited().await;
    assert!(status.success(), "node {} ended with {status}", stopped + 1);
    assert_eq!(observer.queue_numbers(&lock).await, places, "a server that stops ends no grant");

    let [one, other] = [1, 2].map(|step| cluster.nodes[(stopped + step) % NODES].url.clone());
    let mut waiter = Stream::open(&other, &lock, "ttl=60s&wait=10m", &waits);
    assert_eq!(whole(&waiter.expect("queued").await, "position"), 2);
    let mut holder = Stream::open(&one, &lock, "ttl=60s", &holds);
    assert_eq!(holder.expect("held").await, held, "the same grant with the same token");
    assert_eq!(observer.queue_numbers(&lock).await, places);
    holder.kill().await;
    waiter.expect("held").await;
    waiter.kill().await;
    wait_for_contenders(&observer, &lock, 0).await;
    cluster.restart(stopped).await;
}

#[test]
fn a_stopping_server_sends_goaway_and_the_grants_of_its_streams_continue_at_another_node() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let [follower, _] = cluster.followers().await;
        stop_a_node_with_streams(&mut cluster, follower).await;
        let leader = cluster.leader().await;
        stop_a_node_with_streams(&mut cluster, leader).await;
    });
}

#[test]
fn a_node_that_is_cut_off_ends_its_streams_in_time() {
    const TTL: Duration = Duration::from_secs(3);
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let [at, other] = cluster.followers().await;
        let key = new_key();
        let mut stream = Stream::open(&cluster.nodes[at].url, "beacon", "ttl=3s", &key);
        stream.expect("held").await;
        let others = [other, cluster.leader().await];
        for other in others {
            cluster.nodes[other].signal(Signal::STOP);
        }
        let cut_off = Instant::now();
        let error = stream.expect_last("error").await;
        let took = cut_off.elapsed();
        report(&format!("with a ttl of {TTL:?}, a stream of a node that was cut off ended after {took:.0?}"));
        assert_within(&cluster.client(at), "the end of the stream", took, TTL + RELEASED_WITHIN).await;
        assert_eq!((error["outcome"].as_str(), &error["id"]), (Some("unknown"), &json!(key)), "{error}");
        for other in others {
            cluster.nodes[other].signal(Signal::CONT);
        }
    });
}

#[test]
fn a_stream_of_a_node_paused_beyond_the_ttl_ends_after_another_client_holds() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let ([at, other], key) = (cluster.followers().await, new_key());
        let mut stream = Stream::open(&cluster.nodes[at].url, "tower", "ttl=2s", &key);
        let held = stream.expect("held").await;
        cluster.nodes[at].signal(Signal::STOP);
        let client = cluster.client(other);
        let next = client.acquire("tower", "wait=60s&ttl=60s").await;
        assert!(next.token > whole(&held, "token"));
        cluster.nodes[at].signal(Signal::CONT);
        // The loss of contact and the end of the grant may arrive in either order.
        let last = stream.next_event().await.expect("a last line");
        assert!(last["event"] == "lost" && last["reason"] == "expired" || last["outcome"] == "unknown", "{last}");
        assert_eq!(stream.line().await, None);
        eventually("the grant's end", LINE_WITHIN, || async {
            (client.send(&Call::get(&format!("/v1/grants/{key}"))).await.status == 410).then_some(())
        })
        .await;
        assert_eq!(client.holders("tower").await, [next.number], "the older stream's end did not touch the next holder");
    });
}

#[test]
fn a_stream_of_a_killed_node_is_reattached_at_another_with_the_same_token_and_place() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (observer, url) = (cluster.client(leader + 1), cluster.nodes[leader].url.clone());
        let (holds, waits) = (new_key(), new_key());
        let mut holder = Stream::open(&url, "viaduct", "ttl=60s", &holds);
        let held = holder.expect("held").await;
        let mut waiter = Stream::open(&url, "viaduct", "ttl=60s&wait=10m", &waits);
        waiter.expect("queued").await;
        let places = observer.queue_numbers("viaduct").await;

        cluster.nodes[leader].kill().await;
        let killed = Instant::now();
        for stream in [&mut holder, &mut waiter] {
            assert_eq!(stream.next_event().await, None, "the connection breaks without a message");
        }
        let [one, other] = [1, 2].map(|step| cluster.nodes[(leader + step) % NODES].url.clone());
        let mut waiter = Stream::open(&other, "viaduct", "ttl=60s&wait=10m", &waits);
        assert_eq!(whole(&waiter.expect("queued").await, "position"), 2);
        let mut holder = Stream::open(&one, "viaduct", "ttl=60s", &holds);
        assert_eq!(holder.expect("held").await, held, "the same grant with the same token");
        report(&format!("streams of a killed leader were attached again after {:.0?}", killed.elapsed()));
        assert_eq!(observer.queue_numbers("viaduct").await, places);
        assert!(observer.fence_passes("viaduct", whole(&held, "token")).await);
        holder.kill().await;
        let next = waiter.expect("held").await;
        assert!(whole(&next, "token") > whole(&held, "token"));
    });
}

#[test]
fn a_waiting_stream_reports_its_new_position_and_many_changes_in_one_line() {
    const AHEAD: usize = 90;
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let mut ahead = Vec::new();
        for _ in 0..AHEAD {
            let key = new_key();
            let queued = client.send(&Call::post("/v1/locks/ferry?ttl=60s").with("prefer", "respond-async").key(&key)).await;
            assert!(matches!(queued.status, 200 | 202), "{queued:?}");
            ahead.push(key);
        }
        let mut stream = Stream::open(&cluster.nodes[1].url, "ferry", "ttl=3s&wait=10m", &new_key());
        let first = stream.expect("queued").await;
        let mut positions = vec![whole(&first, "position")];
        assert_eq!(positions, [AHEAD as u64 + 1]);
        assert_eq!(first["ahead"].as_array().expect("those ahead").len(), 16, "only the first of them are listed: {first}");
        // All contenders ahead of it leave at once, except the last two.
        let stay = ahead.split_off(AHEAD - 2);
        for key in &ahead {
            client.release(key).await;
        }
        while positions.last() != Some(&3) {
            let queued = stream.expect("queued").await;
            positions.push(whole(&queued, "position"));
        }
        report(&format!("{} position changes were reported as {positions:?}", ahead.len()));
        assert!(positions.windows(2).all(|pair| pair[0] > pair[1]), "{positions:?}");
        assert!(positions.len() <= 30, "not a line for each change: {positions:?}");
        client.release(&stay[0]).await;
        let moved = stream.expect("queued").await;
        assert_eq!((whole(&moved, "position"), moved["ahead"].as_array().map(Vec::len)), (2, Some(1)), "{moved}");
        client.release(&stay[1]).await;
        stream.expect("held").await;
        assert_eq!(stream.line().await.expect("a line")["event"], "alive", "a holder has no position in the queue");
    });
}
