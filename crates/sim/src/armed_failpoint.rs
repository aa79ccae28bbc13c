//! The armed failpoints of a scenario.

use fairhold_types::{NodeId, failpoint::Point};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{fmt, time::Duration};

/// Failpoints are drawn from their own generator, so that they do not change the rest of a scenario.
pub(crate) const SALT: u64 = 0x6661_696c;
const OF_CHANGES_SALT: u64 = 0x6368_616e_6765;
/// Failpoints of real files, which the simulator does not have.
const NOT_HERE: [Point; 5] = [
    Point::StorageIdentityWrite,
    Point::StorageLogOpen,
    Point::StorageLogRecover,
    Point::StoragePurgeFiles,
    Point::StorageSnapshotClean,
];

/// Failpoints of changes of the members. They are drawn separately, because only an operator's scenarios reach them.
pub(crate) const OF_CHANGES: [Point; 6] = [
    Point::RaftJoinAdmit,
    Point::RaftJoinAdded,
    Point::RaftJoinPromote,
    Point::RaftMemberSwap,
    Point::RaftMemberFlatten,
    Point::RaftJoinSettle,
];

/// What a failpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailpointAction {
    Error,
    Crash,
    Delay(Duration),
}

/// A failpoint that fails once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArmedFailpoint {
    pub(crate) point: Point,
    pub(crate) action: FailpointAction,
    /// When it is armed.
    pub(crate) at: Duration,
    /// How many passes come before the failure.
    pub(crate) passes: u32,
    /// The machine; `None`: the first machine that reaches it.
    pub(crate) target: Option<NodeId>,
}

impl fmt::Display for ArmedFailpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArmedFailpoint { point, action, at, passes, target } = self;
        write!(f, "from {at:?} on, {} {action:?} after {passes} passes, on {target:?}", point.name())
    }
}

/// The failpoints that exist in the simulator.
pub(crate) fn here() -> impl Iterator<Item = Point> {
    Point::ALL.iter().copied().filter(|point| !NOT_HERE.contains(point))
}

/// The failpoints of a seed. `has_operator`: the members change.
pub(crate) fn of(seed: u64, size: u64, has_operator: bool) -> Vec<ArmedFailpoint> {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let all: Vec<Point> = here().filter(|point| !OF_CHANGES.contains(point)).collect();
    let draw = |_| {
        let point = all[rng.random_range(0..all.len())];
        let action = match rng.random_range(0..3) {
            0 => FailpointAction::Error,
            1 => FailpointAction::Crash,
            _ => FailpointAction::Delay(Duration::from_millis(rng.random_range(5..2_000))),
        };
        let target = if rng.random_range(0..2) == 0 { None } else { Some(rng.random_range(1..=size)) };
        let at = Duration::from_millis(rng.random_range(0..20_000));
        ArmedFailpoint { point, action, at, passes: rng.random_range(0..4), target }
    };
    let count = SmallRng::seed_from_u64(seed.wrapping_add(SALT)).random_range(0..5);
    let mut armed: Vec<ArmedFailpoint> = (0..count).map(draw).collect();
    if has_operator {
        armed.extend(of_changes(seed));
    }
    armed
}

/// Failpoints of changes of the members, mostly crashes of the leader.
fn of_changes(seed: u64) -> Vec<ArmedFailpoint> {
    let mut rng = SmallRng::seed_from_u64(seed ^ OF_CHANGES_SALT);
    let draw = |_| {
        let point = OF_CHANGES[rng.random_range(0..OF_CHANGES.len())];
        let action = match rng.random_range(0..4) {
            0 => FailpointAction::Error,
            1 => FailpointAction::Delay(Duration::from_millis(rng.random_range(5..2_000))),
            _ => FailpointAction::Crash,
        };
        let at = Duration::from_millis(rng.random_range(0..15_000));
        ArmedFailpoint { point, action, at, passes: rng.random_range(0..2), target: None }
    };
    let count = SmallRng::seed_from_u64(seed.wrapping_add(OF_CHANGES_SALT)).random_range(0..4);
    (0..count).map(draw).collect()
}
