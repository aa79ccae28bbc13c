//! A request as the commands build it, and what its answer means.

use super::{
    failure::{Failure, has_code},
    reply::ApiReply,
};
use fairhold_client::{Client, Method, RawCall, RawReply, StatusCode};
use fairhold_types::Code;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;

/// The characters that a URL path keeps unchanged.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes one segment of a URL path.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, &PLAIN).to_string()
}

/// The URL path of a node of the tree.
pub(crate) fn node_path(path: &str) -> String {
    let levels: Vec<String> = path.trim_start_matches('/').split('/').map(encode).collect();
    format!("/v1/nodes/{}", levels.join("/"))
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    /// Names and values; a flag has no value.
    query: Vec<(String, Option<String>)>,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    /// How long the server may hold back the answer, over all attempts.
    wait: Option<Duration>,
    /// Waits for a change after this revision.
    after: Option<u64>,
    /// A key with which a person can repeat the request.
    known_key: Option<String>,
    /// The refusal that an earlier attempt causes if it was carried out without an answer.
    done_by: Option<Code>,
}

impl ApiRequest {
    /// A read.
    pub(crate) fn get(path: impl Into<String>) -> ApiRequest {
        ApiRequest {
            method: Method::GET,
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            wait: None,
            after: None,
            known_key: None,
            done_by: None,
        }
    }

    /// A change, with a new idempotency key.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> ApiRequest {
        ApiRequest::unkeyed(method, path).header("idempotency-key", ulid::Ulid::generate().to_string())
    }

    /// A change by a command that can be repeated with the key of an earlier one; `key` is that key.
    pub(crate) fn keyed(method: Method, path: impl Into<String>, key: Option<&str>) -> ApiRequest {
        let key = key.map_or_else(|| ulid::Ulid::generate().to_string(), str::to_owned);
        let request = ApiRequest::unkeyed(method, path).header("idempotency-key", key.clone());
        ApiRequest { known_key: Some(key), ..request }
    }

    /// A change by a call that takes no key. Repeating it must be harmless.
    pub(crate) fn unkeyed(method: Method, path: impl Into<String>) -> ApiRequest {
        ApiRequest { method, ..ApiRequest::get(path) }
    }

    /// Takes this refusal as success if an earlier attempt, whose answer was lost, may have caused it.
    pub(crate) fn done_by(self, code: Code) -> ApiRequest {
        ApiRequest { done_by: Some(code), ..self }
    }

    /// The request for the next page of a list: it does not wait again.
    pub(crate) fn next_page(self) -> ApiRequest {
        ApiRequest { wait: None, after: None, ..self }
    }

    /// Lets the server wait for at most this long.
    pub(crate) fn wait(self, wait: Option<Duration>) -> ApiRequest {
        ApiRequest { wait, ..self }
    }

    /// Waits for a change after this revision.
    pub(crate) fn after(self, after: Option<u64>) -> ApiRequest {
        ApiRequest { after, ..self }
    }

    /// Adds a parameter if it has a value.
    pub(crate) fn parameter(mut self, name: &str, value: Option<impl ToString>) -> ApiRequest {
        if let Some(value) = value {
            self.query.push((name.to_owned(), Some(value.to_string())));
        }
        self
    }

    /// Adds a flag if it is set.
    pub(crate) fn flag(mut self, name: &str, is_set: bool) -> ApiRequest {
        if is_set {
            self.query.push((name.to_owned(), None));
        }
        self
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &'static str, value: String) -> ApiRequest {
        self.headers.push((name, value));
        self
    }

    /// Sets a JSON body.
    pub(crate) fn json(self, body: &serde_json::Value) -> ApiRequest {
        self.header("content-type", "application/json".to_owned()).body(body.to_string().into_bytes())
    }

    /// Sets the body.
    pub(crate) fn body(self, body: Vec<u8>) -> ApiRequest {
        ApiRequest { body: Some(body), ..self }
    }

    /// Whether the server may hold back the answer.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    /// How long the request may take with this timeout.
    pub(super) fn longest(&self, timeout: Duration) -> Duration {
        timeout + self.wait.unwrap_or_default()
    }

    /// The call to send. Every request of this program may be repeated.
    pub(super) fn call(&self, client: &Client) -> RawCall {
        let mut call = client.call(self.method.clone(), self.path.clone()).idempotent(true);
        for (name, value) in &self.query {
            call = match value {
                Some(value) => call.query(name, value),
                None => call.flag(name),
            };
        }
        if let Some(after) = self.after {
            call = call.query("after", after.to_string());
        }
        for (name, value) in &self.headers {
            call = call.header(*name, value.clone());
        }
        if let Some(body) = &self.body {
            call = call.body(body.clone());
        }
        if let Some(wait) = self.wait {
            call = call.wait(wait);
        }
        call
    }

    /// The meaning of a definite answer of this node.
    pub(super) fn answered(&self, reply: RawReply, endpoint: String) -> Result<ApiReply, Failure> {
        let RawReply { status, body, after_unknown, .. } = reply;
        let is_done = |done_by: Code| after_unknown && has_code(&body, &[done_by]);
        match status {
            status if status.is_success() => Ok(ApiReply { body, endpoint }),
            StatusCode::NOT_MODIFIED => Err(Failure::Ended("nothing changed within the wait".to_owned())),
            _ if self.done_by.is_some_and(is_done) => Ok(ApiReply { body: Vec::new(), endpoint }),
            status => Err(Failure::Refused { status: status.as_u16(), body }),
        }
    }

    /// What a person can do after a request without an answer.
    pub(super) fn advice(&self, may_be_done: bool) -> String {
        match (&self.known_key, may_be_done) {
            (_, false) => String::new(),
            (Some(key), true) => format!("; it may have happened: repeat it with --idempotency-key {key}"),
            (None, true) => "; it may have happened: check the state before you repeat it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_encoded() {
        assert_eq!(node_path("/jobs/a b"), "/v1/nodes/jobs/a%20b");
        assert_eq!((node_path("/"), encode("orders/42")), ("/v1/nodes/".to_owned(), "orders%2F42".to_owned()));
    }
}
