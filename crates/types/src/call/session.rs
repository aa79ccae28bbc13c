//! The calls on sessions.

use super::{
    bounded::{BoundedList, MetaPairs},
    bounds::{Number, OwnedCursor, OwnerName, PageLimit, Reason, Ttl, is_default},
    read::Consistency,
};
use crate::{SessionId, limits::KEEPALIVE_IDS_MAX};
use serde::{Deserialize, Serialize};

/// `POST /v1/sessions`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// Its time to live without a keepalive.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "30s")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<Ttl>,
    /// Its name, for people to read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<OwnerName>,
    /// Key-value pairs, for people to read: at most 16, and 1024 bytes in total. In a query, pass one JSON object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub meta: Option<MetaPairs>,
}

/// `POST /v1/sessions/keepalive`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeepAliveMany {
    /// The sessions' secret ids.
    pub ids: BoundedList<SessionId, KEEPALIVE_IDS_MAX>,
}

/// `GET /v1/sessions`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListSessions {
    /// The number of sessions on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<Number>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /v1/sessions/{id}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowSession {
    /// The number of grants, and of nodes, on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HEX_CURSOR, "example" = "34322d303a")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<OwnedCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `DELETE /v1/sessions/{id}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CloseSession {
    /// The reason; only with a number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: Option<Reason>,
}
