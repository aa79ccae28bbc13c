//! A request as the calls read it: its sender, parameters, body, and the id in its path.

use crate::{
    edge::authenticator::Authenticator,
    edge::error::of_read,
    edge::headers,
    edge::memory_quota::ConnectionMemory,
    edge::params::{self, ParsedParams},
    edge::problem::{Problem, outcome},
    edge::quota::Share,
    edge::shown_token::ShownToken,
};
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use fairhold_node::{
    Node,
    api::{Freshness, ReadOptions},
    watch::LongPollResult,
    watch_filter::WatchFilter,
};
use fairhold_trust::client_port::CertifiedUser;
use fairhold_types::{
    Code, GrantId, Revision,
    address::share_key,
    call::{Consistency, Number, Wait},
    limits::{BODY_BYTES_FREE, BODY_BYTES_MAX, PARAMS_BYTES_MAX},
    problem::Effect,
};
use http::{HeaderMap, Uri, header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use openraft_rt::AsyncRuntime;
use serde::de::DeserializeOwned;
use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long a body may take to arrive.
const BODY_ARRIVES_MAX: Duration = Duration::from_secs(30);
/// A body that is too large is read up to this size, so that its sender receives the refusal. A larger one is cut off.
const BODY_DRAINED_MAX: usize = 64 * 1024 * 1024;
/// The index of the name or id in a path that is split at its slashes: `/v1/locks/{x}`.
const ID_SEGMENT: usize = 3;

/// The client of a connection. The listener attaches it to every request.
#[derive(Debug, Clone)]
pub struct HttpPeer {
    /// Its address, as text.
    pub(crate) address: Arc<str>,
    /// The key under which its address is counted.
    pub(crate) network: IpAddr,
    /// The user that its certificate names.
    user: Option<Arc<CertifiedUser>>,
    /// The memory that its connection may use; unbounded in the simulator.
    memory: Option<Arc<ConnectionMemory>>,
    /// What the node knows of credentials, with the rule for administrators' calls, if there are such calls. The middleware
    /// sets it.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    /// The token that it has shown last.
    pub(crate) token: ShownToken,
    /// Whether the rights of its current request were decided. Then administrators' calls need no token of the file.
    pub(crate) is_decided: bool,
    /// How long its current request waited before its call: for newer access data, by which it was admitted.
    pub(crate) waited: Duration,
    /// Whether its current request has a `wait` parameter, even 0. Such requests have a histogram of their own, because their
    /// duration is mostly that of the wait. A connection has one request at a time.
    pub(crate) waits: Arc<AtomicBool>,
}

impl HttpPeer {
    /// A client at this address, without a connection.
    #[must_use]
    pub fn at(address: IpAddr) -> HttpPeer {
        let (network, address) = (share_key(address), address.to_canonical().to_string().into());
        HttpPeer {
            address,
            network,
            user: None,
            memory: None,
            authenticator: None,
            token: ShownToken::default(),
            is_decided: false,
            waited: Duration::ZERO,
            waits: Arc::default(),
        }
    }

    /// The user that its verified certificate names. `None` without TLS, without a certificate, or if that names no user.
    #[must_use]
    pub fn user(&self) -> Option<&CertifiedUser> {
        self.user.as_deref()
    }

    /// The same, with the user that its certificate names.
    #[must_use]
    pub fn with_user(self, user: Option<CertifiedUser>) -> HttpPeer {
        HttpPeer { user: user.map(Arc::new), ..self }
    }

    /// The same, with the memory of its connection.
    pub(crate) fn with_memory(self, memory: Arc<ConnectionMemory>) -> HttpPeer {
        HttpPeer { memory: Some(memory), ..self }
    }
}

/// A request whose body has arrived.
pub(crate) struct Received {
    parts: Parts,
    /// How long the server may still work on the request.
    pub(crate) timeout: Duration,
}

/// The body of a request, with its share of memory. Drop it after reading, because a request may wait for minutes.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBody {
    /// Empty if the request has no body.
    pub(crate) bytes: Bytes,
    _share: Option<Share>,
}

/// A request and its body, or its refusal.
pub(crate) type WithBody = Result<(Received, ReceivedBody), Problem>;

