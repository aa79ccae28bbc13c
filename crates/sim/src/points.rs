//! Failpoints in a story: which of them fail when, on which machine, and how. An error is returned there, a crash takes the
//! machine's power at exactly that step, and a delay passes in virtual time. Where nothing can wait, the machine is paused.

use crate::{
    clients::Trade,
    disk::Flushes,
    host::{self, Crashed, TRUE_RATE},
    net::Weather,
    plan::{ClientPlan, Fault, Kind, Plan, Whom},
    story, trace,
    world::World,
};
use fairhold_types::{
    NodeId,
    failpoint::{Point, Reached, set_judge},
    limits::EVENT_RING_BYTES,
};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    fmt,
    io::{self, Write},
    panic::resume_unwind,
    time::Duration,
};

/// What draws these is apart from what draws all else, so that a story without them is otherwise the same.
const SALT: u64 = 0x6661_696c;
/// Points that only real files have.
const NOT_HERE: [Point; 5] = [
    Point::StorageIdentityWrite,
    Point::StorageLogOpen,
    Point::StorageLogRecover,
    Point::StoragePurgeFiles,
    Point::StorageSnapshotClean,
];
/// How many stories are told until one reaches a point.
const STORIES_MAX: u64 = 40;
/// How long such a story lasts.
const STORY_LASTS: Duration = Duration::from_secs(9);

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

/// From now on, and until another story begins, the points of this thread fail as the plan says.
pub(crate) fn judge(world: &World, plan: &Plan) {
    let (world, mut armed) = (world.clone(), plan.points.clone());
    set_judge(Some(Box::new(move |point, blocking| {
        let Some(host) = host::current().filter(|host| !host.is_dead()) else { return Reached::Nothing };
        let now = trace::since_start();
        let meant =
            |armed: &ArmedPoint| armed.point == point && armed.at <= now && armed.whom.is_none_or(|whom| whom == host.name().0);
        let due = armed.iter_mut().position(|armed| {
            let due = meant(armed) && armed.passes == 0;
            armed.passes -= u32::from(meant(armed) && !due);
            due
        });
        world.tally.point(point.name(), due.is_some());
        let Some(due) = due else { return Reached::Nothing };
        let act = armed.remove(due).act;
        trace::event(&format!("{host:?} reaches {}: {act:?}", point.name()));
        match act {
            Act::Error => {
                world.spoil(host.name());
                Reached::Error
            }
            Act::Crash => {
                world.down_at_once(host.name().0, &host);
                resume_unwind(Box::new(Crashed))
            }
            Act::Delay(delay) if blocking => {
                host.pause();
                drop(SimRuntime::spawn(async move {
                    SimRuntime::sleep(delay).await;
                    host.resume();
                }));
                Reached::Nothing
            }
            Act::Delay(delay) => Reached::Delay(delay),
        }
    })));
}

/// A short story of all that the points are about: a node that falls behind, hand-overs, cuts, clients that go away.
fn short_story(seed: u64, point: Point, act: Act) -> Plan {
    let mut chance = SmallRng::seed_from_u64(seed ^ SALT);
    let millis = Duration::from_millis;
    let fault = |kind, whom, at, lasts| Fault { kind, whom, at: millis(at), lasts: millis(lasts) };
    let faults = vec![
        fault(Kind::Crash, Whom::Node(1 + seed % 3), 1_500, 2_500),
        fault(Kind::HandOver, Whom::Leader, 1_200 + seed % 7 * 100, 0),
        fault(Kind::Apart, Whom::Leader, 5_000, 1_200),
        fault(Kind::HandOver, Whom::Leader, 7_500, 0),
    ];
    let trades =
        [Trade::Locker, Trade::Locker, Trade::Reader, Trade::Owner, Trade::Owner, Trade::Owner, Trade::Writer, Trade::Watcher];
    let clients = trades.into_iter().enumerate().map(|(number, trade)| ClientPlan {
        trade,
        name: format!("c{number}"),
        seed: chance.random(),
        rounds: 3,
    });
    let clients = clients.collect();
    // What a start or the forming of a cluster reaches, it reaches at once.
    let at = millis(if seed.is_multiple_of(2) { 0 } else { seed * 97 % 6_000 });
    let armed = ArmedPoint { point, act, at, passes: u32::try_from(seed % 3).unwrap_or_default(), whom: None };
    Plan {
        seed,
        rates: vec![TRUE_RATE; 3],
        weather: Weather { delay_micros: 1_000, break_one_in: 0, twice_one_in: 0 },
        faults,
        clients,
        lasts: STORY_LASTS,
        ring_bytes: EVENT_RING_BYTES,
        pace: Duration::ZERO,
        state_bytes: None,
        flushes: Flushes { at_least: Duration::ZERO, micros: 5_000 },
        slow_disks: vec![true; 3],
        round_trip: Duration::ZERO,
        snapshot_every: 12,
        points: vec![armed],
    }
}

/// Tells, for each point and each of error, crash and delay, stories until it has failed in one; says whether all held.
pub(crate) fn each(out: &mut impl Write) -> io::Result<bool> {
    let acts = [("crash", Act::Crash), ("error", Act::Error), ("delay", Act::Delay(Duration::from_millis(400)))];
    let mut held = true;
    for (point, (name, act)) in here().flat_map(|point| acts.map(|act| (point, act))) {
        let told = (0..STORIES_MAX).find_map(|seed| {
            let outcome = story::run(&short_story(seed, point, act), false);
            if !outcome.violations.is_empty() {
                return Some((false, format!("FAILED in story {seed}: {}", outcome.violations.join("; "))));
            }
            (outcome.tally.failed(point.name()) > 0).then(|| (true, format!("ok in story {seed}")))
        });
        let (holds, what) = told.unwrap_or((false, "never".to_owned()));
        held &= holds;
        writeln!(out, "failpoint {} {name} {what}", point.name())?;
        out.flush()?;
    }
    Ok(held)
}
