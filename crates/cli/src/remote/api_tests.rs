//! Calls to scripted servers: what is retried, and the messages at the end.

use super::*;
use crate::remote::TlsArgs;
use fairhold_client::Method;
use fairhold_types::{ClusterId, Code};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A server with a list of answers, one for each request; the last one repeats. It closes the connection after each
/// answer.
struct Server {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

/// An answer of a node of cluster 7: the status, then the other headers and the body.
macro_rules! answer {
    ($status:literal, $rest:literal) => {
        concat!("HTTP/1.1 ", $status, "\r\nfairhold-cluster: 00000000000000000000000000000007\r\n", $rest)
    };
}

const BREAKS: &str = "";
const DONE: &str = answer!("200 OK", "content-length: 4\r\n\r\ndone");
const BREAKS_IN_ITS_BODY: &str = answer!("200 OK", "content-length: 4\r\n\r\ndo");
const NO_QUORUM: &str = answer!("503 X", "\r\n{\"code\":\"no_quorum\",\"detail\":\"no quorum\"}");
const TOO_LATE: &str = answer!("504 X", "\r\n{\"detail\":\"late\",\"outcome\":\"unknown\"}");
const NOT_IN_TIME: &str = answer!("504 X", "\r\n{\"detail\":\"late\",\"outcome\":\"none\"}");
const NOT_READY: &str = answer!("503 X", "\r\n{\"ready\":false,\"reason\":\"no leader\"}");
const NO_SESSION: &str = answer!("404 X", "\r\n{\"code\":\"session_not_found\",\"detail\":\"none\"}");

impl Server {
    async fn start(answers: &'static [&'static str]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { url: format!("http://{}", listener.local_addr().unwrap()), heads: Arc::default() };
        let heads = Arc::clone(&server.heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let heads = Arc::clone(&heads);
                tokio::spawn(async move { answer(stream, answers, &heads).await });
            }
        });
        server
    }

    async fn call(&self, timeout: Duration, request: &ApiRequest) -> Result<ApiReply, Failure> {
        api(&self.url, timeout).call(request).await
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Answers one request.
async fn answer(mut stream: TcpStream, answers: &[&str], heads: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let before = {
        let mut heads = heads.lock().unwrap();
        heads.push(String::from_utf8(head).unwrap());
        heads.len() - 1
    };
    let answer = answers.get(before).or(answers.last()).expect("an answer");
    // The client may have disconnected.
    stream.write_all(answer.as_bytes()).await.ok();
}

fn connect(endpoint: Vec<String>, timeout: Duration) -> ConnectArgs {
    ConnectArgs {
        endpoint,
        cluster_id: None,
        timeout,
        auth_token_file: None,
        tls: TlsArgs::default(),
        quiet: false,
        verbose: false,
    }
}

fn api(url: &str, timeout: Duration) -> Api {
    Api::new(&connect(vec![url.to_owned()], timeout)).unwrap()
}

fn key(head: &str) -> Option<&str> {
    head.lines().find_map(|line| line.strip_prefix("idempotency-key: "))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_reason_is_the_innermost_cause_or_the_detail_of_the_answer() {
    let network = "http://a:1: no connection: tcp connect error: Connection refused (os error 111)";
    for (why, text) in [
        (network, "Connection refused (os error 111)"),
        ("http://a:1: no answer in time: operation timed out", "no answer in time"),
        ("http://a:1: the connection broke: connection closed before message completed", CLOSED_ADVICE),
        ("503 Service Unavailable no quorum: try later", "no quorum: try later"),
        ("503 Service Unavailable ", "503 Service Unavailable "),
        ("something else", "something else"),
    ] {
        assert_eq!(reason("http://a:1", why), text);
    }
}

#[tokio::test]
async fn the_progress_of_a_call_tells_a_node_that_cannot_serve_from_one_that_is_silent() {
    let server = Server::start(&[NO_QUORUM]).await;
    let refused = api(&server.url, SECOND);
    let attempts = Arc::default();
    refused.send(&ApiRequest::get("/v1/locks"), &attempts).await.unwrap_err();
    let expected = format!("a node answers, but cannot serve: {}: no quorum. Trying for 1s", server.url);
    assert_eq!(refused.progress(&attempts.lock()), expected);
    let silent = api("http://a:1", SECOND).progress(&Attempts::default());
    assert_eq!(silent, "no answer yet from http://a:1: is it running? Trying for 1s");
}

#[tokio::test]
async fn parameters_are_encoded_and_the_next_page_does_not_wait() {
    let server = Server::start(&[DONE]).await;
    let request = ApiRequest::get("/v1/locks").parameter("prefix", Some("a&b")).parameter("x", None::<u8>).flag("meta", true);
    let waiting = request.wait(Some(SECOND)).after(Some(7));
    server.call(10 * SECOND, &waiting).await.unwrap();
    server.call(10 * SECOND, &waiting.next_page()).await.unwrap();
    let heads = server.heads();
    // Some of the wait has passed when the request is sent.
    assert!(heads[0].starts_with("GET /v1/locks?prefix=a%26b&meta&after=7&wait="), "{heads:?}");
    assert!(heads[1].starts_with("GET /v1/locks?prefix=a%26b&meta HTTP/1.1"), "{heads:?}");
}

#[tokio::test]
async fn every_attempt_has_the_same_key_and_the_message_names_it() {
    let server = Server::start(&[BREAKS]).await;
    let started = Instant::now();
    let request = ApiRequest::keyed(Method::POST, "/v1/locks/a", None).wait(Some(SECOND / 2));
    let failure = server.call(SECOND / 2, &request).await.unwrap_err();
    assert!(started.elapsed() < 2 * SECOND, "it took {:?}", started.elapsed());
    let heads = server.heads();
    let same = key(&heads[0]).unwrap();
    assert!(heads.len() > 2 && heads.iter().all(|head| key(head) == Some(same)), "{heads:?}");
    let message = format!("it may have happened: repeat it with --idempotency-key {same}");
    assert!(failure.code() == 69 && failure.to_string().ends_with(&message), "{failure}");
    assert!(failure.to_string().starts_with("no answer within 1s: "), "{failure}");
}

#[tokio::test]
async fn a_request_is_repeated_if_its_answer_breaks_off() {
    let server = Server::start(&[BREAKS_IN_ITS_BODY, DONE]).await;
    let request = ApiRequest::keyed(Method::POST, "/v1/locks/a", Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    let reply = server.call(10 * SECOND, &request).await.unwrap();
    assert_eq!((reply.body, server.heads().len()), (b"done".to_vec(), 2));
    assert!(server.heads().iter().all(|head| head.to_lowercase().contains("\r\nuser-agent: fairhold/")), "{:?}", server.heads());
    assert!(server.heads().iter().all(|head| key(head) == Some("01ARZ3NDEKTSV4RRFFQ69G5FAV")), "{:?}", server.heads());
}

#[tokio::test]
async fn a_message_says_whether_the_request_may_have_happened() {
    let change = || ApiRequest::change(Method::PUT, "/v1/nodes/a");
    for (answers, request, may_have_happened) in [
        (&[BREAKS] as &'static [&'static str], change(), true),
        (&[BREAKS_IN_ITS_BODY], change(), true),
        (&[TOO_LATE], change(), true),
        (&[TOO_LATE, NO_QUORUM], change(), true),
        (&[NOT_IN_TIME], change(), false),
        (&[NO_QUORUM], change(), false),
        (&[BREAKS], ApiRequest::get("/v1/nodes/a"), false),
    ] {
        let failure = Server::start(answers).await.call(SECOND / 4, &request).await.unwrap_err();
        let message = failure.to_string();
        assert_eq!(message.contains("it may have happened: check the state before"), may_have_happened, "{answers:?}: {message}");
        assert!(failure.code() == 69 && !message.contains("--idempotency-key"), "the command has no such option: {message}");
    }
    let nobody = api("http://127.0.0.1:1", SECOND / 4).call(&change()).await.unwrap_err().to_string();
    assert!(!nobody.contains("may have happened"), "{nobody}");
}

#[tokio::test]
async fn a_node_that_is_not_ready_says_why() {
    let server = Server::start(&[NOT_READY]).await;
    let failure = server.call(SECOND / 4, &ApiRequest::get("/readyz").flag("verbose", true)).await.unwrap_err();
    assert!(failure.code() == 69 && failure.to_string().contains(&format!("{}: no leader (", server.url)), "{failure}");
}

#[tokio::test]
async fn a_session_ended_by_an_unanswered_attempt_counts_as_ended() {
    let end = ApiRequest::unkeyed(Method::DELETE, "/v1/sessions/41").done_by(Code::SessionNotFound);
    let lost = Server::start(&[BREAKS, NO_SESSION]).await;
    assert!(lost.call(10 * SECOND, &end).await.unwrap().body.is_empty());
    assert!(lost.heads().len() == 2 && lost.heads().iter().all(|head| key(head).is_none()), "{:?}", lost.heads());
    for answers in [&[NO_SESSION] as &'static [&'static str], &[NO_QUORUM, NO_SESSION]] {
        let none = Server::start(answers).await.call(10 * SECOND, &end).await;
        assert!(matches!(none, Err(Failure::Refused { status: 404, .. })), "{none:?}");
    }
}

const PORTAL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>";
const LOGIN: &str = "HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n";
const OTHER_CLUSTER: &str =
    "HTTP/1.1 404 X\r\nfairhold-cluster: 00000000000000000000000000000008\r\n\r\n{\"code\":\"no_node\",\"detail\":\"none\"}";
const UNFORMED: &str = "HTTP/1.1 200 OK\r\nfairhold-request-id: 1-a-1\r\ncontent-length: 4\r\n\r\ndone";

#[tokio::test]
async fn answers_from_outside_the_cluster_are_ignored() {
    for stranger in [&[PORTAL] as &'static [&'static str], &[LOGIN], &[OTHER_CLUSTER]] {
        let (stranger, node) = (Server::start(stranger).await, Server::start(&[DONE]).await);
        let connect = connect(vec![stranger.url.clone(), node.url.clone()], 10 * SECOND);
        let api = Api::new(&ConnectArgs { cluster_id: Some(ClusterId(7)), ..connect }).unwrap();
        let reply = api.call(&ApiRequest::get("/v1/locks")).await.unwrap();
        assert_eq!((reply.body, stranger.heads().len()), (b"done".to_vec(), 1));
        assert!(node.heads()[0].contains("\r\nfairhold-cluster: 00000000000000000000000000000007\r\n"), "{:?}", node.heads());
    }
}

