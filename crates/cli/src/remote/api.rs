//! One call at the cluster: at one endpoint after the other, always with the same key, until there is a definite answer.

use super::{ConnectArgs, Failure};
use fairhold_types::duration;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Client, Method, Response, StatusCode,
    header::{self, HeaderMap, HeaderValue},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::{error::Error, time::Duration};
use tokio::time::{Instant, sleep};

/// How long a connection may take to stand.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long one endpoint may take before the next one is asked too.
const TRY_MAX: Duration = Duration::from_secs(5);
/// The pause after every endpoint was asked.
const PAUSE: Duration = Duration::from_millis(200);
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
    /// How long the server may hold the answer back.
    wait: Duration,
}

impl Request {
    /// Asks.
    pub(crate) fn get(path: impl Into<String>) -> Request {
        let (query, headers, body, wait) = (Vec::new(), Vec::new(), None, Duration::ZERO);
        Request { method: Method::GET, path: path.into(), query, headers, body, wait }
    }

    /// Changes something. However often it is sent, it counts once.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> Request {
        Request::keyed(method, path, None)
    }

    /// The same, with the key of an earlier request, which this one repeats.
    pub(crate) fn keyed(method: Method, path: impl Into<String>, key: Option<&str>) -> Request {
        let key = key.map_or_else(|| ulid::Ulid::generate().to_string(), str::to_owned);
        Request { method, ..Request::get(path) }.header("idempotency-key", key)
    }

    /// The same for the next page of a listing: what was waited for has come.
    pub(crate) fn next_page(mut self) -> Request {
        self.query.retain(|pair| !pair.starts_with("wait=") && !pair.starts_with("after="));
        Request { wait: Duration::ZERO, ..self }
    }

    /// Lets the server wait so long.
    pub(crate) fn wait(self, wait: Option<Duration>) -> Request {
        let request = Request { wait: wait.unwrap_or_default(), ..self };
        request.parameter("wait", wait.map(duration::format))
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

    fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query.join("&")) }
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
            .map_err(|error| Failure::Ended(format!("the answer is not understood, so the server may be newer: {error}")))
    }
}

/// The cluster.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    http: Client,
    endpoints: Vec<String>,
    timeout: Duration,
}

/// What came of asking one endpoint.
enum Tried {
    Answered(Response),
    /// Not now, or not there: the next one may.
    Again(String),
}

impl Api {
    /// Sends nothing yet.
    pub(crate) fn new(connect: &ConnectArgs) -> Result<Api, Failure> {
        if connect.timeout.is_zero() {
            return Err(Failure::Usage("--timeout must be more than nothing".to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = connect.auth_token()? {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut bearer = bearer.map_err(|_| Failure::Usage("the token holds what cannot stand in a header".to_owned()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let builder = Client::builder().no_proxy().connect_timeout(CONNECT_WITHIN).default_headers(headers);
        let http = builder.build().map_err(|error| Failure::Usage(format!("no HTTP client could be made: {error}")))?;
        let endpoints: Result<Vec<String>, Failure> = connect.endpoint.iter().map(|url| endpoint(url)).collect();
        Ok(Api { http, endpoints: endpoints?, timeout: connect.timeout })
    }

    /// How long to try.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks until there is a definite answer, and reads it.
    pub(crate) async fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let until = Instant::now() + self.timeout + request.wait;
        let response = self.send(request, until).await?;
        match tokio::time::timeout_at(until, response.bytes()).await {
            Ok(Ok(body)) => Ok(Reply { body: body.to_vec() }),
            Ok(Err(error)) => Err(Failure::Unavailable(format!("the answer broke off: {}", cause(&error)))),
            Err(_) => Err(Failure::Unavailable(format!("the answer was not whole within {:?}", self.timeout))),
        }
    }

    /// Whether anybody answers, whatever it says.
    pub(crate) async fn anybody_answers(&self, within: Duration) -> bool {
        let asked = self.endpoints.iter().map(|url| self.http.get(format!("{url}/livez")).timeout(within).send());
        let asked = asked.map(|answer| Box::pin(async { answer.await.map_err(|_| ()) }));
        futures_util::future::select_ok(asked).await.is_ok()
    }

    async fn send(&self, request: &Request, until: Instant) -> Result<Response, Failure> {
        let mut last = String::new();
        loop {
            for url in &self.endpoints {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let within = duration::format(self.timeout + request.wait);
                    let why = format!("no answer within {within}: {last} (-e URL or FAIRHOLD_ENDPOINT says which nodes to ask)");
                    return Err(Failure::Unavailable(why));
                }
                match self.try_at(url, request, left.min(TRY_MAX)).await {
                    Tried::Answered(response) if response.status().is_success() => return Ok(response),
                    Tried::Answered(response) if response.status() == StatusCode::NOT_MODIFIED => {
                        return Err(Failure::Ended("nothing newer came in the time waited".to_owned()));
                    }
                    Tried::Answered(response) => {
                        let status = response.status().as_u16();
                        let body = response.bytes().await.map(|body| body.to_vec()).unwrap_or_default();
                        return Err(Failure::Refused { status, body });
                    }
                    Tried::Again(why) => last = format!("{url}: {why}"),
                }
            }
            sleep(PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    async fn try_at(&self, url: &str, request: &Request, limit: Duration) -> Tried {
        let mut asked = self.http.request(request.method.clone(), format!("{url}{}", request.target()));
        asked = asked.header("fairhold-timeout", duration::format(limit.max(Duration::from_millis(1))));
        for (name, value) in &request.headers {
            asked = asked.header(*name, value);
        }
        if let Some(body) = &request.body {
            asked = asked.body(body.clone());
        }
        let within = limit + request.wait + CONNECT_WITHIN;
        match tokio::time::timeout(within, asked.timeout(within).send()).await {
            Ok(Ok(response)) => match response.status() {
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Tried::Again(told(response).await),
                _ => Tried::Answered(response),
            },
            Ok(Err(error)) => Tried::Again(cause(&error)),
            Err(_) => Tried::Again("no answer in time".to_owned()),
        }
    }
}

/// What a node says that cannot serve now.
async fn told(response: Response) -> String {
    #[derive(Deserialize)]
    struct Problem {
        /// `/readyz?verbose` has it under this name.
        #[serde(alias = "reason")]
        detail: String,
    }
    let status = response.status();
    response.json().await.map_or_else(|_| status.to_string(), |problem: Problem| problem.detail)
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
        Ok(parsed) if parsed.scheme() == "http" && parsed.has_host() && parsed.path() == "/" => Ok(full),
        Ok(_) | Err(_) => Err(Failure::Usage(format!("--endpoint {url}: http://HOST:PORT is expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_url_is_written_so() {
        assert_eq!(node_path("/jobs/a b"), "/v1/nodes/jobs/a%20b");
        assert_eq!((node_path("/"), encode("orders/42")), ("/v1/nodes/".to_owned(), "orders%2F42".to_owned()));
        let request = Request::get("/v1/locks").parameter("prefix", Some("a&b")).parameter("x", None::<u8>).flag("meta", true);
        assert_eq!(request.target(), "/v1/locks?prefix=a%26b&meta");
    }

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for url in ["http://a:1", "http://a:1/", "a:1", " a:1 "] {
            assert_eq!(endpoint(url).unwrap(), "http://a:1", "{url}");
        }
        for url in ["", "https://a:1", "http://a:1/x", "ftp://a"] {
            assert_eq!(endpoint(url).unwrap_err().code(), 2, "{url}");
        }
    }
}
