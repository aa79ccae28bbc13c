//! The JSON bodies of the overview, and of the tree of waits.

use super::{AlarmSeverity, Contender, Member};
use crate::{FencingToken, GrantNumber, LockName, NodeId, Revision, SessionNumber, problem::Blocked};
use serde::{Deserialize, Serialize};

/// The cluster at a glance, as one server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Overview {
    /// The server that answers.
    pub id: NodeId,
    /// The version of its program.
    pub version: String,
    /// The cluster's id, once it has formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The server's role: `leader`, `follower`, `candidate`, `learner` or `stopped`.
    pub role: String,
    /// The current term.
    pub term: u64,
    /// The leader, if the server knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<NodeId>,
    /// The revision that the lists reflect.
    pub revision: Revision,
    /// When the server looked, by its clock.
    pub as_of: String,
    /// How much there is.
    pub totals: OverviewTotals,
    /// What happened in the last ten seconds; missing if the server has just started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<OverviewRecent>,
    /// The members, as this server knows them, with what each says about itself. While you ask for overviews, the server
    /// asks the other members once a second, so their figures are usually one or two seconds old.
    pub members: Vec<Member>,
    /// What needs attention: the alarms of this server, and locks that others wait for.
    pub problems: Vec<OverviewProblem>,
    /// The longest waiter of each lock: the ten longest, the longest first.
    pub waiting_longest: Vec<LongWait>,
    /// The longest holder of each lock: the ten longest, the longest first.
    pub held_longest: Vec<LongHold>,
    /// The ten locks that were granted most often in the last minute, the most frequent first; omitted if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot: Vec<HotLockRow>,
    /// The newest requests that were refused because waiting would have caused a deadlock, newest first, no matter
    /// which server received them; omitted if none is known. A server keeps the newest 64 in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedWaitRow>,
    /// The time since which `refused` has every refusal that you may see. Older ones may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_since: Option<String>,
}

/// How much there is. These figures count all locks, also those that you may not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct OverviewTotals {
    /// Locks with a holder or a waiter.
    pub locks: u64,
    /// Held grants.
    pub held: u64,
    /// Queued grants.
    pub queued: u64,
    /// Grants whose lock delay runs.
    pub cooling: u64,
    /// Sessions, including those made for one grant.
    pub sessions: u64,
    /// Grants that were given since the cluster was formed.
    pub granted: u64,
    /// How many of them had to wait.
    pub handed_over: u64,
    /// Held grants that ended without a release: they expired, were broken, or their callers disconnected.
    pub lost: u64,
}

/// What happened in the last ten seconds. These figures count all locks, also those that you may not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct OverviewRecent {
    /// The length of the period: ten seconds, less after a start, more if the server was late.
    pub over: String,
    /// The grants given.
    pub grants: u64,
    /// How many of them had to wait.
    pub handed_over: u64,
    /// Held grants that expired or were broken.
    pub lost: u64,
    /// Requests for a grant that this server refused, for any reason.
    pub refused: u64,
}

/// A lock that is granted often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct HotLockRow {
    /// The lock.
    pub lock: LockName,
    /// How many grants that held the lock ended in the last minute, by the lock's history. If the history covers less than
    /// a minute, this is the rate over the time that it covers.
    #[serde(default)]
    pub grants_per_minute: u64,
    /// How many of them had to wait.
    pub hand_overs_per_minute: u64,
    /// The median of their waits; `0s` if none had to wait.
    pub wait_p50: String,
    /// How many wait for the lock.
    pub queue_length: u64,
}

/// A request that was refused because waiting would have caused a deadlock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RefusedWaitRow {
    /// When, by the clock of the server that received the request.
    pub at: String,
    /// The waiters of the deadlock: each waits for the next, and the last for the first, which made the request.
    pub cycle: Vec<Blocked>,
    /// How many further waiters the deadlock has; omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_left_out: Option<u64>,
}

