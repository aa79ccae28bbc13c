//! Traces: a request through a follower is one tree at a collector, and wrong headers are ignored.

use crate::{
    access::Guarded,
    client::Call,
    harness::{Cluster, NodeProcess, SHORT, eventually, run_parallel},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// How long spans may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// The trace and the span of the client.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";
/// The span of an acquire.
const ACQUIRE: &str = "POST /v1/locks/{name}";

/// A collector of traces.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<Value>>>);

/// A span as it arrived, with the node that sent it.
#[derive(Debug, Clone)]
struct ReceivedSpan {
    name: String,
    parent: String,
    node: String,
    /// What the request names, if the span has it.
    names: Option<String>,
}

impl Collector {
    /// Listens, and returns its URL.
    pub(crate) async fn start() -> (Collector, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let collector = Collector::default();
        let taking = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(taking.clone().serve(stream));
            }
        });
        (collector, url)
    }

    async fn serve(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.ok()? == 0 {
                    return None;
                }
                if let Some(given) = line.to_lowercase().strip_prefix("content-length:") {
                    length = given.trim().parse().ok()?;
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            self.0.lock().expect("no thread panics while it holds the lock").push(serde_json::from_slice(&body).ok()?);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.ok()?;
        }
    }

    /// The spans of the client's trace, by their ids.
    fn spans(&self) -> BTreeMap<String, ReceivedSpan> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut spans = BTreeMap::new();
        for sent in self.0.lock().expect("no thread panics while it holds the lock").iter().map(|body| &body["resourceSpans"][0])
        {
            let node = text(&sent["resource"]["attributes"][2]["value"]["stringValue"]);
            for span in sent["scopeSpans"][0]["spans"].as_array().into_iter().flatten().filter(|span| span["traceId"] == TRACE) {
                let (name, parent) = (text(&span["name"]), text(&span["parentSpanId"]));
                let mut attributes = span["attributes"].as_array().into_iter().flatten();
                let names = attributes.find(|attribute| attribute["key"] == "fairhold.name");
                let names = names.map(|attribute| text(&attribute["value"]["stringValue"]));
                spans.insert(text(&span["spanId"]), ReceivedSpan { name, parent, node: node.clone(), names });
            }
        }
        spans
    }

    /// The names of these spans.
    fn names(&self) -> Vec<String> {
        self.spans().into_values().map(|span| span.name).collect()
    }

    /// What each acquire in that trace names, in alphabetical order, or nothing.
    pub(crate) fn acquired(&self) -> Vec<Option<String>> {
        let acquires = self.spans().into_values().filter(|span| span.name == ACQUIRE);
        let mut names: Vec<Option<String>> = acquires.map(|span| span.names).collect();
        names.sort_unstable();
        names
    }
}

/// A header that requests a trace below the span of the client.
pub(crate) fn trace_parent() -> String {
    format!("00-{TRACE}-{CLIENT}-01")
}

/// From their next start on, all nodes send there the spans of requests whose callers request that.
fn trace_to(cluster: &mut Cluster, url: &str) {
    let file = cluster.folder().join("fairhold.toml");
    fs::write(&file, format!("[trace]\nendpoint = \"{url}\"\nsample = 0\n")).expect("a configuration");
    for node in &mut cluster.nodes {
        node.flags.extend(["--config".to_owned(), file.display().to_string()]);
    }
}

/// The names from the client to a span, each with its node.
fn way(spans: &BTreeMap<String, ReceivedSpan>, span: &ReceivedSpan) -> Vec<String> {
    let mut names = match spans.get(&span.parent) {
        Some(parent) => way(spans, parent),
        None if span.parent == CLIENT => Vec::new(),
        None => vec!["lost".to_owned()],
    };
    names.push(format!("{}@{}", span.name, span.node));
    names
}

