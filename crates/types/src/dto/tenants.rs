//! The JSON bodies about tenants.

use crate::Revision;
use serde::{Deserialize, Serialize};

/// A quota of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct QuotaEntry {
    /// The quota; missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much of it is used; missing where nothing is counted over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
}

/// The quotas of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct TenantQuotas {
    /// Nodes below its prefixes, with those of locks, without those of grants.
    pub nodes: QuotaEntry,
    /// Bytes of the values of these nodes, and of the values of its elections.
    pub bytes: QuotaEntry,
    /// Grants, held and queued, once in each of their locks.
    pub contenders: QuotaEntry,
    /// Waiters in the queue of one lock.
    pub waiters: QuotaEntry,
    /// Live sessions that its subjects opened while rights were enforced.
    pub sessions: QuotaEntry,
    /// Access tokens of its users, including expired ones of the last day.
    pub tokens: QuotaEntry,
    /// Requests a second at one server.
    pub requests_per_second: QuotaEntry,
    /// How many requests one server takes at once after a pause.
    pub burst: QuotaEntry,
    /// Requests that wait at one server; the use is that of the server that answers.
    pub waits: QuotaEntry,
    /// Watches at one server; the use is that of the server that answers.
    pub watches: QuotaEntry,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct TenantEntry {
    /// Its name.
    pub name: String,
    /// Its principals: `user:ci`, or all whose text begins alike: `k8s:system:serviceaccount:web:*`.
    pub subjects: Vec<String>,
    /// Its names: `locks:web/**`, `nodes:web/**`.
    pub prefixes: Vec<String>,
    /// Its quotas, with their use.
    pub quotas: TenantQuotas,
    /// Whether what exists below its prefixes is still being counted. Until then the use is less than what there is.
    pub counting: bool,
    /// Its last change, also as `ETag`.
    pub revision: Revision,
    /// The principal that changed it last.
    pub by: String,
    /// When it was last changed.
    pub at: String,
}

/// All tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct TenantList {
    /// The tenants, by name.
    pub tenants: Vec<TenantEntry>,
}
