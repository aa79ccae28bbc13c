//! An error on its way to the caller: a problem of RFC 9457.

use crate::edge::body;
use axum::response::{IntoResponse, Response};
use fairhold_access::QuotaKind;
use fairhold_types::{
    Code, GrantId, Path,
    problem::{Effect, Facts},
};
use http::{HeaderValue, StatusCode, header};
use std::borrow::Cow;

/// The value of `Retry-After`, in seconds.
pub(crate) const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Code,
    retryable: bool,
    detail: Cow<'static, str>,
    /// The advice for the caller.
    advice: Option<Cow<'static, str>>,
    facts: Box<Facts>,
}

/// Status, title, and whether the same request may succeed when it is repeated, for each code.
pub(crate) fn properties_of(code: Code) -> (StatusCode, &'static str, bool) {
    match code {
        Code::BadRequest => (StatusCode::BAD_REQUEST, "The request is not valid", false),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "Authentication required", false),
        Code::Denied => (StatusCode::FORBIDDEN, "Not allowed", false),
        Code::WrongCluster => (StatusCode::MISDIRECTED_REQUEST, "This is another cluster", false),
        Code::NotFound => (StatusCode::NOT_FOUND, "No such resource", false),
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", false),
        Code::NoNode => (StatusCode::NOT_FOUND, "No such node", false),
        Code::GrantNotFound => (StatusCode::NOT_FOUND, "No such grant", false),
        Code::SessionNotFound => (StatusCode::NOT_FOUND, "No such session", false),
        Code::LockHeld => (StatusCode::CONFLICT, "The lock is held", true),
        Code::WaitTimeout => (StatusCode::CONFLICT, "The lock did not become free in time", true),
        Code::SessionOwned => (StatusCode::CONFLICT, "The grant belongs to a session", false),
        Code::WouldDeadlock => (StatusCode::CONFLICT, "Waiting would cause a deadlock", true),
        Code::LimitMismatch => (StatusCode::CONFLICT, "The lock has another limit", false),
        Code::NotLeader => (StatusCode::CONFLICT, "The grant does not lead the election", false),
        Code::NotHeld => (StatusCode::CONFLICT, "The grant is not held yet", true),
        Code::NotCaughtUp => (StatusCode::CONFLICT, "The node has not caught up", true),
        Code::AlreadyLeader => (StatusCode::CONFLICT, "The node is already the leader", false),
        Code::NotAllUpgraded => (StatusCode::CONFLICT, "Not every member is upgraded", true),
        Code::NeedsUpgrade => (StatusCode::CONFLICT, "The cluster's version is too low", false),
        Code::ChangeInProgress => (StatusCode::CONFLICT, "Another change of the members is under way", true),
        Code::WrongNode => (StatusCode::CONFLICT, "The address is not that of the member", false),
        Code::WouldLoseQuorum => (StatusCode::CONFLICT, "Too few of the remaining voters are healthy", true),
        Code::TimingTooFast => (StatusCode::CONFLICT, "The round trips are too long for the timing profile", false),
        Code::WouldLockOut => (StatusCode::CONFLICT, "Nobody could change access rights any more", false),
        Code::AlreadyIssued => (StatusCode::CONFLICT, "The token was issued before", false),
        Code::InUse => (StatusCode::CONFLICT, "The role is in use", false),
        Code::NoLeader => (StatusCode::NOT_FOUND, "The election has no leader", true),
        Code::KindMismatch => (StatusCode::CONFLICT, "The name is in use for something else", false),
        Code::Overlaps => (StatusCode::CONFLICT, "Another tenant has it", false),
        Code::NotEmpty => (StatusCode::CONFLICT, "The node has children", false),
        Code::NodeExists => (StatusCode::CONFLICT, "The node already exists", false),
        Code::EphemeralParent => (StatusCode::CONFLICT, "An ephemeral node cannot have children", false),
        Code::StaleToken => (StatusCode::CONFLICT, "The fencing token is stale", false),
        Code::GrantGone => (StatusCode::GONE, "The grant has ended", false),
        Code::SessionExpired => (StatusCode::GONE, "The session has ended", false),
        Code::Forgotten => (StatusCode::GONE, "The id is too old", false),
        Code::Compacted => (StatusCode::GONE, "The events are no longer kept", false),
        Code::VersionMismatch => (StatusCode::PRECONDITION_FAILED, "The node has another version", false),
        Code::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Too large", false),
        Code::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, "The key was used with another request", false),
        Code::BadRule => (StatusCode::UNPROCESSABLE_ENTITY, "The rule is not valid", false),
        Code::QueueFull => (StatusCode::TOO_MANY_REQUESTS, "The queue is full", true),
        Code::StateFull => (StatusCode::TOO_MANY_REQUESTS, "The state is full", false),
        Code::QuotaExceeded => (StatusCode::TOO_MANY_REQUESTS, "The quota is used up", false),
        Code::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "The cluster is at a limit", true),
        Code::BackupBusy => (StatusCode::TOO_MANY_REQUESTS, "Another backup is being made", true),
        Code::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "The server is overloaded", true),
        Code::DiskLow => (StatusCode::SERVICE_UNAVAILABLE, "The disk is nearly full", true),
        Code::StaleAccess => (StatusCode::SERVICE_UNAVAILABLE, "Access rights were changed", true),
        Code::AuditUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "The audit log cannot be written", true),
        Code::NoQuorum => (StatusCode::SERVICE_UNAVAILABLE, "No majority can be reached", true),
        Code::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "The server is shutting down", true),
        Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "No answer in time", true),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error", false),
    }
}

