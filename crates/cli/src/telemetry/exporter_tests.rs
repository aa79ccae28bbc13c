//! The exporter and a collector, as one who listens on a port.

use super::*;
use fairhold_trace::{RequestSpan, SampleRate, Stage, StageTime};
use fairhold_types::{limits::TRACE_QUEUE_SPANS_MAX, trace_context::TraceParent};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(30);
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Takes one request, and does not answer. Returns its head and its body.
async fn arrived(listener: &TcpListener) -> (TcpStream, String, Value) {
    let (mut stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let mut read = BufReader::new(&mut stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(timeout(SOON, read.read_line(&mut head)).await.unwrap().unwrap() > 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    timeout(SOON, read.read_exact(&mut body)).await.unwrap().unwrap();
    (stream, head, serde_json::from_slice(&body).unwrap())
}

/// Answers with this status line.
async fn answer(mut stream: TcpStream, status: &str) {
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// Takes one request, and answers with this status line. Returns its head and its body.
async fn take(listener: &TcpListener, status: &str) -> (String, Value) {
    let (stream, head, body) = arrived(listener).await;
    answer(stream, status).await;
    (head, body)
}

fn export(listener: &TcpListener, seed: u64, node: u64) -> TraceExport {
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let config = TraceConfig { endpoint, sample: SampleRate::new(1.0).unwrap(), shows_names: false };
    let export = TraceExport::new(Tracer::new([seed, 2], || 1_700_000_000_000_000_000), Some(Exporter::new(&config).unwrap()));
    export.start(node, &mut fairhold_metrics::registry());
    export
}

/// A request with this span begins and ends.
fn span(export: &TraceExport, name: &str, is_error: bool) {
    RequestSpan::begin(&export.tracer(), || None).unwrap().end(name.to_owned(), Vec::new(), is_error);
}

fn spans(request: &Value) -> Vec<Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_spans_of_a_follower_and_of_the_leader_are_one_tree() {
    let [first, second] = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let (follower, leader) = (export(&first, 1, 2), export(&second, 7, 1));
    let client: TraceParent = PARENT.parse().unwrap();
    let request = RequestSpan::begin(&follower.tracer(), || Some(Ok(client))).unwrap();
    let work = fairhold_trace::RequestWork::default();
    work.trace(request.clone());
    let hop = work.next_span().unwrap();
    for stage in [Stage::Queue, Stage::Commit, Stage::Apply] {
        leader.tracer().finish_stage(hop, StageTime::now(stage, Duration::from_millis(1)));
    }
    work.record(StageTime::now(Stage::Queue, Duration::from_millis(1)));
    work.record(StageTime { span: Some(hop.span), ..StageTime::now(Stage::Forward, Duration::from_millis(4)) });
    request.end("POST /v1/locks/{name}".to_owned(), Vec::new(), false);

    let ((head, of_follower), (_, of_leader)) = tokio::join!(take(&first, "200 OK"), take(&second, "200 OK"));
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && head.contains("application/json"), "{head}");
    let resource = &of_leader["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(resource[2], serde_json::json!({ "key": "service.instance.id", "value": { "stringValue": "1" } }));
    let all = [spans(&of_follower), spans(&of_leader)].concat();
    let text = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().to_owned();
    assert!(all.iter().all(|span| text(span, "traceId") == client.context.trace.to_string()), "{all:#?}");
    let by_id: BTreeMap<String, &Value> = all.iter().map(|span| (text(span, "spanId"), span)).collect();
    assert_eq!(by_id.len(), 6);
    let way = |span: &Value| {
        let mut names = vec![text(span, "name")];
        let mut parent = text(span, "parentSpanId");
        while let Some(above) = by_id.get(&parent) {
            names.push(text(above, "name"));
            parent = text(above, "parentSpanId");
        }
        assert_eq!(parent, client.context.span.to_string(), "it ends at the client");
        names.reverse();
        names.join(" > ")
    };
    let mut ways: Vec<String> = all.iter().map(way).collect();
    ways.sort();
    let expected = [
        "POST /v1/locks/{name}",
        "POST /v1/locks/{name} > forward",
        "POST /v1/locks/{name} > forward > apply",
        "POST /v1/locks/{name} > forward > commit",
        "POST /v1/locks/{name} > forward > queue",
        "POST /v1/locks/{name} > queue",
    ];
    assert_eq!(ways, expected);
}

#[tokio::test]
async fn spans_that_the_collector_refuses_are_dropped_and_the_next_ones_are_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&listener, 1, 1);
    span(&export, "first", true);
    take(&listener, "503 Service Unavailable").await;
    span(&export, "second", true);
    let (_, request) = take(&listener, "200 OK").await;
    let names: Vec<_> = spans(&request).iter().map(|span| span["name"].clone()).collect();
    assert_eq!((names, spans(&request)[0]["status"]["code"].clone()), (vec!["second".into()], 2.into()));
    export.replace(None);
    assert!(!export.tracer().is_on());
}

#[tokio::test]
async fn spans_are_sent_to_the_collector_alone_also_if_it_redirects_them() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&listener, 1, 1);
    span(&export, "first", false);
    take(&listener, "307 Temporary Redirect\r\nlocation: /elsewhere").await;
    span(&export, "second", false);
    let (head, request) = take(&listener, "200 OK").await;
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert_eq!(spans(&request)[0]["name"], "second", "the first one is dropped, as after any other refusal");
}

#[tokio::test]
async fn spans_wait_a_second_for_others_unless_a_request_is_full() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&listener, 1, 1);
    for _ in 0..=TRACE_BATCH_SPANS_MAX {
        span(&export, "together", false);
    }
    let (_, full) = take(&listener, "200 OK").await;
    let (stream, _, rest) = arrived(&listener).await;
    assert_eq!((spans(&full).len(), spans(&rest).len()), (TRACE_BATCH_SPANS_MAX, 1));
    span(&export, "later", false);
    let answered_at = Instant::now();
    answer(stream, "200 OK").await;
    let (_, later) = take(&listener, "200 OK").await;
    assert!(answered_at.elapsed() >= SEND_EVERY);
    assert_eq!(spans(&later)[0]["name"], "later");
}

#[tokio::test]
async fn spans_on_their_way_are_lost_if_the_collector_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&listener, 1, 1);
    span(&export, "lost", false);
    let (mut stream, _, _) = arrived(&listener).await;
    assert_eq!(export.tracer().dropped(), 0);
    export.replace(None);
    let mut rest = Vec::new();
    timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!((export.tracer().dropped(), rest.len()), (1, 0));
}

#[tokio::test]
async fn a_silent_collector_holds_up_no_request_and_keeps_a_bounded_number_of_spans() {
    const TOO_MANY: usize = 100;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&listener, 1, 1);
    span(&export, "first", false);
    let _silent = arrived(&listener).await;
    for _ in 0..TRACE_QUEUE_SPANS_MAX + TOO_MANY {
        span(&export, "later", false);
    }
    assert_eq!(export.tracer().dropped(), TOO_MANY as u64);
    // The node gives up the first one, and sends the oldest of the others.
    let (_, _, next) = arrived(&listener).await;
    assert_eq!((spans(&next).len(), export.tracer().dropped()), (TRACE_BATCH_SPANS_MAX, TOO_MANY as u64 + 1));
}

#[test]
fn the_log_says_once_a_minute_that_spans_are_lost() {
    let (mut warnings, start) = (LossWarnings::default(), Instant::now());
    let due = [0, 1, 59, 60, 61, 120].map(|seconds| warnings.is_due(start + Duration::from_secs(seconds)));
    assert_eq!(due, [true, false, false, true, false, true]);
}
