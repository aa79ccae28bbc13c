//! HTTP requests to a whole node, from the router to the state machine: any request gets an answer that the contract
//! allows, and the node still works afterwards.
//!
//! A `$` and a letter stand for a value from an earlier answer, `$a` for the newest, so that requests name existing
//! things.

use crate::memory::start_node;
use axum::{body::Body, response::Response};
use fairhold_http::{Admin, ApiService, Audit, Authenticator, Dashboard, Exposition, HttpPeer, ServerInfo, router};
use fairhold_raft::Replica;
use fairhold_types::dto::Host;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use openraft_rt_tokio::TokioRuntime;
use serde_json::Value;
use std::{
    cell::RefCell,
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// A node is replaced after this many requests, so that results do not depend on all earlier requests.
const REQUESTS_PER_NODE: usize = 2_000;
/// A waiting request is dropped after this, like a client that disconnects.
const PATIENCE: Duration = Duration::from_millis(20);
/// Any other request is answered within this time, even on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// Texts in the target, the headers or the body of requests whose answers may wait, or never end.
const WAITS: [&str; 6] = ["wait", "stream", "watch", "after", "min-revision", "leader"];
/// The longest answer that is not a stream.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many values from answers are kept.
const VALUES_MAX: usize = 26;
/// The longest value: longer texts are explanations.
const VALUE_BYTES_MAX: usize = 200;

struct Server {
    runtime: Runtime,
    api: ApiService,
    replica: Replica<TokioRuntime>,
    served: usize,
    /// Ids, names, paths and numbers from answers, the newest first.
    values: VecDeque<String>,
}

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// The bytes are roughly a request in HTTP/1.1: `POST /v1/locks/a?wait=1s`, header lines, an empty line, a body.
pub fn run(bytes: &[u8]) {
    SERVER.with_borrow_mut(|slot| {
        // A server is not used again after a failed request.
        let mut server = slot.take().unwrap_or_else(Server::start);
        server.take(bytes);
        if server.served < REQUESTS_PER_NODE {
            *slot = Some(server);
        } else {
            server.runtime.shutdown_background();
        }
    });
}

impl Server {
    fn start() -> Server {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime can be had");
        let (node, replica) = runtime.block_on(start_node());
        let info = ServerInfo { version: "fuzz", host: Host::default, insecure: Vec::new };
        let authenticator = Authenticator::new(Admin::open());
        let api = router(node, info, Dashboard::BuiltIn, authenticator, Exposition::default(), Audit::off());
        Server { runtime, api, replica, served: 0, values: VecDeque::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        let bytes = self.named(bytes);
        let Some(request) = request(&bytes) else { return };
        self.served += 1;
        let shown = format!("{} {}", request.method(), request.uri());
        let patience = if may_wait(&bytes) { PATIENCE } else { ANSWERED_WITHIN };
        let answered = self.api.call(request);
        let answer = self.runtime.block_on(async { tokio::time::timeout(patience, answered).await });
        match answer {
            Ok(answer) => {
                let body = self.runtime.block_on(check(&shown, answer));
                self.remember(&body);
            }
            Err(_) => assert_eq!(patience, PATIENCE, "{shown} was not answered"),
        }
        self.probe(&shown);
    }

    /// Replaces each `$` and its letter by a value from an answer.
    fn named(&self, bytes: &[u8]) -> Vec<u8> {
        let mut named = Vec::with_capacity(bytes.len());
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            match rest.as_slice().first().filter(|letter| *byte == b'$' && letter.is_ascii_lowercase()) {
                Some(letter) if !self.values.is_empty() => {
                    named.extend_from_slice(self.values[usize::from(letter - b'a') % self.values.len()].as_bytes());
                    rest.next();
                }
                Some(_) | None => named.push(*byte),
            }
        }
        named
    }

    fn remember(&mut self, value: &Value) {
        let text = match value {
            Value::Array(all) => return all.iter().for_each(|one| self.remember(one)),
            Value::Object(all) => return all.values().for_each(|one| self.remember(one)),
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) => return,
        };
        if text.len() <= VALUE_BYTES_MAX && !self.values.contains(&text) {
            self.values.truncate(VALUES_MAX - 1);
            self.values.push_front(text);
        }
    }

    /// Checks that the node writes, reads its write, and has a consistent state.
    fn probe(&self, after: &str) {
        let ask = |method: Method, target: &str| {
            let request = Request::builder().method(method).uri(target).extension(from_here());
            let answered = self.api.call(request.body(Body::from("here")).expect("a fixed request"));
            let answer = self.runtime.block_on(async { tokio::time::timeout(ANSWERED_WITHIN, answered).await });
            let status = answer.map(|answer| answer.status());
            assert!(status.as_ref().is_ok_and(StatusCode::is_success), "after {after}: {target} was answered with {status:?}");
        };
        ask(Method::GET, "/livez");
        ask(Method::PUT, "/v1/nodes/probe");
        ask(Method::GET, "/v1/nodes/probe");
        if let Err(wrong) = self.replica.read(fairhold_state::State::check) {
            panic!("after {after}: {wrong}");
        }
    }
}

