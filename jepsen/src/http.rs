//! Sends one request to one node once, and reports its outcome. Nothing is retried here: a retry would hide what
//! happened.

use crate::history::Outcome;
use parking_lot::Mutex;
use reqwest::{Method, header::HeaderMap};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The timeout of a connection attempt.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);

/// An HTTP client for all nodes. A node is named by its machine.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// Its connections. All copies of this client get others when the trusted authorities change.
    client: Arc<Mutex<reqwest::Client>>,
    /// The header that shows who sends the requests.
    authorization: Option<Arc<str>>,
    /// The URL of each machine.
    urls: Arc<[String]>,
    /// The machines whose nodes are members, in order: all clients know them.
    serving: Arc<Mutex<Vec<usize>>>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<String>,
    limit: Duration,
}

/// The result of a request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// Whether the call took effect.
    pub(crate) outcome: Outcome,
    /// The status; 0 without an answer.
    pub(crate) status: u16,
    /// The body if it is JSON; otherwise null.
    pub(crate) json: Value,
    /// The body as received.
    pub(crate) text: String,
    headers: HeaderMap,
    /// A short description, unless the call succeeded.
    pub(crate) error: Option<String>,
}

impl Request {
    fn new(method: Method, path: impl Into<String>) -> Request {
        Request { method, path: path.into(), headers: Vec::new(), body: None, limit: Duration::from_secs(3) }
    }

    pub(crate) fn get(path: impl Into<String>) -> Request {
        Request::new(Method::GET, path)
    }

    /// A POST with a key, so that the server recognizes a repetition.
    pub(crate) fn post(path: impl Into<String>, key: &str) -> Request {
        Request::new(Method::POST, path).header("idempotency-key", key)
    }

    /// A PUT with a key.
    pub(crate) fn put(path: impl Into<String>, key: &str, body: impl Into<String>) -> Request {
        let request = Request::new(Method::PUT, path).header("idempotency-key", key);
        Request { body: Some(body.into()), ..request }
    }

    /// A PUT without a body and without a key.
    pub(crate) fn put_without_key(path: impl Into<String>) -> Request {
        Request::new(Method::PUT, path)
    }

    /// A PATCH with a key.
    pub(crate) fn patch(path: impl Into<String>, key: &str) -> Request {
        Request::new(Method::PATCH, path).header("idempotency-key", key)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Request {
        Request::new(Method::DELETE, path)
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }

    /// With a body of JSON.
    pub(crate) fn json(self, body: &Value) -> Request {
        Request { body: Some(body.to_string()), ..self.header("content-type", "application/json") }
    }

    /// The timeout of the server; the client waits a little longer for the answer.
    pub(crate) fn within(self, work: Duration, wait: Duration) -> Request {
        let request = self.header("fairhold-timeout", format!("{}ms", work.as_millis()));
        Request { limit: work + wait + Duration::from_millis(500), ..request }
    }
}

impl Reply {
    /// The stable code of an error; empty if there is none.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// The revision that the answer reflects.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.header("fairhold-revision")?.parse().ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The version in the `ETag`.
    pub(crate) fn version(&self) -> Option<i64> {
        self.header("etag")?.trim_matches('"').parse().ok()
    }

    /// The result of one call of a batch.
    pub(crate) fn of_part(answer: &Value) -> Reply {
        let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
        let text = answer.get("body").map(Value::to_string).unwrap_or_default();
        meaning(status, HeaderMap::new(), text)
    }

    fn nothing(outcome: Outcome, error: String) -> Reply {
        let (headers, text) = (HeaderMap::new(), String::new());
        Reply { outcome, status: 0, json: Value::Null, text, headers, error: Some(error) }
    }
}

impl Http {
    /// A client with its own connections to the machines at these addresses, machine 1 first. These machines serve.
    pub(crate) fn new(urls: Vec<String>, serving: Vec<usize>) -> Result<Http, String> {
        let client = Arc::new(Mutex::new(connections("")?));
        Ok(Http { client, authorization: None, urls: urls.into(), serving: Arc::new(Mutex::new(serving)) })
    }

    /// From now on all copies of this client trust servers with certificates of these authorities, and no others.
    pub(crate) fn trust(&self, authorities: &str) -> Result<(), String> {
        *self.client.lock() = connections(authorities)?;
        Ok(())
    }

    /// A client with the same connections that shows this token.
    pub(crate) fn with_token(&self, token: &str) -> Http {
        Http { authorization: Some(bearer(token).into()), ..self.clone() }
    }

    /// The same without a token.
    pub(crate) fn without_token(&self) -> Http {
        Http { authorization: None, ..self.clone() }
    }

    /// The machines whose nodes are members.
    pub(crate) fn serving(&self) -> Vec<usize> {
        self.serving.lock().clone()
    }

