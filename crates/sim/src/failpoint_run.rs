//! Runs scenarios for each failpoint until one reaches it.

use crate::{
    armed_failpoint::{ArmedFailpoint, FailpointAction, OF_CHANGES, SALT, here},
    client_kind::{ClientKind, ClientPlan},
    conditions::{Flushes, NetworkConditions},
    fault::{Fault, FaultKind, FaultTarget},
    host::TRUE_RATE,
    plan::ScenarioPlan,
    scenario,
};
use fairhold_types::{failpoint::Point, limits::EVENT_RING_BYTES};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{
    io::{self, Write},
    time::Duration,
};

/// The maximum number of scenarios for one failpoint.
const SCENARIOS_MAX: u64 = 40;
/// The duration of a scenario for one failpoint.
const SCENARIO_LASTS: Duration = Duration::from_secs(9);

/// A short scenario that reaches most failpoints: a node that falls behind, hand-overs, partitions, clients that
/// disconnect.
fn short_scenario(seed: u64, point: Point, action: FailpointAction) -> ScenarioPlan {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let millis = Duration::from_millis;
    let fault = |kind, target, at, lasts| Fault { kind, target, at: millis(at), lasts: millis(lasts) };
    let faults = vec![
        fault(FaultKind::Crash, FaultTarget::Node(1 + seed % 3), 1_500, 2_500),
        fault(FaultKind::HandOver, FaultTarget::Leader, 1_200 + seed % 7 * 100, 0),
        fault(FaultKind::IsolateFromPeers, FaultTarget::Leader, 5_000, 1_200),
        fault(FaultKind::HandOver, FaultTarget::Leader, 7_500, 0),
    ];
    let trades = [
        ClientKind::Locker,
        ClientKind::Locker,
        ClientKind::Reader,
        ClientKind::Owner,
        ClientKind::Owner,
        ClientKind::Owner,
        ClientKind::Writer,
        ClientKind::Watcher,
    ];
    let clients = trades.into_iter().enumerate().map(|(number, kind)| ClientPlan {
        kind,
        name: format!("c{number}"),
        seed: rng.random(),
        rounds: 3,
    });
    let clients = clients.collect();
    // Some failpoints are only reached at the start of a node or while the cluster forms, so half of them are armed at
    // once.
    let at = millis(if seed.is_multiple_of(2) { 0 } else { seed * 97 % 6_000 });
    let armed = ArmedFailpoint { point, action, at, passes: u32::try_from(seed % 3).unwrap_or_default(), target: None };
    ScenarioPlan {
        seed,
        rates: vec![TRUE_RATE; 3],
        network: NetworkConditions { delay_micros: 1_000, break_one_in: 0, twice_one_in: 0 },
        faults,
        clients,
        lasts: SCENARIO_LASTS,
        ring_bytes: EVENT_RING_BYTES,
        pace: Duration::ZERO,
        state_bytes: None,
        flushes: Flushes { at_least: Duration::ZERO, micros: 5_000 },
        slow_disks: vec![true; 3],
        round_trip: Duration::ZERO,
        is_upgrade: false,
        snapshot_every: 12,
        failpoints: vec![armed],
    }
}

/// A short scenario in which an operator changes the members, and the leader crashes during some changes.
fn scenario_with_changes(seed: u64, point: Point, action: FailpointAction) -> ScenarioPlan {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let crash = |at| Fault {
        kind: FaultKind::CrashChanging,
        target: FaultTarget::Leader,
        at: Duration::from_millis(at),
        lasts: Duration::from_millis(1_500),
    };
    let trades = [ClientKind::Operator, ClientKind::Locker, ClientKind::Owner, ClientKind::Writer];
    let clients = trades.into_iter().enumerate().map(|(number, kind)| ClientPlan {
        kind,
        name: format!("c{number}"),
        seed: rng.random(),
        rounds: 6,
    });
    let clients = clients.collect();
    let armed =
        ArmedFailpoint { point, action, at: Duration::ZERO, passes: u32::try_from(seed % 2).unwrap_or_default(), target: None };
    ScenarioPlan {
        faults: vec![crash(500), crash(6_000)],
        clients,
        failpoints: vec![armed],
        ..short_scenario(seed, point, action)
    }
}

/// Runs scenarios for each failpoint with an error, a crash and a delay, until it has failed in one. Returns whether no
/// invariant was violated.
pub(crate) fn each(out: &mut impl Write) -> io::Result<bool> {
    let acts = [
        ("crash", FailpointAction::Crash),
        ("error", FailpointAction::Error),
        ("delay", FailpointAction::Delay(Duration::from_millis(400))),
    ];
    let mut held = true;
    for (point, (name, action)) in here().flat_map(|point| acts.map(|action| (point, action))) {
        let outcome = (0..SCENARIOS_MAX).find_map(|seed| {
            let of_changes = OF_CHANGES.contains(&point);
            let plan = if of_changes { scenario_with_changes } else { short_scenario }(seed, point, action);
            let outcome = scenario::run(&plan, false);
            if !outcome.violations.is_empty() {
                return Some((false, format!("FAILED in scenario {seed}: {}", outcome.violations.join("; "))));
            }
            (outcome.coverage.failed(point.name()) > 0).then(|| (true, format!("ok in scenario {seed}")))
        });
        let (holds, what) = outcome.unwrap_or((false, "never".to_owned()));
        held &= holds;
        writeln!(out, "failpoint {} {name} {what}", point.name())?;
        out.flush()?;
    }
    Ok(held)
}
