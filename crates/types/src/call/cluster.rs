//! The calls about the cluster and about one server.

use super::{
    bounds::{PositiveNumber, VersionNumber, is_default},
    read::Consistency,
};
use crate::ClusterVersion;
use serde::{Deserialize, Serialize};

/// `GET /v1/cluster`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowCluster {
    /// Add a digest of this server's whole state. To compute it, the server reads all of its state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: bool,
}

/// `POST /v1/cluster/leader`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// The voter to become the leader.
    pub to: PositiveNumber,
}

/// `POST /v1/cluster/upgrade/finalize`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FinalizeUpgrade {
    /// The next version of the cluster, or its current one: then nothing changes.
    pub to: VersionNumber,
}

impl FinalizeUpgrade {
    /// The requested version.
    #[must_use]
    pub fn version(&self) -> ClusterVersion {
        // The bound is that of the type.
        ClusterVersion(u16::try_from(self.to.get()).unwrap_or(u16::MAX))
    }
}

/// `GET /v1/cluster/backup`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TakeBackup {
    /// `linearizable`: the backup has everything acknowledged before the request. `local`: it has this server's own state,
    /// which may be out of date; it needs no quorum.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "linearizable")))]
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency: Option<Consistency>,
}

/// `GET /readyz`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Answer as JSON, with the reason if it cannot serve.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verbose: bool,
}