impl Received {
    /// Accepts a request and ignores its body.
    pub(crate) fn without_body(request: Request) -> Result<Received, Problem> {
        let (parts, _) = request.into_parts();
        let timeout = timeout_left(&parts)?;
        Ok(Received { parts, timeout })
    }

    /// Accepts a request with its parameters in the query, in a JSON body, or in both.
    pub(crate) fn with_params<RT: AsyncRuntime>(request: Request) -> impl Future<Output = WithBody> {
        Received::with_json::<RT>(request, PARAMS_BYTES_MAX)
    }

    /// Accepts a request with a long list in a JSON body.
    pub(crate) fn with_list<RT: AsyncRuntime>(request: Request) -> impl Future<Output = WithBody> {
        Received::with_json::<RT>(request, BODY_BYTES_MAX)
    }

    async fn with_json<RT: AsyncRuntime>(request: Request, bytes_max: usize) -> WithBody {
        let (received, body) = Received::with_body::<RT>(request, bytes_max).await?;
        if !body.bytes.is_empty() {
            check_is_json(&received.parts.headers)?;
        }
        Ok((received, body))
    }

    /// Accepts a request with any body.
    pub(crate) async fn with_body<RT: AsyncRuntime>(request: Request, bytes_max: usize) -> WithBody {
        let (parts, body) = request.into_parts();
        let timeout = timeout_left(&parts)?;
        let mut memory = parts.extensions.get::<HttpPeer>().and_then(|peer| peer.memory.as_ref()?.body());
        let bytes = if body.is_end_stream() {
            Bytes::new()
        } else {
            RT::timeout(BODY_ARRIVES_MAX, read_body(body, bytes_max, memory.as_mut())).await.map_err(|_| {
                Problem::bad_request(format!("the body did not arrive within {} seconds", BODY_ARRIVES_MAX.as_secs()))
            })??
        };
        Ok((Received { parts, timeout }, ReceivedBody { bytes, _share: memory }))
    }

    /// The path of the URL, as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The parameters of this call. Drops the body and its share of memory.
    pub(crate) fn params<T: DeserializeOwned>(&self, body: ReceivedBody) -> Result<T, Problem> {
        self.parse_params(&body.bytes)
    }

    /// The parameters of a call that takes them only from the query.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.parse_params(&[])
    }

    fn parse_params<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Problem> {
        let ParsedParams { params, has_wait } = params::parse(self.parts.uri.query(), body)?;
        if has_wait && let Some(peer) = self.peer() {
            peer.waits.store(true, Relaxed);
        }
        Ok(params)
    }

    /// The name or id in the path: `{x}` of `/v1/locks/{x}/queue`, decoded.
    pub(crate) fn segment(&self) -> Result<Cow<'_, str>, Problem> {
        params::decode(self.parts.uri.path().split('/').nth(ID_SEGMENT).unwrap_or_default())
    }

    /// What follows `prefix` in the path, decoded.
    pub(crate) fn path_after(&self, prefix: &str) -> Result<Cow<'_, str>, Problem> {
        params::decode(self.parts.uri.path().strip_prefix(prefix).unwrap_or_default())
    }

    /// The grant whose id is in the path.
    pub(crate) fn grant(&self) -> Result<GrantId, Problem> {
        self.segment()?.parse().map_err(|error| Problem::bad_request(format!("the grant's id: {error}")))
    }

    /// How fresh a read must be, and its timeout.
    pub(crate) fn read_options(&self, consistency: Option<Consistency>) -> Result<ReadOptions, Problem> {
        let freshness = match (consistency.unwrap_or_default(), headers::min_revision(self.headers())?) {
            (Consistency::Linearizable, None) => Freshness::Linearizable,
            (Consistency::Linearizable, Some(revision)) => Freshness::LinearizableAtLeast(revision),
            (Consistency::Local, None) => Freshness::Local,
            (Consistency::Local, Some(revision)) => Freshness::AtLeast(revision),
        };
        Ok(ReadOptions { freshness, timeout: self.timeout })
    }

    /// The idempotency key of this request.
    pub(crate) fn key(&self) -> Result<Option<GrantId>, Problem> {
        headers::idempotency_key(self.headers())
    }

    /// The idempotency key of this request and `true`, or a generated key and `false`.
    pub(crate) fn key_or_new<RT: AsyncRuntime>(&self, node: &Node<RT>) -> Result<(GrantId, bool), Problem> {
        Ok(self.key()?.map_or_else(|| (node.new_grant_id(), false), |key| (key, true)))
    }

    /// Refuses a caller that is not an administrator.
    pub(crate) fn require_admin(&self) -> Result<(), Problem> {
        match self.peer() {
            Some(HttpPeer { is_decided: true, .. }) => Ok(()),
            Some(HttpPeer { authenticator: Some(authenticator), .. }) => authenticator.admin.check(self.headers()),
            Some(_) | None => Err(Problem::new(Code::Internal, "no rule for administrators is set")),
        }
    }

    /// Whether the callers of some provider have this attribute.
    pub(crate) fn is_attribute(&self, name: &str) -> bool {
        let authenticator = self.peer().and_then(|peer| peer.authenticator.as_ref());
        authenticator.is_some_and(|authenticator| authenticator.providers.have_attribute(name))
    }

    /// The memory that the connection may use; unbounded in the simulator.
    pub(crate) fn memory(&self) -> Option<&Arc<ConnectionMemory>> {
        self.peer()?.memory.as_ref()
    }

    /// What the middleware has attached to the request.
    pub(crate) fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.parts.extensions.get()
    }

    fn peer(&self) -> Option<&HttpPeer> {
        self.parts.extensions.get()
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    /// The client, as text: `curl@127.0.0.1`.
    pub(crate) fn caller(&self) -> String {
        let program = headers::program(self.headers());
        match self.peer() {
            Some(peer) => [program, "@", &peer.address].concat(),
            None => program.to_owned(),
        }
    }
}

