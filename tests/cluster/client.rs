//! A small client that follows the contract: it retries `503` and a refused connection freely, and `504` and a broken
//! connection with the same key at another node.

use crate::{
    harness::pass_time,
    leaderships::{self, Span},
};
use futures_util::future::BoxFuture;
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    sync::{Arc, Mutex, RwLock},
    time::{Duration, Instant},
};

/// A call without an answer within this time fails its test.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// The pause before the next round of attempts, once every node was tried.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// A fresh key: the id of a grant.
pub(crate) fn new_key() -> String {
    ulid::Ulid::generate().to_string()
}

/// One request, which may be sent several times.
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

    /// A POST with its own key, so that every retry is the same request.
    pub(crate) fn post(path: &str) -> Call {
        Call::new(Method::POST, path).with("idempotency-key", &new_key())
    }

    /// A PUT with its own key.
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

    /// Sets a header, replacing an earlier one with the same name.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Call {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Removes a header.
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

    /// Makes the write fail if this token is no longer current.
    pub(crate) fn fenced(self, lock: &str, token: u64) -> Call {
        self.with("fairhold-fence", &format!("{lock}={token}"))
    }

    /// Limits how long the client waits for an answer of one node.
    pub(crate) fn within(self, limit: Duration) -> Call {
        Call { limit: Some(limit), ..self }
    }
}

/// A node's answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The body if it is JSON, otherwise null.
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

    /// Whether the request must not be repeated: it was answered, or another request has replaced it.
    fn is_definite(&self) -> bool {
        !matches!(self.status, 503 | 504) || self.json["retryable"] == false
    }

    /// A problem's stable code; empty if the answer is no problem.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// The entries of a page.
    pub(crate) fn items(&self) -> &[Value] {
        self.json["items"].as_array().unwrap_or_else(|| panic!("no items: {self:?}"))
    }

    /// An integer field.
    pub(crate) fn number(&self, field: &str) -> u64 {
        whole(&self.json, field)
    }

    /// A string field.
    pub(crate) fn string(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_else(|| panic!("{field} is not a string: {self:?}"))
    }

    /// Returns the answer if it has that status, and panics otherwise.
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Returns the answer if it is a problem with that status and code, and panics otherwise.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Answer {
        assert_eq!((self.status, self.code()), (status, code), "{self:?}");
        self
    }
}

/// An integer field of a JSON object.
#[track_caller]
pub(crate) fn whole(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} is not an integer in {object}"))
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

/// A client that knows all nodes and prefers one.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// All copies of this client learn of a node that joins.
    urls: Arc<RwLock<Vec<String>>>,
    first: usize,
    /// When this client, or a copy of it, requested another leader; open until the answer.
    requests: Arc<Mutex<Vec<Span>>>,
}

impl Client {
    pub(crate) fn new(urls: Vec<String>) -> Client {
        // Shorter than the servers' limit: no request uses a connection that is just being closed. Without TLS, it takes no
        // time to read the authorities of the operating system.
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_idle_timeout(Duration::from_secs(2));
        let http = http.redirect(reqwest::redirect::Policy::none());
        Client {
            http: http.build().expect("an HTTP client"),
            urls: Arc::new(RwLock::new(urls)),
            first: 0,
            requests: Arc::default(),
        }
    }

