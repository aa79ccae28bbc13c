//! The JSON body of an error: a problem after RFC 9457, with the facts that a person needs.

use crate::{Code, EndReason, FencingToken, GrantId, LockName, Path, Revision, SessionNumber, dto::Contender};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether a request that failed did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Surely nothing.
    None,
    /// It may have happened, or may yet.
    Unknown,
}

/// An error, after RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Always `about:blank`: `code` says which.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What went wrong, in a few words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time.
    pub detail: Cow<'static, str>,
    /// For programs.
    pub code: Code,
    /// Whether the same request may succeed if it is simply repeated.
    pub retryable: bool,
    /// What a person or a program needs to know besides.
    #[serde(flatten)]
    pub facts: Facts,
}

/// A step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedStep {
    /// The list in which it stands: `if`, `then` or `else`.
    #[serde(rename = "in")]
    pub part: TransactionPart,
    /// Its place there, from 0.
    pub index: u32,
}

/// A list of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TransactionPart {
    /// The conditions.
    If,
    /// The operations that are done where all conditions hold.
    Then,
    /// The operations that are done where one does not.
    Else,
}

/// What a person or a program needs to know of an error; what does not apply is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Whether the request did something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Effect>,
    /// The grant to ask for, and the key to ask again with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<GrantId>,
    /// How the grant ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// What an administrator said who broke the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Contender>,
    /// Where the caller would have stood in the queue, or stood at the end of its wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The first of those ahead of it there, in order: holders first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Contender>,
    /// How long it may take from now on, if each of those ahead holds for as long as was usual of late: a guess for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// The token of the present holder: `Some(None)`, `null`, where nobody holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_token: Option<Option<FencingToken>>,
    /// The node's present version: `Some(None)`, `null`, where it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<Option<i32>>,
    /// The limit in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The number of the session that owns the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
    /// The node of the tree that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// The step of a transaction that was refused, and all the others with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedStep>,
    /// What differs from the first request with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The oldest revision from which events can still be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Revision>,
    /// The circle that waiting would close: each waits for the next, and the last one for the first. Of a long one the first 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Vec<Blocked>>,
}

/// One of a circle of those who would wait for one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// The number of its session.
    pub session: SessionNumber,
    /// Who it is.
    pub owner: String,
    /// The lock for which it waits, or would.
    pub lock: LockName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_null_and_what_does_not_apply_is_left_out() {
        let facts = Facts { current_token: Some(None), ..Facts::default() };
        assert_eq!(serde_json::to_string(&facts).unwrap(), r#"{"current_token":null}"#);
    }
}
