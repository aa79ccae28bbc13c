//! One attempt: one request to one node, and the meaning of its answer.

use crate::{
    error::Error,
    problem::ProblemBody,
    wire::{
        auth_token::{AuthToken, TokenChanges},
        call::{BatchPart, Call, CallBody, CallKind},
        clock::Moment,
        endpoints::Endpoint,
        failure_text::{describe, unusable_settings},
        identity::{CLUSTER, Identity, LastRefusal},
        reply::Reply,
        stream_lines::StreamLines,
        tls::TlsSettings,
    },
};
use fairhold_types::{
    Code, Revision, duration,
    problem::Effect,
    trace_context::{TRACEPARENT, TraceParent},
};
use reqwest::{Method, StatusCode, header};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an idle connection stays open. The servers keep it open much longer, so that no request meets a closing
/// connection.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// The maximum number of idle connections to one node. After a burst of requests, the client closes the rest to free
/// their file descriptors.
const IDLE_CONNECTIONS_MAX: usize = 32;
/// How long sent data may stay unacknowledged, and how long a dead idle connection may stay undetected.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// The largest body that the client reads: the largest value, with the JSON around it.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const TIMEOUT: &str = "fairhold-timeout";

/// The result of one attempt.
#[derive(Debug, Clone)]
pub(crate) enum Attempted {
    /// A definite answer.
    Answered(Reply),
    /// The call did not take effect. If a node of the cluster says so, `refusal` is its reason.
    Nothing { why: String, retry_after: Option<Duration>, busy: bool, refusal: Option<LastRefusal> },
    /// The call may have taken effect, or still may.
    Unknown {
        why: String,
        /// The server that answered is not a node of this cluster.
        foreign: bool,
    },
}

/// The result of opening a stream.
pub(crate) enum Opened {
    /// The stream, and the revision at which it starts, if the node names one.
    Stream { lines: StreamLines, revision: Option<Revision> },
    /// A refusal.
    Refused(Reply),
    /// The node cannot serve the stream now, or does not answer.
    Failed { retry_after: Option<Duration> },
}

/// How every request identifies this client: its program name, its token and its certificate, if it has them.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) program: String,
    pub(crate) auth_token: AuthToken,
    pub(crate) tls: TlsSettings,
    /// The parent span of the requests.
    pub(crate) trace_parent: Option<TraceParent>,
}

/// A pool of connections. With HTTP/1.1, an open request has a connection to itself.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    http: reqwest::Client,
    identity: Identity,
    auth_token: AuthToken,
}

impl Connections {
    /// The connections accept answers only from nodes of the cluster in `identity`.
    pub(crate) fn new(caller: &Caller, identity: Identity) -> Result<Connections, Error> {
        let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let builder = builder.connect_timeout(CONNECT_TIMEOUT).pool_idle_timeout(IDLE_MAX).tcp_nodelay(true);
        let builder = builder.pool_max_idle_per_host(IDLE_CONNECTIONS_MAX);
        let builder = builder.tcp_keepalive(SILENT_MAX / 2).tcp_keepalive_interval(SILENT_MAX / 4).tcp_keepalive_retries(2);
        #[cfg(target_os = "linux")]
        let builder = builder.tcp_user_timeout(SILENT_MAX);
        let builder = builder.default_headers(trace_headers(caller.trace_parent));
        let builder = caller.tls.apply(builder.user_agent(&caller.program));
        let http = builder.build().map_err(|error| Error::Invalid(unusable_settings(&error)))?;
        Ok(Connections { http, identity, auth_token: caller.auth_token.clone() })
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Learns of new tokens.
    pub(crate) fn token_changes(&self) -> TokenChanges {
        self.auth_token.changes()
    }

    /// Opens a stream. `work` limits the server's work, and `within` the time until the head has arrived.
    pub(crate) async fn open(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        within: Duration,
    ) -> Result<StreamLines, Attempted> {
        let token = self.token_for(call);
        let opened = self.open_with(endpoint, call, work, within, token.clone()).await;
        match (opened, token) {
            (Err(Attempted::Answered(reply)), Some(refused)) if reply.status == StatusCode::UNAUTHORIZED => {
                match self.auth_token.instead_of(&refused).await {
                    Some(newer) => self.open_with(endpoint, call, work, within, Some(newer)).await,
                    None => Err(Attempted::Answered(reply)),
                }
            }
            (opened, _) => opened,
        }
    }

    async fn open_with(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        within: Duration,
        token: Option<header::HeaderValue>,
    ) -> Result<StreamLines, Attempted> {
        let sent = Moment::now();
        let unknown = |why: &str| Attempted::unknown(self.note_failure(endpoint, why));
        let request = self.request(endpoint, call, work, token);
        let response = match timeout(within, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unanswered(endpoint, &error)),
            Err(_) => return Err(unknown("no answer in time")),
        };
        if !response.status().is_success() {
            return match timeout(within, read_reply(response, sent)).await {
                Ok(Ok(reply)) => Err(self.classify(endpoint, call, reply)),
                Ok(Err(error)) => Err(unknown(&describe(&error))),
                Err(_) => Err(unknown("the answer was not complete in time")),
            };
        }
        self.check(endpoint, call, response.headers()).map_err(Attempted::foreign)?;
        Ok(StreamLines::new(response))
    }

