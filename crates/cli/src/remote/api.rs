//! One call at the cluster: at one endpoint after the other, always with the same key, until there is a definite answer.

use super::{ConnectArgs, Failure};
use fairhold_types::{Code, duration, problem::Effect};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Client, Method, RequestBuilder, StatusCode,
    header::{self, HeaderMap, HeaderValue},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    error::Error,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// How long a connection may take to stand.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long one endpoint may take before the next one is asked too.
const TRY_MAX: Duration = Duration::from_secs(5);
/// How much later than its own deadline a node's answer may arrive.
const ANSWER_GRACE: Duration = Duration::from_millis(200);
/// The pause after every endpoint was asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Names the cluster in every answer of a node, once the cluster has formed.
const CLUSTER: &str = "fairhold-cluster";
/// How this program names itself to the nodes, which show the name to people.
const PROGRAM: &str = concat!("fairhold/", env!("CARGO_PKG_VERSION"));
/// Has every answer of a node.
const REQUEST_ID: &str = "fairhold-request-id";
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
pub(crate) struct Request {
    method: Method,
    path: String,
    query: Vec<String>,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    /// How long the server may hold the answer back, over all tries.
    wait: Option<Duration>,
    /// What is waited for is newer than this.
    after: Option<u64>,
    /// With this key a person can repeat it.
    known_key: Option<String>,
    /// The refusal that an earlier try brings about which was done and not answered.
    done_by: Option<Code>,
}

impl Request {
    /// Asks.
    pub(crate) fn get(path: impl Into<String>) -> Request {
        Request {
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
    pub(crate) fn change(method: Method, path: impl Into<String>) -> Request {
        Request::unkeyed(method, path).header("idempotency-key", ulid::Ulid::generate().to_string())
    }

    /// The same for a command that can be repeated with the key of an earlier one, which is given here.
    pub(crate) fn keyed(method: Method, path: impl Into<String>, key: Option<&str>) -> Request {
        let key = key.map_or_else(|| ulid::Ulid::generate().to_string(), str::to_owned);
        let request = Request::unkeyed(method, path).header("idempotency-key", key.clone());
        Request { known_key: Some(key), ..request }
    }

    /// Changes something by a call that takes no key.
    pub(crate) fn unkeyed(method: Method, path: impl Into<String>) -> Request {
        Request { method, ..Request::get(path) }
    }

    /// Takes this refusal as success where an earlier try, whose answer was lost, may have brought it about.
    pub(crate) fn done_by(self, code: Code) -> Request {
        Request { done_by: Some(code), ..self }
    }

    /// The same for the next page of a listing: what was waited for has come.
    pub(crate) fn next_page(self) -> Request {
        Request { wait: None, after: None, ..self }
    }

    /// Lets the server wait so long.
    pub(crate) fn wait(self, wait: Option<Duration>) -> Request {
        Request { wait, ..self }
    }

    /// Waits for what is newer than this revision.
    pub(crate) fn after(self, after: Option<u64>) -> Request {
        Request { after, ..self }
    }

    /// A parameter, where it is given.
    pub(crate) fn parameter(mut self, name: &str, value: Option<impl ToString>) -> Request {
        if let Some(value) = value {
            self.query.push(format!("{name}={}", encode(&value.to_string())));
        }
        self
    }

    /// A flag, where it is set.
    pub(crate) fn flag(mut self, name: &str, is_set: bool) -> Request {
        if is_set {
            self.query.push(name.to_owned());
        }
        self
    }

    /// A header.
    pub(crate) fn header(mut self, name: &'static str, value: String) -> Request {
        self.headers.push((name, value));
        self
    }

    /// A JSON body.
    pub(crate) fn json(self, body: &serde_json::Value) -> Request {
        self.header("content-type", "application/json".to_owned()).body(body.to_string().into_bytes())
    }

    /// The body.
    pub(crate) fn body(self, body: Vec<u8>) -> Request {
        Request { body: Some(body), ..self }
    }

    /// Path and query of one try, which may wait so long.
    fn target(&self, wait: Option<Duration>) -> String {
        let mut query = self.query.clone();
        query.extend(wait.map(|wait| format!("wait={}", duration::format(wait))));
        query.extend(self.after.map(|after| format!("after={after}")));
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    /// What a definite answer means to a caller one of whose earlier tries may have been done.
    fn answered(&self, status: StatusCode, body: Vec<u8>, may_be_done: bool) -> Result<Reply, Failure> {
        let is_done = |done_by: Code| may_be_done && problem(status, &body).code == done_by.as_str();
        match status {
            status if status.is_success() => Ok(Reply { body }),
            StatusCode::NOT_MODIFIED => Err(Failure::Ended("nothing changed within the wait".to_owned())),
            _ if self.done_by.is_some_and(is_done) => Ok(Reply { body: Vec::new() }),
            status => Err(Failure::Refused { status: status.as_u16(), body }),
        }
    }

    /// What is left to do for a person who got no answer, where a try may have been done.
    fn advice(&self, may_be_done: bool) -> String {
        match (&self.known_key, may_be_done && self.method != Method::GET) {
            (_, false) => String::new(),
            (Some(key), true) => format!("; it may have happened: repeat it with --idempotency-key {key}"),
            (None, true) => "; it may have happened: look before you repeat it".to_owned(),
        }
    }
}

/// An answer that says yes.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The body, byte for byte.
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The body as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Ended(format!("the answer is not valid, so the server may be newer: {error}")))
    }
}

