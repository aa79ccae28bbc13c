//! The locks at a glance, and who waits for whom.

use fairhold_health::locks::LockProblem;
use fairhold_state::{busy::BusyLocks, read::Census, statistics::Statistics, waits::WaitTree};
use fairhold_types::{LockName, Revision, call::SeriesStep, time::WallMillis};

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
    /// The locks that stand out, of those that the caller may see.
    pub locks: BusyLocks,
    /// What the rules about locks object to.
    pub problems: Vec<(LockName, LockProblem)>,
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
