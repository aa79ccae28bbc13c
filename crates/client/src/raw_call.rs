//! Raw calls: any call of the HTTP API, with this client's endpoints, retries and deadlines. The answer is not parsed.

mod response;

pub use response::{RawReply, RawResponse, RawStream};

use crate::{
    client::Client,
    error::Error,
    wire::{
        backoff::Backoff,
        call::{ATTEMPT_MAX, Call, CallBody, CallKind},
        endpoints::{Endpoint, Prefer},
        http::Attempted,
        reply::Reply,
        retry::{LastError, Transport},
        stream_lines::StreamLines,
        url::{encode, with_query},
    },
};
use fairhold_types::{GrantId, duration};
use futures_util::future::BoxFuture;
use reqwest::{
    Method,
    header::{HeaderName, HeaderValue},
};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The header with the key of a call.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

type OnEvent = Arc<dyn Fn(CallEvent<'_>) + Send + Sync>;

/// A call of the HTTP API, for everything that this crate has no method for. Set its options, then
/// [`send`](RawCall::send) it or [`open`](RawCall::open) it as a stream.
///
/// The client repeats the call, at one node after the other, until a node gives a definite answer or the time is up.
/// Every status below 500 is definite, and so is a `500` with the code `internal`. An answer from a server that is not
/// a node of this client's cluster does not count.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// use fairhold_client::{Method, StatusCode};
/// let reply = client.call(Method::GET, "/v1/locks").query("prefix", "jobs/").send().await?;
/// if reply.status == StatusCode::OK {
///     println!("{}", String::from_utf8_lossy(&reply.body));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a call is made by `send` or `open`"]
pub struct RawCall {
    client: Client,
    call: Call,
    wait: Option<Duration>,
    timeout: Duration,
    attempt_timeout: Duration,
    /// Instead of the client's own.
    endpoints: Option<Vec<String>>,
    idempotent: Option<bool>,
    on_event: Option<OnEvent>,
    invalid: Option<String>,
}

/// What happens during a call, for a program that shows progress.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CallEvent<'a> {
    /// The client sends an attempt to this node.
    #[non_exhaustive]
    Started {
        /// The node's URL.
        endpoint: &'a str,
    },
    /// The attempt got no definite answer. The client tries another node, or this one again.
    #[non_exhaustive]
    Failed {
        /// The node's URL.
        endpoint: &'a str,
        /// Why there is no answer.
        why: &'a str,
        /// The server that answered is not a node of this client's cluster.
        foreign: bool,
    },
}

impl Client {
    /// Makes any call of the HTTP API. `path` starts with a slash, like `/v1/locks`, and is already percent-encoded.
    ///
    /// Nothing is sent before [`RawCall::send`] or [`RawCall::open`].
    pub fn call(&self, method: Method, path: impl Into<String>) -> RawCall {
        let path = path.into();
        let is_path = path.starts_with('/') && reqwest::Url::parse(&format!("http://node{path}")).is_ok();
        let invalid = (!is_path).then(|| format!("the path {path:?}: expected a path like /v1/locks"));
        RawCall {
            client: self.clone(),
            call: Call { kind: CallKind::Raw, ..Call::new(method, path) },
            wait: None,
            timeout: self.inner().timeout,
            attempt_timeout: ATTEMPT_MAX,
            endpoints: None,
            idempotent: None,
            on_event: None,
            invalid,
        }
    }
}

impl RawCall {
    /// Adds a parameter to the query. The value is percent-encoded.
    pub fn query(mut self, name: &str, value: impl AsRef<str>) -> RawCall {
        self.call.path = with_query(&self.call.path, &format!("{}={}", encode(name), encode(value.as_ref())));
        self
    }

    /// Adds a parameter without a value to the query.
    pub fn flag(mut self, name: &str) -> RawCall {
        self.call.path = with_query(&self.call.path, &encode(name));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> RawCall {
        let (name, value) = (name.into(), value.into());
        if HeaderName::try_from(name.as_ref()).is_err() || HeaderValue::try_from(value.as_str()).is_err() {
            self.invalid = Some(format!("the header {name:?} has characters that a header cannot contain"));
        }
        self.call = self.call.header(name, value);
        self
    }

    /// Sends this JSON as the body, with its content type.
    pub fn json(mut self, body: &serde_json::Value) -> RawCall {
        self.call = self.call.json(body);
        self
    }

    /// Sends these bytes as the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> RawCall {
        self.call.body = Some(CallBody::Raw(body.into()));
        self
    }