/// How long the server may still work on a request. What it did before the call counts, too.
fn timeout_left(parts: &Parts) -> Result<Duration, Problem> {
    let waited = parts.extensions.get::<HttpPeer>().map_or(Duration::ZERO, |peer| peer.waited);
    Ok(headers::timeout(&parts.headers)?.saturating_sub(waited))
}

/// Waits for something newer than the caller has, if `wait` or `after` is given. Without `after`, the caller has the current
/// revision. Returns the revision up to which nothing is newer, if the wait runs out. A later local read is then still as fresh
/// as the caller requires.
pub(crate) async fn nothing_newer<RT: AsyncRuntime>(
    node: &Node<RT>,
    (wait, after): (Option<Wait>, Option<Number>),
    scope: impl FnOnce() -> WatchFilter,
    read: &mut ReadOptions,
) -> Result<Option<Revision>, Problem> {
    if wait.is_none() && after.is_none() {
        return Ok(None);
    }
    let after = after.map(|revision| Revision(revision.get()));
    let result = node.wait_for_change(scope(), after, wait.map(Wait::get).unwrap_or_default(), *read).await;
    read.freshness = Freshness::Local;
    match result.map_err(of_read)? {
        LongPollResult::Newer => Ok(None),
        LongPollResult::Nothing(revision) => Ok(Some(revision)),
    }
}

/// Reads a body to its end, even if it is too large to keep. Otherwise its sender would not receive the answer.
async fn read_body(mut body: axum::body::Body, bytes_max: usize, mut memory: Option<&mut Share>) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    let mut length = 0_usize;
    let mut has_memory = true;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad_request(format!("the body did not arrive in full: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > BODY_DRAINED_MAX {
            break;
        }
        if let Some(memory) = &mut memory
            && length > BODY_BYTES_FREE
        {
            has_memory &= memory.grow_to(length.min(bytes_max));
        }
        if length > bytes_max || !has_memory {
            (first, more) = (Bytes::new(), BytesMut::new());
            continue;
        }
        // Nearly every body is one frame. It is used without a copy.
        if first.is_empty() && more.is_empty() {
            first = data;
        } else {
            if more.is_empty() {
                more.extend_from_slice(&first);
            }
            more.extend_from_slice(&data);
        }
    }
    if length > bytes_max {
        return Err(Problem::new(Code::TooLarge, format!("the body is too large: the limit is {bytes_max} bytes")));
    }
    if !has_memory {
        return Err(Problem::new(Code::Overloaded, "too many large bodies are arriving: try again after a pause")
            .facts(outcome(Effect::None, None)));
    }
    Ok(if more.is_empty() { first } else { more.freeze() })
}

