//! The one mapping from error to status: every refusal, failure and wrong request becomes a problem of RFC 9457 here.

mod rejection;

use self::rejection::of_rejection;
use crate::{
    advice::{bounded, retry, what_to_do},
    answer,
};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fairhold_node::api::{CallError, InTheWay};
use fairhold_raft::{
    HandoverError,
    error::{NotProposed, ProposeError, ReadError, UnknownReason},
};
use fairhold_types::{
    Code, GrantId, Path,
    dto::Contender,
    duration,
    problem::{Effect, Facts},
    time::WallMillis,
};
use http::{HeaderValue, StatusCode, header};
use std::{borrow::Cow, time::Duration};

/// After how many seconds a caller that was turned away should ask again.
pub(crate) const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// Answers may hold secrets, and are old the moment they are sent.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Code,
    retryable: bool,
    detail: Cow<'static, str>,
    /// What the caller can do about it.
    advice: Option<Cow<'static, str>>,
    facts: Box<Facts>,
}

/// What was asked, as far as an error's meaning depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A grant, with this id.
    Acquire {
        /// The grant's id.
        id: GrantId,
        /// Whether the caller chose it, so that a repeated request names the same grant.
        given: bool,
        /// When the answer is given, so that "held for" can be said.
        now: WallMillis,
    },
    /// The same in a batch, where a call has no `wait` and its id is no header.
    AcquireInBatch {
        /// The grant's id, which the caller chose.
        id: GrantId,
        /// When the answer is given.
        now: WallMillis,
    },
    /// A change that is safe to repeat: a release, a renewal, a keepalive, the end of a session.
    Change,
    /// A write that happens once more if it is repeated without its key.
    Write {
        /// The caller's key, or the one that the server made for it.
        key: GrantId,
    },
    /// A read, or the check of a token.
    Read,
}

/// Status, title, and whether the same request may succeed if it is simply repeated, for each code.
fn standing(code: Code) -> (StatusCode, &'static str, bool) {
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
        Code::NoLeader => (StatusCode::NOT_FOUND, "The election has no leader", true),
        Code::KindMismatch => (StatusCode::CONFLICT, "The name is in use for something else", false),
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
        Code::QueueFull => (StatusCode::TOO_MANY_REQUESTS, "The queue is full", true),
        Code::StateFull => (StatusCode::TOO_MANY_REQUESTS, "The state is full", false),
        Code::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "The cluster is at a limit", true),
        Code::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "The server is overloaded", true),
        Code::DiskLow => (StatusCode::SERVICE_UNAVAILABLE, "The disk is nearly full", true),
        Code::NoQuorum => (StatusCode::SERVICE_UNAVAILABLE, "No majority can be reached", true),
        Code::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "The server is shutting down", true),
        Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "No answer in time", true),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error", false),
    }
}

pub(crate) fn status_of(code: Code) -> StatusCode {
    standing(code).0
}

impl Problem {
    /// A problem of that code, with its usual status.
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Problem {
        let (status, _, retryable) = standing(code);
        Problem { status, code, retryable, detail: detail.into(), advice: None, facts: Box::default() }
    }

    /// The request itself is wrong.
    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(Code::BadRequest, detail)
    }

    /// The contract has it, this version not yet.
    pub(crate) fn unsupported(what: &str) -> Problem {
        Problem::bad_request(format!("{what}: this version does not support it yet"))
    }

    pub(crate) fn facts(mut self, facts: Facts) -> Problem {
        *self.facts = facts;
        self
    }

    /// The same, with the place in the request where it was found.
    pub(crate) fn at(mut self, place: &str) -> Problem {
        self.detail = format!("{place}: {}", self.detail).into();
        self
    }

    /// The same to a caller whose condition was that the node does not exist.
    pub(crate) fn of_new_node(self) -> Problem {
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

    fn retryable(mut self, retryable: bool) -> Problem {
        self.retryable = retryable;
        self
    }

    /// The same, with what the caller can do about it.
    fn advised(self, asked: Asked) -> Problem {
        match what_to_do(self.code, asked) {
            Some(advice) => self.advice(advice),
            None => self,
        }
    }

    /// The same, with this advice.
    pub(crate) fn advice(self, advice: impl Into<Cow<'static, str>>) -> Problem {
        Problem { advice: Some(advice.into()), ..self }
    }

    /// The problem of a call to the node.
    pub(crate) fn of(error: CallError, asked: Asked) -> Problem {
        let detail = bounded(error.to_string());
        match error {
            CallError::Rejected(rejection) => of_rejection(rejection, detail, asked).advised(asked),
            CallError::Propose(ProposeError::NotProposed(reason)) | CallError::Read(ReadError::NotServed(reason)) => {
                not_done(reason, detail)
            }
            CallError::Propose(ProposeError::Unknown(reason)) => {
                let problem = match reason {
                    UnknownReason::Deadline | UnknownReason::ConnectionLost | UnknownReason::Deposed => {
                        let detail = format!("{detail}; the request may have been carried out");
                        let problem = Problem::new(Code::DeadlineExceeded, detail);
                        match retry(asked, "") {
                            Some(advice) => problem.advice(advice),
                            None => problem,
                        }
                    }
                };
                problem.facts(outcome(Effect::Unknown, asked.key()))
            }
            CallError::Read(ReadError::Deadline) => {
                Problem::new(Code::DeadlineExceeded, detail).facts(outcome(Effect::None, None))
            }
            CallError::LockHeld { refused, in_the_way } => {
                let mut problem = of_rejection(refused, detail, asked).advised(asked);
                problem.facts = Box::new(blocked(*problem.facts, *in_the_way, asked));
                problem
            }
            CallError::WaitTimeout { holder, in_the_way } => {
                let holder = holder.map(|holder| answer::contender(holder, asked.now()));
                let facts = blocked(Facts { holder, ..Facts::default() }, *in_the_way, asked);
                // The grant has ended: only a request that gets a new id may still succeed.
                Problem::new(Code::WaitTimeout, detail).retryable(!asked.key_given()).facts(facts)
            }
            CallError::Superseded => Problem::new(Code::DeadlineExceeded, detail).facts(outcome(Effect::Unknown, asked.key())),
            CallError::NoNode { path } => Problem::new(Code::NoNode, detail).facts(about(path)),
            CallError::Handover(error) => of_handover(&error, detail),
            CallError::Compacted { oldest } => {
                Problem::new(Code::Compacted, detail).facts(Facts { oldest: Some(oldest), ..Facts::default() })
            }
            CallError::WatcherTooSlow => Problem::new(Code::Compacted, detail),
            CallError::FutureRevision { .. } => Problem::bad_request(detail),
            CallError::ShuttingDown => Problem::new(Code::ShuttingDown, detail).facts(outcome(Effect::None, None)),
            CallError::Detached => {
                // The one 503 that is not "surely nothing": the place in the queue is kept for a retry with the key.
                let problem = Problem::new(Code::ShuttingDown, detail).facts(outcome(Effect::Unknown, asked.key()));
                match retry(asked, " at another node") {
                    Some(advice) => problem.advice(advice),
                    None => problem,
                }
            }
        }
    }
}

