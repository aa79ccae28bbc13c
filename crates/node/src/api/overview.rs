//! The locks at a glance, and who waits for whom.

use fairhold_health::{answer::ClockOffset, locks::LockProblem};
use fairhold_state::{busy::BusyLocks, command::Blocked, read::Census, statistics::Statistics, waits::WaitTree};
use fairhold_types::{LockName, NodeId, Revision, call::SeriesStep, time::WallMillis};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The locks at a glance.
#[derive(Debug, Clone)]
pub struct OverviewView {
    /// The revision that it reflects.
    pub revision: Revision,
    /// When the node looked.
    pub at: WallMillis,
    /// How much there is now.
    pub census: Census,
    /// The totals since the cluster was formed.
    pub totals: Statistics,
    /// What happened in the last ten seconds; `None` if the node has just started.
    pub recent: Option<RecentTotals>,
    /// The locks that stand out, of those that the caller may see.
    pub locks: BusyLocks,
    /// The newest refusals that the caller may see.
    pub refused: RefusedWaitsView,
    /// What the rules about locks object to.
    pub problems: Vec<(LockName, LockProblem)>,
    /// The members; empty before cluster version 2.
    pub looks: BTreeMap<NodeId, MemberLook>,
}

/// What a node knows about a member from the member itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberLook {
    /// Whether it answered when it was last asked.
    pub reachable: bool,
    /// What it last said.
    pub said: Option<MemberAnswer>,
}

/// What a member said when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAnswer {
    /// When it answered, by the clock of the node that asked it.
    pub at: WallMillis,
    /// Its clock, compared with that of the node that asked it; `None` for that node itself.
    pub clock: Option<ClockOffset>,
    /// What it said.
    pub report: MemberReport,
}

/// What a member says about itself, from its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// The version of its program.
    pub version: Option<String>,
    /// Whether it leads or hears from the leader, and is not shutting down. This is no proof that it can serve.
    pub ready: bool,
    /// The last log entry in its state.
    pub applied: Option<u64>,
    /// The last log entry in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The number of entries in its log.
    pub log_entries: u64,
    /// The bytes that it may still write to the file system of its data directory, and the size of that in bytes.
    pub disk: Option<(u64, u64)>,
    /// When it started, by its own clock.
    pub started_at: WallMillis,
    /// What its clock shows.
    pub now: WallMillis,
    /// How many files and sockets it has open, and how many it can have open, if there is a limit.
    pub open_files: Option<(u64, Option<u64>)>,
    /// The longest round trip to a voter that the timing profile must suit, in milliseconds, if it leads and knows one.
    pub round_trip_ms: Option<u64>,
}

/// What happened in a period, over all locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentTotals {
    /// The length of the period.
    pub over: Duration,
    /// The grants given.
    pub granted: u64,
    /// How many of them had to wait.
    pub handed_over: u64,
    /// Held grants that expired or were broken.
    pub lost: u64,
    /// Requests for a grant that this node refused.
    pub refused: u64,
}

/// A request that was refused because waiting would have caused a deadlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWait {
    /// When, by the clock of the node that received the request.
    pub at: WallMillis,
    /// Each waits for the next, and the last for the first, which is the requester.
    pub cycle: Vec<Blocked>,
    /// How many more waiters the cycle has.
    pub left_out: usize,
}

/// The newest refusals that a node has applied and keeps in memory.
#[derive(Debug, Clone)]
pub struct RefusedWaitsView {
    /// The refusals, the newest first.
    pub waits: Vec<Arc<RefusedWait>>,
    /// The time since which none is missing, of those that the caller may see.
    pub since: WallMillis,
}

/// The tree of waits. It has only the locks that the caller may see.
#[derive(Debug, Clone)]
pub struct WaitsView {
    /// The revision that it reflects.
    pub revision: Revision,
    /// When the node looked.
    pub at: WallMillis,
    /// The tree.
    pub tree: WaitTree,
}

/// The columns of a series: the end of a row's time, then its figures.
pub const SERIES_NAMES: [&str; 14] = [
    "at",
    "grants",
    "handed_over",
    "released",
    "expired",
    "broken",
    "refused",
    "held",
    "queued",
    "sessions",
    "commit_p99_us",
    "sync_p99_us",
    "errors_5xx",
    "term",
];

/// A row of a series: the figures of the time since the row before, in the order of `SERIES_NAMES`. That time is one step
/// long, or longer if the node was late: then `at` shows it, and no rows fill the missed seconds. Counts are of
/// what the node applied in that time, so a node that catches up counts old grants too.
pub type SeriesRow = [u64; SERIES_NAMES.len()];

/// A position in a series. Rows have numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesKey {
    /// The step of the series.
    pub step: SeriesStep,
    /// The series: each start of a node begins another one.
    pub series: u64,
    /// The number of a row; 0 is before the first one.
    pub number: u64,
}

/// Rows of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesView {
    /// The rows, the oldest first.
    pub rows: Vec<SeriesRow>,
    /// The time of the newest row, if there is any.
    pub to: Option<WallMillis>,
    /// Whether the rows continue those up to the requested position without a gap.
    pub continues: bool,
    /// The position after the rows.
    pub next: SeriesKey,
}
