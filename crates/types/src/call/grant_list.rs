//! The list of grants.

use super::{
    bounds::{GrantsCursor, LockPrefix, Number, OwnerName, PageLimit, is_default},
    read::Consistency,
};
use serde::{Deserialize, Serialize};

/// Which grants a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrantFilter {
    /// Grants that wait in a queue.
    Queued,
    /// Grants that hold their lock.
    Held,
    /// Grants whose session expired, while their lock delay is running.
    Cooling,
}

/// The order of a list of grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrantOrder {
    /// The grants that queued first come first.
    Since,
    /// By the names of their locks; those of one lock are in the order of its queue.
    Lock,
}

/// `GET /v1/grants`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListGrants {
    /// Only grants of this owner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<OwnerName>,
    /// Only grants of the session with this number.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<Number>,
    /// Only locks whose name has this prefix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<LockPrefix>,
    /// Only grants that are queued, held or cooling.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: Option<GrantFilter>,
    /// `since`: the grants that queued first come first. `lock`: by the names of their locks, those of one lock in the order
    /// of its queue.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "since", "example" = "lock")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub sort: Option<GrantOrder>,
    /// The number of entries on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// The `next_cursor` of the previous page of the same listing.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::pattern::HEX_CURSOR, "example" = "7334312d30")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<GrantsCursor>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}