    /// The same client from another address of this machine, with its own connections.
    pub(crate) fn bound_to(&self, address: IpAddr) -> Client {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).local_address(address);
        let http = http.pool_idle_timeout(Duration::from_secs(2));
        Client { http: http.build().expect("an HTTP client"), ..self.clone() }
    }

    /// The same client for servers with certificates of this authority.
    pub(crate) fn trusting(&self, authority: &[u8], urls: Vec<String>) -> Client {
        let authority = reqwest::Certificate::from_pem(authority).expect("a certificate");
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).pool_idle_timeout(Duration::from_secs(2));
        Client { http: http.build().expect("an HTTP client"), ..self.of(urls) }
    }

    /// The same client for these URLs.
    pub(crate) fn of(&self, urls: Vec<String>) -> Client {
        Client { urls: Arc::new(RwLock::new(urls)), ..self.clone() }
    }

    /// How many nodes it knows.
    pub(crate) fn nodes(&self) -> usize {
        self.urls.read().expect("the lock is not poisoned").len()
    }

    fn url(&self, node: usize) -> String {
        self.urls.read().expect("the lock is not poisoned")[node].clone()
    }

    /// One more node, as the last one.
    pub(crate) fn add(&self, url: &str) {
        self.urls.write().expect("the lock is not poisoned").push(url.to_owned());
    }

    /// The node is at another address from now on.
    pub(crate) fn move_node(&self, node: usize, url: &str) {
        url.clone_into(&mut self.urls.write().expect("the lock is not poisoned")[node]);
    }

    /// The same client with another preferred node. The connections are shared.
    pub(crate) fn beginning_with(&self, first: usize) -> Client {
        Client { first: first % self.nodes(), ..self.clone() }
    }

    /// When other leaders were requested.
    pub(crate) fn leader_requests(&self) -> Vec<Span> {
        self.requests.lock().expect("the mutex is not poisoned").clone()
    }

    /// Sends a call to one node, once.
    pub(crate) async fn send_to(&self, node: usize, call: &Call) -> Result<Answer, reqwest::Error> {
        if call.method != Method::POST || call.path != "/v1/cluster/leader" {
            return self.send_any(node, call).await;
        }
        let begun = Span::from_now();
        let asked = || self.requests.lock().expect("the mutex is not poisoned");
        // Open-ended while the result is unknown.
        asked().push(begun);
        let answer = self.send_any(node, call).await;
        asked().retain(|span| *span != begun);
        // A refused request changes nothing.
        if !answer.as_ref().is_ok_and(|answer| (400..500).contains(&answer.status)) {
            asked().push(Span { until: Some(leaderships::now()), ..begun });
        }
        answer
    }

    async fn send_any(&self, node: usize, call: &Call) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.request(call.method.clone(), format!("{}{}", self.url(node), call.path));
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

    /// Opens a streaming answer of one node, which continues as long as it is read.
    pub(crate) async fn stream_from(
        &self,
        node: usize,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut request = self.http.get(format!("{}{path}", self.url(node)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await
    }

    /// Sends a call to the preferred node once; a broken connection fails the test.
    pub(crate) async fn once(&self, call: &Call) -> Answer {
        let answer = self.send_to(self.first, call).await;
        answer.unwrap_or_else(|error| panic!("{} {} at {}: {error:?}", call.method, call.path, self.url(self.first)))
    }

    /// Sends a call until a node gives a definite answer.
    pub(crate) async fn send(&self, call: &Call) -> Answer {
        let started = Instant::now();
        let mut last = String::new();
        for tries in 0_usize.. {
            let nodes = self.nodes();
            let node = (self.first + tries) % nodes;
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
            if tries % nodes == nodes - 1 {
                pass_time(RETRY_AFTER).await;
            }
        }
        unreachable!("the loop has no end: {last}")
    }

    /// Waits for a lock until it is held. `parameters` is the query string.
    pub(crate) async fn acquire(&self, lock: &str, parameters: &str) -> Grant {
        self.acquire_with(&Call::post(&format!("/v1/locks/{lock}?{parameters}"))).await
    }

    /// Waits for a lock until it is held, with the given call.
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

    /// The public queue of a lock, in order.
    pub(crate) async fn queue(&self, lock: &str) -> Vec<Value> {
        self.pages(&format!("/v1/locks/{lock}/queue"), "items").await
    }

    /// All entries of a paged list.
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

    /// The public numbers of a lock's contenders, in order.
    pub(crate) async fn queue_numbers(&self, lock: &str) -> Vec<u64> {
        self.queue(lock).await.iter().map(|item| whole(item, "number")).collect()
    }

    /// The public numbers of a lock's holders.
    pub(crate) async fn holders(&self, lock: &str) -> Vec<u64> {
        self.pages(&format!("/v1/locks/{lock}"), "holders").await.iter().map(|holder| whole(holder, "number")).collect()
    }

    /// Whether the fence accepts a token.
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

    /// The value of a tree node.
    pub(crate) async fn value(&self, path: &str) -> String {
        self.send(&Call::get(&format!("/v1/nodes/{path}"))).await.expect_status(200).text
    }

    /// Writes a tree node, and expects success.
    pub(crate) async fn write(&self, call: &Call) -> Answer {
        let answer = self.send(call).await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer
    }
}
