//! The calls on tenants.

use super::{
    access::PrincipalText,
    bounded::{BoundedCount, BoundedList, BoundedText},
    bounds::{Number, is_default},
};
use crate::limits::{TENANT_PREFIX_BYTES_MAX, TENANT_PREFIXES_MAX, TENANT_RATE_MAX, TENANT_SUBJECTS_MAX};
use serde::{Deserialize, Serialize};

/// A part of the names, as text.
pub type PrefixText = BoundedText<TENANT_PREFIX_BYTES_MAX>;
/// Requests a second, or at once.
pub type RequestRate = BoundedCount<1, TENANT_RATE_MAX>;
/// How many of something one server keeps open.
pub type OpenCount = BoundedCount<0, TENANT_RATE_MAX>;

/// `PUT /v1/access/tenants/{name}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutTenant {
    /// Its principals, or all whose text begins alike: `user:ci`, `k8s:system:serviceaccount:web:*`. None of them may
    /// belong to another tenant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub subjects: Option<BoundedList<PrincipalText, TENANT_SUBJECTS_MAX>>,
    /// Its names: `locks:web/**`, `nodes:web/**`. None of them may overlap those of another tenant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefixes: Option<BoundedList<PrefixText, TENANT_PREFIXES_MAX>>,
    /// The most nodes below its prefixes, with those of locks, without those of grants.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 10_000)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: Option<Number>,
    /// The most bytes of the values of these nodes, and of the values of its elections.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 10_000_000)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes: Option<Number>,
    /// The most grants, held and queued, once in each of their locks.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 1_000)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub contenders: Option<Number>,
    /// The most waiters in the queue of one lock.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 100)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub waiters: Option<Number>,
    /// The most live sessions of its principals.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 200)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub sessions: Option<Number>,
    /// The most access tokens of its users.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 20)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub tokens: Option<Number>,
    /// The most requests a second of its principals at one server. Renewals, keepalives, releases and withdrawals do not
    /// count.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 500)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests_per_second: Option<RequestRate>,
    /// How many requests one server takes at once after a pause. The default is those of one second.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 1_000)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub burst: Option<RequestRate>,
    /// The most requests of its principals that wait at one server.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 200)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: Option<OpenCount>,
    /// The most watches of its principals at one server.
    #[cfg_attr(feature = "schema", schemars(extend("example" = 50)))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub watches: Option<OpenCount>,
}
