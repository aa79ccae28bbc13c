//! The call that reads the audit of administrative acts.

use super::{
    access::PrincipalText,
    bounded::BoundedText,
    bounds::{Number, PageLimit, PositiveNumber, Wait, is_default},
    read::Consistency,
};
use serde::{Deserialize, Serialize};

/// The verb of an administrative act.
pub type ActVerb = BoundedText<32>;

/// `GET /v1/audit`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadAudit {
    /// The first sequence number. Without it, the oldest entry that is kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<PositiveNumber>,
    /// Only acts of this principal.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "user:ci")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub principal: Option<PrincipalText>,
    /// Only acts with this verb.
    #[cfg_attr(feature = "schema", schemars(extend("example" = "break")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub verb: Option<ActVerb>,
    /// The newest entries instead of the first ones. They too are in the order of their numbers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub newest: bool,
    /// The number of entries on a page.
    #[cfg_attr(feature = "schema", schemars(extend("default" = crate::limits::PAGE_MAX)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<PageLimit>,
    /// Continue after this sequence number. The header `Link` of a page has it.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 41)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursor: Option<Number>,
    /// If there is no entry that fits, how long to wait for one; `304` if none comes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Option<Wait>,
    /// `linearizable`: the answer reflects everything acknowledged before the request. `local`: this server's own
    /// state, which may be out of date.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}
