//! One run of a plan: the cluster forms, clients work while faults are injected, all faults heal, and then all grants
//! and sessions must end.

use crate::{
    client::SimClient, clients, coverage::Coverage, host::HostRuntime, inject::inject, plan::ScenarioPlan, trace, world::World,
};
use futures_util::future::join_all;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// A healthy cluster forms within this time.
const FORMS_WITHIN: Duration = Duration::from_secs(60);
/// After all faults have healed, a leader is elected within this time, even with slow clocks and disks.
const ELECTED_WITHIN: Duration = Duration::from_secs(20);
/// After that, all clients end within this time. A slow clock makes everything take longer.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// After that, the last lease and lock delay end within this time, and all nodes have the same state.
const SETTLES_WITHIN: Duration = Duration::from_secs(120);
/// How often a condition is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct ScenarioOutcome {
    /// All violations.
    pub(crate) violations: Vec<String>,
    /// The same for every run of a seed.
    pub(crate) trace: u64,
    /// In virtual time.
    pub(crate) lasted: Duration,
    pub(crate) coverage: Coverage,
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects panics of tasks, which are violations, and keeps them off standard error.
pub(crate) fn collect_panics() {
    std::panic::set_hook(Box::new(|info| PANICS.lock().push(info.to_string())));
}

fn take_panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock())
}

/// Runs a plan. `loud` prints every event to standard error.
pub(crate) fn run(plan: &ScenarioPlan, loud: bool) -> ScenarioOutcome {
    trace::begin(loud);
    drop(take_panics());
    let mut runtime = HostRuntime::with_seed(plan.seed);
    let coverage = Coverage::default();
    let run_coverage = coverage.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let world = World::new(plan, run_coverage);
            #[cfg(feature = "failpoints")]
            crate::failpoint_judge::judge(&world, plan);
            drop(SimRuntime::spawn(world.clone().count_elections()));
            play(&world, plan).await;
            (world.oracle.violations(), trace::since_start())
        })
    }));
    let trace = trace::hash();
    drop(runtime);
    #[cfg(feature = "failpoints")]
    fairhold_types::failpoint::set_judge(None);
    let (mut violations, lasted) = ran.unwrap_or_default();
    violations.extend(take_panics().into_iter().map(|panic| format!("panic: {panic}")));
    ScenarioOutcome { violations, trace, lasted, coverage }
}

async fn play(world: &World, plan: &ScenarioPlan) {
    world.ids().into_iter().for_each(|id| world.start(id));
    if !within(FORMS_WITHIN, || world.leader().is_some()).await {
        return world.oracle.violation(format!("no leader after {FORMS_WITHIN:?} without faults"));
    }
    world.net.set_min_delay(plan.round_trip / 2);
    world.calm.disturb();
    let clients = plan.clients.iter().map(|client| {
        let (kind, rounds) = (client.kind, client.rounds);
        SimRuntime::spawn(clients::work(kind, SimClient::new(world.clone(), client.name.clone(), client.seed), rounds))
    });
    let clients: Vec<_> = clients.collect();
    let faults = plan.faults.iter().map(|fault| SimRuntime::spawn(inject(world.clone(), *fault)));
    let faults: Vec<_> = faults.collect();
    drop(join_all(faults).await);
    if let Some(rest) = plan.lasts.checked_sub(trace::since_start()) {
        SimRuntime::sleep(rest).await;
    }
    heal(world);
    if plan.is_too_far_apart() {
        world.net.set_min_delay(Duration::ZERO);
    }
    if !within(ELECTED_WITHIN, || world.leader().is_some()).await {
        return world.oracle.violation(format!("no leader {ELECTED_WITHIN:?} after everything was healed"));
    }
    if SimRuntime::timeout(ENDS_WITHIN, join_all(clients)).await.is_err() {
        return world.oracle.violation(format!("clients did not end within {ENDS_WITHIN:?} after everything was healed"));
    }
    settle(world).await;
}

fn heal(world: &World) {
    trace::event("everything heals");
    world.calm.disturb();
    world.net.calm();
    world.upgrade_programs();
    for id in world.ids() {
        world.restore_disk(id);
        if let Some(host) = world.host(id) {
            host.resume();
        }
        if let Some(disk) = world.disk(id) {
            disk.slow_down(Duration::ZERO);
            disk.fill(false);
        }
        world.start(id);
    }
}

/// Waits until no grant or session remains and all nodes agree. Then the oracle checks the final state.
async fn settle(world: &World) {
    let digests = || {
        let running: Vec<_> = world.ids().into_iter().map(|id| world.running(id)).collect();
        running.into_iter().map(|running| running.map(|running| running.replica.state().digest())).collect::<Option<Vec<_>>>()
    };
    let empty = || {
        world.leader().and_then(|id| world.running(id)).is_some_and(|running| {
            let census = running.replica.read(|state| state.census());
            census.held + census.waiting + census.cooling + census.sessions == 0
        })
    };
    let ended = within(SETTLES_WITHIN, empty).await;
    // A node that was removed is told so by the others, and ends.
    let strangers = || {
        let members = world.leader().and_then(|id| world.running(id)).map(|running| running.replica.status().members);
        let members: Vec<_> = members.unwrap_or_default().into_iter().map(|member| member.id).collect();
        world.ids().into_iter().filter(|id| !members.contains(id)).collect::<Vec<_>>()
    };
    if !within(SETTLES_WITHIN, || strangers().is_empty()).await {
        world.oracle.violation(format!("these nodes are no members, and nobody told them: {:?}", strangers()));
    }
    let agreed = within(SETTLES_WITHIN, || digests().is_some_and(|digests| digests.windows(2).all(|pair| pair[0] == pair[1])));
    if !agreed.await {
        world.oracle.violation("the nodes do not have the same state after everything was healed".to_owned());
    }
    let left = world.leader().and_then(|id| world.running(id)).map(|running| running.replica.state());
    match left {
        Some(state) => world.oracle.finished(&state),
        None => world.oracle.violation("there is no leader after everything was healed".to_owned()),
    }
    trace::event(if ended { "everything has ended" } else { "not everything has ended" });
}

async fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while !holds() {
        if waited >= limit {
            return false;
        }
        SimRuntime::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    true
}