fn of_handover(error: &HandoverError, detail: String) -> Problem {
    let (code, effect) = match error {
        HandoverError::NotMember { .. } => (Code::NotFound, None),
        HandoverError::NoVote { .. } => (Code::BadRequest, None),
        HandoverError::OtherRequest => (Code::IdempotencyMismatch, Some(Effect::None)),
        HandoverError::Full => (Code::RateLimited, Some(Effect::None)),
        HandoverError::LeadsAlready { .. } => (Code::AlreadyLeader, None),
        HandoverError::Silent { .. } | HandoverError::Behind { .. } => (Code::NotCaughtUp, None),
        HandoverError::NoLeader => (Code::NoQuorum, Some(Effect::None)),
        HandoverError::Unfinished { .. } => (Code::DeadlineExceeded, Some(Effect::Unknown)),
    };
    Problem::new(code, detail).facts(Facts { outcome: effect, ..Facts::default() })
}

impl Asked {
    /// The key with which the caller can ask again for the same thing.
    fn key(self) -> Option<GrantId> {
        match self {
            Asked::Acquire { id, .. } | Asked::AcquireInBatch { id, .. } => Some(id),
            Asked::Write { key } => Some(key),
            Asked::Change | Asked::Read => None,
        }
    }

    /// When a grant was asked for.
    pub(crate) fn now(self) -> Option<WallMillis> {
        match self {
            Asked::Acquire { now, .. } | Asked::AcquireInBatch { now, .. } => Some(now),
            Asked::Change | Asked::Write { .. } | Asked::Read => None,
        }
    }

    fn key_given(self) -> bool {
        match self {
            Asked::Acquire { given, .. } => given,
            Asked::AcquireInBatch { .. } => true,
            Asked::Write { .. } | Asked::Change | Asked::Read => false,
        }
    }
}

/// Surely nothing was done.
fn not_done(reason: NotProposed, detail: String) -> Problem {
    let code = match reason {
        NotProposed::NoLeader | NotProposed::Deposed => Code::NoQuorum,
        NotProposed::Overloaded => Code::Overloaded,
        NotProposed::DiskLow => Code::DiskLow,
        NotProposed::ShuttingDown => Code::ShuttingDown,
    };
    Problem::new(code, detail).facts(outcome(Effect::None, None))
}

fn outcome(effect: Effect, id: Option<GrantId>) -> Facts {
    Facts { outcome: Some(effect), id, ..Facts::default() }
}

fn about(path: Path) -> Facts {
    Facts { path: Some(path), ..Facts::default() }
}

fn limited(limit: u64) -> Facts {
    Facts { limit: Some(limit), ..Facts::default() }
}

/// Adds who is in the caller's way. Where the holder is known, its pairs of text are the first one's.
fn blocked(facts: Facts, in_the_way: InTheWay, asked: Asked) -> Facts {
    let InTheWay { position, ahead, estimate } = in_the_way;
    let ahead = answer::ahead(ahead, asked.now());
    let same = |holder: &Contender| ahead.iter().find(|other| other.number == holder.number).cloned();
    Facts {
        holder: facts.holder.map(|holder| same(&holder).unwrap_or(holder)),
        position: (position > 0).then_some(position),
        ahead,
        estimate: estimate.map(duration::format),
        ..facts
    }
}

/// The time from `since` to `now`, as text; nothing where the clocks of two nodes make it negative.
pub(crate) fn span(since: WallMillis, now: WallMillis) -> String {
    duration::format(Duration::from_millis(now.0.saturating_sub(since.0)))
}

impl From<Problem> for fairhold_types::problem::Problem {
    fn from(problem: Problem) -> Self {
        let (_, title, _) = standing(problem.code);
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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retryable) = (self.status, self.retryable);
        let mut bytes = serde_json::to_vec(&fairhold_types::problem::Problem::from(self)).unwrap_or_else(|error| {
            tracing::error!(%error, "a problem could not be encoded as JSON");
            Vec::new()
        });
        bytes.push(b'\n');
        let mut response = Response::new(Bytes::from(bytes).into());
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, BEARER);
        }
        // Some refusals with these statuses, such as `state_full`, do not go away by themselves.
        if retryable && matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}

#[cfg(test)]
mod tests;
