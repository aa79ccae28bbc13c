//! The configuration of a replica, and openraft's configuration derived from it.

use crate::base::program::Program;
use fairhold_trace::Tracer;
use fairhold_types::{ClusterId, Incarnation, NodeId, Timing, duration, limits::PROPOSALS_BYTES_MAX};
use openraft::{Config, ConfigError, SnapshotPolicy};
use std::{collections::BTreeMap, time::Duration};

/// Minimum number of commands between two snapshots. A restart applies about that many again.
const SNAPSHOT_EVERY: u64 = 10_000;
/// Entries kept although a snapshot covers them: a follower that was away briefly gets these instead of a whole
/// snapshot.
const LOG_KEPT: u64 = 1_000;
/// Approximate bytes of these entries. A thousand entries can exceed a gigabyte.
const LOG_KEPT_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum bytes of entries between two snapshots, unless the state is larger. Large commands fill the log before there
/// are enough of them.
const SNAPSHOT_EVERY_BYTES: u64 = 32 * 1024 * 1024;
/// Minimum number of entries purged at once, but never more than lie between two snapshots. Each purge is a disk write.
const PURGE_BATCH: u64 = 512;
/// Entries in one append request. An entry can exceed a megabyte: an oversized request is split, but that should be
/// rare.
const APPEND_ENTRIES_MAX: u64 = 64;
/// Time limit for one part of a snapshot, and for installing it. It is generous because reading a large state takes
/// long.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);
/// Backoff for a dead peer: short at first, so that a restarted peer catches up at once.
const BACKOFF: &str = "20ms 40ms 80ms ...500ms";

/// The addresses of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAddress {
    /// Its address for clients: `http://host:port`.
    pub url: String,
    /// Its address for peers: `host:port`.
    pub address: String,
}

/// The configuration of a replica.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// This node.
    pub id: NodeId,
    /// All nodes with which the cluster is formed, including this one. After formation, the replicated membership
    /// defines the members, and this map only their addresses. If the data directory is bound to a cluster, the map may
    /// lack this node.
    pub members: BTreeMap<NodeId, MemberAddress>,
    /// Whether this node joined a running cluster with a join token. Then it never forms a cluster, and `members` are
    /// only addresses at which it looks for the cluster until it knows the replicated membership.
    pub joined: bool,
    /// This node's data directory.
    pub incarnation: Incarnation,
    /// The cluster to which the data directory is bound, if any. Right after a start the state may not name it yet.
    pub cluster: Option<ClusterId>,
    /// This node's program. A test may let it support fewer cluster versions.
    pub program: Program,
    /// A random number of this process, not 0. A copy of the data directory that runs elsewhere has another one.
    pub boot: u64,
    /// The timing profile. `with_timing` also sets the two fields below. A node that forms a cluster gives it this
    /// profile.
    pub timing: Timing,
    /// The two election timeouts. A follower that receives nothing from a leader for the longer one plus a random time
    /// between the two starts an election.
    pub election_timeout_ms: (u64, u64),
    /// Heartbeat interval of the leader. Several must fit into an election timeout.
    pub heartbeat_ms: u64,
    /// Minimum number of commands between two snapshots. A larger state raises it, so that the state is not written too
    /// often.
    pub snapshot_every: u64,
    /// Maximum bytes of log entries between two snapshots. A larger last snapshot raises it.
    pub snapshot_every_bytes: u64,
    /// Entries kept although a snapshot covers them.
    pub log_kept: u64,
    /// Bytes of these entries, accurate to about a MiB.
    pub log_kept_bytes: u64,
    /// Maximum bytes of the commands that wait here to be proposed.
    pub proposal_bytes: usize,
    /// If this node leads: how long every member must have supported the next cluster version until this node finalizes
    /// the upgrade. `None`: only an operator does.
    pub finalize_after: Option<Duration>,
    /// Has the spans of commands that other nodes forward to this one.
    pub tracer: Tracer,
}

