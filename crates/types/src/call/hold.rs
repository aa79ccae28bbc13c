//! The calls on a grant.

use super::{
    bounds::{Ttl, Wait, is_default},
    read::Consistency,
};
use crate::SessionId;
use serde::{Deserialize, Serialize};

/// `GET /v1/grants/{id}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GetGrant {
    /// How long to wait until a queued grant is held.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "0s")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Option<Wait>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `POST /v1/grants/{id}/renew`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The new ttl.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<Ttl>,
}

/// `POST /v1/grants/{id}/upgrade`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// How long to wait until you are the only holder.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "0s")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Option<Wait>,
}

/// `DELETE /v1/grants/{id}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The id of the session, if the acquire named one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<SessionId>,
}
