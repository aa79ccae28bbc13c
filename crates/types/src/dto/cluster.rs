//! The JSON bodies about the cluster and the server.

use super::audit::AuditChainHead;
use crate::{ClusterVersion, NodeId, Revision, SupportedVersions};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The cluster as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Cluster {
    /// The cluster's identity, once it has formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The node that answers.
    pub id: NodeId,
    /// Its role.
    pub role: String,
    /// Its term.
    pub term: u64,
    /// The leader, as far as it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<NodeId>,
    /// The leader's address for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_url: Option<String>,
    /// The program's version.
    pub version: Cow<'static, str>,
    /// The cluster's version, as far as it knows. A program that is older than cluster versions omits it: it is 1 then.
    #[serde(default = "first")]
    pub cluster_version: ClusterVersion,
    /// The revision of its state.
    pub revision: Revision,
    /// The last entry of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_log_index: Option<u64>,
    /// The last log entry applied to its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_index: Option<u64>,
    /// The last log entry in its newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_index: Option<u64>,
    /// The size of its state in bytes, as counted against the cluster's budget.
    #[serde(default)]
    pub state_bytes: u64,
    /// The budget: the smallest `state_bytes_max` of all members. Missing until a member has reported its amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes_max: Option<u64>,
    /// The newest entry of the audit of administrative acts, as far as it knows. Missing before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditChainHead>,
    /// How many grants have become held since it started.
    pub grants: u64,
    /// How many waiting requests it has woken since it started.
    pub wakeups: u64,
    /// A digest of the whole state, if you asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The revision at which the digest was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_revision: Option<Revision>,
    /// Defects: commands that made this server panic. Almost always empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<Defect>,
    /// What the ports of this node leave unprotected where other machines can reach them, because of `--insecure`:
    /// `plain_clients` (clients use plain text), `plain_peers` (connections between nodes have no TLS), `open_peers`
    /// (other nodes need not authenticate).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insecure: Vec<String>,
    /// The members; empty before the cluster has formed.
    pub members: Vec<Member>,
}

/// The version of a cluster whose nodes do not tell one.
fn first() -> ClusterVersion {
    ClusterVersion::FIRST
}

/// A command that made a server panic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Defect {
    /// The log index of the command.
    pub log_index: u64,
    /// Whether it was skipped because it panicked twice. Otherwise the second try succeeded.
    pub left_out: bool,
    /// The kind of command.
    pub kind: String,
    /// 16 hexadecimal digits, the same for the same request.
    pub fingerprint: String,
    /// The panic message.
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
    /// Its role: `leader`, `follower` or `learner`.
    pub role: String,
    /// The last entry that it is known to have; if it has lost entries, by its own report. Known only to the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_index: Option<u64>,
    /// How many entries it is behind the leader; known only to the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// How long it has acknowledged nothing; known only to the leader, for the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_for: Option<String>,
    /// How long it takes to answer a heartbeat, in milliseconds, rounded up; known only to the leader, for the other
    /// members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<String>,
    /// How many acknowledged entries its storage has lost: it does not take part until you start it with its newest
    /// data directory. Known only to the nodes that have received its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_entries: Option<u64>,
    /// How many bytes of state it can hold, as it reported. The smallest value of all members is the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes_max: Option<u64>,
    /// How much it should lead, if an administrator has set another priority than the default, 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Where it runs, for people, if an administrator has set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it answered when the answering node last asked it. Only in the overview, and only from cluster version 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<bool>,
    /// What it last said about itself, if it has answered. Only in the overview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<MemberFigures>,
}

