//! Wraps every call: measures it, checks its cluster, redirects it if requested, and sets the headers of its answer: the
//! cluster, the revision, the leader and the request's id.

use crate::{
    audit::{Audit, request::AuditedRequest},
    door::{self, Admitted, CallRule, NotAdmitted},
    edge::answer,
    edge::authenticator::Authenticator,
    edge::cluster_header::ClusterHeader,
    edge::error::of_read,
    edge::headers,
    edge::metrics::{HttpMetrics, METHODS, RouteMetrics},
    edge::observation::Observation,
    edge::problem::Problem,
    edge::request::HttpPeer,
    edge::stream::is_stream,
    routes::Route,
};
use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use fairhold_node::{Node, access::AccessTrail};
use fairhold_types::{Code, limits::TIMEOUT_DEFAULT};
use futures_util::{
    FutureExt,
    future::{BoxFuture, ready},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use hyper::body::Body as _;
use openraft_rt::{AsyncRuntime, Instant};
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tracing::Instrument;

/// The parts that the middleware needs: the node, the cluster's id, the request ids, the metrics, what it knows of
/// credentials, and the audit log.
pub(crate) struct MiddlewareContext<RT: AsyncRuntime> {
    pub(crate) node: Node<RT>,
    cluster: ClusterHeader,
    request_ids: RequestIds,
    metrics: HttpMetrics,
    /// The metrics of requests that match no route.
    no_route: Arc<RouteMetrics>,
    authenticator: Option<Arc<Authenticator>>,
    audit: Audit,
}

/// Makes request ids: the node, its start time, and the request's number.
struct RequestIds {
    prefix: String,
    taken: AtomicU64,
}

impl<RT: AsyncRuntime> MiddlewareContext<RT> {
    pub(crate) fn new(node: Node<RT>, metrics: HttpMetrics, authenticator: Option<Authenticator>, audit: Audit) -> Self {
        let prefix = format!("{}-{:x}-", node.cluster().id, node.wall_now().0);
        let request_ids = RequestIds { prefix, taken: AtomicU64::new(0) };
        let (cluster, no_route) = (ClusterHeader::of(&node), metrics.route(None));
        let authenticator = authenticator.map(Arc::new);
        MiddlewareContext { node, cluster, request_ids, metrics, no_route, authenticator, audit }
    }
}

impl RequestIds {
    /// The caller's own id for its request, or a new one.
    fn of(&self, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
        if let Some(given) = headers::request_id(headers) {
            return Ok(given.clone());
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        // With the exact capacity, the header takes the string without a copy.
        let digits = (u64::BITS - (number | 1).leading_zeros()).div_ceil(4);
        let mut id = String::with_capacity(self.prefix.len() + digits as usize);
        id.push_str(&self.prefix);
        // Writing into a string cannot fail.
        write!(id, "{number:x}").ok();
        answer::header_value(id)
    }
}

/// Wraps every call, and measures it. The request stays where it is until its call takes it: each of these futures that
/// owned it would need room for it.
pub(crate) async fn wrap<RT: AsyncRuntime>(
    context: &MiddlewareContext<RT>,
    route: Option<&Route<Node<RT>>>,
    request: &mut Request,
    next: impl FnOnce(Request, Node<RT>) -> BoxFuture<'static, Response>,
) -> Response {
    let start = RT::Instant::now();
    let in_flight = context.metrics.begin();
    let waits = request.extensions_mut().get_mut::<HttpPeer>().map(|peer| {
        peer.authenticator.clone_from(&context.authenticator);
        peer.is_decided = false;
        peer.waited = Duration::ZERO;
        peer.waits.store(false, Ordering::Relaxed);
        Arc::clone(&peer.waits)
    });
    let method = request.method().clone();
    let known = route.map(|route| (route.template, route.rule(&method)));
    let (mut response, took) = serve(context, (known, start), request, next).await;
    // hyper sets the length of other answers.
    if method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED {
        if let Some(length) = response.body().size_hint().exact() {
            response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        *response.body_mut() = Body::empty();
    }
    let waited = waits.is_some_and(|waits| waits.load(Ordering::Relaxed)) || is_stream(&response);
    let metrics = route.map_or(&context.no_route, |route| &route.metrics);
    in_flight.answer(metrics, &method, response.status(), waited, took);
    response
}

/// Answers a request that began at `start`. Returns how long that took, too.
async fn serve<RT: AsyncRuntime>(
    context: &MiddlewareContext<RT>,
    (known, start): (Option<(&'static str, CallRule)>, RT::Instant),
    request: &mut Request,
    next: impl FnOnce(Request, Node<RT>) -> BoxFuture<'static, Response>,
) -> (Response, Duration) {
    let (route, rule) = known.unzip();
    let id = match context.request_ids.of(request.headers()) {
        Ok(id) => id,
        Err(problem) => return (problem.into_response(), start.elapsed()),
    };
    // The path may contain a secret, so only its pattern is logged.
    let span = tracing::debug_span!("request", id = ?id, method = %request.method(), route);
    // The listener for the status has no authenticator, and traces nothing.
    let traced_by = context.authenticator.as_ref().map(|_| &context.node);
    let mut observed = Observation::begin(context.metrics.slow_requests(), traced_by, request, (id, route), start);
    let mut audited = context.audit.begin(request, route, observed.id(), fairhold_raft::wall_now);
    let call = match route_request(context, (rule, start), request, (observed.id(), audited.as_deref())).await {
        Ok((redirect, node)) => {
            observed.admitted(&node);
            match redirect {
                None => next(std::mem::take(request), node),
                Some(redirect) => ready(redirect).boxed(),
            }
        }
        Err(problem) => ready(problem.into_response()).boxed(),
    };
    let response = match &mut audited {
        None => call.instrument(span).await,
        Some(audited) => Box::pin(audited.answered::<RT>(call)).instrument(span).await,
    };
    let mut response = match audited {
        Some(audited) => audited.answer(response),
        None => response,
    };
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(request = ?observed.id(), "a request failed because of a defect in the server");
    }
    let (id, took) = observed.answered(&response);
    let headers = response.headers_mut();
    headers.entry(headers::REVISION).or_insert_with(|| HeaderValue::from(context.node.revision().0));
    headers.insert(headers::REQUEST_ID, id);
    if let Some(cluster) = context.cluster.value() {
        headers.insert(headers::CLUSTER, cluster.clone());
    }
    if let Some(Ok(leader)) = context.node.with_leader_url(HeaderValue::from_str) {
        headers.insert(headers::LEADER, leader);
    }
    (response, took)
}

/// Whatever decides on a request before its call runs. Returns the node's handle for its caller, and a redirect if the
/// request is not served here.
async fn route_request<RT: AsyncRuntime>(
    context: &MiddlewareContext<RT>,
    (rule, start): (Option<CallRule>, RT::Instant),
    request: &mut Request,
    (id, audited): (&HeaderValue, Option<&AuditedRequest>),
) -> Result<(Option<Response>, Node<RT>), Problem> {
    check_cluster(request, context.cluster.value())?;
    audited.map_or(Ok(()), AuditedRequest::check_log)?;
    let node = admit_at_last(context, (rule, start), request, (id, audited.map(AuditedRequest::trail))).await?;
    Ok((redirect(&node, rule.is_some(), request)?, node))
}

/// Admits a request by access data that is new enough, and counts it against the rate of its tenant, or refuses it. It began
/// at `start`.
async fn admit_at_last<RT: AsyncRuntime>(
    context: &MiddlewareContext<RT>,
    (rule, start): (Option<CallRule>, RT::Instant),
    request: &mut Request,
    (id, trail): (&HeaderValue, Option<Arc<AccessTrail>>),
) -> Result<Node<RT>, Problem> {
    let mut admitted = admit(context, rule, request, (id, trail.clone()));
    let mut is_due = rule.is_none_or(CallRule::is_counted);
    let may_be_outdated = match &admitted {
        // A node that joins applies the history of its cluster, which begins before rights were enforced.
        Ok(admitted) => {
            !admitted.is_decided && needs_cluster(request) && (!context.node.has_joined() || is_uninformed(context, request))
        }
        Err(refused) => door::may_be_outdated(&refused.problem, request.headers()),
    };
    if may_be_outdated {
        // A denied request costs the cluster more than many others, so it counts, too.
        let denied = admitted.as_ref().err().and_then(|refused| refused.denied.as_ref());
        if let Some(denied) = denied.filter(|_| is_due) {
            denied.take_request().map_err(of_read)?;
            is_due = false;
        }
        // A refusal is final for its caller, so a node that cannot tell says that, and another node decides.
        // In a box, so that the other requests need no room for it.
        let deadline = deadline::<RT>(request, start);
        Box::pin(context.node.catch_up_with_access(deadline)).await.map_err(of_read)?;
        admitted = admit(context, rule, request, (id, trail));
    }
    let Admitted { node, is_decided } = admitted.map_err(|refused| refused.problem)?;
    if is_due {
        node.take_request().map_err(of_read)?;
    }
    let is_proof_due = is_decided && node.is_proof_due();
    if is_proof_due {
        let deadline = deadline::<RT>(request, start);
        Box::pin(node.catch_up_with_access(deadline)).await.map_err(of_read)?;
    }
    // The call counts its own time from its beginning.
    if (may_be_outdated || is_proof_due)
        && let Some(peer) = request.extensions_mut().get_mut::<HttpPeer>()
    {
        peer.waited = start.elapsed();
    }
    Ok(node)
}

/// When the answer to a request that began at `start` is due. Its call refuses a timeout that is not valid.
fn deadline<RT: AsyncRuntime>(request: &Request, start: RT::Instant) -> RT::Instant {
    start + headers::timeout(request.headers()).unwrap_or(TIMEOUT_DEFAULT)
}

/// Whether the request shows a credential that the administrators' file does not have, at a node that has had no sign of a
/// leader since its start. The node may have lost its data, so it may not know that rights are enforced.
fn is_uninformed<RT: AsyncRuntime>(context: &MiddlewareContext<RT>, request: &Request) -> bool {
    let has_certificate = || request.extensions().get::<HttpPeer>().is_some_and(|peer| peer.user().is_some());
    let shows_credential = request.headers().contains_key(header::AUTHORIZATION) || has_certificate();
    let is_of_file = |of: &Authenticator| of.admin.check(request.headers()).is_ok();
    shows_credential && !context.node.has_heard_of_rights() && !context.authenticator.as_deref().is_none_or(is_of_file)
}

/// Admits a request by the access data of this node. If its rights were decided, the token of administrators is not asked
/// for.
fn admit<RT: AsyncRuntime>(
    context: &MiddlewareContext<RT>,
    rule: Option<CallRule>,
    request: &mut Request,
    (id, trail): (&HeaderValue, Option<Arc<AccessTrail>>),
) -> Result<Admitted<RT>, NotAdmitted<RT>> {
    let Some(authenticator) = &context.authenticator else {
        return Ok(Admitted { node: context.node.clone(), is_decided: false });
    };
    let admitted = door::admit(&context.node, authenticator, rule, request, (id, trail))?;
    if admitted.is_decided
        && let Some(peer) = request.extensions_mut().get_mut::<HttpPeer>()
    {
        peer.is_decided = true;
    }
    Ok(admitted)
}

/// `Fairhold-Cluster`: refuses a request for another cluster before it has any effect. Calls about the node itself are
/// exempt, and so are all calls before the cluster has formed.
fn check_cluster(request: &Request, cluster: Option<&HeaderValue>) -> Result<(), Problem> {
    match (request.headers().get(headers::CLUSTER), cluster) {
        (Some(wanted), Some(cluster)) if wanted != cluster && needs_cluster(request) => {
            let detail = "the request is for another cluster; Fairhold-Cluster in this answer names the cluster of this node";
            Err(Problem::new(Code::WrongCluster, detail))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Whether the call needs the cluster. A call about the node itself does not, and is never redirected.
fn needs_cluster(request: &Request) -> bool {
    request.uri().path().starts_with("/v1/") && request.uri().path() != "/v1/cluster"
}

/// `Fairhold-Route: redirect`: the same resource at the leader, if another node is known to lead.
fn redirect<RT: AsyncRuntime>(node: &Node<RT>, is_known: bool, request: &Request) -> Result<Option<Response>, Problem> {
    if !wants_redirect(request)? || is_served_here(is_known, request) || node.is_leader() {
        return Ok(None);
    }
    let Some(leader) = node.leader_url() else { return Ok(None) };
    let mut response = answer::empty(StatusCode::TEMPORARY_REDIRECT, node.revision());
    response.headers_mut().insert(header::LOCATION, answer::header_value(location(&leader, request.uri()))?);
    Ok(Some(response))
}

/// Requests that need no other node: unknown paths, and reads of this node's own state.
fn is_served_here(is_known: bool, request: &Request) -> bool {
    let mut query = request.uri().query().unwrap_or_default().split('&');
    !is_known || query.any(|parameter| parameter == "consistency=local")
}

fn wants_redirect(request: &Request) -> Result<bool, Problem> {
    match headers::text(request.headers(), headers::ROUTE)? {
        None => Ok(false),
        // An unsupported method is refused here with `405`, without the leader.
        Some("redirect") if !METHODS.contains(request.method()) => Ok(false),
        Some("redirect") => Ok(needs_cluster(request)),
        Some(_) => Err(Problem::bad_request("the header Fairhold-Route: expected redirect")),
    }
}

fn location(leader: &str, uri: &Uri) -> String {
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    format!("{}{target}", leader.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(route: Option<&str>, uri: &str) -> Request {
        let request = route.into_iter().fold(Request::get(uri), |request, route| request.header(headers::ROUTE, route));
        request.body(axum::body::Body::empty()).unwrap()
    }

    #[test]
    fn only_a_request_for_a_redirect_is_sent_to_the_leader() {
        for (route, uri, wants) in [
            (None, "/v1/locks/a", false),
            (Some("redirect"), "/v1/locks/a", true),
            (Some("redirect"), "/v1/cluster?digest", false),
            (Some("redirect"), "/readyz", false),
        ] {
            assert_eq!(wants_redirect(&request(route, uri)).unwrap(), wants, "{route:?} {uri}");
        }
        assert!(wants_redirect(&request(Some("proxy"), "/v1/locks/a")).is_err());
        let mut trace = request(Some("redirect"), "/v1/locks/a");
        *trace.method_mut() = Method::TRACE;
        assert!(!wants_redirect(&trace).unwrap(), "no call has this method");
    }

    #[test]
    fn a_request_that_names_another_cluster_is_refused() {
        let named = |path: &str, cluster: Option<&str>| {
            let request = cluster.into_iter().fold(Request::get(path), |request, id| request.header(headers::CLUSTER, id));
            request.body(axum::body::Body::empty()).unwrap()
        };
        let own = HeaderValue::from_static("0a");
        for (path, wanted, own, fits) in [
            ("/v1/locks/a", None, Some(&own), true),
            ("/v1/locks/a", Some("0a"), Some(&own), true),
            ("/v1/locks/a", Some("0b"), Some(&own), false),
            ("/v1/nothing", Some(""), Some(&own), false),
            ("/v1/locks/a", Some("0b"), None, true),
            ("/v1/cluster", Some("0b"), Some(&own), true),
            ("/livez", Some("0b"), Some(&own), true),
        ] {
            assert_eq!(check_cluster(&named(path, wanted), own).is_ok(), fits, "{path} of {wanted:?} at {own:?}");
        }
        let refused = check_cluster(&named("/v1/txn", Some("0b")), Some(&own)).unwrap_err();
        let refused = fairhold_types::problem::Problem::from(refused);
        assert_eq!((refused.status, refused.code), (421, Code::WrongCluster));
    }

    #[test]
    fn a_redirect_keeps_the_path_and_the_query() {
        let uri = Uri::from_static("/v1/locks/orders%2F42?wait=30s&ttl=10s");
        assert_eq!(location("http://n1:7171/", &uri), "http://n1:7171/v1/locks/orders%2F42?wait=30s&ttl=10s");
    }

    #[test]
    fn a_request_keeps_its_own_id_if_that_is_safe_to_log() {
        let request_ids = RequestIds { prefix: "1-abc-".to_owned(), taken: AtomicU64::new(15) };
        let id_of = |id: &[u8]| {
            let headers = HeaderMap::from_iter([(headers::REQUEST_ID, HeaderValue::from_bytes(id).unwrap())]);
            request_ids.of(&headers).unwrap()
        };
        assert_eq!(id_of(b"mine-1"), "mine-1");
        assert_eq!(request_ids.of(&HeaderMap::new()).unwrap(), "1-abc-f");
        assert_eq!(id_of(b"two words"), "1-abc-10");
        assert_eq!(id_of("é".as_bytes()), "1-abc-11");
        assert_eq!(id_of(&[b'x'; 128]).len(), 128);
        assert_eq!(id_of(&[b'x'; 129]), "1-abc-12");
    }
}
