//! The body of `POST /v1/batch`.

use super::{acquire::BatchAcquire, bounds::is_default};
use crate::{GrantId, SessionId};
use serde::{Deserialize, Serialize};

/// Many calls in one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchCalls {
    /// The calls.
    #[cfg_attr(feature = "schema", schemars(extend("minItems" = 1, "maxItems" = crate::limits::BATCH_CALLS_MAX)))]
    pub calls: Vec<BatchCall>,
}

/// One call of a batch: an object whose only field names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BatchCall {
    /// Acquires a lock for a session.
    Acquire(Box<BatchAcquire>),
    /// Releases a grant.
    Release(BatchRelease),
    /// Renews a grant.
    Renew(BatchRenew),
}

/// A release in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchRelease {
    /// The grant's secret id.
    pub id: GrantId,
    /// The id of the session, if the acquire named one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<SessionId>,
}

/// A renewal in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BatchRenew {
    /// The grant's secret id.
    pub id: GrantId,
}
