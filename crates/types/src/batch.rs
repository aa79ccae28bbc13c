//! The JSON body that answers `POST /v1/batch`: what each call of it was answered.

use crate::{
    dto::{Grant, RenewedGrant},
    problem::Problem,
};
use serde::Serialize;

/// What the calls were answered, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchAnswers {
    /// One for each call.
    pub answers: Vec<BatchAnswer>,
}

/// What one call was answered: what it would have been answered alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchAnswer {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After`: when to ask again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// The body, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Body {
    /// What is held, or waits.
    Grant(Box<Grant>),
    /// What lives on.
    Renewed(RenewedGrant),
    /// Why not.
    Problem(Box<Problem>),
}