    /// Sends every attempt with this idempotency key, so that the cluster carries the call out once at most.
    /// [`Error::OutcomeUnknown`] names it.
    pub fn key(mut self, key: GrantId) -> RawCall {
        self.call.key = Some(key);
        self
    }

    /// The same with a new key.
    pub fn new_key(self) -> RawCall {
        let key = self.client.inner().ids.make();
        self.key(key)
    }

    /// Whether it does no harm to carry the call out twice. If it does, the client does not repeat an attempt whose
    /// outcome is unknown.
    ///
    /// Without this, a `POST` or `PATCH` without an idempotency key is not repeated then, and any other call is.
    pub fn idempotent(self, idempotent: bool) -> RawCall {
        RawCall { idempotent: Some(idempotent), ..self }
    }

    /// Lets the cluster wait this long before it answers: the parameter `wait` of the query. A later attempt waits only
    /// for what is left of it. The wait adds to the call's [`timeout`](RawCall::timeout).
    pub fn wait(self, wait: Duration) -> RawCall {
        RawCall { wait: Some(wait), ..self }
    }

    /// How long the call may take, over all attempts and without its [`wait`](RawCall::wait). Without this, it is the
    /// client's [`timeout`](crate::ClientBuilder::timeout).
    pub fn timeout(self, timeout: Duration) -> RawCall {
        RawCall { timeout, ..self }
    }

    /// How long one node may work on the call before the client tries the next one; 3 s if not set.
    pub fn attempt_timeout(self, timeout: Duration) -> RawCall {
        RawCall { attempt_timeout: timeout, ..self }
    }

    /// Tries only these nodes, in this order, instead of those that the client knows.
    pub fn endpoints<U: Into<String>>(self, urls: impl IntoIterator<Item = U>) -> RawCall {
        RawCall { endpoints: Some(urls.into_iter().map(Into::into).collect()), ..self }
    }

    /// Tries another node, or the same one again, if a node is at a limit (`429`), as calls with a method of their own do.
    pub(crate) fn retrying_busy(mut self) -> RawCall {
        self.call.kind = CallKind::Typed;
        self
    }

    /// Calls this function at the start and after the failure of each attempt.
    pub fn on_event(self, on_event: impl Fn(CallEvent<'_>) + Send + Sync + 'static) -> RawCall {
        RawCall { on_event: Some(Arc::new(on_event)), ..self }
    }

    /// Makes the call and reads the whole answer. A refusal is an answer, not an error.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Busy`] if no node gave a definite answer in time and nothing was done;
    /// [`Error::OutcomeUnknown`] if something may have been done; [`Error::NotUnderstood`] if the answer is larger than
    /// 8 MiB; [`Error::Invalid`] if the path, a header, an endpoint or the timeout is not usable.
    ///
    /// If every endpoint belongs to another server or cluster, the call fails without waiting for its time to end.
    pub async fn send(self) -> Result<RawReply, Error> {
        let attempt = |attempt: Attempt| -> BoxFuture<'static, Result<Reply, Attempted>> {
            Box::pin(async move {
                let Attempt { calls, endpoint, call, wait, work } = attempt;
                let attempted = match call.method == Method::GET || wait.is_zero() {
                    true => calls.read_at(&endpoint, &call, wait, work).await,
                    false => calls.wait_at(&endpoint, &call, wait, work).await,
                };
                match attempted {
                    Attempted::Answered(reply) => Ok(reply),
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => Err(failed),
                }
            })
        };
        let (reply, after_unknown) = self.run(attempt).await?;
        RawReply::new(reply, after_unknown)
    }

