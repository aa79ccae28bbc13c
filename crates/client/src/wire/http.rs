//! One attempt: one request to one node, and the meaning of its answer.

use crate::{
    error::Error,
    problem::ProblemBody,
    wire::{
        call::{BatchPart, Call, CallBody, CallKind},
        clock::Moment,
        endpoints::Endpoint,
        identity::{CLUSTER, Identity},
        reply::{REVISION, Reply},
        tls::{self, TlsSettings},
    },
};
use fairhold_types::{Code, Revision, duration, problem::Effect};
use reqwest::{StatusCode, header};
use std::time::Duration;
use tokio::time::timeout;

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
/// The longest line of a stream.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// The largest body that the client reads: the largest value, with the JSON around it.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// `ENFILE` and `EMFILE`, which have these numbers on all systems.
const NO_DESCRIPTORS: [i32; 2] = [23, 24];

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const TIMEOUT: &str = "fairhold-timeout";

/// The result of one attempt.
#[derive(Debug, Clone)]
pub(crate) enum Attempted {
    /// A definite answer.
    Answered(Reply),
    /// The call did not take effect.
    Nothing { why: String, retry_after: Option<Duration>, busy: bool },
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

/// A body that is read as it arrives.
#[derive(Debug)]
pub(crate) struct StreamLines {
    pub(crate) status: StatusCode,
    pub(crate) headers: header::HeaderMap,
    response: reqwest::Response,
    read: Vec<u8>,
    /// How many of these bytes `next` has returned.
    taken: usize,
}

impl StreamLines {
    /// The revision at which the stream starts, if its head names one.
    pub(crate) fn revision(&self) -> Option<Revision> {
        let named = self.headers.get(REVISION)?.to_str().ok()?;
        named.parse().ok().map(Revision)
    }

    /// The next bytes; `None` at the end of the body.
    pub(crate) async fn chunk(&mut self, silent_max: Duration) -> Result<Option<Vec<u8>>, String> {
        if self.taken < self.read.len() {
            let rest = self.read.split_off(self.taken);
            self.read.clear();
            self.taken = 0;
            return Ok(Some(rest));
        }
        match timeout(silent_max, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.to_vec())),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err(format!("nothing arrived for {silent_max:?}")),
        }
    }

    /// The next line without its newline. The error says why none came.
    pub(crate) async fn next(&mut self, silent_max: Duration) -> Result<Vec<u8>, String> {
        loop {
            if let Some(length) = self.read[self.taken..].iter().position(|byte| *byte == b'\n') {
                let line = self.read[self.taken..self.taken + length].to_vec();
                self.taken += length + 1;
                return Ok(line);
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            if self.read.len() > LINE_BYTES_MAX {
                return Err(format!("a line is longer than {LINE_BYTES_MAX} bytes"));
            }
            match timeout(silent_max, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.read.extend_from_slice(&chunk),
                Ok(Ok(None)) => return Err("the node ended the stream".to_owned()),
                Ok(Err(error)) => return Err(describe(&error)),
                Err(_) => return Err(format!("nothing arrived for {silent_max:?}")),
            }
        }
    }
}

/// How every request identifies this client: its program name, its token and its certificate, if it has them.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) program: String,
    pub(crate) auth_token: Option<AuthToken>,
    pub(crate) tls: TlsSettings,
}

/// The token of `Authorization: Bearer`.
#[derive(Clone)]
pub(crate) struct AuthToken(pub(crate) String);

impl std::fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthToken(secret)")
    }
}

