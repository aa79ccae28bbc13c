//! One request on its way, and the entries of the audit log that it gets.
//!
//! A request gets one entry, when it is answered. If it lasts longer than `START_AFTER`, or its answer is a stream, it
//! gets two: one at its start and one at its end. Whatever ends it, the last entry is written: also if the client
//! disconnects.

use super::{
    Audit,
    call_kind::CallKind,
    entry::{self, AuditDecision, AuditEntry, AuditEvent, RequestEnd},
    log::AuditLog,
    names,
    scope::AuditScope,
    unavailable,
};
use crate::edge::{headers, metrics::known_method, problem::Problem, request::HttpPeer, stream::is_stream};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use fairhold_node::access::{AccessRefusal, AccessTrail, TrailRecord};
use fairhold_types::{Code, time::WallMillis};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use openraft_rt::AsyncRuntime;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A request that lasts longer than this gets an entry before its end.
const START_AFTER: Duration = Duration::from_secs(1);
/// What the log has of a method that no call has.
const OTHER_METHOD: &str = "other";

/// A request on its way. If it is dropped before its end, its client has disconnected.
pub(crate) struct AuditedRequest {
    log: Arc<AuditLog>,
    trail: Arc<AccessTrail>,
    now: fn() -> WallMillis,
    id: HeaderValue,
    address: Option<Arc<str>>,
    method: &'static str,
    route: Option<&'static str>,
    kind: CallKind,
    name_in_path: Option<String>,
    /// The answer, once it is known.
    answer: AuditAnswer,
    is_started: bool,
    is_stream: bool,
    is_ended: bool,
}

/// What the log has of an answer.
#[derive(Debug, Clone, Copy, Default)]
struct AuditAnswer {
    status: Option<StatusCode>,
    code: Option<Code>,
    revision: Option<u64>,
}

/// The gate of a batch: its calls are refused one by one.
#[derive(Debug, Clone)]
pub(crate) struct AuditGate(Arc<AuditLog>);

impl AuditGate {
    /// Whether calls that the log must have are refused now.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.refuses_calls()
    }
}

impl Audit {
    /// The start of a request with this id. `None` if there is no audit log. It is in a box, so that requests without
    /// one need no room for it.
    pub(crate) fn begin(
        &self,
        request: &mut Request<Body>,
        route: Option<&'static str>,
        id: &HeaderValue,
        now: fn() -> WallMillis,
    ) -> Option<Box<AuditedRequest>> {
        let log = self.log()?;
        let path = request.uri().path();
        let kind = CallKind::of(route, request.method(), path);
        let address = request.extensions().get::<HttpPeer>().map(|peer| Arc::clone(&peer.address));
        let name_in_path = route.and_then(|route| names::in_path(route, path));
        let method = known_method(request.method()).unwrap_or(OTHER_METHOD);
        if kind == CallKind::Batch && log.scope() >= AuditScope::Writes {
            request.extensions_mut().insert(AuditGate(Arc::clone(log)));
        }
        Some(Box::new(AuditedRequest {
            log: Arc::clone(log),
            trail: Arc::default(),
            now,
            id: id.clone(),
            address,
            method,
            route,
            kind,
            name_in_path,
            answer: AuditAnswer::default(),
            is_started: false,
            is_stream: false,
            is_ended: false,
        }))
    }
}

impl AuditedRequest {
    /// Where the node writes down what it decides.
    pub(crate) fn trail(&self) -> Arc<AccessTrail> {
        Arc::clone(&self.trail)
    }

    /// Refuses the call if the log must have it, and cannot be written.
    pub(crate) fn check_log(&self) -> Result<(), Problem> {
        let is_wanted = self.kind.may_be_refused() && self.is_in_scope();
        if is_wanted && self.log.refuses_calls() { Err(unavailable()) } else { Ok(()) }
    }

    /// Waits for the answer. A call that takes long gets an entry meanwhile.
    pub(crate) async fn answered<RT: AsyncRuntime>(&mut self, mut call: BoxFuture<'static, Response>) -> Response {
        if !self.is_in_scope() {
            return call.await;
        }
        tokio::select! {
            biased;
            response = &mut call => return response,
            () = RT::sleep(START_AFTER) => self.write_start(),
        }
        call.await
    }

