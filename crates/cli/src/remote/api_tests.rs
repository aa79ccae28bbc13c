//! Calls at servers that fail as they are told to: what is asked again, and what a person hears in the end.

use super::{
    super::request::{encode, node_path},
    *,
};
use fairhold_types::Code;
use reqwest::Method;
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A server that has one answer for each request after the other, and the last one for all that come later. Each ends
/// its connection.
struct Server {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

const BREAKS: &str = "";
const DONE: &str = "HTTP/1.1 200 OK\r\nfairhold-cluster: 7\r\ncontent-length: 4\r\n\r\ndone";
const BREAKS_IN_ITS_BODY: &str = "HTTP/1.1 200 OK\r\nfairhold-cluster: 7\r\ncontent-length: 4\r\n\r\ndo";
const NO_QUORUM: &str = "HTTP/1.1 503 X\r\nfairhold-cluster: 7\r\n\r\n{\"code\":\"no_quorum\",\"detail\":\"no quorum\"}";
const TOO_LATE: &str = "HTTP/1.1 504 X\r\nfairhold-cluster: 7\r\n\r\n{\"detail\":\"late\",\"outcome\":\"unknown\"}";
const NOT_IN_TIME: &str = "HTTP/1.1 504 X\r\nfairhold-cluster: 7\r\n\r\n{\"detail\":\"late\",\"outcome\":\"none\"}";
const NO_SESSION: &str = "HTTP/1.1 404 X\r\nfairhold-cluster: 7\r\n\r\n{\"code\":\"session_not_found\",\"detail\":\"none\"}";

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

/// Answers one request: another one needs another connection.
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
    // A client that has left gets no answer.
    stream.write_all(answer.as_bytes()).await.ok();
}

fn connect(endpoint: Vec<String>, timeout: Duration) -> ConnectArgs {
    ConnectArgs { endpoint, cluster_id: None, timeout, auth_token_file: None, quiet: false, verbose: false }
}

fn api(url: &str, timeout: Duration) -> Api {
    Api::new(&connect(vec![url.to_owned()], timeout)).unwrap()
}

/// How long the server was asked to wait.
fn wait(head: &str) -> Duration {
    let (_, wait) = head.split_once("wait=").expect("it waits");
    duration::parse(wait.split(['&', ' ']).next().unwrap()).unwrap()
}