#[test]
fn a_request_through_a_follower_is_one_tree_at_the_collector() {
    run_parallel(SHORT, async {
        let (collector, url) = Collector::start().await;
        let mut cluster = Cluster::plan();
        trace_to(&mut cluster, &url);
        cluster.nodes.iter_mut().for_each(NodeProcess::start);
        cluster.ready().await;
        let leader = cluster.leader().await;
        let [follower, _] = cluster.followers().await;
        let client = cluster.client(follower);
        let long = "0".repeat(10 * 1024);
        let zeros = format!("00-{}-{CLIENT}-01", "0".repeat(32));
        let forbidden = format!("ff-{TRACE}-{CLIENT}-01");
        for (number, wrong) in [long.as_str(), &zeros, &forbidden].into_iter().enumerate() {
            let call = Call::post(&format!("/v1/locks/untraced-{number}?ttl=60s")).with("traceparent", wrong);
            assert_eq!(client.send_to(follower, &call).await.expect("an answer").status, 200);
        }
        let parent = trace_parent();
        let call = Call::post("/v1/locks/traced?ttl=60s").with("traceparent", &parent);
        assert_eq!(client.send_to(follower, &call).await.expect("an answer").status, 200);

        let (own, other) = (cluster.nodes[follower].id, cluster.nodes[leader].id);
        let request = format!("{ACQUIRE}@{own}");
        let below = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let commit = [vec![request.clone()], below(&[&format!("forward@{own}"), &format!("commit@{other}")])].concat();
        let ways = eventually("the leader's commit is in the trace", SOON, || async {
            let spans = collector.spans();
            let ways: Vec<Vec<String>> = spans.values().map(|span| way(&spans, span)).collect();
            (ways.contains(&commit) && ways.contains(&vec![request.clone()])).then_some(ways)
        })
        .await;
        assert!(ways.iter().all(|way| way.first() == Some(&request)), "one tree: {ways:#?}");
        let metrics = client.send_to(follower, &Call::get("/metrics")).await.expect("an answer").text;
        assert!(metrics.lines().any(|line| line == "fairhold_trace_headers_refused_total 3"), "{metrics}");
    });
}

#[test]
fn the_log_says_where_the_time_of_a_slow_request_went() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::plan_of(1);
        // Every request that commits something is slower than this.
        cluster.nodes[0].flags = vec!["--slow-request".to_owned(), "10us".to_owned()];
        cluster.nodes[0].start();
        cluster.ready().await;
        let call = Call::post("/v1/locks/a?ttl=60s").with("fairhold-request-id", "deploy-81");
        assert_eq!(cluster.client(0).send_to(0, &call).await.expect("an answer").status, 200);
        // The readiness checks may have used up the ten lines of this second.
        let line = eventually("a line of a slow request", SOON, || async {
            let call = Call::post("/v1/locks/b?ttl=60s&wait=0").with("fairhold-request-id", "deploy-82");
            cluster.client(0).send_to(0, &call).await.ok()?;
            let log = cluster.nodes[0].log_text();
            log.lines().find(|line| line.contains("a slow request") && line.contains("deploy-8")).map(str::to_owned)
        })
        .await;
        for said in ["WARN", "/v1/locks/{name}", "node=1", "commit_ms=", "total_ms="] {
            assert!(line.contains(said), "{said}: {line}");
        }
    });
}

/// A field of a line of the log, such as `wait_ms`.
fn number_in(line: &str, field: &str) -> u64 {
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{field}: {line}"))
}

#[test]
fn a_reader_that_waits_for_the_next_act_is_not_slow() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::plan_of(1);
        // Every request has a line then, which says how long it waited.
        cluster.nodes[0].flags = vec!["--slow-request".to_owned(), "1us".to_owned()];
        cluster.nodes[0].start();
        cluster.ready().await;
        // Other requests may have used up the ten lines of a second.
        let line = eventually("the line of the reader", SOON, || async {
            let call = Call::get("/v1/audit?from=1000000&wait=1s").with("fairhold-request-id", "reader-1");
            let answer = cluster.client(0).send_to(0, &call).await.ok()?;
            assert_eq!(answer.status, 304, "{}", answer.text);
            let log = cluster.nodes[0].log_text();
            log.lines().find(|line| line.contains("a slow request") && line.contains("reader-1")).map(str::to_owned)
        })
        .await;
        assert!(number_in(&line, "wait_ms") >= 500, "{line}");
    });
}