/// What a member said about itself when it last answered. The figures of different members are not from the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct MemberFigures {
    /// When it answered, by the clock of the node that asked it.
    pub as_of: String,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it could serve, as far as it knew: it led or heard from the leader, and was not shutting down. Only
    /// `GET /readyz` has a proof.
    pub ready: bool,
    /// The last log entry applied to its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_index: Option<u64>,
    /// How many log entries its state is behind that of the member with the largest `applied_index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// The last log entry in its newest snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_index: Option<u64>,
    /// How many entries its log has.
    pub log_entries: u64,
    /// Free bytes on the file system of its data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// The size of the file system of its data directory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// How far its clock was ahead of the asking node's, in milliseconds; negative if it was behind. Missing for that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
    /// How much `clock_ahead_ms` may be wrong in either direction, in milliseconds: half of the question's round trip, rounded
    /// up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_doubt_ms: Option<u64>,
    /// How many files and sockets it has open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// How many files and sockets it can have open; missing if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files_max: Option<u64>,
    /// When it started, by its own clock.
    pub started_at: String,
}

/// The leader after a transfer of the leadership.
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

/// The cluster's version, and whether every member supports the next one, as the leader knows it. Without a reachable
/// leader, as the node that you ask knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ClusterUpgrade {
    /// The cluster's version.
    pub cluster_version: ClusterVersion,
    /// The next version; missing if the answering program does not support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ClusterVersion>,
    /// Whether the upgrade to the next version can be finalized: there is one, and nothing blocks it.
    pub ready: bool,
    /// The members and their programs.
    pub members: Vec<UpgradeMember>,
    /// Why the upgrade cannot be finalized yet. Each text names a member and says what to do.
    pub blockers: Vec<String>,
}

/// A member and its program, as the answering node knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct UpgradeMember {
    /// Its id.
    pub id: NodeId,
    /// The version of its program; missing if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The first and the last cluster version that its program supports; missing if the answering node has not heard
    /// from it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports: Option<SupportedVersions>,
    /// How long it has acknowledged nothing; known only to the leader, for the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_for: Option<String>,
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

/// Whether the node can serve, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Readiness {
    /// Whether it can serve.
    pub ready: bool,
    /// The reason, if it cannot serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the server is shutting down.
    pub shutting_down: bool,
    /// The leader's address for clients, if the node can serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The revision of its state.
    pub revision: Revision,
    /// A problem that needs attention although the node serves, such as a disk that is filling up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The machine on which it runs.
    #[serde(default)]
    pub host: Host,
}

/// A node's view of its machine, for operators. A figure that the node cannot read is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Host {
    /// Its wall clock, for people. No decision depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Free bytes on the file system of its data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// The size of the file system of its data directory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// How many files and sockets it has open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// How many files and sockets it can have open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files_max: Option<u64>,
    /// Its certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateStatus>,
    /// Its audit log, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditStatus>,
}

/// The audit log of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AuditStatus {
    /// How many entries it has lost since the server started.
    pub entries_lost: u64,
    /// Why it cannot be written now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A certificate of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct CertificateStatus {
    /// To whom the server shows it: `clients` or `nodes`.
    pub port: String,
    /// How urgently it is to be renewed.
    pub urgency: CertificateUrgency,
    /// When it expires.
    pub not_after: String,
    /// Why its files cannot be used now. The last certificate that worked stays in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// How urgently a certificate is to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CertificateUrgency {
    /// Not yet.
    Valid,
    /// It expires in less than 30 days, or in the last third of its life.
    RenewSoon,
    /// It expires in less than 7 days, or in the last tenth of its life.
    RenewNow,
    /// It has expired.
    Expired,
}

/// The name and the version of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Version {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its version.
    pub version: Cow<'static, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_cluster_of_older_programs_is_1() {
        let older = r#"{"id":1,"role":"leader","term":7,"version":"0.1.0","revision":9,"grants":0,"wakeups":0,"members":[]}"#;
        let read: Cluster = serde_json::from_str(older).unwrap();
        assert_eq!(read.cluster_version, ClusterVersion::FIRST);
    }

    #[test]
    fn a_member_without_a_known_program_has_only_its_id() {
        let member = UpgradeMember { id: 3, version: None, supports: None, silent_for: None };
        assert_eq!(serde_json::to_string(&member).unwrap(), r#"{"id":3}"#);
        assert_eq!(serde_json::from_str::<UpgradeMember>(r#"{"id":3}"#).unwrap(), member);
    }
}