    /// From now on these machines serve, for all copies of this client.
    pub(crate) fn set_serving(&self, machines: Vec<usize>) {
        *self.serving.lock() = machines;
    }

    /// The first serving machine from this one on, in a circle.
    pub(crate) fn serving_from(&self, machine: usize) -> usize {
        let serving = self.serving.lock();
        serving.iter().find(|other| **other >= machine).or(serving.first()).copied().unwrap_or(machine)
    }

    /// Sends a request, and reads only the head of the answer.
    pub(crate) async fn open(&self, node: usize, request: &Request) -> Result<reqwest::Response, reqwest::Error> {
        let client = self.client.lock().clone();
        let mut sent = client.request(request.method.clone(), format!("{}{}", self.urls[node - 1], request.path));
        if let Some(authorization) = &self.authorization {
            sent = sent.header("authorization", authorization.as_ref());
        }
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        match &request.body {
            Some(body) => sent.body(body.clone()).send().await,
            None => sent.send().await,
        }
    }

    /// Sends a request to a node once.
    pub(crate) async fn ask(&self, node: usize, request: &Request) -> Reply {
        let reply = async {
            let mut response = self.open(node, request).await?;
            let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
            Ok::<_, reqwest::Error>((status, headers, response.text().await?))
        };
        match tokio::time::timeout(request.limit, reply).await {
            Ok(Ok((status, headers, text))) => meaning(status, headers, text),
            Ok(Err(error)) if error.is_connect() => Reply::nothing(Outcome::Fail, "no connection".to_owned()),
            Ok(Err(_)) => Reply::nothing(Outcome::Unknown, "the connection broke".to_owned()),
            Err(_) => Reply::nothing(Outcome::Unknown, "no answer in time".to_owned()),
        }
    }
}

/// The value of the header `authorization`.
pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A pool of connections that trusts these authorities.
fn connections(authorities: &str) -> Result<reqwest::Client, String> {
    let unusable = |error: reqwest::Error| format!("no HTTP client: {error}");
    let authorities = reqwest::Certificate::from_pem_bundle(authorities.as_bytes()).map_err(unusable)?;
    let client = reqwest::Client::builder().connect_timeout(CONNECT_WITHIN).tcp_nodelay(true).no_proxy();
    client.tls_certs_only(authorities).build().map_err(unusable)
}

/// The outcome of an answer by the contract: docs/guarantees.md, "What an error means for you".
fn meaning(status: u16, headers: HeaderMap, text: String) -> Reply {
    let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    let outcome = match (status, json["outcome"].as_str()) {
        (200..=399, _) => Outcome::Ok,
        (503, Some("unknown")) | (504, Some("unknown") | None) => Outcome::Unknown,
        (503 | 504, _) | (400..=499, _) => Outcome::Fail,
        (_, _) => Outcome::Unknown,
    };
    let error = (outcome != Outcome::Ok).then(|| format!("{status} {}", json["code"].as_str().unwrap_or_default()));
    Reply { outcome, status, json, text, headers, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_serving_machine_is_found_in_a_circle_and_all_copies_learn_of_changes() {
        let http = Http::new(vec!["http://a".to_owned(); 5], vec![1, 2, 3]).unwrap();
        let copy = http.clone();
        http.set_serving(vec![2, 3, 4]);
        assert_eq!(copy.serving(), [2, 3, 4]);
        assert_eq!([1, 2, 4, 5].map(|machine| copy.serving_from(machine)), [2, 2, 4, 2]);
    }

    #[test]
    fn an_answer_with_an_unknown_outcome_never_counts_as_a_failure() {
        let outcome = |status, text: &str| meaning(status, HeaderMap::new(), text.to_owned()).outcome;
        assert_eq!(outcome(200, "{}"), Outcome::Ok);
        assert_eq!(outcome(204, ""), Outcome::Ok);
        assert_eq!(outcome(409, r#"{"code":"lock_held"}"#), Outcome::Fail);
        assert_eq!(outcome(503, r#"{"code":"no_quorum"}"#), Outcome::Fail);
        assert_eq!(outcome(503, r#"{"code":"shutting_down","outcome":"unknown"}"#), Outcome::Unknown);
        assert_eq!(outcome(504, r#"{"outcome":"none"}"#), Outcome::Fail);
        assert_eq!(outcome(504, r#"{"outcome":"unknown"}"#), Outcome::Unknown);
        assert_eq!(outcome(504, "from a proxy"), Outcome::Unknown);
        assert_eq!(outcome(500, "{}"), Outcome::Unknown);
        // A call of a batch without an answer.
        assert_eq!(Reply::of_part(&Value::Null).outcome, Outcome::Unknown);
    }
}