#[tokio::test]
async fn if_only_strangers_answer_the_call_fails_at_once() {
    for stranger in [&[PORTAL] as &'static [&'static str], &[LOGIN]] {
        let (server, started) = (Server::start(stranger).await, Instant::now());
        let failure = server.call(60 * SECOND, &ApiRequest::get("/v1/locks")).await.unwrap_err();
        assert!(started.elapsed() < 10 * SECOND, "a wrong address stays wrong");
        let message = failure.to_string();
        assert!(failure.code() == 69 && message.contains(&server.url) && message.contains("is -e its address"), "{message}");
    }
    let reply = Server::start(&[UNFORMED]).await.call(10 * SECOND, &ApiRequest::get("/livez")).await.unwrap();
    assert_eq!(reply.body, b"done", "a node whose cluster has not formed yet answers");
}

#[test]
fn abandoned_work_does_not_delay_the_exit() {
    let connect = connect(vec!["http://127.0.0.1:1".to_owned()], SECOND);
    let args = crate::remote::RemoteArgs { connect, output: None };
    // A DNS server that does not answer delays a lookup in the same way.
    let (answer, answered) = std::sync::mpsc::channel::<()>();
    let (sender, receiver) = std::sync::mpsc::channel();
    let command = std::thread::spawn(move || {
        let code = crate::remote::run(&args, async |_| {
            tokio::task::spawn_blocking(move || answered.recv());
            Ok(())
        });
        sender.send(code).ok();
    });
    assert!(receiver.recv_timeout(20 * SECOND).is_ok(), "the command waits for the blocked task");
    drop(answer);
    command.join().unwrap();
}
