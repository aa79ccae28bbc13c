//! The program that a node runs.

use fairhold_types::{ClusterVersion, SupportedVersions};
use serde::{Deserialize, Serialize};

/// The program of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version, such as `0.1.0`; `None` if it does not tell, because it is older than cluster versions.
    pub version: Option<String>,
    /// The cluster versions that it supports.
    pub supports: SupportedVersions,
}

impl Program {
    /// This program.
    #[must_use]
    pub fn own() -> Program {
        Program { version: Some(env!("CARGO_PKG_VERSION").to_owned()), supports: SupportedVersions::OWN }
    }
}

/// The cluster has a version that this node's program does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the cluster has version {version}, but this program supports {supports}: start this node with the program that the other \
     nodes run"
)]
pub struct UnsupportedVersion {
    /// The cluster's version.
    pub version: ClusterVersion,
    /// The versions that the program supports.
    pub supports: SupportedVersions,
}