    /// Makes the call and gives the body as it arrives: for watches, elections, and `hold=stream`.
    ///
    /// The call's times bound the time until the first answer, not the stream.
    ///
    /// # Errors
    /// The errors of [`send`](RawCall::send).
    pub async fn open(self) -> Result<RawResponse, Error> {
        let attempt = |attempt: Attempt| -> BoxFuture<'static, Result<Result<StreamLines, Reply>, Attempted>> {
            Box::pin(async move {
                let Attempt { calls, endpoint, call, wait, work } = attempt;
                match calls.stream_at(&endpoint, &call, work, wait + work).await {
                    Ok(lines) => Ok(Ok(lines)),
                    Err(Attempted::Answered(reply)) => Ok(Err(reply)),
                    Err(failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. })) => Err(failed),
                }
            })
        };
        match self.run(attempt).await? {
            (Ok(lines), _) => Ok(RawResponse::Stream(RawStream { lines })),
            (Err(reply), after_unknown) => Ok(RawResponse::Reply(RawReply::new(reply, after_unknown)?)),
        }
    }

    /// Repeats an attempt until it succeeds. Says whether an earlier attempt may have been carried out.
    async fn run<T>(&self, attempt: impl Fn(Attempt) -> BoxFuture<'static, Result<T, Attempted>>) -> Result<(T, bool), Error> {
        let given = self.check()?;
        let inner = self.client.inner();
        if given.is_none() {
            self.client.discover();
        }
        let until = Instant::now() + self.timeout + self.wait.unwrap_or_default();
        let mut backoff = Backoff::new();
        let mut last = LastError::default();
        loop {
            let mut retry_after = None;
            let mut foreign_servers = 0;
            let order = given.clone().unwrap_or_else(|| inner.calls.endpoints.order(Prefer::Leader));
            for endpoint in &order {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(last.error(&self.call));
                }
                let url = endpoint.to_string();
                self.notify(CallEvent::Started { endpoint: &url });
                let failed = match attempt(self.attempt(&inner.calls, endpoint, left)).await {
                    Ok(answer) => return Ok((answer, last.may_arrive())),
                    Err(failed) => failed,
                };
                let (why, foreign) = failed.why();
                foreign_servers += usize::from(foreign);
                self.notify(CallEvent::Failed { endpoint: &url, why, foreign });
                retry_after = last.note(failed).max(retry_after);
                if last.may_arrive() && !self.is_idempotent() {
                    return Err(last.error(&self.call));
                }
            }
            // A wrong address stays wrong.
            if foreign_servers == order.len() {
                return Err(last.error(&self.call));
            }
            let left = until.saturating_duration_since(Instant::now());
            sleep(backoff.next(retry_after).min(left)).await;
        }
    }

    /// Checks what the program gave. The endpoints that it named, if it named any.
    fn check(&self) -> Result<Option<Vec<Endpoint>>, Error> {
        if let Some(why) = &self.invalid {
            return Err(Error::Invalid(why.clone()));
        }
        if self.timeout.is_zero() || self.attempt_timeout.is_zero() {
            return Err(Error::Invalid("the timeout of a call must be over 0".to_owned()));
        }
        let Some(urls) = &self.endpoints else { return Ok(None) };
        if urls.is_empty() {
            return Err(Error::Invalid("a call needs at least one endpoint".to_owned()));
        }
        urls.iter().map(|url| Endpoint::parse(url)).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// One attempt, if the call has this much time left.
    fn attempt(&self, calls: &Transport, endpoint: &Endpoint, left: Duration) -> Attempt {
        let wait = self.wait.map(|wait| wait.min(left.saturating_sub(self.timeout)));
        let mut call = self.call.clone();
        if let Some(wait) = wait {
            call.path = with_query(&call.path, &format!("wait={}", duration::format(wait)));
        }
        let wait = wait.unwrap_or_default();
        let work = left.saturating_sub(wait).min(self.attempt_timeout);
        Attempt { calls: calls.clone(), endpoint: endpoint.clone(), call, wait, work }
    }

    fn is_idempotent(&self) -> bool {
        self.idempotent.unwrap_or_else(|| {
            let has_key_header = self.call.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY));
            let method = &self.call.method;
            self.call.key.is_some() || has_key_header || !(*method == Method::POST || *method == Method::PATCH)
        })
    }

    fn notify(&self, event: CallEvent<'_>) {
        if let Some(on_event) = &self.on_event {
            on_event(event);
        }
    }
}

impl fmt::Debug for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path may contain the secret id of a session.
        f.debug_struct("RawCall").field("method", &self.call.method).finish_non_exhaustive()
    }
}

/// One attempt at one node.
struct Attempt {
    calls: Transport,
    endpoint: Endpoint,
    call: Call,
    /// How long the node may wait before it answers.
    wait: Duration,
    /// How long it may then work on the call.
    work: Duration,
}