    /// Sends a call once, and once more if the node refuses the token and there is another one by now: a refused call did
    /// nothing. `work` limits the server's work, and `limit` each of them.
    ///
    /// A refusal after more time than `work` ends a call that waited. The caller of a read sends it again, for the rest of
    /// its wait. A raw call is not sent again: the node has withdrawn it, so its id has ended.
    pub(crate) async fn send(&self, endpoint: &Endpoint, call: &Call, work: Duration, limit: Duration) -> Attempted {
        let token = self.token_for(call);
        let sent_at = Instant::now();
        let attempted = self.send_with(endpoint, call, work, limit, token.clone()).await;
        match (attempted, token) {
            (Attempted::Answered(reply), Some(refused)) if reply.status == StatusCode::UNAUTHORIZED => {
                let has_waited = sent_at.elapsed() > work;
                match self.auth_token.instead_of(&refused).await {
                    None => Attempted::Answered(reply),
                    Some(_) if has_waited && call.method == Method::GET => {
                        let why = format!("{} {}", reply.status, reply.problem().detail);
                        Attempted::nothing(why)
                    }
                    Some(_) if has_waited && call.kind == CallKind::Raw => Attempted::Answered(reply),
                    Some(newer) => self.send_with(endpoint, call, work, limit, Some(newer)).await,
                }
            }
            (attempted, _) => attempted,
        }
    }

    /// The header with the token, unless the call has such a header of its own.
    fn token_for(&self, call: &Call) -> Option<header::HeaderValue> {
        let is_own = call.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str()));
        if is_own { None } else { self.auth_token.header() }
    }

    async fn send_with(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        limit: Duration,
        token: Option<header::HeaderValue>,
    ) -> Attempted {
        let request = self.request(endpoint, call, work, token).timeout(limit);
        let sent = Moment::now();
        match receive(request, sent).await {
            Ok(reply) => self.classify(endpoint, call, reply),
            Err(error) => self.unanswered(endpoint, &error),
        }
    }

    /// Classifies an attempt without an answer. If no connection was made, the call did not take effect. Otherwise the
    /// outcome is unknown.
    fn unanswered(&self, endpoint: &Endpoint, error: &reqwest::Error) -> Attempted {
        let why = self.note_failure(endpoint, &describe(error));
        if error.is_connect() || error.is_builder() { Attempted::nothing(why) } else { Attempted::unknown(why) }
    }

    /// Classifies an answer. An answer from a foreign server does not count.
    fn classify(&self, endpoint: &Endpoint, call: &Call, reply: Reply) -> Attempted {
        if is_unformed(&reply) {
            return classify_reply(reply);
        }
        if is_plain_at_tls(&reply) {
            let why = self.note_failure(endpoint, "this port speaks TLS; use an https:// URL");
            return Attempted::nothing(why);
        }
        match self.check(endpoint, call, &reply.headers) {
            Ok(()) if call.kind == CallKind::Raw && reply.status == StatusCode::TOO_MANY_REQUESTS => Attempted::Answered(reply),
            Ok(()) => classify_reply(reply),
            Err(why) => Attempted::foreign(why),
        }
    }

    /// Checks that the server may answer this call.
    fn check(&self, endpoint: &Endpoint, call: &Call, headers: &header::HeaderMap) -> Result<(), String> {
        match call.kind {
            CallKind::Typed => self.identity.check(endpoint, headers),
            CallKind::Server => self.identity.check_server(endpoint, headers),
            CallKind::Raw => self.identity.check_or_unformed(endpoint, headers),
        }
    }

    /// Records an attempt without an answer. Returns where it failed, and why.
    fn note_failure(&self, endpoint: &Endpoint, why: &str) -> String {
        let why = format!("{endpoint}: {why}");
        self.identity.failed(&why);
        why
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        token: Option<header::HeaderValue>,
    ) -> reqwest::RequestBuilder {
        let mut request = self.http.request(call.method.clone(), endpoint.url(&call.path));
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        request = request.header(TIMEOUT, duration::format(work.max(Duration::from_millis(1))));
        // A release or renewal needs no key: its id is in the path.
        if let Some(key) = call.key
            && !matches!(call.part, Some(BatchPart::Release(_) | BatchPart::Renew))
        {
            request = request.header(IDEMPOTENCY_KEY, key.to_string());
        }
        // With this header, a node of another cluster refuses the call instead of granting its own lock.
        if let Some(cluster) = self.identity.cluster().filter(|_| call.kind != CallKind::Server) {
            request = request.header(CLUSTER, cluster.to_hex());
        }
        for (name, value) in &call.headers {
            request = request.header(name.as_ref(), value);
        }
        match &call.body {
            Some(CallBody::Json(text)) => request.header(header::CONTENT_TYPE, "application/json").body(text.clone()),
            Some(CallBody::Raw(bytes)) => request.body(bytes.clone()),
            None => request,
        }
    }
}