/// The totals of one server over time, as rows of integers. The server keeps them in memory, and loses them when it stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct OverviewSeries {
    /// The step: `1s` or `1m`.
    pub step: String,
    /// The time of the newest row that the server has, by its clock; missing if it has none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The names of the columns, in the order of the integers of a row. `at` is the end of the row's period, in milliseconds
    /// since 1970, by the server's clock. `grants`, `handed_over`, `released`, `expired`, `broken`, `refused` and `errors_5xx`
    /// count since the previous row. `held`, `queued`, `sessions` and `term` are the values at the end. `commit_p99_us` and
    /// `sync_p99_us` are 99th percentiles since the previous row, in microseconds, each rounded up to the bound of its bucket
    /// in the metrics, or ten seconds if it is longer; 0 if there was nothing to measure, as for commits at a follower.
    pub names: Vec<String>,
    /// The rows, oldest first. A row covers the time since the previous row: one step, or more if the server was late.
    pub rows: Vec<Vec<u64>>,
    /// Whether the rows continue those up to `after` without a gap. If not, replace your rows with them.
    pub continues: bool,
    /// Pass this as `after` to get only newer rows.
    pub next: String,
}

/// Something that needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct OverviewProblem {
    /// How bad it is.
    pub severity: AlarmSeverity,
    /// The name of the alarm or the rule.
    pub check: String,
    /// What the server sees.
    pub seen: String,
    /// What to do.
    #[serde(rename = "do")]
    pub advice: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The lock that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
}

/// A grant that has waited for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LongWait {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number, unless the session was made for this grant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
    /// Its owner, for people to read.
    pub owner: String,
    /// When it queued.
    pub since: String,
    /// How long it has waited.
    pub waiting: String,
    /// How many wait for the lock.
    pub queue_length: u64,
    /// The first holder of the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Contender>,
}

/// A grant that has been held for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct LongHold {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its session's public number, unless the session was made for this grant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
    /// Its owner, for people to read.
    pub owner: String,
    /// When it was granted.
    pub since: String,
    /// How long it has been held.
    pub held_for: String,
    /// How long recent holders have usually held the lock: the `usual_hold` of the list of locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
    /// How many wait for the lock.
    pub queue_length: u64,
}

/// The tree of waits, in the order in which a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Waits {
    /// The rows. A row waits for the nearest row above it that has a smaller depth.
    pub items: Vec<WaitItem>,
    /// How many rows do not fit.
    pub left_out: u64,
    /// `false` if more grants wait than the server examines.
    pub complete: bool,
    /// When the server looked, by its clock.
    pub as_of: String,
}

/// A row of the tree: an owner in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct WaitItem {
    /// How far below its root it is: 0 for a root, which waits for nobody.
    pub depth: u64,
    /// The owner, for people to read.
    pub owner: String,
    /// The session's public number, unless the session was made for one grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionNumber>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitPlace>,
    /// The first of the locks that it holds while others wait for them, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<AwaitedHold>,
    /// How many further locks it holds while others wait for them; omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_left_out: Option<u64>,
    /// How many waits are below this root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// How long the longest of them has lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_for: Option<String>,
    /// Whether the rows below it stand at an earlier row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// A place in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct WaitPlace {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its position: the number of grants ahead, including holders, plus 1.
    pub position: u64,
    /// When it queued.
    pub since: String,
    /// How long it has waited.
    pub waiting: String,
}

/// A lock that is held while others wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AwaitedHold {
    /// The lock.
    pub lock: LockName,
    /// The grant's public number.
    pub number: GrantNumber,
    /// Its token; missing while it cools, or if it is the first in line and waits for another lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Since when it has held the lock, or waited.
    pub since: String,
    /// How long that is.
    pub held_for: String,
    /// How many holders the lock has.
    pub holder_count: u64,
    /// How many wait for it.
    pub queue_length: u64,
}
