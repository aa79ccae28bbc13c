//! The version of a cluster: which formats its nodes may write to the log, to disk, and to each other.
//!
//! The concept is that of etcd and CockroachDB. A program supports several versions, so that nodes with an older and a
//! newer program can form one cluster. The cluster's version is part of the replicated state. It rises by one, and only
//! when an operator finalizes an upgrade; it never falls. Until then nothing of a newer version is written anywhere, so
//! the older program still starts with the same data directory.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A version of a cluster, 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ClusterVersion(pub u16);

/// The first version with join tokens, changes of members and timing profiles.
pub const MEMBERSHIP_SINCE: ClusterVersion = ClusterVersion(2);
/// The first version with access data and guards.
pub const ACCESS_SINCE: ClusterVersion = ClusterVersion(2);
/// The first version that records administrative acts.
pub const AUDIT_SINCE: ClusterVersion = ClusterVersion(2);
/// The first version in which a forwarded command may name the span of its request.
pub const TRACE_SINCE: ClusterVersion = ClusterVersion(2);
/// The first version in which a node may ask the leader when it heard of a session.
pub const HEARD_SINCE: ClusterVersion = ClusterVersion(2);
/// The first version in which a node may ask the other members about themselves.
pub const LOOK_SINCE: ClusterVersion = ClusterVersion(2);

impl ClusterVersion {
    /// The first version: the formats of the first program that has cluster versions.
    pub const FIRST: ClusterVersion = ClusterVersion(1);

    /// The version that follows this one.
    #[must_use]
    pub fn next(self) -> ClusterVersion {
        ClusterVersion(self.0.saturating_add(1))
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The versions that a program supports: all from the first through the second. In JSON it is `[1,2]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SupportedVersions(pub ClusterVersion, pub ClusterVersion);

impl SupportedVersions {
    /// The versions that this program supports.
    pub const OWN: SupportedVersions = SupportedVersions(ClusterVersion::FIRST, ClusterVersion(2));

    /// The versions of a program that does not tell, because it is older than cluster versions.
    pub const UNTOLD: SupportedVersions = SupportedVersions(ClusterVersion::FIRST, ClusterVersion::FIRST);

    /// The newest version.
    #[must_use]
    pub fn newest(self) -> ClusterVersion {
        self.1
    }

    /// Whether it includes this version.
    #[must_use]
    pub fn includes(self, version: ClusterVersion) -> bool {
        (self.0..=self.1).contains(&version)
    }
}

impl fmt::Display for SupportedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SupportedVersions(oldest, newest) = self;
        if oldest == newest { oldest.fmt(f) } else { write!(f, "{oldest} to {newest}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_supports_the_versions_in_its_range() {
        let supported = SupportedVersions(ClusterVersion(2), ClusterVersion(3));
        let included: Vec<u16> = (0..5).filter(|version| supported.includes(ClusterVersion(*version))).collect();
        assert_eq!(included, [2, 3]);
        assert_eq!(supported.to_string(), "2 to 3");
        assert_eq!(SupportedVersions::UNTOLD.to_string(), "1");
        assert_eq!(serde_json::to_string(&supported).unwrap(), "[2,3]");
    }
}
