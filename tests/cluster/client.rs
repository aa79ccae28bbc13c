//! A small client that keeps to the contract: `503` and a refused connection are retried freely, `504` and a broken
//! connection with the same key at another node.

use crate::{
    harness::{NODES, pass},
    leaderships::{self, Span},
};
use futures_util::future::BoxFuture;
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// A call that was not answered by then is given up, and its test fails.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// Before the next try, once every node was asked.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// A fresh key: a grant's id.
pub(crate) fn new_key() -> String {
    ulid::Ulid::generate().to_string()
}

/// One request, which may be sent more than once.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    limit: Option<Duration>,
}

impl Call {
    fn new(method: Method, path: &str) -> Call {
        Call { method, path: path.to_owned(), headers: Vec::new(), body: Vec::new(), limit: None }
    }

    pub(crate) fn get(path: &str) -> Call {
        Call::new(Method::GET, path)
    }

    /// A POST with a key of its own, so that every retry is the same request.
    pub(crate) fn post(path: &str) -> Call {
        Call::new(Method::POST, path).with("idempotency-key", &new_key())
    }

    /// A PUT with a key of its own.
    pub(crate) fn put(path: &str, body: impl Into<Vec<u8>>) -> Call {
        let call = Call::new(Method::PUT, path).with("idempotency-key", &new_key());
        Call { body: body.into(), ..call }
    }

    pub(crate) fn patch(path: &str) -> Call {
        Call::new(Method::PATCH, path)
    }

    pub(crate) fn delete(path: &str) -> Call {
        Call::new(Method::DELETE, path)
    }

    /// Sets a header, in place of an earlier one of that name.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Call {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Without a header of that name.
    pub(crate) fn without(mut self, name: &str) -> Call {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    /// With this key.
    pub(crate) fn key(self, key: &str) -> Call {
        self.with("idempotency-key", key)
    }

    /// With a JSON body.
    pub(crate) fn json(self, body: &Value) -> Call {
        Call { body: body.to_string().into_bytes(), ..self.with("content-type", "application/json") }
    }

    /// With this body.
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Call {
        Call { body: body.into(), ..self }
    }

    /// The write is refused where this token is no longer current.
    pub(crate) fn fenced(self, lock: &str, token: u64) -> Call {
        self.with("fairhold-fence", &format!("{lock}={token}"))
    }

    /// The client waits only so long for an answer of one node.
    pub(crate) fn within(self, limit: Duration) -> Call {
        Call { limit: Some(limit), ..self }
    }
}

/// What a node answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The body, where it is JSON; else null.
    pub(crate) json: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of ASCII"))
    }

    /// The revision that it reflects.
    pub(crate) fn revision(&self) -> u64 {
        let revision = self.header("fairhold-revision").unwrap_or_else(|| panic!("no Fairhold-Revision: {self:?}"));
        revision.parse().unwrap_or_else(|_| panic!("Fairhold-Revision: {revision}"))
    }

    /// Whether the same request is not to be repeated: it was answered, or its place is another one's.
    fn is_definite(&self) -> bool {
        !matches!(self.status, 503 | 504) || self.json["retryable"] == false
    }

    /// A problem's stable code; empty where it is none.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// A field that is a whole number.
    pub(crate) fn number(&self, field: &str) -> u64 {
        whole(&self.json, field)
    }

    /// A field that is a text.
    pub(crate) fn string(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_else(|| panic!("{field} is no text: {self:?}"))
    }

    /// Itself, where it has that status.
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Itself, where it is a problem of that status and code.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Answer {
        assert_eq!((self.status, self.code()), (status, code), "{self:?}");
        self
    }
}

/// A field of a JSON object that is a whole number.
#[track_caller]
pub(crate) fn whole(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} is no whole number in {object}"))
}

/// A grant that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) token: u64,
}

impl Grant {
    #[track_caller]
    pub(crate) fn from_answer(answer: &Answer) -> Grant {
        assert_eq!((answer.status, answer.json["state"].as_str()), (200, Some("held")), "{answer:?}");
        Grant { id: answer.string("id").to_owned(), number: answer.number("number"), token: answer.number("token") }
    }
}

/// A named session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) number: u64,
}

/// A caller that knows all nodes and prefers one.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    urls: Arc<[String]>,
    first: usize,
    /// When it, or a copy of it, asked for another leader, until it was answered.
    requests: Arc<Mutex<Vec<Span>>>,
}

impl Client {
    pub(crate) fn new(urls: Vec<String>) -> Client {
        // Given up before the servers do: no request goes out on a connection that is just being closed.
        let http = reqwest::Client::builder().no_proxy().pool_idle_timeout(Duration::from_secs(2));
        let http = http.redirect(reqwest::redirect::Policy::none());
        Client { http: http.build().expect("an HTTP client"), urls: urls.into(), first: 0, requests: Arc::default() }
    }

    /// The same from another address of this machine, on connections of its own.
    pub(crate) fn bound_to(&self, address: IpAddr) -> Client {
        let http = reqwest::Client::builder().no_proxy().local_address(address).pool_idle_timeout(Duration::from_secs(2));
        Client { http: http.build().expect("an HTTP client"), ..self.clone() }
    }

    /// The same for these addresses in place of its own.
    pub(crate) fn of(&self, urls: Vec<String>) -> Client {
        Client { urls: urls.into(), ..self.clone() }
    }

    /// The same with another preference. The connections are shared.
    pub(crate) fn beginning_with(&self, first: usize) -> Client {
        Client { first: first % NODES, ..self.clone() }
    }

    /// When other leaders were asked for.
    pub(crate) fn requests_for_a_leader(&self) -> Vec<Span> {
        self.requests.lock().expect("nobody panics with it").clone()
    }