fn key(head: &str) -> Option<&str> {
    head.lines().find_map(|line| line.strip_prefix("idempotency-key: "))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_stands_in_a_url_is_written_so() {
    assert_eq!(node_path("/jobs/a b"), "/v1/nodes/jobs/a%20b");
    assert_eq!((node_path("/"), encode("orders/42")), ("/v1/nodes/".to_owned(), "orders%2F42".to_owned()));
    let request = ApiRequest::get("/v1/locks").parameter("prefix", Some("a&b")).parameter("x", None::<u8>).flag("meta", true);
    assert_eq!(request.target(None), "/v1/locks?prefix=a%26b&meta");
    let waiting = request.wait(Some(SECOND)).after(Some(7));
    assert_eq!(waiting.target(waiting.wait), "/v1/locks?prefix=a%26b&meta&wait=1s&after=7");
    let next = waiting.next_page();
    assert_eq!(next.target(next.wait), "/v1/locks?prefix=a%26b&meta");
}

#[test]
fn an_endpoint_is_a_host_and_a_port() {
    for url in ["http://a:1", "http://a:1/", "a:1", " a:1 "] {
        assert_eq!(endpoint(url).unwrap(), "http://a:1", "{url}");
    }
    for url in ["", "https://a:1", "http://a:1/x", "ftp://a"] {
        assert_eq!(endpoint(url).unwrap_err().code(), 2, "{url}");
    }
}

#[tokio::test]
async fn all_tries_together_wait_no_longer_than_one_would_and_their_key_is_told_where_none_is_answered() {
    let server = Server::start(&[BREAKS]).await;
    let begun = Instant::now();
    let request = ApiRequest::keyed(Method::POST, "/v1/locks/a", None).wait(Some(SECOND / 2));
    let failure = server.call(SECOND / 2, &request).await.unwrap_err();
    assert!(begun.elapsed() < 2 * SECOND, "it took {:?}", begun.elapsed());
    let heads = server.heads();
    let waits: Vec<Duration> = heads.iter().map(|head| wait(head)).collect();
    assert_eq!(waits[0], SECOND / 2);
    assert!(waits.len() > 2 && waits.windows(2).all(|two| two[1] < two[0] || two[1].is_zero()), "{waits:?}");
    assert!(waits.last().unwrap().is_zero(), "the wait was over long before: {waits:?}");
    let same = key(&heads[0]).unwrap();
    assert!(heads.iter().all(|head| key(head) == Some(same)), "{heads:?}");
    let said = format!("it may have happened: repeat it with --idempotency-key {same}");
    assert!(failure.code() == 69 && failure.to_string().ends_with(&said), "{failure}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let server = Server::start(&[BREAKS_IN_ITS_BODY, DONE]).await;
    let request = ApiRequest::keyed(Method::POST, "/v1/locks/a", Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    let reply = server.call(10 * SECOND, &request).await.unwrap();
    assert_eq!((reply.body, server.heads().len()), (b"done".to_vec(), 2));
    assert!(server.heads().iter().all(|head| head.to_lowercase().contains("\r\nuser-agent: fairhold/")), "{:?}", server.heads());
    assert!(server.heads().iter().all(|head| key(head) == Some("01ARZ3NDEKTSV4RRFFQ69G5FAV")), "{:?}", server.heads());
}

#[tokio::test]
async fn what_may_have_happened_is_told_from_what_surely_did_not() {
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
        let said = failure.to_string();
        assert_eq!(said.contains("it may have happened: look before"), may_have_happened, "{answers:?}: {said}");
        assert!(failure.code() == 69 && !said.contains("--idempotency-key"), "the command has no such option: {said}");
    }
    let nobody = api("http://127.0.0.1:1", SECOND / 4).call(&change()).await.unwrap_err().to_string();
    assert!(!nobody.contains("may have happened"), "{nobody}");
}

#[tokio::test]
async fn what_an_unanswered_try_has_ended_is_ended_and_what_was_not_there_before_is_refused() {
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
const OTHER_CLUSTER: &str = "HTTP/1.1 404 X\r\nfairhold-cluster: 8\r\n\r\n{\"code\":\"no_node\",\"detail\":\"none\"}";
const UNFORMED: &str = "HTTP/1.1 200 OK\r\nfairhold-request-id: 1-a-1\r\ncontent-length: 4\r\n\r\ndone";

#[tokio::test]
async fn an_answer_from_outside_the_cluster_counts_for_nothing() {
    for stranger in [&[PORTAL] as &'static [&'static str], &[LOGIN], &[OTHER_CLUSTER]] {
        let (stranger, node) = (Server::start(stranger).await, Server::start(&[DONE]).await);
        let api = Api::new(&connect(vec![stranger.url.clone(), node.url.clone()], 10 * SECOND)).unwrap();
        // It learns its cluster here, whichever server the next request goes to first.
        assert!(api.is_known(&HeaderMap::from_iter([(CLUSTER.parse().unwrap(), HeaderValue::from_static("7"))])));
        let reply = api.call(&ApiRequest::get("/v1/locks")).await.unwrap();
        assert_eq!((reply.body, stranger.heads().len()), (b"done".to_vec(), 1));
        assert!(node.heads()[0].contains("\r\nfairhold-cluster: 7\r\n"), "{:?}", node.heads());
    }
}

#[tokio::test]
async fn where_only_strangers_answer_that_is_said_at_once() {
    for stranger in [&[PORTAL] as &'static [&'static str], &[LOGIN]] {
        let (server, begun) = (Server::start(stranger).await, Instant::now());
        let failure = server.call(60 * SECOND, &ApiRequest::get("/v1/locks")).await.unwrap_err();
        assert!(begun.elapsed() < 10 * SECOND, "a wrong address does not become right by waiting");
        let said = failure.to_string();
        assert!(failure.code() == 69 && said.contains(&server.url) && said.contains("is -e its address"), "{said}");
    }
    let reply = Server::start(&[UNFORMED]).await.call(10 * SECOND, &ApiRequest::get("/livez")).await.unwrap();
    assert_eq!(reply.body, b"done", "a node whose cluster has not formed yet can be looked at");
}

#[test]
fn what_is_left_behind_holds_up_no_command() {
    let connect = connect(vec!["http://127.0.0.1:1".to_owned()], SECOND);
    let args = crate::remote::RemoteArgs { connect, output: None };
    // A name server that does not answer delays a look-up in the same way.
    let (answer, answered) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let command = std::thread::spawn(move || {
        let code = crate::remote::run(&args, async |_| {
            tokio::task::spawn_blocking(move || answered.recv());
            Ok(())
        });
        tell.send(code).ok();
    });
    assert!(told.recv_timeout(20 * SECOND).is_ok(), "the command waits for it");
    drop(answer);
    command.join().unwrap();
}
