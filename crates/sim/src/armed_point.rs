//! The armed failpoints of a scenario.

use fairhold_types::{NodeId, failpoint::Point};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{fmt, time::Duration};

/// What draws these is apart from what draws all else, so that a story without them is otherwise the same.
pub(crate) const SALT: u64 = 0x6661_696c;
/// Points that only real files have.
const NOT_HERE: [Point; 5] = [
    Point::StorageIdentityWrite,
    Point::StorageLogOpen,
    Point::StorageLogRecover,
    Point::StoragePurgeFiles,
    Point::StorageSnapshotClean,
];

/// What a point does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Error,
    Crash,
    Delay(Duration),
}

/// A point that fails once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArmedPoint {
    pub(crate) point: Point,
    pub(crate) act: Act,
    /// From then on.
    pub(crate) at: Duration,
    /// So many times it is passed first.
    pub(crate) passes: u32,
    /// On this machine; on whichever comes first where there is none.
    pub(crate) whom: Option<NodeId>,
}

impl fmt::Display for ArmedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArmedPoint { point, act, at, passes, whom } = self;
        write!(f, "from {at:?} on, {} {act:?} after {passes} passes, on {whom:?}", point.name())
    }
}

/// The failpoints that the simulator reaches.
pub(crate) fn here() -> impl Iterator<Item = Point> {
    Point::ALL.iter().copied().filter(|point| !NOT_HERE.contains(point))
}

/// What a seed decides.
pub(crate) fn of(seed: u64, size: u64) -> Vec<ArmedPoint> {
    let mut chance = SmallRng::seed_from_u64(seed ^ SALT);
    let all: Vec<Point> = here().collect();
    let draw = |_| {
        let point = all[chance.random_range(0..all.len())];
        let act = match chance.random_range(0..3) {
            0 => Act::Error,
            1 => Act::Crash,
            _ => Act::Delay(Duration::from_millis(chance.random_range(5..2_000))),
        };
        let whom = if chance.random_range(0..2) == 0 { None } else { Some(chance.random_range(1..=size)) };
        let at = Duration::from_millis(chance.random_range(0..20_000));
        ArmedPoint { point, act, at, passes: chance.random_range(0..4), whom }
    };
    let count = SmallRng::seed_from_u64(seed.wrapping_add(SALT)).random_range(0..5);
    (0..count).map(draw).collect()
}