fn from_here() -> HttpPeer {
    HttpPeer::at(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Whether the answer may take long, or be a stream. A meaningless word makes this true as well.
fn may_wait(bytes: &[u8]) -> bool {
    // As the router decodes a target.
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    WAITS.iter().any(|word| text.contains(word)) || text.contains('%') || text.contains("\\u")
}

/// Parses a head; `None` if it is not HTTP: then it never reaches the router.
fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let (head, body) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let (method, target) = first.split_at_checked(first.iter().position(|byte| *byte == b' ')?)?;
    let mut request = Request::builder().method(method).uri(target.get(1..)?);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line.get(colon + 1..)?.trim_ascii());
    }
    request.extension(from_here()).body(Body::from(body.to_vec())).ok()
}

/// Checks an answer, and returns its body if it is JSON.
async fn check(request: &str, answer: Response) -> Value {
    let status = answer.status();
    assert!(answer.headers().contains_key("fairhold-request-id"), "{request}: {status} without a request id");
    let failed = status.is_client_error() || status.is_server_error();
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{request}");
    let kind = answer.headers().get(CONTENT_TYPE).cloned();
    let is_json = kind.as_ref().is_some_and(|kind| kind == "application/json");
    if request.starts_with("HEAD ") || !(failed || is_json) {
        return Value::Null;
    }
    let read = tokio::time::timeout(ANSWERED_WITHIN, Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect());
    let body = read.await.expect("an answer ends").expect("an answer is short").to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{request}: {status} {body:?}: {error}"));
    if failed {
        assert_eq!(kind.expect("a problem has a type"), "application/problem+json", "{request}: {status} {body}");
        assert_eq!(body["status"], status.as_u16(), "{request}: {body}");
        for text in ["code", "title", "detail"] {
            assert!(body[text].as_str().is_some_and(|text| !text.is_empty()), "{request}: no {text} in {body}");
        }
        assert!(body["retryable"].is_boolean(), "{request}: {body}");
        return Value::Null;
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_node_that_no_longer_serves_is_found_after_any_request() {
        let mut server = Server::start();
        server.take(b"GET /version");
        server.runtime.block_on(server.replica.shutdown());
        assert!(catch_unwind(AssertUnwindSafe(|| server.take(b"GET /version"))).is_err());
    }

    #[test]
    fn a_request_can_name_a_value_from_an_earlier_answer() {
        let mut server = Server::start();
        server.take(b"POST /v1/locks/a?ttl=1m");
        assert!(server.values.iter().any(|value| value == "a"), "{:?}", server.values);
        server.take(b"POST /v1/sessions");
        let is_session = |value: &String| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(server.values.iter().any(is_session), "{:?}", server.values);
        server.values = VecDeque::from(["/v1/nodes/b".to_owned(), "b".to_owned()]);
        assert_eq!(server.named(b"PUT $a $b $ $1 $c"), b"PUT /v1/nodes/b b $ $1 /v1/nodes/b");
    }

    #[test]
    fn only_a_request_that_says_so_may_wait() {
        assert!(may_wait(b"POST /v1/locks/a?Wait=1s") && may_wait(b"GET /v1/locks/a\nFairhold-Min-Revision: 9\n"));
        assert!(!may_wait(b"POST /v1/locks/a") && !may_wait(b"PATCH /v1/locks/a\n\n{\"limit\":3}"));
    }
}