/// The header that makes a request a part of a trace. A call that has its own keeps that one.
fn trace_headers(parent: Option<TraceParent>) -> header::HeaderMap {
    let value = parent.and_then(|parent| header::HeaderValue::try_from(parent.to_string()).ok());
    value.map(|value| (header::HeaderName::from_static(TRACEPARENT), value)).into_iter().collect()
}

async fn receive(request: reqwest::RequestBuilder, sent: Moment) -> Result<Reply, reqwest::Error> {
    let response = request.send().await?;
    read_reply(response, sent).await
}

async fn read_reply(mut response: reqwest::Response, sent: Moment) -> Result<Reply, reqwest::Error> {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let mut body = Vec::new();
    let mut is_whole = true;
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            is_whole = false;
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, headers, body, is_whole, sent, may_be_done: false })
}

impl Attempted {
    /// The call did not take effect, and no node refuses it for now.
    fn nothing(why: String) -> Attempted {
        Attempted::Nothing { why, retry_after: None, busy: false, refusal: None }
    }

    /// An unknown outcome at a node of this cluster.
    pub(crate) fn unknown(why: String) -> Attempted {
        Attempted::Unknown { why, foreign: false }
    }

    /// A server that is not a node of this cluster answered.
    fn foreign(why: String) -> Attempted {
        Attempted::Unknown { why, foreign: true }
    }

    /// Why there is no definite answer, and whether a foreign server answered.
    pub(crate) fn why(&self) -> (&str, bool) {
        match self {
            Attempted::Answered(_) => ("", false),
            Attempted::Nothing { why, .. } => (why, false),
            Attempted::Unknown { why, foreign } => (why, *foreign),
        }
    }

    /// Classifies an answer.
    pub(crate) fn of(reply: Reply) -> Attempted {
        classify_reply(reply)
    }
}

fn classify_reply(reply: Reply) -> Attempted {
    let retry_after = reply.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let why = |problem: &ProblemBody| format!("{} {}", reply.status, problem.detail);
    let refused = |problem: ProblemBody, busy| Attempted::Nothing {
        why: why(&problem),
        retry_after,
        busy,
        // A server without a cluster may not be a node of this one.
        refusal: (!is_unformed(&reply)).then(|| LastRefusal::from(problem)),
    };
    match reply.status.as_u16() {
        503 => {
            let problem = reply.problem();
            let busy = matches!(problem.code, Some(Code::Overloaded | Code::DiskLow));
            refused(problem, busy)
        }
        // The state is full. A retry does not help, here or at another node: callers must remove something first.
        429 if reply.problem().code == Some(Code::StateFull) => Attempted::Answered(reply),
        // Nor does it help while a tenant has as many nodes as it may. The use of other quotas falls by itself.
        429 if matches!(reply.problem(), ProblemBody { code: Some(Code::QuotaExceeded), retryable: false, .. }) => {
            Attempted::Answered(reply)
        }
        429 => refused(reply.problem(), true),
        504 => {
            let problem = reply.problem();
            match problem.outcome {
                Some(Effect::None) => refused(problem, false),
                Some(Effect::Unknown) | None => Attempted::unknown(why(&problem)),
            }
        }
        500.. if reply.problem().code != Some(Code::Internal) => Attempted::unknown(why(&reply.problem())),
        _ => Attempted::Answered(reply),
    }
}

/// Whether a port with TLS has refused a plain request. It has not read the request.
fn is_plain_at_tls(reply: &Reply) -> bool {
    reply.status == StatusCode::BAD_REQUEST && reply.body.starts_with(b"this port speaks TLS")
}

/// Whether a Fairhold server without a cluster says that it did nothing.
fn is_unformed(reply: &Reply) -> bool {
    reply.status == StatusCode::SERVICE_UNAVAILABLE && !reply.headers.contains_key(CLUSTER) && reply.problem().code.is_some()
}