/// The cluster.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Client,
    endpoints: Vec<String>,
    timeout: Duration,
    /// The cluster that was named, or the first that answered.
    cluster: Arc<OnceLock<HeaderValue>>,
}

/// What came of asking one endpoint.
enum Tried {
    Answered(StatusCode, Vec<u8>),
    /// Surely nothing was done: the next one may.
    Nothing(String),
    /// It may have been done, or may yet be.
    Unknown(String),
    /// The server that answers there is not a node of the cluster. A server in between may have passed the request on.
    Stranger(String),
}

impl Api {
    /// Sends nothing yet.
    pub(crate) fn new(connect: &ConnectArgs) -> Result<Api, Failure> {
        if connect.timeout.is_zero() {
            return Err(Failure::Usage("--timeout must be greater than 0".to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = connect.auth_token()? {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut bearer =
                bearer.map_err(|_| Failure::Usage("the token has characters that a header cannot contain".to_owned()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let builder = Client::builder().no_proxy().connect_timeout(CONNECT_WITHIN.min(connect.timeout)).default_headers(headers);
        let builder = builder.redirect(reqwest::redirect::Policy::none()).user_agent(PROGRAM);
        let http = builder.build().map_err(|error| Failure::Usage(format!("no HTTP client could be made: {error}")))?;
        let endpoints: Result<Vec<String>, Failure> = connect.endpoint.iter().map(|url| endpoint(url)).collect();
        let cluster = connect.cluster_id.and_then(|id| HeaderValue::try_from(id.to_hex()).ok());
        let cluster = Arc::new(cluster.map_or_else(OnceLock::new, OnceLock::from));
        Ok(Api { http, endpoints: endpoints?, timeout: connect.timeout, cluster })
    }

    /// How long to try.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks until there is a definite answer. What the tries may wait is what is left of the wait, so that all of them together
    /// take no longer than one could.
    pub(crate) async fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let whole = self.timeout + request.wait.unwrap_or_default();
        let (until, mut left) = (Instant::now() + whole, whole);
        let (mut last, mut may_be_done) = (String::new(), false);
        loop {
            let mut strangers = 0;
            for url in &self.endpoints {
                if left.is_zero() {
                    let (within, advice) = (duration::format(whole), request.advice(may_be_done));
                    let nodes = "pass the nodes to ask with -e URL or FAIRHOLD_ENDPOINT";
                    return Err(Failure::Unavailable(format!("no answer within {within}: {last} ({nodes}){advice}")));
                }
                let why = match self.try_at(url, request, left).await {
                    Tried::Answered(status, body) => return request.answered(status, body, may_be_done),
                    Tried::Nothing(why) => why,
                    Tried::Unknown(why) => {
                        may_be_done = true;
                        why
                    }
                    Tried::Stranger(why) => {
                        (may_be_done, strangers) = (true, strangers + 1);
                        why
                    }
                };
                last = format!("{url}: {why}");
                left = until.saturating_duration_since(Instant::now());
            }
            if strangers == self.endpoints.len() {
                // A wrong address does not become right by waiting.
                return Err(Failure::Unavailable(format!(
                    "{last}: is -e its address for clients?{}",
                    request.advice(may_be_done)
                )));
            }
            sleep(PAUSE.min(left)).await;
            left = until.saturating_duration_since(Instant::now());
        }
    }

    /// Asks once, where so much of the caller's time is left.
    async fn try_at(&self, url: &str, request: &Request, left: Duration) -> Tried {
        let wait = request.wait.map(|wait| wait.min(left.saturating_sub(self.timeout)));
        let waited = wait.unwrap_or_default();
        let limit = left.saturating_sub(waited).min(TRY_MAX);
        let mut asked = self.http.request(request.method.clone(), format!("{url}{}", request.target(wait)));
        asked = asked.header("fairhold-timeout", duration::format(limit.max(Duration::from_millis(1))));
        if let Some(cluster) = self.cluster.get() {
            // A node of another one does nothing then.
            asked = asked.header(CLUSTER, cluster);
        }
        for (name, value) in &request.headers {
            asked = asked.header(*name, value);
        }
        if let Some(body) = &request.body {
            asked = asked.body(body.clone());
        }
        let within = (waited + limit + CONNECT_WITHIN).min(left + ANSWER_GRACE);
        match whole(asked.timeout(within)).await {
            Ok((status, headers, _)) if !self.is_known(&headers) => {
                Tried::Stranger(format!("the answer is {status}, but not from a node of this cluster"))
            }
            Ok((status, _, body)) => match (status, problem(status, &body)) {
                (StatusCode::SERVICE_UNAVAILABLE, Problem { detail, .. }) => Tried::Nothing(detail),
                (StatusCode::GATEWAY_TIMEOUT, Problem { outcome: Some(Effect::None), detail, .. }) => Tried::Nothing(detail),
                (StatusCode::GATEWAY_TIMEOUT, Problem { detail, .. }) => Tried::Unknown(detail),
                _ => Tried::Answered(status, body),
            },
            Err(error) if error.is_connect() || error.is_builder() => Tried::Nothing(cause(&error)),
            Err(error) => Tried::Unknown(cause(&error)),
        }
    }

    /// Whether the answer comes from the cluster that answered first, or from a node whose cluster has not formed yet.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        match headers.get(CLUSTER) {
            Some(named) => self.cluster.get_or_init(|| named.clone()) == named,
            None => headers.contains_key(REQUEST_ID),
        }
    }
}

/// An answer with all of its body.
async fn whole(asked: RequestBuilder) -> Result<(StatusCode, HeaderMap, Vec<u8>), reqwest::Error> {
    let mut response = asked.send().await?;
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    Ok((status, headers, response.bytes().await?.to_vec()))
}

/// What a node says that does not do it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    /// `/readyz?verbose` has it under this name.
    #[serde(alias = "reason")]
    detail: String,
    outcome: Option<Effect>,
}

fn problem(status: StatusCode, body: &[u8]) -> Problem {
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    if problem.detail.is_empty() { Problem { detail: status.to_string(), ..problem } } else { problem }
}

/// The innermost cause, which is what a person needs.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// A URL as most people write it.
pub(crate) fn endpoint(url: &str) -> Result<String, Failure> {
    let trimmed = url.trim().trim_end_matches('/');
    let full = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
    match reqwest::Url::parse(&full) {
        Ok(parsed) if parsed.scheme() == "http" && parsed.has_host() && parsed.path() == "/" && !full.contains('#') => Ok(full),
        Ok(_) | Err(_) => Err(Failure::Usage(format!("--endpoint {url}: expected http://HOST:PORT, without TLS or a path"))),
    }
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
