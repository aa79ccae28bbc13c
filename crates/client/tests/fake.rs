//! The client against a server that fails as it is told to: what is repeated, with which key, and what the caller hears.

use fairhold_client::{Client, Error, Lost, margin};
use futures_util::future::poll_immediate;
use serde_json::{Value, json};
use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// A request, as it arrived.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    key: Option<String>,
    body: Value,
}

/// What the server does with it.
enum Act {
    Answer(u16, &'static str, Value),
    Close,
    Hang,
}

#[derive(Clone)]
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    arrived: Arc<Notify>,
}

type Script = dyn Fn(&Seen, usize) -> Act + Send + Sync;

impl Server {
    /// Serves by a script, which is told how many requests with the same beginning came before.
    async fn start(script: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = Server { url, seen: Arc::default(), arrived: Arc::default() };
        let (serving, script): (Server, Arc<Script>) = (server.clone(), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().talk(stream, Arc::clone(&script)));
            }
        });
        server
    }

    async fn talk(self, mut stream: TcpStream, script: Arc<Script>) {
        while let Some(seen) = read(&mut stream).await {
            let before = {
                let mut all = self.seen.lock().expect("nobody panics with it");
                all.push(seen.clone());
                all.iter().filter(|one| one.line == seen.line).count() - 1
            };
            self.arrived.notify_waiters();
            match script(&seen, before) {
                Act::Answer(status, headers, body) => {
                    let body = if body.is_null() { String::new() } else { body.to_string() };
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
                    if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
                Act::Close => return,
                Act::Hang => std::future::pending().await,
            }
        }
    }

    /// The requests whose first line begins so, once there are so many.
    async fn until(&self, beginning: &str, count: usize) -> Vec<Seen> {
        let look = async {
            loop {
                let arrived = self.arrived.notified();
                let found = self.now(beginning);
                if found.len() >= count {
                    return found;
                }
                arrived.await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), look).await;
        found.unwrap_or_else(|_| panic!("not {count} of {beginning}: {:?}", self.now("")))
    }

    fn now(&self, beginning: &str) -> Vec<Seen> {
        self.seen.lock().expect("nobody panics with it").iter().filter(|one| one.line.starts_with(beginning)).cloned().collect()
    }

    fn client(&self, timeout: Duration) -> Client {
        Client::builder().endpoint(&self.url).discover(false).timeout(timeout).build().expect("a client")
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
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
    Some(Seen { line: text.lines().next().expect("a first line").to_owned(), key: header("idempotency-key"), body })
}

fn problem(status: u16, code: &str) -> Act {
    Act::Answer(status, "", json!({"code": code, "detail": "as told"}))
}

fn held(seen: &Seen) -> Act {
    let grant = json!({"id": seen.key, "lock": "a", "state": "held", "token": 42, "mode": "exclusive", "owner": "o", "number": 41,
        "session": 40, "permits": 1, "queued_at": "now"});
    Act::Answer(200, "", grant)
}

fn written() -> Act {
    Act::Answer(201, "", json!({"path": "/x", "version": 0, "revision": 7}))
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_write_is_repeated_with_the_same_key_and_not_before_the_server_wants_it() {
    let server = Server::start(|_, before| match before {
        0 => Act::Close,
        1 => Act::Answer(503, "retry-after: 1\r\n", json!({"code": "no_quorum", "detail": "d"})),
        2 => Act::Answer(504, "", json!({"code": "deadline_exceeded", "detail": "d", "outcome": "unknown"})),
        _ => written(),
    })
    .await;
    let client = server.client(20 * SECOND);
    let begun = Instant::now();
    let written = client.nodes().put("/x", "1").await.unwrap();
    assert_eq!(written.revision.0, 7);
    assert!(begun.elapsed() >= SECOND, "Retry-After was passed over: {:?}", begun.elapsed());
    let keys: Vec<_> = server.now("PUT").into_iter().map(|seen| seen.key.unwrap()).collect();
    assert_eq!(keys, vec![keys[0].clone(); 4], "four tries of one request");
    client.nodes().put("/x", "1").await.unwrap();
    assert_ne!(server.now("PUT")[4].key.as_ref(), Some(&keys[0]), "another request has another key");
}

#[tokio::test]
async fn what_may_have_happened_is_told_from_what_surely_did_not() {
    let breaks = Server::start(|_, _| Act::Close).await;
    let unknown = breaks.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    let Error::OutcomeUnknown { key: Some(key), .. } = unknown else { panic!("{unknown:?}") };
    assert_eq!(breaks.now("PUT")[0].key, Some(key.to_string()));
    let read = breaks.client(SECOND / 2).nodes().get("/x").await.unwrap_err();
    assert!(matches!(read, Error::Unavailable { .. }), "a read does nothing: {read:?}");

    let none = Server::start(|_, _| problem(503, "no_quorum")).await;
    let surely_not = none.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(surely_not, Error::Unavailable { .. }) && surely_not.is_retryable(), "{surely_not:?}");
    let busy = Server::start(|_, _| problem(429, "rate_limited")).await;
    let busy = busy.client(SECOND / 2).nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy:?}");
    let nobody = Client::builder().endpoint("http://127.0.0.1:1").timeout(SECOND / 2).build().unwrap();
    let nobody = nobody.nodes().put("/x", "1").await.unwrap_err();
    assert!(matches!(nobody, Error::Unavailable { .. }), "{nobody:?}");
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let server = Server::start(|seen, _| match seen.line.starts_with("POST") {
        true => problem(409, "lock_held"),
        false => problem(412, "version_mismatch"),
    })
    .await;
    let client = server.client(10 * SECOND);
    assert!(matches!(client.lock("a").try_now().await, Err(Error::LockHeld { .. })));
    assert!(matches!(client.nodes().put("/x", "1").version(3).await, Err(Error::VersionMismatch { .. })));
    assert!(matches!(client.lock("a//b").await, Err(Error::Invalid(_))));
    client.settled().await;
    assert_eq!(server.seen.lock().unwrap().len(), 2, "nothing was repeated, and there was nothing to take back");
}