#[test]
fn a_stranger_cannot_have_its_requests_traced() {
    run_parallel(SHORT, async {
        let (collector, url) = Collector::start().await;
        let guarded = Guarded::start_with(|cluster| trace_to(cluster, &url)).await;
        let (_, ci) = guarded.enforce().await;
        let client = guarded.cluster.client(0);
        let parent = trace_parent();
        let by_stranger = Call::get("/v1/locks/deploy%2Fa").with("traceparent", &parent);
        for call in [by_stranger.clone(), by_stranger.with("authorization", "Bearer guess")] {
            assert_eq!(client.send_to(0, &call).await.expect("an answer").status, 401);
        }
        let by_user = Call::post("/v1/locks/deploy%2Fa?ttl=60s").with("traceparent", &parent);
        let by_user = by_user.with("authorization", &format!("Bearer {}", ci.token));
        assert_eq!(client.send_to(0, &by_user).await.expect("an answer").status, 200);
        let names = eventually("the span of the user", SOON, || async {
            let names = collector.names();
            names.iter().any(|name| name == ACQUIRE).then_some(names)
        })
        .await;
        // Spans are sent in the order in which they ended.
        assert!(!names.iter().any(|name| name.starts_with("GET ")), "{names:?}");
    });
}

#[test]
fn the_renewals_of_a_program_are_no_part_of_its_trace() {
    run_parallel(SHORT, async {
        let (collector, url) = Collector::start().await;
        let mut cluster = Cluster::plan_of(1);
        trace_to(&mut cluster, &url);
        cluster.nodes[0].start();
        cluster.ready().await;
        let parent = trace_parent().parse().expect("a valid header");
        let program = fairhold_client::Client::builder().endpoint(&cluster.nodes[0].url).trace_parent(parent);
        let program = program.build().expect("a client");
        let guard = program.lock("traced").ttl(Duration::from_secs(3)).await.expect("nobody holds it");
        eventually("a renewal", SOON, || async {
            let metrics = cluster.client(0).send_to(0, &Call::get("/metrics")).await.ok()?.text;
            let renewed = metrics.lines().find(|line| line.contains("/renew\"") && line.contains("status=\"2xx\""));
            renewed.filter(|line| !line.ends_with(" 0")).map(drop)
        })
        .await;
        guard.release().await.expect("it is held");
        let names = eventually("the release is in the trace", SOON, || async {
            let names = collector.names();
            names.iter().any(|name| name.starts_with("DELETE ")).then_some(names)
        })
        .await;
        assert!(names.iter().any(|name| name == ACQUIRE), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("renew")), "{names:?}");
    });
}

#[test]
fn no_request_waits_for_a_silent_collector() {
    // If each of them waited for it, they would take longer than this test may.
    const REQUESTS: usize = 100;
    run_parallel(SHORT, async {
        // The kernel accepts the connections, and nobody reads from them.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut cluster = Cluster::plan_of(1);
        trace_to(&mut cluster, &format!("http://{}", silent.local_addr().expect("an address")));
        cluster.nodes[0].start();
        cluster.ready().await;
        let client = cluster.client(0);
        for number in 0..REQUESTS {
            let call = Call::post(&format!("/v1/locks/{number}?ttl=60s")).with("traceparent", &trace_parent());
            assert_eq!(client.send_to(0, &call).await.expect("an answer").status, 200);
        }
        let line = eventually("the log says that spans are lost", SOON, || async {
            cluster.nodes[0].log_text().lines().find(|line| line.contains("takes no spans")).map(str::to_owned)
        })
        .await;
        assert!(line.contains("no answer in time") && line.contains("This node has lost"), "{line}");
        let metrics = client.send_to(0, &Call::get("/metrics")).await.expect("an answer").text;
        assert!(metrics.lines().any(|line| line == "fairhold_trace_spans_exported_total 0"), "{metrics}");
        drop(silent);
    });
}
