//! What a person looks at first: the overview, and who waits for whom.

use super::bounds::{OwnerName, PageLimit, PositiveNumber, SeriesCursor, is_default};
use crate::LockName;
use serde::{Deserialize, Serialize};

/// The step of a series: the time that each row covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SeriesStep {
    /// One second.
    #[default]
    #[serde(rename = "1s")]
    Second,
    /// One minute.
    #[serde(rename = "1m")]
    Minute,
}

impl SeriesStep {
    /// As the API writes it: `1s` or `1m`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SeriesStep::Second => "1s",
            SeriesStep::Minute => "1m",
        }
    }
}

/// `GET /v1/overview`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowOverview {
    /// Ignored. Older dashboards send it; `GET /v1/overview/series` has the series.
    #[serde(default, skip_serializing_if = "is_default")]
    pub series: bool,
}

/// `GET /v1/overview/series`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowOverviewSeries {
    /// `1s`: the last ten minutes by seconds. `1m`: the last twelve hours by minutes.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "1s")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub step: Option<SeriesStep>,
    /// Only the rows after this position: the `next` of an earlier answer of the same server with the same step.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("pattern" = crate::pattern::SERIES_CURSOR, "example" = "1s-5f2b0c6e9d8a4b1f-600"))
    )]
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<SeriesCursor>,
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