    /// Sends a call to one node, once.
    pub(crate) async fn send_to(&self, node: usize, call: &Call) -> Result<Answer, reqwest::Error> {
        if call.method != Method::POST || call.path != "/v1/cluster/leader" {
            return self.send_any(node, call).await;
        }
        let begun = Span::from_now();
        let asked = || self.requests.lock().expect("nobody panics with it");
        // Without an end while nobody knows how it ends.
        asked().push(begun);
        let answer = self.send_any(node, call).await;
        asked().retain(|span| *span != begun);
        // One that was refused changes nothing.
        if !answer.as_ref().is_ok_and(|answer| (400..500).contains(&answer.status)) {
            asked().push(Span { until: Some(leaderships::now()), ..begun });
        }
        answer
    }

    async fn send_any(&self, node: usize, call: &Call) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.request(call.method.clone(), format!("{}{}", self.urls[node], call.path));
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(limit) = call.limit {
            request = request.timeout(limit);
        }
        if !call.body.is_empty() || call.method == Method::PUT {
            request = request.body(call.body.clone());
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = String::from_utf8_lossy(&response.bytes().await?).into_owned();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, json })
    }

    /// Opens an answer of one node that goes on, as long as it is read.
    pub(crate) async fn stream_from(
        &self,
        node: usize,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut request = self.http.get(format!("{}{path}", self.urls[node]));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await
    }

    /// Sends a call to the preferred node, once; a connection that breaks fails the test.
    pub(crate) async fn once(&self, call: &Call) -> Answer {
        let answer = self.send_to(self.first, call).await;
        answer.unwrap_or_else(|error| panic!("{} {} at {}: {error:?}", call.method, call.path, self.urls[self.first]))
    }

    /// Sends a call until a node gives a definite answer.
    pub(crate) async fn send(&self, call: &Call) -> Answer {
        let started = Instant::now();
        let mut last = String::new();
        for tries in 0_usize.. {
            let node = (self.first + tries) % NODES;
            match self.send_to(node, call).await {
                Ok(answer) if answer.is_definite() => return answer,
                Ok(answer) => last = format!("{} {}", answer.status, answer.text),
                Err(error) => last = format!("{error:?}"),
            }
            assert!(
                started.elapsed() < ANSWER_WITHIN,
                "{} {}: no answer within {ANSWER_WITHIN:?}, {tries} tries; the last: {last}",
                call.method,
                call.path
            );
            if node == (self.first + NODES - 1) % NODES {
                pass(RETRY_AFTER).await;
            }
        }
        unreachable!("there is always one more try: {last}")
    }

    /// Waits for a lock until it is held. `parameters` is what stands after the `?`.
    pub(crate) async fn acquire(&self, lock: &str, parameters: &str) -> Grant {
        self.acquire_with(&Call::post(&format!("/v1/locks/{lock}?{parameters}"))).await
    }

    /// Waits for a lock until it is held, by a call of the caller's making.
    pub(crate) async fn acquire_with(&self, call: &Call) -> Grant {
        Grant::from_answer(&self.send(call).await)
    }

    /// Releases a grant.
    pub(crate) async fn release(&self, id: &str) -> Answer {
        self.send(&Call::delete(&format!("/v1/grants/{id}"))).await.expect_status(204)
    }

    /// Opens a named session.
    pub(crate) async fn open_session(&self, ttl: &str, name: &str) -> Session {
        let call = Call::post("/v1/sessions").json(&json!({"ttl": ttl, "name": name}));
        let answer = self.send(&call).await.expect_status(201);
        Session { id: answer.string("id").to_owned(), number: answer.number("number") }
    }

    /// Renews a named session.
    pub(crate) fn keepalive(&self, session: &Session) -> BoxFuture<'_, Answer> {
        let call = Call::post(&format!("/v1/sessions/{}/keepalive", session.id));
        Box::pin(async move { self.send(&call).await })
    }

    /// The queue of a lock, in order, as everybody sees it.
    pub(crate) async fn queue(&self, lock: &str) -> Vec<Value> {
        self.pages(&format!("/v1/locks/{lock}/queue"), "items").await
    }

    /// All entries of a list that comes in pages.
    async fn pages(&self, path: &str, list: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.send(&Call::get(&format!("{path}?limit=1000{cursor}"))).await.expect_status(200);
            all.extend(page.json[list].as_array().unwrap_or_else(|| panic!("no {list}: {page:?}")).iter().cloned());
            match page.json["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// The public numbers of those who stand for a lock, in order.
    pub(crate) async fn queue_numbers(&self, lock: &str) -> Vec<u64> {
        self.queue(lock).await.iter().map(|item| whole(item, "number")).collect()
    }

    /// The public numbers of those who hold a lock.
    pub(crate) async fn holders(&self, lock: &str) -> Vec<u64> {
        self.pages(&format!("/v1/locks/{lock}"), "holders").await.iter().map(|holder| whole(holder, "number")).collect()
    }

    /// Whether a fence lets a token pass.
    pub(crate) async fn fence_passes(&self, lock: &str, token: u64) -> bool {
        let answer = self.send(&Call::get(&format!("/v1/locks/{lock}/fence?token={token}"))).await;
        match answer.status {
            200 => true,
            409 => {
                assert_eq!(answer.code(), "stale_token", "{answer:?}");
                false
            }
            _ => panic!("{answer:?}"),
        }
    }

    /// A node's value.
    pub(crate) async fn value(&self, path: &str) -> String {
        self.send(&Call::get(&format!("/v1/nodes/{path}"))).await.expect_status(200).text
    }

    /// Writes a node and expects that it was written.
    pub(crate) async fn write(&self, call: &Call) -> Answer {
        let answer = self.send(call).await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer
    }
}
