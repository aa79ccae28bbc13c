//! What a replica is told at its start, and what openraft is told from it.

use fairhold_types::{Incarnation, NodeId, duration, limits::PROPOSALS_BYTES_MAX};
use openraft::{Config, ConfigError, SnapshotPolicy};
use std::{collections::BTreeMap, time::Duration};

/// Commands between two snapshots, at least. A restart applies about that many again.
const SNAPSHOT_EVERY: u64 = 10_000;
/// Entries kept behind a snapshot: a follower that was away for a moment is sent these, not a whole snapshot.
const LOG_KEPT: u64 = 1_000;
/// Bytes of entries kept behind a snapshot, about: a thousand entries can have more than a gigabyte.
const LOG_KEPT_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of entries between two snapshots, at most, unless the state is larger: commands of long texts fill the log before there
/// are enough of them.
const SNAPSHOT_EVERY_BYTES: u64 = 32 * 1024 * 1024;
/// Entries purged at once, at least; never more than lie between two snapshots. Each purge is a write to the disk.
const PURGE_BATCH: u64 = 512;
/// Entries of one append request. An entry can have over a megabyte: what is too large is split, but should seldom have to be.
const APPEND_ENTRIES_MAX: u64 = 64;
/// The time for one part of a snapshot, and for installing it: generous, because a large state takes long to read.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);
/// How a dead peer is tried again: soon at first, so that a restarted one catches up at once.
const BACKOFF: &str = "20ms 40ms 80ms ...500ms";

/// Where a member is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAddress {
    /// Where clients reach it: `http://host:port`.
    pub url: String,
    /// Where peers reach it: `host:port`.
    pub address: String,
}

/// What a replica is told at its start.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// This node.
    pub id: NodeId,
    /// All nodes with which the cluster is formed, this one among them. Once it has formed, the replicated membership says who is
    /// a member, and this says where this node reaches it.
    pub members: BTreeMap<NodeId, MemberAddress>,
    /// This node's data directory.
    pub incarnation: Incarnation,
    /// A follower that hears nothing for the longer one plus a random time between the two stands for election.
    pub election_timeout_ms: (u64, u64),
    /// How often the leader shows that it is alive. Several must fit into an election timeout.
    pub heartbeat_ms: u64,
    /// Commands between two snapshots, at least; more where the state is larger than that, so that it is not written too often.
    pub snapshot_every: u64,
    /// The same in bytes of log entries, at most; more where the last snapshot was larger than that.
    pub snapshot_every_bytes: u64,
    /// Entries kept behind a snapshot.
    pub log_kept: u64,
    /// Bytes of entries kept behind a snapshot, accurate to about a MiB.
    pub log_kept_bytes: u64,
    /// Bytes of the commands that wait to be proposed here.
    pub proposal_bytes: usize,
}

impl ReplicaConfig {
    /// The values that are right for nodes in one data centre: a new leader about half a second after the old one
    /// fell silent; much sooner where its process is seen to have died.
    #[must_use]
    pub fn new(id: NodeId, members: BTreeMap<NodeId, MemberAddress>, incarnation: Incarnation) -> ReplicaConfig {
        ReplicaConfig {
            id,
            members,
            incarnation,
            election_timeout_ms: (150, 300),
            heartbeat_ms: 50,
            snapshot_every: SNAPSHOT_EVERY,
            snapshot_every_bytes: SNAPSHOT_EVERY_BYTES,
            log_kept: LOG_KEPT,
            log_kept_bytes: LOG_KEPT_BYTES,
            proposal_bytes: PROPOSALS_BYTES_MAX,
        }
    }

    /// The longer election timeout, which is also the leader's lease.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.election_timeout_ms.1)
    }

    pub(crate) fn openraft(&self) -> Result<Config, ConfigError> {
        let (election_timeout_min, election_timeout_max) = self.election_timeout_ms;
        let config = Config {
            cluster_name: "fairhold".to_owned(),
            election_timeout_min,
            election_timeout_max,
            heartbeat_interval: self.heartbeat_ms,
            max_payload_entries: APPEND_ENTRIES_MAX,
            // Entries hold any number of commands of any size, so openraft cannot know when it is time: `snapshot_schedule` does.
            snapshot_policy: SnapshotPolicy::Never,
            // What is too large of these, `snapshot_schedule` has purged.
            max_in_snapshot_log_to_keep: self.log_kept,
            purge_batch_size: PURGE_BATCH.min(self.snapshot_every),
            // Above the snapshot interval: else a follower could be behind a snapshot again as soon as it has got it.
            replication_lag_threshold: self.snapshot_every * 2,
            install_snapshot_timeout: duration::millis(SNAPSHOT_TIMEOUT),
            backoff: BACKOFF.to_owned(),
            // A node that was cut off must not depose a healthy leader when it comes back.
            enable_pre_vote: Some(true),
            // A leader without a majority falls silent in turns, so that those whom it still reaches can elect another.
            quorum_loss_probe_interval: Some(election_timeout_max * 4),
            // `elections` decides when this node stands.
            enable_elect: false,
            // The state is in memory: a restarted leader has to win an election before it answers anything.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        config.validate()
    }
}
