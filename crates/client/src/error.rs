//! What can go wrong, each with what the caller can do.

use crate::problem::ProblemBody;
use fairhold_types::{
    Code, EndReason, FencingToken, GrantId, LockName,
    dto::Contender,
    duration::{self, rounded},
    text::harmless,
};
use std::time::Duration;

/// How a grant or a session was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The cluster ended it: for want of a keepalive, or because it was held for as long as it may.
    Expired,
    /// An administrator took it away.
    Broken,
    /// No keepalive was acknowledged in time: it may have ended, so it must not be used. The process may have been paused,
    /// the machine suspended, or the network cut.
    CutOff,
    /// It was released: by this program, or by another one that knows its id.
    Released,
    /// A fence refused its token: the cluster no longer has it as the holder.
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

/// What went wrong. Each variant says what happened to the lock or the data, and so what the caller can do. Variants and
/// their fields may be added: match with `..`. Its text can be written to a terminal or a log: in what others chose, control
/// characters are escaped. A field has it as it came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another holds the lock, and the caller did not wait. It stands in no queue. Try again, or wait.
    #[error("the lock {lock} is held{}", by(.holder))]
    #[non_exhaustive]
    LockHeld {
        /// The lock.
        lock: LockName,
        /// Who holds it.
        holder: Option<Box<Contender>>,
    },
    /// The lock did not become free in the time that the caller waited. The caller has left the queue.
    #[error("the lock {lock} did not become free within {}{}", rounded(*.waited), still(.holder))]
    #[non_exhaustive]
    WaitTimeout {
        /// The lock.
        lock: LockName,
        /// Who holds it.
        holder: Option<Box<Contender>>,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The grant or session is no longer to be used: stop what needs it.
    #[error("lost: {0}")]
    Lost(Lost),
    /// The write was not made: the token is no longer that of a holder. Stop what needs the lock.
    #[error("the fencing token is stale, and the write was not made")]
    #[non_exhaustive]
    StaleToken {
        /// The token of the present holder, if there is one.
        current: Option<FencingToken>,
    },
    /// The write was not made: the node has another version. Read it again and decide anew.
    #[error("the node has another version, and the write was not made")]
    #[non_exhaustive]
    VersionMismatch {
        /// Its version; none where it does not exist.
        current: Option<i32>,
    },
    /// The tree has no such node.
    #[error("there is no node {path}")]
    #[non_exhaustive]
    NoNode {
        /// Its path.
        path: String,
    },
    /// The node was not created: it exists.
    #[error("there is a node {path} already")]
    #[non_exhaustive]
    NodeExists {
        /// Its path.
        path: String,
    },
    /// The node was not removed: it has children.
    #[error("the node {path} has children, and was not removed")]
    #[non_exhaustive]
    NotEmpty {
        /// Its path.
        path: String,
    },
    /// The cluster could not be asked in time. **Surely nothing was done**, and for a lock: it is not held, and whatever may
    /// have been asked for is being taken back. Try again later.
    #[error("no answer from the cluster in time: {}", harmless(.last))]
    #[non_exhaustive]
    Unavailable {
        /// What the last try met.
        last: String,
    },
    /// The cluster takes no more of this now, and did nothing. Try again later, or less often.
    #[error("the cluster is at a limit: {}", harmless(.detail))]
    #[non_exhaustive]
    Busy {
        /// What there is too much of.
        detail: String,
        /// After how long to try again, as the server has it.
        retry_after: Option<Duration>,
    },
    /// The cluster's state is full, and nothing was done. Asking again does not help before something is removed or given back,
    /// which still works: nodes, grants, sessions. Or every node gets more memory.
    #[error("the state is full: {detail}")]
    #[non_exhaustive]
    StateFull {
        /// How full, and what to do.
        detail: String,
    },
    /// **It may have happened, or may yet happen**: no answer came in the time given, although the request was repeated with
    /// the same key. Look at the state before you ask again.
    #[error("it may have happened: no answer in time: {}", harmless(.last))]
    #[non_exhaustive]
    OutcomeUnknown {
        /// The key under which it was asked, where it has one.
        key: Option<GrantId>,
        /// What the last try met.
        last: String,
    },
    /// The cluster refuses the request as it is, and did nothing. Repeating it does not help.
    #[error("refused: {}", harmless(.detail))]
    #[non_exhaustive]
    Refused {
        /// The stable code, where it is one that this version knows.
        code: Option<Code>,
        /// The HTTP status.
        status: u16,
        /// What is wrong with it.
        detail: String,
    },
    /// The cluster answered, and this version of the client cannot read the answer: the server may be newer. What was asked for
    /// may have been done.
    #[error("the answer is not valid: {}", harmless(.why))]
    #[non_exhaustive]
    NotUnderstood {
        /// What is wrong with it.
        why: String,
    },
    /// What the program gave is not usable: a name, an address, a time. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether the same call may succeed later without a change.
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

    /// A definite answer that says no.
    pub(crate) fn refused(status: u16, problem: ProblemBody) -> Error {
        match problem.code {
            Some(Code::StaleToken) => Error::StaleToken { current: problem.current_token },
            Some(Code::VersionMismatch) => Error::VersionMismatch { current: problem.current_version },
            Some(Code::NoNode) => Error::NoNode { path: problem.path.unwrap_or_default() },
            Some(Code::NodeExists) => Error::NodeExists { path: problem.path.unwrap_or_default() },
            Some(Code::NotEmpty) => Error::NotEmpty { path: problem.path.unwrap_or_default() },
            Some(Code::SessionExpired | Code::SessionNotFound) => Error::Lost(Lost::Expired),
            Some(Code::GrantGone) => Error::Lost(problem.reason.map_or(Lost::Expired, Lost::from)),
            Some(Code::StateFull) => Error::StateFull { detail: problem.in_words() },
            Some(Code::QueueFull | Code::RateLimited) => Error::Busy { detail: problem.in_words(), retry_after: None },
            code => Error::Refused { code, status, detail: problem.in_words() },
        }
    }
}

fn by(holder: &Option<Box<Contender>>) -> String {
    holder.as_ref().map(|holder| format!(" by {} (#{})", harmless(&holder.owner), holder.number)).unwrap_or_default()
}

fn still(holder: &Option<Box<Contender>>) -> String {
    let Some(holder) = holder else { return String::new() };
    let who = format!(": {} (#{})", harmless(&holder.owner), holder.number);
    match holder.held_for.as_deref().and_then(|held| duration::parse(held).ok()) {
        Some(held) => format!("{who} has held it for {}", rounded(held)),
        None => format!("{who} holds it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_vain_names_the_time_and_the_holder() {
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
