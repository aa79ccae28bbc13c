//! Runs scenarios for each failpoint until one reaches it.

use crate::{
    armed_point::{Act, ArmedPoint, SALT, here},
    conditions::{Flushes, Weather},
    fault::{Fault, FaultKind, Whom},
    host::TRUE_RATE,
    plan::StoryPlan,
    story,
    trade::{ClientPlan, Trade},
};
use fairhold_types::{failpoint::Point, limits::EVENT_RING_BYTES};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    io::{self, Write},
    time::Duration,
};

/// How many stories are told until one reaches a point.
const STORIES_MAX: u64 = 40;
/// How long such a story lasts.
const STORY_LASTS: Duration = Duration::from_secs(9);

/// A short story of all that the points are about: a node that falls behind, hand-overs, cuts, clients that go away.
fn short_story(seed: u64, point: Point, act: Act) -> StoryPlan {
    let mut chance = SmallRng::seed_from_u64(seed ^ SALT);
    let millis = Duration::from_millis;
    let fault = |kind, whom, at, lasts| Fault { kind, whom, at: millis(at), lasts: millis(lasts) };
    let faults = vec![
        fault(FaultKind::Crash, Whom::Node(1 + seed % 3), 1_500, 2_500),
        fault(FaultKind::HandOver, Whom::Leader, 1_200 + seed % 7 * 100, 0),
        fault(FaultKind::Apart, Whom::Leader, 5_000, 1_200),
        fault(FaultKind::HandOver, Whom::Leader, 7_500, 0),
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
    StoryPlan {
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
