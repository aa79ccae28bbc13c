//! The JSON bodies about the cluster and the server.

use crate::{NodeId, Revision};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The cluster, as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Cluster {
    /// The cluster's identity, once it has formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The node that answers.
    pub id: NodeId,
    /// What it does.
    pub role: String,
    /// Its term.
    pub term: u64,
    /// Who leads, as far as it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<NodeId>,
    /// The leader's address for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_url: Option<String>,
    /// The program's version.
    pub version: Cow<'static, str>,
    /// The revision of its state.
    pub revision: Revision,
    /// The last entry of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_log_index: Option<u64>,
    /// The last entry in its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_index: Option<u64>,
    /// The last entry in its newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_index: Option<u64>,
    /// How many bytes its state counts, of the budget of all nodes together.
    #[serde(default)]
    pub state_bytes: u64,
    /// The budget: the least of what the members can hold. None before one has said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes_max: Option<u64>,
    /// How many grants it saw given since it started.
    pub grants: u64,
    /// How many waiting requests it woke since it started.
    pub wakeups: u64,
    /// A digest of the whole state, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The revision at which the digest was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_revision: Option<Revision>,
    /// Commands at which this server's program panicked: defects. Almost always none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<Defect>,
    /// The members; none before the cluster has formed.
    pub members: Vec<Member>,
}

/// A command at which a server's program panicked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Defect {
    /// The log entry that has it.
    pub log_index: u64,
    /// Whether it was left out, because it panicked again. Else it went well at the second try.
    pub left_out: bool,
    /// What kind of command it is.
    pub kind: String,
    /// 16 hexadecimal digits, the same for the same request.
    pub fingerprint: String,
    /// What the panic said.
    pub message: String,
    /// The version of the program in which it panicked.
    pub version: String,
}

/// A member of the cluster, as the answering node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Its address for clients.
    pub url: String,
    /// Its address for peers.
    pub peer: String,
    /// What it does: `leader`, `follower` or `learner`.
    pub role: String,
    /// The last entry that it is known to have, by what it says itself where it has lost some; only the leader knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_index: Option<u64>,
    /// How many entries it is behind the leader; only the leader knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// For how long it has acknowledged nothing; only the leader knows, and of all but itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_for: Option<String>,
    /// How long it takes to answer a heartbeat, in whole milliseconds, rounded up; only the leader knows, and of all but itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<String>,
    /// How many entries its storage has lost that it had acknowledged: it takes no part until it is started with its newest data
    /// directory. Only a node that it told knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_entries: Option<u64>,
    /// How large a state it can hold, as it has said itself: the least of all is the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes_max: Option<u64>,
}

/// Who leads, after the leadership was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Leader {
    /// Its id.
    pub leader: NodeId,
    /// Its address for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_url: Option<String>,
    /// The term of its leadership.
    pub term: u64,
}

/// A snapshot that a node has taken of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SnapshotTaken {
    /// The node's id.
    pub id: NodeId,
    /// The last log entry that it covers.
    pub snapshot_index: u64,
}

/// Whether the node can serve, with the reason where it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Readiness {
    /// Whether it can.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the server stops.
    pub shutting_down: bool,
    /// The leader's address for clients, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The revision of its state.
    pub revision: Revision,
    /// What needs attention although it serves: a disk that fills up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The machine on which it runs.
    #[serde(default)]
    pub host: Host,
}

/// What a node sees of its machine, for who looks after it. What it cannot see is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Host {
    /// Its wall clock, for people. Nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Bytes that are free for it where its data is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Bytes of that file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Files and sockets that it has open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// How many it may have open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files_max: Option<u64>,
}

/// The program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Version {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its version.
    pub version: Cow<'static, str>,
}
