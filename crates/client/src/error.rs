//! Errors, each with what the caller can do.

use crate::problem::ProblemBody;
use fairhold_types::{
    Code, EndReason, FencingToken, GrantId, LockName,
    dto::Contender,
    duration::{self, rounded},
    text::terminal_safe,
};
use std::time::Duration;

/// How a grant or a session was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The cluster ended it: no keepalive arrived in time, or it reached its longest hold.
    Expired,
    /// An administrator took it away.
    Broken,
    /// No keepalive was acknowledged in time. It may have ended, so do not use it. The process may have been paused,
    /// the machine suspended, or the network cut.
    CutOff,
    /// This program, or another one that knows its id, released it.
    Released,
    /// A fence refused its token: it is no longer the holder.
    Fenced,
}

impl From<EndReason> for Lost {
    fn from(reason: EndReason) -> Lost {
        if reason == EndReason::Broken {
            Lost::Broken
        } else if [EndReason::Released, EndReason::Withdrawn].contains(&reason) {
            Lost::Released
        } else {
            Lost::Expired
        }
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Lost::Expired => "it has ended: it was not kept alive in time, or reached its maximum hold time",
            Lost::Broken => "an administrator took it away",
            Lost::CutOff => "no keepalive was acknowledged in time, so it may have ended",
            Lost::Released => "it was released",
            Lost::Fenced => "its fencing token was refused",
        })
    }
}

/// What went wrong. Each variant says what happened to the lock or the data, and so what the caller can do. New
/// variants and fields may be added: match with `..`. The text is safe for terminals and logs: it escapes control
/// characters in text from others. The fields keep that text unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another client holds the lock, and the caller did not wait. It is in no queue. Try again, or wait.
    #[error("the lock {lock} is held{}", holder_suffix(.holder))]
    #[non_exhaustive]
    LockHeld {
        /// The lock.
        lock: LockName,
        /// The holder.
        holder: Option<Box<Contender>>,
    },
    /// The lock did not become free during the caller's wait. The caller has left the queue.
    #[error("the lock {lock} did not become free within {}{}", rounded(*.waited), holder_sentence(.holder))]
    #[non_exhaustive]
    WaitTimeout {
        /// The lock.
        lock: LockName,
        /// The holder.
        holder: Option<Box<Contender>>,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The grant or session is lost: stop all work that needs it.
    #[error("lost: {0}")]
    Lost(Lost),
    /// The write was not made, because the token does not belong to the current holder. Stop all work that needs the
    /// lock.
    #[error("the fencing token is stale, and the write was not made")]
    #[non_exhaustive]
    StaleToken {
        /// The token of the current holder, if there is one.
        current: Option<FencingToken>,
    },
    /// The write was not made, because the node has another version. Read it again and decide again.
    #[error("the node has another version, and the write was not made")]
    #[non_exhaustive]
    VersionMismatch {
        /// Its version; `None` if it does not exist.
        current: Option<i32>,
    },
    /// The node does not exist.
    #[error("there is no node {path}")]
    #[non_exhaustive]
    NoNode {
        /// Its path.
        path: String,
    },
    /// The node was not created, because it exists already.
    #[error("there is a node {path} already")]
    #[non_exhaustive]
    NodeExists {
        /// Its path.
        path: String,
    },
    /// The node was not removed, because it has children.
    #[error("the node {path} has children, and was not removed")]
    #[non_exhaustive]
    NotEmpty {
        /// Its path.
        path: String,
    },
    /// No answer came in time, and **nothing was done**. For a lock: this program does not hold it, and the background
    /// takes back any request that may still arrive. Try again later.
    #[error("no answer from the cluster in time: {}", terminal_safe(.last))]
    #[non_exhaustive]
    Unavailable {
        /// Why the last attempt failed.
        last: String,
    },
    /// The cluster is at a limit and did nothing. Try again later, or less often.
    #[error("the cluster is at a limit: {}", terminal_safe(.detail))]
    #[non_exhaustive]
    Busy {
        /// Which limit.
        detail: String,
        /// When to try again, if the server says so.
        retry_after: Option<Duration>,
    },
    /// The cluster's state is full, and nothing was done. A retry helps only after something is removed or released
    /// (nodes, grants, sessions), which still works, or after every node gets more memory.
    #[error("the state is full: {detail}")]
    #[non_exhaustive]
    StateFull {
        /// How full, and what to do.
        detail: String,
    },
    /// **It may have happened, or may still happen**: no answer came in time, although the client repeated the request
    /// with the same key. Check the state before you try again.
    #[error("it may have happened: no answer in time: {}", terminal_safe(.last))]
    #[non_exhaustive]
    OutcomeUnknown {
        /// The idempotency key of the request, if it has one.
        key: Option<GrantId>,
        /// Why the last attempt failed.
        last: String,
    },
    /// The cluster refused the request and did nothing. A retry does not help.
    #[error("refused: {}", terminal_safe(.detail))]
    #[non_exhaustive]
    Refused {
        /// The stable code, if this version knows it.
        code: Option<Code>,
        /// The HTTP status.
        status: u16,
        /// What is wrong with the request.
        detail: String,
    },
    /// The cluster answered, and this version of the client cannot read the answer: the server may be newer. The
    /// request may have been carried out.
    #[error("the answer is not valid: {}", terminal_safe(.why))]
    #[non_exhaustive]
    NotUnderstood {
        /// What is wrong with the answer.
        why: String,
    },
    /// An argument is not usable: a name, an address, a time. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether the same call may succeed later, unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::LockHeld { .. } | Error::WaitTimeout { .. } | Error::Unavailable { .. } | Error::Busy { .. } => true,
            Error::Lost(_)
            | Error::StaleToken { .. }
            | Error::VersionMismatch { .. }
            | Error::NoNode { .. }
            | Error::NodeExists { .. }
            | Error::NotEmpty { .. }
            | Error::StateFull { .. }
            | Error::OutcomeUnknown { .. }
            | Error::Refused { .. }
            | Error::NotUnderstood { .. }
            | Error::Invalid(_) => false,
        }
    }

    /// The error of a refusal.
    pub(crate) fn refused(status: u16, problem: ProblemBody) -> Error {
        match problem.code {
            Some(Code::StaleToken) => Error::StaleToken { current: problem.current_token },
            Some(Code::VersionMismatch) => Error::VersionMismatch { current: problem.current_version },
            Some(Code::NoNode) => Error::NoNode { path: problem.path.unwrap_or_default() },
            Some(Code::NodeExists) => Error::NodeExists { path: problem.path.unwrap_or_default() },
            Some(Code::NotEmpty) => Error::NotEmpty { path: problem.path.unwrap_or_default() },
            Some(Code::SessionExpired | Code::SessionNotFound) => Error::Lost(Lost::Expired),
            Some(Code::GrantGone) => Error::Lost(problem.reason.map_or(Lost::Expired, Lost::from)),
            Some(Code::StateFull) => Error::StateFull { detail: problem.message() },
            Some(Code::QueueFull | Code::RateLimited | Code::BackupBusy) => {
                Error::Busy { detail: problem.message(), retry_after: None }
            }
            code => Error::Refused { code, status, detail: problem.message() },
        }
    }
}

