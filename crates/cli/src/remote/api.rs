//! One call at the cluster: at one endpoint after the other, always with the same key, until there is a definite
//! answer.

use super::{
    args::ConnectArgs,
    failure::Failure,
    reply::{ApiReply, OutcomeProblem, problem},
    request::ApiRequest,
};
use crate::output;
use fairhold_types::{duration, problem::Effect};
use parking_lot::Mutex;
use reqwest::{
    Client, RequestBuilder, StatusCode,
    header::{self, HeaderMap, HeaderValue},
};
use std::{
    error::Error,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// How long a connection may take to stand.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long one endpoint may take before the next one is asked too.
const TRY_MAX: Duration = Duration::from_secs(5);
/// How much later than its own deadline a node's answer may arrive.
const ANSWER_GRACE: Duration = Duration::from_millis(200);
/// After so long without an answer it says what it is doing.
const SILENT_MAX: Duration = Duration::from_secs(1);
/// The pause after every endpoint was asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Names the cluster in every answer of a node, once the cluster has formed.
const CLUSTER: &str = "fairhold-cluster";
/// How this program names itself to the nodes, which show the name to people.
const PROGRAM: &str = concat!("fairhold/", env!("CARGO_PKG_VERSION"));
/// Has every answer of a node.
const REQUEST_ID: &str = "fairhold-request-id";

/// The cluster.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Client,
    endpoints: Vec<String>,
    timeout: Duration,
    /// Whether it says on stderr that it is waiting for an answer.
    tells: bool,
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
        Ok(Api { http, endpoints: endpoints?, timeout: connect.timeout, tells: !connect.quiet, cluster })
    }

    /// The same cluster, asked at these nodes.
    pub(crate) fn at(&self, endpoints: Vec<String>) -> Api {
        Api { endpoints, ..self.clone() }
    }

    /// The same for a screen: with so much time for an answer, and without a word on stderr.
    pub(crate) fn for_screen(&self, timeout: Duration) -> Api {
        Api { timeout: timeout.min(self.timeout), tells: false, ..self.clone() }
    }

    /// How long to try.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks until there is a definite answer. What the tries may wait is what is left of the wait, so that all of them
    /// together take no longer than one could.
    pub(crate) async fn call(&self, request: &ApiRequest) -> Result<ApiReply, Failure> {
        let last = Mutex::default();
        let asking = self.ask(request, &last);
        if !self.tells {
            return asking.await;
        }
        let mut asking = std::pin::pin!(asking);
        loop {
            if let Ok(answered) = timeout(SILENT_MAX, asking.as_mut()).await {
                return answered;
            }
            let last = last.lock().clone();
            // A node that holds its answer back, because the caller asked it to wait, is not silent.
            if !last.is_empty() || request.wait.is_none() {
                output::note(&self.still_trying(&last));
                return asking.await;
            }
        }
    }

    fn still_trying(&self, last: &str) -> String {
        let within = duration::rounded(self.timeout);
        match last {
            "" => format!("no answer yet from {}: is it running? Trying for {within}", self.endpoints.join(", ")),
            last => format!("no answer yet: {last}; is it running? (fairhold dev starts a cluster here.) Trying for {within}"),
        }
    }

    /// The same without a word. Tells why the last try failed, and nothing while another one is under way.
    async fn ask(&self, request: &ApiRequest, told: &Mutex<String>) -> Result<ApiReply, Failure> {
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
                told.lock().clear();
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
                told.lock().clone_from(&last);
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
    async fn try_at(&self, url: &str, request: &ApiRequest, left: Duration) -> Tried {
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
                (StatusCode::SERVICE_UNAVAILABLE, OutcomeProblem { detail, .. }) => Tried::Nothing(detail),
                (StatusCode::GATEWAY_TIMEOUT, OutcomeProblem { outcome: Some(Effect::None), detail, .. }) => {
                    Tried::Nothing(detail)
                }
                (StatusCode::GATEWAY_TIMEOUT, OutcomeProblem { detail, .. }) => Tried::Unknown(detail),
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