#[tokio::test]
async fn a_broken_acquire_is_asked_again_with_its_key_and_an_ended_one_with_another() {
    let server = Server::start(|seen, before| match before {
        0 => Act::Close,
        1 => Act::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "expired"})),
        _ => held(seen),
    })
    .await;
    let guard = server.client(10 * SECOND).lock("a").await.unwrap();
    assert_eq!(guard.token().unwrap().0, 42);
    let keys: Vec<_> = server.now("POST /v1/locks").into_iter().map(|seen| seen.key.unwrap()).collect();
    assert_eq!((keys.len(), keys[0] == keys[1], keys[1] == keys[2]), (3, true, false));
    assert_eq!(server.now("POST /v1/locks")[0].body["ttl"], "30s");
}

#[tokio::test]
async fn a_guard_whose_renewals_get_no_answer_is_lost_before_its_ttl_and_given_back() {
    let server = Server::start(|seen, _| match &seen.line {
        line if line.starts_with("POST /v1/locks") => held(seen),
        line if line.starts_with("DELETE") => Act::Answer(204, "", Value::Null),
        _ => Act::Hang,
    })
    .await;
    let client = server.client(10 * SECOND);
    let before = Instant::now();
    let guard = client.lock("a").ttl(2 * SECOND).await.unwrap();
    assert_eq!(guard.lost().await, Lost::CutOff);
    let after = before.elapsed();
    assert!(after <= 2 * SECOND - margin(2 * SECOND) + SECOND / 2, "it was lost only after {after:?}");
    assert_eq!(guard.token(), Err(Error::Lost(Lost::CutOff)));
    let renewals = server.now("POST /v1/grants");
    assert!(renewals.len() >= 2, "one node that hangs is asked again: {renewals:?}");
    drop(guard);
    assert_eq!(server.until("DELETE", 1).await.len(), 1);
}

#[tokio::test]
async fn work_under_a_lock_is_dropped_when_the_lock_is_lost() {
    let server = Server::start(|seen, _| match &seen.line {
        line if line.starts_with("POST /v1/locks") => held(seen),
        line if line.starts_with("DELETE") => Act::Answer(204, "", Value::Null),
        _ => Act::Answer(410, "", json!({"code": "grant_gone", "detail": "d", "reason": "broken"})),
    })
    .await;
    let work = server.client(10 * SECOND).lock("a").ttl(SECOND).run(|_| std::future::pending::<()>()).await;
    assert_eq!(work, Err(Error::Lost(Lost::Broken)));
}

#[tokio::test]
async fn a_silent_node_is_left_for_another_with_the_same_key() {
    let silent = Server::start(|_, _| Act::Hang).await;
    let server = Server::start(|seen, _| held(seen)).await;
    let mut posts_at_silent = 0;
    // Nodes are asked in turn, so one of two begins with the silent one.
    let client = Client::builder().endpoint(&silent.url).endpoint(&server.url).discover(false).build().unwrap();
    for _ in 0..2 {
        let guard = client.lock("a").ttl(2 * SECOND).await.unwrap();
        let keys = server.now("POST /v1/locks");
        let asked = silent.now("POST /v1/locks");
        if asked.len() > posts_at_silent {
            posts_at_silent = asked.len();
            assert_eq!(asked[posts_at_silent - 1].key, keys[keys.len() - 1].key);
        }
        guard.forget();
    }
    assert!(posts_at_silent > 0, "the silent node was never asked");
}

#[tokio::test]
async fn an_acquire_dropped_before_its_answer_is_taken_back_and_one_never_sent_is_not() {
    let server = Server::start(|seen, before| match &seen.line {
        line if line.starts_with("POST") => Act::Hang,
        // The first tries to take it back fail.
        _ if before < 2 => Act::Close,
        _ => Act::Answer(204, "", Value::Null),
    })
    .await;
    let client = server.client(10 * SECOND);
    drop(client.lock("a").into_future());
    client.settled().await;
    assert!(server.seen.lock().unwrap().is_empty());

    let mut acquire = client.lock("a").into_future();
    assert!(poll_immediate(&mut acquire).await.is_none());
    {
        let mut acquire = pin!(&mut acquire);
        tokio::select! {
            _ = acquire.as_mut() => panic!("nobody answers"),
            posts = server.until("POST /v1/locks", 1) => assert_eq!(posts.len(), 1),
        }
    }
    drop(acquire);
    client.settled().await;
    let key = server.now("POST /v1/locks")[0].key.clone().unwrap();
    let deletes = server.now("DELETE");
    assert_eq!(deletes.len(), 3, "{deletes:?}");
    assert!(deletes.iter().all(|seen| seen.line.contains(&key)));
}