fn check_is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(kind) = headers::text(headers, header::CONTENT_TYPE)? else { return Ok(()) };
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::bad_request(format!(
        "the header Content-Type is {essence}, but the body must be JSON: send \"Content-Type: application/json\", or put the \
         parameters into the query"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::quota::Quota;
    use axum::body::Body as RequestBody;
    use openraft_rt_tokio::TokioRuntime;

    /// A request whose body has this many bytes.
    fn request(bytes: usize, memory: &Arc<ConnectionMemory>) -> Request {
        let params = r#"{"ttl":"30s","wait":"600s"}"#;
        let body = format!("{}{params}", " ".repeat(bytes - params.len()));
        let mut request = Request::post("/v1/locks/a").body(RequestBody::from(body)).unwrap();
        request.extensions_mut().insert(HttpPeer::at(IpAddr::from([10, 0, 0, 1])).with_memory(Arc::clone(memory)));
        request
    }

    fn memory() -> (Arc<Quota>, Arc<ConnectionMemory>) {
        let bodies = Quota::new(PARAMS_BYTES_MAX, PARAMS_BYTES_MAX);
        let memory = ConnectionMemory::new(&bodies, &Quota::new(0, 0), IpAddr::from([10, 0, 0, 1]));
        (bodies, memory)
    }

    #[test]
    fn the_time_before_the_call_is_a_part_of_the_timeout() {
        let timeout = |waited: Duration| {
            let mut request = Request::get("/v1/nodes/a").header("fairhold-timeout", "3s").body(RequestBody::empty()).unwrap();
            let peer = HttpPeer { waited, ..HttpPeer::at(IpAddr::from([10, 0, 0, 1])) };
            request.extensions_mut().insert(peer);
            Received::without_body(request).unwrap().timeout
        };
        let millis = Duration::from_millis;
        assert_eq!([0, 766, 9_000].map(|waited| timeout(millis(waited))), [3_000, 2_234, 0].map(millis));
    }

    #[tokio::test]
    async fn a_waiting_request_keeps_neither_its_body_nor_its_share() {
        let (bodies, memory) = memory();
        let (received, body) = Received::with_params::<TokioRuntime>(request(PARAMS_BYTES_MAX, &memory)).await.unwrap();
        assert!(bodies.is_full());
        let acquire: fairhold_types::call::Acquire = received.params(body).unwrap();
        assert!(bodies.fits(IpAddr::from([10, 0, 0, 2]), PARAMS_BYTES_MAX), "the memory is free while the request waits");
        assert_eq!(acquire.wait.map(Wait::get), Some(fairhold_types::limits::WAIT_MAX));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_with_the_limit() {
        let too_large = Received::with_params::<TokioRuntime>(request(PARAMS_BYTES_MAX + 1, &memory().1)).await.map(drop);
        let problem = fairhold_types::problem::Problem::from(too_large.unwrap_err());
        assert_eq!((problem.status, &*problem.detail), (413, "the body is too large: the limit is 65536 bytes"));
    }

    #[tokio::test]
    async fn all_but_the_smallest_bodies_count() {
        let (bodies, memory) = memory();
        for (bytes, counts) in [(BODY_BYTES_FREE, false), (BODY_BYTES_FREE + 1, true)] {
            let (_, body) = Received::with_params::<TokioRuntime>(request(bytes, &memory)).await.unwrap();
            let fits = bodies.fits(IpAddr::from([10, 0, 0, 2]), PARAMS_BYTES_MAX);
            assert_eq!((body.bytes.len(), !fits), (bytes, counts));
        }
    }

    #[tokio::test]
    async fn a_body_of_parameters_has_its_own_limit() {
        let (_, memory) = memory();
        for (bytes, status) in [(BODY_BYTES_FREE, None), (PARAMS_BYTES_MAX, None), (PARAMS_BYTES_MAX + 1, Some(413))] {
            let refused = Received::with_params::<TokioRuntime>(request(bytes, &memory)).await.err();
            assert_eq!(refused.map(|problem| fairhold_types::problem::Problem::from(problem).status), status, "{bytes}");
        }
        assert!(
            Received::with_list::<TokioRuntime>(request(BODY_BYTES_MAX, &memory)).await.is_err(),
            "there is no memory for it"
        );
    }
}
