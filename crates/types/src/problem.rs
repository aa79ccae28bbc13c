//! The JSON body of an error: a problem as in RFC 9457, with the facts that a person needs.

use crate::{ClusterVersion, Code, EndReason, FencingToken, GrantId, LockName, Path, Revision, SessionNumber, dto::Contender};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether a failed request had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing was done.
    None,
    /// It may have happened, or may still happen.
    Unknown,
}

/// An error, as in RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Always `about:blank`: `code` identifies the error.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What went wrong, in a few words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time.
    pub detail: Cow<'static, str>,
    /// What to do about it, in terms of HTTP. A client shows its own advice instead, in terms of its commands or calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Cow<'static, str>>,
    /// The error code, for programs.
    pub code: Code,
    /// Whether the same request may succeed if you simply send it again.
    pub retryable: bool,
    /// Further facts for a person or a program.
    #[serde(flatten)]
    pub facts: Facts,
}

/// A step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedStep {
    /// The list that contains it: `if`, `then` or `else`.
    #[serde(rename = "in")]
    pub part: TransactionPart,
    /// Its index in that list, from 0.
    pub index: u32,
}

/// A list of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TransactionPart {
    /// The conditions.
    If,
    /// The operations to run when all conditions hold.
    Then,
    /// The operations to run when a condition does not hold.
    Else,
}

/// Further facts about an error. A fact that does not apply is omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Whether the request had an effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Effect>,
    /// The grant's id, which is also the `Idempotency-Key` to retry with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<GrantId>,
    /// How the grant ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The reason that the administrator gave for breaking the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The grant that holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Contender>,
    /// The caller's position in the queue: the position that it would have had, or that it had when its wait ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The first few grants ahead of it, in order: holders first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Contender>,
    /// For people: an estimate of how long the wait will take, as in the entries of a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// The current holder's token: `null` if nobody holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_token: Option<Option<FencingToken>>,
    /// The node's current version: `null` if the node does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<Option<i32>>,
    /// The limit in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The quota that is used up: `nodes`, `bytes`, `contenders`, `waiters`, `sessions`, `tokens`, `requests_per_second`,
    /// `waits` or `watches`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<&'static str>,
    /// How much of the quota is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// The tenant whose quota it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The number of the session that owns the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
    /// The node of the tree that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// The refused step of the transaction; the other steps were not done either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedStep>,
    /// The field that differs from the first request with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The oldest revision whose events are still kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Revision>,
    /// The deadlock that waiting would cause: each waiter waits for the next, and the last for the first. At most 32
    /// waiters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Vec<Blocked>>,
    /// The cluster version that the call needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_version: Option<ClusterVersion>,
    /// What is wrong with the credential: `missing`, `unknown`, `revoked`, `expired`, `not_yet`, `wrong_audience` or
    /// `bad_signature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<&'static str>,
    /// The right that the caller lacks: a verb as in a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What the right is needed on, as in a rule: `locks:orders/42`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// How many voters there would be after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voters: Option<u64>,
    /// How many of these voters answer the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<u64>,
    /// How many of these voters must answer: their majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
}

/// A waiter in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// The number of its session.
    pub session: SessionNumber,
    /// The waiter's owner.
    pub owner: String,
    /// The lock that it waits for, or would wait for.
    pub lock: LockName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_holder_is_null_and_other_missing_facts_are_omitted() {
        let facts = Facts { current_token: Some(None), ..Facts::default() };
        assert_eq!(serde_json::to_string(&facts).unwrap(), r#"{"current_token":null}"#);
    }
}