    /// The answer is known. A stream goes on, and ends with its body.
    pub(crate) fn answer(mut self: Box<Self>, response: Response) -> Response {
        self.answer = AuditAnswer {
            status: Some(response.status()),
            code: response.extensions().get::<Code>().copied(),
            revision: response.headers().get(headers::REVISION).and_then(|revision| revision.to_str().ok()?.parse().ok()),
        };
        // `check_log` refused it, and it did nothing. The room that is left is for renewals and releases.
        if self.answer.code == Some(Code::AuditUnavailable) {
            self.is_ended = true;
            return response;
        }
        if response.status().is_success() && is_stream(&response) {
            if self.is_in_scope() && !self.is_started {
                self.write_start();
            }
            self.trail.seal();
            self.is_stream = true;
            return response.map(|body| Body::new(AuditedBody { body, audited: Some(self) }));
        }
        // The refusal has had no effect, so another one can take its place.
        let is_refused = matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused && self.kind.may_be_refused() && self.log.refuses_calls() {
            let response = unavailable().into_response();
            self.answer.status = Some(response.status());
            self.answer.code = Some(Code::AuditUnavailable);
            self.end(None);
            return response;
        }
        self.end(None);
        response
    }

    /// Whether the log has the request, also if it is allowed.
    fn is_in_scope(&self) -> bool {
        match (self.log.scope(), self.kind) {
            (AuditScope::Denied, _) | (_, CallKind::Health) => false,
            (AuditScope::Writes, kind) => matches!(kind, CallKind::Change | CallKind::Release | CallKind::Batch),
            (AuditScope::All, _) => true,
        }
    }

    fn write_start(&mut self) {
        self.is_started = true;
        let record = self.trail.record();
        let decision = self.decision(&record);
        self.write(AuditEvent::Start, &record, decision, None);
    }

    /// Writes the last entry, if the log has the request.
    fn end(&mut self, reason: Option<RequestEnd>) {
        self.is_ended = true;
        let record = self.trail.record();
        let decision = self.decision(&record);
        let is_refused = matches!(decision, AuditDecision::Denied | AuditDecision::Unauthenticated);
        if !is_refused && !self.is_in_scope() {
            return;
        }
        let address = self.address.as_deref();
        let principal = record.principal.as_ref().map(|principal| principal.as_str());
        if is_refused && !self.is_started && !self.log.admits_refusal((self.now)(), address, principal) {
            return;
        }
        let event = if self.is_started || self.is_stream { AuditEvent::End } else { AuditEvent::Request };
        let reason = if is_refused && self.is_stream { Some(RequestEnd::Revoked) } else { reason };
        self.write(event, &record, decision, reason);
    }

    fn decision(&self, record: &TrailRecord) -> AuditDecision {
        // A call may be answered well although it was refused on the way: it was granted before its right was lost.
        let has_succeeded = self.answer.status.is_some_and(|status| status.is_success());
        let counts = !has_succeeded || self.kind == CallKind::Batch || self.is_stream;
        match (record.refusal.as_ref().filter(|_| counts), self.answer.status) {
            (Some(AccessRefusal::Denied(_)), _) => AuditDecision::Denied,
            (Some(AccessRefusal::Unauthenticated(_)), _) | (None, Some(StatusCode::UNAUTHORIZED)) => {
                AuditDecision::Unauthenticated
            }
            (None, Some(StatusCode::FORBIDDEN)) => AuditDecision::Denied,
            (Some(AccessRefusal::Stale) | None, _) => match &record.principal {
                None => AuditDecision::Undecided,
                Some(_) if record.is_enforced => AuditDecision::Allowed,
                Some(_) => AuditDecision::Unenforced,
            },
        }
    }

    fn write(&self, event: AuditEvent, record: &TrailRecord, decision: AuditDecision, reason: Option<RequestEnd>) {
        let line = entry::line(&AuditEntry {
            time: (self.now)().to_rfc3339(),
            event,
            request: self.id.to_str().ok().filter(|id| !entry::shows_token(id)),
            principal: record.principal.as_ref().map(|principal| principal.as_str()),
            address: self.address.as_deref(),
            method: Some(self.method),
            route: self.route,
            names: entry::names(&record.names, self.name_in_path.as_deref()),
            names_omitted: record.names_omitted,
            decision: Some(decision),
            status: self.answer.status.map(|status| status.as_u16()),
            code: self.answer.code,
            reason,
            revision: self.answer.revision,
            count: None,
            since: None,
        });
        self.log.append(&line);
    }
}

/// The client went away.
impl Drop for AuditedRequest {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end(Some(RequestEnd::Disconnected));
        }
    }
}

/// The body of a stream. Its end is that of the request.
struct AuditedBody {
    body: Body,
    audited: Option<Box<AuditedRequest>>,
}

impl HttpBody for AuditedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none()
            && let Some(mut audited) = self.audited.take()
        {
            audited.end(None);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
