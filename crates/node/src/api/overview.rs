//! The locks at a glance, and who waits for whom.

use fairhold_health::locks::LockProblem;
use fairhold_state::{busy::BusyLocks, read::Census, statistics::Statistics, waits::WaitTree};
use fairhold_types::{LockName, Revision, time::WallMillis};

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
    pub totals: TotalsSample,
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

/// The totals at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalsSample {
    /// When, by this node's clock.
    pub at: WallMillis,
    /// The grants given since the cluster was formed.
    pub granted: u64,
    /// Those of them that had to wait.
    pub handed_over: u64,
    /// The held grants that ended without a release.
    pub lost: u64,
    /// Held grants.
    pub held: u64,
    /// Queued grants.
    pub queued: u64,
    /// The term.
    pub term: u64,
}

impl TotalsSample {
    pub(crate) fn new(at: WallMillis, term: u64, census: Census, totals: &Statistics) -> TotalsSample {
        TotalsSample {
            at,
            granted: totals.waited.total(),
            handed_over: totals.hand_overs,
            lost: totals.expired + totals.broken + totals.abandoned,
            held: census.held as u64,
            queued: census.waiting as u64,
            term,
        }
    }
}
