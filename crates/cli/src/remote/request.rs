//! A request as the commands make it, and what the answers to its tries mean.

use super::{
    failure::Failure,
    reply::{ApiReply, problem},
};
use fairhold_types::{Code, duration};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use std::time::Duration;

/// What stands in a URL as it is.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One level of a URL's path, or a value in its query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, &PLAIN).to_string()
}

/// A path of the tree as it stands in a URL.
pub(crate) fn node_path(path: &str) -> String {
    let levels: Vec<String> = path.trim_start_matches('/').split('/').map(encode).collect();
    format!("/v1/nodes/{}", levels.join("/"))
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(super) method: Method,
    path: String,
    query: Vec<String>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Vec<u8>>,
    /// How long the server may hold the answer back, over all tries.
    pub(super) wait: Option<Duration>,
    /// What is waited for is newer than this.
    after: Option<u64>,
    /// With this key a person can repeat it.
    known_key: Option<String>,
    /// The refusal that an earlier try brings about which was done and not answered.
    done_by: Option<Code>,
}

impl ApiRequest {
    /// Asks.
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

    /// Changes something, under a key of its own.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> ApiRequest {
        ApiRequest::unkeyed(method, path).header("idempotency-key", ulid::Ulid::generate().to_string())
    }

    /// The same for a command that can be repeated with the key of an earlier one, which is given here.
    pub(crate) fn keyed(method: Method, path: impl Into<String>, key: Option<&str>) -> ApiRequest {
        let key = key.map_or_else(|| ulid::Ulid::generate().to_string(), str::to_owned);
        let request = ApiRequest::unkeyed(method, path).header("idempotency-key", key.clone());
        ApiRequest { known_key: Some(key), ..request }
    }

    /// Changes something by a call that takes no key.
    pub(crate) fn unkeyed(method: Method, path: impl Into<String>) -> ApiRequest {
        ApiRequest { method, ..ApiRequest::get(path) }
    }

    /// Takes this refusal as success where an earlier try, whose answer was lost, may have brought it about.
    pub(crate) fn done_by(self, code: Code) -> ApiRequest {
        ApiRequest { done_by: Some(code), ..self }
    }

    /// The same for the next page of a listing: what was waited for has come.
    pub(crate) fn next_page(self) -> ApiRequest {
        ApiRequest { wait: None, after: None, ..self }
    }

    /// Lets the server wait so long.
    pub(crate) fn wait(self, wait: Option<Duration>) -> ApiRequest {
        ApiRequest { wait, ..self }
    }

    /// Waits for what is newer than this revision.
    pub(crate) fn after(self, after: Option<u64>) -> ApiRequest {
        ApiRequest { after, ..self }
    }

    /// A parameter, where it is given.
    pub(crate) fn parameter(mut self, name: &str, value: Option<impl ToString>) -> ApiRequest {
        if let Some(value) = value {
            self.query.push(format!("{name}={}", encode(&value.to_string())));
        }
        self
    }

    /// A flag, where it is set.
    pub(crate) fn flag(mut self, name: &str, is_set: bool) -> ApiRequest {
        if is_set {
            self.query.push(name.to_owned());
        }
        self
    }

    /// A header.
    pub(crate) fn header(mut self, name: &'static str, value: String) -> ApiRequest {
        self.headers.push((name, value));
        self
    }

    /// A JSON body.
    pub(crate) fn json(self, body: &serde_json::Value) -> ApiRequest {
        self.header("content-type", "application/json".to_owned()).body(body.to_string().into_bytes())
    }

    pub(crate) fn body(self, body: Vec<u8>) -> ApiRequest {
        ApiRequest { body: Some(body), ..self }
    }

    /// Path and query of one try, which may wait so long.
    pub(super) fn target(&self, wait: Option<Duration>) -> String {
        let mut query = self.query.clone();
        query.extend(wait.map(|wait| format!("wait={}", duration::format(wait))));
        query.extend(self.after.map(|after| format!("after={after}")));
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    /// What a definite answer means to a caller one of whose earlier tries may have been done.
    pub(super) fn answered(&self, status: StatusCode, body: Vec<u8>, may_be_done: bool) -> Result<ApiReply, Failure> {
        let is_done = |done_by: Code| may_be_done && problem(status, &body).code == done_by.as_str();
        match status {
            status if status.is_success() => Ok(ApiReply { body }),
            StatusCode::NOT_MODIFIED => Err(Failure::Ended("nothing changed within the wait".to_owned())),
            _ if self.done_by.is_some_and(is_done) => Ok(ApiReply { body: Vec::new() }),
            status => Err(Failure::Refused { status: status.as_u16(), body }),
        }
    }

    /// What is left to do for a person who got no answer, where a try may have been done.
    pub(super) fn advice(&self, may_be_done: bool) -> String {
        match (&self.known_key, may_be_done && self.method != Method::GET) {
            (_, false) => String::new(),
            (Some(key), true) => format!("; it may have happened: repeat it with --idempotency-key {key}"),
            (None, true) => "; it may have happened: look before you repeat it".to_owned(),
        }
    }
}
