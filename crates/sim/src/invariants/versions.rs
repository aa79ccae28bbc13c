//! The cluster's version never falls, and rises by one at the same revision on every node. Before the version that has them,
//! there are no records about changes of members.

use super::invariant::Invariant;
use crate::facts::Applied;
use fairhold_state::membership::Membership;
use fairhold_types::{ClusterVersion, Revision, SupportedVersions, cluster_version::MEMBERSHIP_SINCE};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Versions {
    /// The first known revision of each version.
    since: BTreeMap<ClusterVersion, Revision>,
}

impl Invariant for Versions {
    fn name(&self) -> &'static str {
        "the cluster's version never falls"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let (version, revision, node) = (applied.state.cluster_version(), applied.revision, applied.node);
        if version > SupportedVersions::OWN.newest() {
            return Err(format!("node {node} has version {version}, which no program supports"));
        }
        if version < MEMBERSHIP_SINCE && *applied.state.membership() != Membership::default() {
            return Err(format!("node {node} records changes of members at version {version}: {:?}", applied.state.membership()));
        }
        let since = self.since.entry(version).or_insert(revision);
        *since = revision.min(*since);
        // A snapshot can skip the revision at which the version rose, so only the order counts.
        match self.since.range(version.next()..).find(|(_, since)| **since <= revision) {
            Some((later, since)) => {
                Err(format!("node {node} has version {version} at revision {revision}, and {later} was known at {since}"))
            }
            None => Ok(()),
        }
    }
}
