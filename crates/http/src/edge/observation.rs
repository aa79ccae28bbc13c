//! One request, as the log of slow requests and its trace see it. If it is dropped before its answer, its client has
//! disconnected: that is the end of the request, too.

use crate::{
    audit::{entry::shows_token, names::in_path},
    edge::headers,
    edge::metrics::known_method,
    edge::slow_requests::{SlowRequest, SlowRequests},
};
use axum::{body::Body, response::Response};
use fairhold_node::{
    Node,
    access::{Caller, Credential},
};
use fairhold_trace::{Attribute, RequestSpan, Stage};
use fairhold_types::duration::millis;
use http::{HeaderValue, Request, StatusCode};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// The beginning of the routes that are traced: the others say how the node is, or match nothing.
const TRACED: &str = "/v1/";
/// What OpenTelemetry calls a method that no call has.
const OTHER_METHOD: &str = "_OTHER";

/// A request on its way.
pub(crate) struct Observation<'c, RT: AsyncRuntime> {
    slow: &'c SlowRequests,
    started_at: RT::Instant,
    id: HeaderValue,
    /// None if no call has it.
    method: Option<&'static str>,
    route: Option<&'static str>,
    /// If it is traced. In a box, so that the other requests need no room for it.
    traced: Option<Box<TracedRequest>>,
    /// The handle of the node for the caller, once it is known.
    node: Option<Node<RT>>,
    is_ended: bool,
}

/// A request that is traced.
struct TracedRequest {
    span: RequestSpan,
    /// What the path names, if the trace may have names.
    name: Option<String>,
}

impl<'c, RT: AsyncRuntime> Observation<'c, RT> {
    /// A request with this id begins. Without a node it is not traced.
    pub(crate) fn begin(
        slow: &'c SlowRequests,
        traced_by: Option<&Node<RT>>,
        request: &Request<Body>,
        (id, route): (HeaderValue, Option<&'static str>),
        started_at: RT::Instant,
    ) -> Self {
        let traced_by = traced_by.filter(|_| route.is_some_and(|route| route.starts_with(TRACED)));
        let span = traced_by.and_then(|node| RequestSpan::begin(node.tracer(), || headers::trace_parent(request.headers())));
        let traced = span.map(|span| {
            let named = route.filter(|_| span.shows_names());
            let name = named.and_then(|route| in_path(route, request.uri().path())).filter(|name| !shows_token(name));
            Box::new(TracedRequest { span, name })
        });
        let method = known_method(request.method());
        Observation { slow, started_at, id, method, route, traced, node: None, is_ended: false }
    }

    /// The id of the request.
    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// The caller is known. What the node does for it belongs to this request. A stranger cannot have its requests traced.
    pub(crate) fn admitted(&mut self, node: &Node<RT>) {
        let is_stranger = || node.caller().is_none_or(|caller| *caller.credential() == Credential::Nothing);
        self.traced = self.traced.take().filter(|traced| !traced.span.is_only_requested() || !is_stranger());
        if let (Some(traced), Some(work)) = (&self.traced, node.work()) {
            work.trace(traced.span.clone());
        }
        self.node = Some(node.clone());
    }

    /// The answer is known. Returns the id of the request, and how long it took.
    pub(crate) fn answered(mut self, response: &Response) -> (HeaderValue, Duration) {
        let took = self.end(Some(response.status()));
        (std::mem::replace(&mut self.id, HeaderValue::from_static("")), took)
    }

    /// Returns how long it took.
    fn end(&mut self, status: Option<StatusCode>) -> Duration {
        self.is_ended = true;
        let took = self.started_at.elapsed();
        self.log_if_slow(status, took);
        if let Some(traced) = self.traced.take().filter(|traced| self.node.is_some() || !traced.span.is_only_requested()) {
            self.end_span(*traced, status);
        }
        took
    }

    fn log_if_slow(&self, status: Option<StatusCode>, total: Duration) {
        let work = self.node.as_ref().and_then(Node::work);
        // Its wait has no end yet, so nobody knows how long it was.
        if status.is_none() && work.is_some_and(|work| work.is_waiting()) {
            return;
        }
        let time = |stage| work.map_or(Duration::ZERO, |work| work.time(stage));
        let judged = self.slow.judge(total.saturating_sub(time(Stage::Wait)), fairhold_raft::wall_now);
        let Some(SlowRequest::Logged) = judged else { return };
        let [queue, forward, commit, apply, read, wait] = Stage::ALL.map(|stage| millis(time(stage)));
        tracing::warn!(
            request = self.shown_id().unwrap_or_default(),
            method = self.method.unwrap_or(OTHER_METHOD),
            route = self.route,
            principal = self.caller().map(|caller| caller.principal().as_str()),
            node = self.node.as_ref().map(|node| node.cluster().id),
            status = status.map(|status| status.as_u16()),
            total_ms = millis(total),
            queue_ms = queue,
            forward_ms = forward,
            commit_ms = commit,
            apply_ms = apply,
            read_ms = read,
            wait_ms = wait,
            "a slow request"
        );
    }

    fn end_span(&self, TracedRequest { span, name: named }: TracedRequest, status: Option<StatusCode>) {
        let text = |text: &str| Attribute::Text(text.to_owned());
        let method = self.method.unwrap_or(OTHER_METHOD);
        let mut attributes = vec![("http.request.method", text(method))];
        attributes.extend(self.route.map(|route| ("http.route", text(route))));
        attributes.extend(self.shown_id().map(|id| ("fairhold.request_id", text(id))));
        if span.shows_names() {
            attributes.extend(self.caller().map(|caller| ("fairhold.principal", text(caller.principal().as_str()))));
            attributes.extend(named.as_deref().map(|name| ("fairhold.name", text(name))));
        }
        attributes.extend(status.map(|status| ("http.response.status_code", Attribute::Number(status.as_u16().into()))));
        let name = [method, self.route.unwrap_or_default()].join(" ");
        span.end(name, attributes, status.is_none_or(|status| status.is_server_error()));
    }

    fn caller(&self) -> Option<&Caller> {
        self.node.as_ref().and_then(Node::caller)
    }

    /// The id, unless a caller has put its token there.
    fn shown_id(&self) -> Option<&str> {
        self.id.to_str().ok().filter(|id| !shows_token(id))
    }
}

/// The client went away.
impl<RT: AsyncRuntime> Drop for Observation<'_, RT> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end(None);
        }
    }
}