/// A pool of connections. With HTTP/1.1, an open request has a connection to itself.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    http: reqwest::Client,
    identity: Identity,
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
        let mut headers = header::HeaderMap::new();
        if let Some(AuthToken(token)) = &caller.auth_token {
            let bearer = header::HeaderValue::from_str(&format!("Bearer {token}"));
            let mut bearer =
                bearer.map_err(|_| Error::Invalid("the token has characters that a header cannot contain".to_owned()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let builder = caller.tls.apply(builder.user_agent(&caller.program).default_headers(headers));
        let http = builder.build().map_err(|error| Error::Invalid(unusable_settings(&error)))?;
        Ok(Connections { http, identity })
    }

    /// Opens a stream. `work` limits the server's work, and `within` the time until the head has arrived.
    pub(crate) async fn open(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        work: Duration,
        within: Duration,
    ) -> Result<StreamLines, Attempted> {
        let sent = Moment::now();
        let unknown = |why: &str| Attempted::unknown(self.note_failure(endpoint, why));
        let request = self.request(endpoint, call, work);
        let mut response = match timeout(within, request.send()).await {
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
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        Ok(StreamLines { status, headers, response, read: Vec::new(), taken: 0 })
    }

    /// Sends a call once. `work` limits the server's work, and `limit` the whole attempt.
    pub(crate) async fn send(&self, endpoint: &Endpoint, call: &Call, work: Duration, limit: Duration) -> Attempted {
        let request = self.request(endpoint, call, work).timeout(limit);
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
        if error.is_connect() || error.is_builder() {
            Attempted::Nothing { why, retry_after: None, busy: false }
        } else {
            Attempted::unknown(why)
        }
    }

    /// Classifies an answer. An answer from a foreign server does not count.
    fn classify(&self, endpoint: &Endpoint, call: &Call, reply: Reply) -> Attempted {
        if is_unformed(&reply) {
            return classify_reply(reply);
        }
        if is_plain_at_tls(&reply) {
            let why = self.note_failure(endpoint, "this port speaks TLS; use an https:// URL");
            return Attempted::Nothing { why, retry_after: None, busy: false };
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

    fn request(&self, endpoint: &Endpoint, call: &Call, work: Duration) -> reqwest::RequestBuilder {
        let mut request = self.http.request(call.method.clone(), endpoint.url(&call.path));
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
    match reply.status.as_u16() {
        503 => {
            let problem = reply.problem();
            let busy = matches!(problem.code, Some(Code::Overloaded | Code::DiskLow));
            Attempted::Nothing { why: why(&problem), retry_after, busy }
        }
        // The state is full. A retry does not help, here or at another node: callers must remove something first.
        429 if reply.problem().code == Some(Code::StateFull) => Attempted::Answered(reply),
        // Nor does it help while a tenant has as many nodes as it may. The use of other quotas falls by itself.
        429 if matches!(reply.problem(), ProblemBody { code: Some(Code::QuotaExceeded), retryable: false, .. }) => {
            Attempted::Answered(reply)
        }
        429 => Attempted::Nothing { why: why(&reply.problem()), retry_after, busy: true },
        504 => {
            let problem = reply.problem();
            match problem.outcome {
                Some(Effect::None) => Attempted::Nothing { why: why(&problem), retry_after, busy: false },
                Some(Effect::Unknown) | None => Attempted::unknown(why(&problem)),
            }
        }
        500.. if reply.problem().code != Some(Code::Internal) => Attempted::unknown(why(&reply.problem())),
        _ => Attempted::Answered(reply),
    }
}

/// Why no HTTP client could be made.
fn unusable_settings(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    format!("no HTTP client could be made: {cause}. If this machine knows no certificate authority, pass one (--cacert)")
}

/// An error with its causes, and without the URL, which may contain a secret id.
fn describe(error: &reqwest::Error) -> String {
    let kind = if lacks_descriptors(error) {
        "this program has reached its limit on open files and connections"
    } else if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let mut text = kind.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // TLS has one cause, and what is around it says nothing.
        if let Some(advice) = tls::advice(&cause_text) {
            return advice.to_owned();
        }
        text = format!("{text}: {cause_text}");
        source = cause.source();
    }
    text
}

/// Whether this program has run out of file descriptors. If so, neither the network nor the node is at fault.
fn lacks_descriptors(error: &reqwest::Error) -> bool {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let numbers = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    numbers.into_iter().any(|number| NO_DESCRIPTORS.contains(&number))
}

/// Whether a port with TLS has refused a plain request. It has not read the request.
fn is_plain_at_tls(reply: &Reply) -> bool {
    reply.status == StatusCode::BAD_REQUEST && reply.body.starts_with(b"this port speaks TLS")
}

/// Whether a Fairhold server without a cluster says that it did nothing.
fn is_unformed(reply: &Reply) -> bool {
    reply.status == StatusCode::SERVICE_UNAVAILABLE && !reply.headers.contains_key(CLUSTER) && reply.problem().code.is_some()
}