impl ReplicaConfig {
    /// Values for nodes in one data centre: a new leader about half a second after the old one falls silent, and much
    /// sooner if its process is known to have died.
    #[must_use]
    pub fn new(id: NodeId, members: BTreeMap<NodeId, MemberAddress>, incarnation: Incarnation) -> ReplicaConfig {
        ReplicaConfig {
            id,
            members,
            joined: false,
            incarnation,
            cluster: None,
            program: Program::own(),
            boot: random_boot(),
            timing: Timing::Lan,
            election_timeout_ms: (150, 300),
            heartbeat_ms: 50,
            snapshot_every: SNAPSHOT_EVERY,
            snapshot_every_bytes: SNAPSHOT_EVERY_BYTES,
            log_kept: LOG_KEPT,
            log_kept_bytes: LOG_KEPT_BYTES,
            proposal_bytes: PROPOSALS_BYTES_MAX,
            finalize_after: None,
            tracer: Tracer::default(),
        }
    }

    /// With a timing profile: its heartbeat interval and its election timeouts.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> ReplicaConfig {
        let (shorter, longer) = timing.election_timeouts();
        ReplicaConfig {
            timing,
            election_timeout_ms: (duration::millis(shorter), duration::millis(longer)),
            heartbeat_ms: duration::millis(timing.heartbeat()),
            ..self
        }
    }

    /// How many times longer everything takes that depends on the network than in one data centre.
    pub(crate) fn time_scale(&self) -> u32 {
        let ratio = self.timing.heartbeat().as_millis() / Timing::Lan.heartbeat().as_millis();
        u32::try_from(ratio).unwrap_or(u32::MAX).max(1)
    }

    pub(crate) fn openraft(&self) -> Result<Config, ConfigError> {
        let (election_timeout_min, election_timeout_max) = self.election_timeout_ms;
        let config = Config {
            cluster_name: "fairhold".to_owned(),
            election_timeout_min,
            election_timeout_max,
            heartbeat_interval: self.heartbeat_ms,
            max_payload_entries: APPEND_ENTRIES_MAX,
            // Entries hold any number of commands of any size, so openraft cannot tell when a snapshot is due:
            // `snapshot_schedule` decides.
            snapshot_policy: SnapshotPolicy::Never,
            // `background::snapshots` also purges by size.
            max_in_snapshot_log_to_keep: self.log_kept,
            purge_batch_size: PURGE_BATCH.min(self.snapshot_every),
            // More than the snapshot interval: otherwise a follower could fall behind a new snapshot as soon as it has
            // installed one.
            replication_lag_threshold: self.snapshot_every * 2,
            install_snapshot_timeout: duration::millis(SNAPSHOT_TIMEOUT),
            backoff: BACKOFF.to_owned(),
            // A node that was cut off must not depose a healthy leader on its return.
            enable_pre_vote: Some(true),
            // A leader without a majority pauses its heartbeats in turns, so that the nodes it still reaches can elect
            // another leader.
            quorum_loss_probe_interval: Some(election_timeout_max * 4),
            // `leadership::elections` decides when this node starts an election.
            enable_elect: false,
            // The state is in memory: a restarted leader must win an election before it serves anything.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        config.validate()
    }
}

#[expect(clippy::disallowed_methods, reason = "no rule depends on its value; a simulator sets another one")]
fn random_boot() -> u64 {
    rand::random::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ReplicaConfig {
        ReplicaConfig::new(1, BTreeMap::new(), Incarnation(1))
    }

    #[test]
    fn the_default_is_the_profile_of_one_data_centre() {
        let default = config();
        let lan = config().with_timing(Timing::Lan);
        assert_eq!(default.timing, Timing::Lan);
        assert_eq!(default.election_timeout_ms, lan.election_timeout_ms);
        assert_eq!(default.heartbeat_ms, lan.heartbeat_ms);
        assert_eq!(default.time_scale(), 1);
    }

    #[test]
    fn openraft_accepts_every_profile() {
        for timing in Timing::ALL {
            let config = config().with_timing(timing);
            let openraft = config.openraft().unwrap();
            assert_eq!(u128::from(openraft.heartbeat_interval), timing.heartbeat().as_millis(), "{timing}");
            assert_eq!(u128::from(openraft.election_timeout_max), timing.election_timeouts().1.as_millis(), "{timing}");
        }
        assert_eq!(Timing::ALL.map(|timing| config().with_timing(timing).time_scale()), [1, 2, 8, 16]);
    }

    #[test]
    fn each_start_has_a_boot_number_of_its_own() {
        let first = config().boot;
        assert_ne!(first, 0);
        assert_ne!(first, config().boot);
    }
}
