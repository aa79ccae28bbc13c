//! The calls on elections, apart from the candidacy, which is a request for a grant.

use super::{
    bounds::{ElectionValue, LockCursor, LockPrefix, Number, PageLimit, PositiveNumber, Wait, is_default},
    read::Consistency,
};
use crate::GrantId;
use serde::{Deserialize, Serialize};

/// `PUT /v1/elections/{name}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Proclaim {
    /// The id of the leader's grant.
    pub grant: GrantId,
    /// The value to proclaim.
    pub value: ElectionValue,
}

/// `GET /v1/elections/{name}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GetLeader {
    /// How long to wait for a change; `304` if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Option<Wait>,
    /// Wait for a change after this revision, the `Fairhold-Revision` of an earlier answer; without it, for a change
    /// after the current revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<Number>,
    /// For a stream: start at this revision, at most the next one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<PositiveNumber>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /v1/elections`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListElections {
    /// Only elections whose name has this prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<LockPrefix>,
    /// The number of elections on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HEX_CURSOR, "example" = "6e303a7072696d617279")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<LockCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}
