//! A scripted server that records its requests.

use fairhold_client::Client;
use fairhold_types::duration;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) key: Option<String>,
    /// How long the server may work on it.
    pub(crate) timeout: Duration,
    pub(crate) body: Value,
}

/// The cluster of these servers.
pub(crate) const CLUSTER: &str = "fairhold-cluster: 0123456789abcdef0123456789abcdef\r\n";

/// What the server does with a request.
pub(crate) enum Action {
    Answer(u16, &'static str, Value),
    /// The same with status 200, after a pause.
    Later(Duration, Value),
    /// A problem with status 401, after a pause.
    RefusedLater(Duration),
    /// The answer of a server that is not a node of this cluster.
    Foreign(u16, &'static str, String),
    Close,
    Hang,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) requests: Arc<Mutex<Vec<RecordedRequest>>>,
    arrived: Arc<Notify>,
}

type Script = dyn Fn(&RecordedRequest, usize) -> Action + Send + Sync;

impl Server {
    /// Serves by a script, which gets each request and the number of earlier requests with the same first line.
    pub(crate) async fn start(script: impl Fn(&RecordedRequest, usize) -> Action + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = Server { url, requests: Arc::default(), arrived: Arc::default() };
        let (serving, script): (Server, Arc<Script>) = (server.clone(), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream, Arc::clone(&script)));
            }
        });
        server
    }

    async fn serve(self, mut stream: TcpStream, script: Arc<Script>) {
        while let Some(request) = read(&mut stream).await {
            let before = {
                let mut all = self.requests.lock().expect("no thread panics while it holds the lock");
                all.push(request.clone());
                all.iter().filter(|one| one.line == request.line).count() - 1
            };
            self.arrived.notify_waiters();
            let (status, headers, body) = match script(&request, before) {
                Action::Answer(status, headers, body) => {
                    let body = if body.is_null() { String::new() } else { body.to_string() };
                    (status, format!("{CLUSTER}{headers}"), body)
                }
                Action::Later(pause, body) => {
                    // This is not a wait for the client: it plays a slow server.
                    let never = std::future::pending::<()>();
                    tokio::time::timeout(pause, never).await.expect_err("a pending future never completes");
                    (200, CLUSTER.to_owned(), body.to_string())
                }
                Action::RefusedLater(pause) => {
                    let never = std::future::pending::<()>();
                    tokio::time::timeout(pause, never).await.expect_err("a pending future never completes");
                    let body = json!({"code": "unauthenticated", "detail": "scripted", "credential": "expired"});
                    (401, CLUSTER.to_owned(), body.to_string())
                }
                Action::Foreign(status, headers, body) => (status, headers.to_owned(), body),
                Action::Close => return,
                Action::Hang => std::future::pending().await,
            };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for `count` requests whose first line starts with `beginning`.
    pub(crate) async fn wait_for_requests(&self, beginning: &str, count: usize) -> Vec<RecordedRequest> {
        let look = async {
            loop {
                let arrived = self.arrived.notified();
                let found = self.recorded(beginning);
                if found.len() >= count {
                    return found;
                }
                arrived.await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), look).await;
        found.unwrap_or_else(|_| panic!("not {count} of {beginning}: {:?}", self.recorded("")))
    }

    pub(crate) fn recorded(&self, beginning: &str) -> Vec<RecordedRequest> {
        self.requests
            .lock()
            .expect("no thread panics while it holds the lock")
            .iter()
            .filter(|one| one.line.starts_with(beginning))
            .cloned()
            .collect()
    }

    pub(crate) fn client(&self, timeout: Duration) -> Client {
        Client::builder().endpoint(&self.url).discover(false).timeout(timeout).build().expect("a client")
    }
}

async fn read(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).expect("a head of text");
    let header = |name: &str| {
        let found = text.lines().find_map(|line| line.split_once(": ").filter(|(known, _)| known.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let timeout = duration::parse(&header("fairhold-timeout").expect("every request has one")).expect("a time");
    Some(RecordedRequest {
        line: text.lines().next().expect("a first line").to_owned(),
        key: header("idempotency-key"),
        timeout,
        body,
    })
}

pub(crate) fn problem(status: u16, code: &str) -> Action {
    Action::Answer(status, "", json!({"code": code, "detail": "scripted"}))
}

/// Acknowledges a renewal, alone or in a batch, with this ttl.
pub(crate) fn renewed(request: &RecordedRequest, ttl: &str) -> Action {
    let of = |id: &str| json!({"id": id, "ttl": ttl, "expires_in": ttl, "expires_at": "then"});
    match request.body["calls"].as_array() {
        Some(calls) => {
            let ids = calls.iter().filter_map(|call| call["renew"]["id"].as_str());
            let answers: Vec<Value> = ids.map(|id| json!({"status": 200, "body": of(id)})).collect();
            Action::Answer(200, "", json!({ "answers": answers }))
        }
        None => Action::Answer(200, "", of(request.line.split('/').nth(3).unwrap_or_default())),
    }
}

pub(crate) fn held(request: &RecordedRequest) -> Action {
    let grant = json!({"id": request.key, "lock": "a", "state": "held", "token": 42, "mode": "exclusive", "owner": "o",
        "number": 41, "session": 40, "permits": 1, "queued_at": "now"});
    Action::Answer(200, "", grant)
}
