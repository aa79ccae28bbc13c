//! The JSON body that answers `POST /v1/batch`: what each call of it was answered.

use crate::{
    dto::{Grant, RenewedGrant},
    problem::Problem,
};
use serde::Serialize;

/// The answers to the calls, in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchAnswers {
    /// One for each call.
    pub answers: Vec<BatchAnswer>,
}

/// The answer to one call: the same as if you had made it alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchAnswer {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After`: when to retry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The body, if the answer has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Body {
    /// The grant, held or queued.
    Grant(Box<Grant>),
    /// The renewed grant.
    Renewed(RenewedGrant),
    /// Why the call failed.
    Problem(Box<Problem>),
}
