//! What a person looks at first: the overview, and who waits for whom.

use super::bounds::{OwnerName, PageLimit, PositiveNumber, is_default};
use crate::LockName;
use serde::{Deserialize, Serialize};

/// `GET /v1/overview`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowOverview {
    /// Add the last ten minutes, second by second.
    #[serde(default, skip_serializing_if = "is_default")]
    pub series: bool,
}

/// `GET /v1/waits`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowWaits {
    /// Only what concerns this owner: everything above and below it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<OwnerName>,
    /// Only what concerns this lock.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock: Option<LockName>,
    /// Only what concerns the session with this number.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Option<PositiveNumber>,
    /// The number of rows.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_DEFAULT)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
}