pub(crate) fn status_of(code: Code) -> StatusCode {
    properties_of(code).0
}

impl Problem {
    /// A problem of that code, with its usual status.
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Problem {
        let (status, _, retryable) = properties_of(code);
        Problem { status, code, retryable, detail: detail.into(), advice: None, facts: Box::default() }
    }

    /// The problem of an invalid request.
    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(Code::BadRequest, detail)
    }

    pub(crate) fn facts(mut self, facts: Facts) -> Problem {
        *self.facts = facts;
        self
    }

    /// The same, with changed facts.
    pub(crate) fn map_facts(mut self, change: impl FnOnce(Facts) -> Facts) -> Problem {
        *self.facts = change(*self.facts);
        self
    }

    /// What is wrong with the credential, if that is the problem.
    pub(crate) fn credential(&self) -> Option<&'static str> {
        self.facts.credential
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The same, with its position in the request before the detail.
    pub(crate) fn at(mut self, position: &str) -> Problem {
        self.detail = format!("{position}: {}", self.detail).into();
        self
    }

    /// The same for a caller whose condition was that the node does not exist.
    pub(crate) fn for_new_node(self) -> Problem {
        if self.code == Code::VersionMismatch {
            let detail = "the node already exists, but the request is only for a new node (If-None-Match: *)";
            return Problem { detail: detail.into(), advice: None, ..self };
        }
        self
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Problem {
        self.status = status;
        self
    }

    pub(crate) fn retryable(mut self, retryable: bool) -> Problem {
        self.retryable = retryable;
        self
    }

    /// The same, with this advice; `None` keeps the earlier advice.
    pub(crate) fn advice(self, advice: Option<impl Into<Cow<'static, str>>>) -> Problem {
        Problem { advice: advice.map(Into::into).or(self.advice), ..self }
    }
}

impl From<Problem> for fairhold_types::problem::Problem {
    fn from(problem: Problem) -> Self {
        let (_, title, _) = properties_of(problem.code);
        fairhold_types::problem::Problem {
            kind: "about:blank",
            title,
            status: problem.status.as_u16(),
            detail: problem.detail,
            advice: problem.advice,
            code: problem.code,
            retryable: problem.retryable,
            facts: *problem.facts,
        }
    }
}

impl From<Problem> for fairhold_types::watch::Failure {
    fn from(problem: Problem) -> Self {
        fairhold_types::problem::Problem::from(problem).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retryable, code) = (self.status, self.retryable, self.code);
        let mut bytes = Vec::new();
        body::write_json(&fairhold_types::problem::Problem::from(self), &mut bytes);
        bytes.push(b'\n');
        let mut response = body::answer(PROBLEM_JSON, bytes);
        *response.status_mut() = status;
        // For the audit log.
        response.extensions_mut().insert(code);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, BEARER);
        }
        // Some refusals with these statuses, such as `state_full`, do not clear by themselves.
        if retryable && matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}

/// The facts about the effect of a request, with its id if the caller can retry with it.
pub(crate) fn outcome(effect: Effect, id: Option<GrantId>) -> Facts {
    Facts { outcome: Some(effect), id, ..Facts::default() }
}

/// The facts of an error about this node of the tree.
pub(crate) fn about(path: Path) -> Facts {
    Facts { path: Some(path), ..Facts::default() }
}

/// The facts of an error about a quota of a tenant.
pub(crate) fn over_quota(tenant: String, quota: QuotaKind, limit: u64, used: u64) -> Facts {
    Facts { tenant: Some(tenant), quota: Some(quota.as_str()), limit: Some(limit), used: Some(used), ..Facts::default() }
}

/// The facts of an error about a limit.
pub(crate) fn limited(limit: u64) -> Facts {
    Facts { limit: Some(limit), ..Facts::default() }
}