fn holder_suffix(holder: &Option<Box<Contender>>) -> String {
    holder.as_ref().map(|holder| format!(" by {} (#{})", terminal_safe(&holder.owner), holder.number)).unwrap_or_default()
}

fn holder_sentence(holder: &Option<Box<Contender>>) -> String {
    let Some(holder) = holder else { return String::new() };
    let who = format!(": {} (#{})", terminal_safe(&holder.owner), holder.number);
    match holder.held_for.as_deref().and_then(|held| duration::parse(held).ok()) {
        Some(held) => format!("{who} has held it for {}", rounded(held)),
        None => format!("{who} holds it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_timeout_names_the_time_and_the_holder() {
        let holder: Contender = serde_json::from_value(serde_json::json!({ "number": 7, "owner": "ci-7" })).unwrap();
        let waited = Duration::from_nanos(1_029_458_651);
        let error = |holder| Error::WaitTimeout { lock: LockName::parse("a").unwrap(), holder, waited }.to_string();
        assert_eq!(error(Some(Box::new(holder))), "the lock a did not become free within 1s: ci-7 (#7) holds it");
        let holder = serde_json::json!({ "number": 7, "owner": "ci-7", "held_for": "84769ms" });
        let holder: Contender = serde_json::from_value(holder).unwrap();
        let text = error(Some(Box::new(holder)));
        assert!(text.ends_with("within 1s: ci-7 (#7) has held it for 1m24s"), "{text}");
        assert_eq!(error(None), "the lock a did not become free within 1s");
    }

    #[test]
    fn text_from_others_cannot_move_a_cursor() {
        let bad = "\u{1b}]0;pwned\u{7}\r\nFAKE\u{9b}A".to_owned();
        let holder: Contender = serde_json::from_value(serde_json::json!({ "number": 7, "owner": bad })).unwrap();
        let lock = LockName::parse("a").unwrap();
        for error in [
            Error::LockHeld { lock: lock.clone(), holder: Some(Box::new(holder.clone())) },
            Error::WaitTimeout { lock, holder: Some(Box::new(holder)), waited: Duration::from_secs(1) },
            Error::Unavailable { last: bad.clone() },
            Error::Busy { detail: bad.clone(), retry_after: None },
            Error::OutcomeUnknown { key: None, last: bad.clone() },
            Error::Refused { code: None, status: 400, detail: bad.clone() },
            Error::NotUnderstood { why: bad.clone() },
        ] {
            let text = error.to_string();
            assert!(text.contains("pwned\\u{7}\\r\\nFAKE") && !text.chars().any(char::is_control), "{text}");
        }
    }
}
