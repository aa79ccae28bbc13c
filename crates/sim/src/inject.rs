//! The injection of a fault, from its beginning to its end.

mod crash_changing;
mod late_answers;
mod older_disk;
mod truncated_log;
mod wait_until;

use self::wait_until::{ELECTED_WITHIN, wait_until};
use crate::{
    disk::Disk,
    facts::Fact,
    fault::{Fault, FaultKind, FaultTarget},
    inject::wait_until::POLL_EVERY,
    net::CLIENTS,
    trace,
    world::World,
};
use fairhold_node::access::FileTokens;
use fairhold_raft::Leadership;
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How long to wait for an unflushed write.
const DIRTY_WITHIN: Duration = Duration::from_secs(3);
/// How long a leader is watched after a pause, and how often.
const WATCHED_FOR: Duration = Duration::from_secs(6);
const WATCH_EVERY: Duration = Duration::from_millis(20);
/// The additional time of a flush on a slow disk.
const SLOW_FLUSH: Duration = Duration::from_millis(250);
/// The timeout of a hand-over.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);

/// Waits for the start of a fault, injects it, and ends it.
pub(crate) async fn inject(world: World, fault: Fault) {
    SimRuntime::sleep(fault.at).await;
    let id = match fault.target {
        FaultTarget::Leader => world.leader().unwrap_or_else(|| world.id_like(1)),
        FaultTarget::Node(id) => world.id_like(id),
    };
    if fault.kind == FaultKind::CrashChanging {
        return crash_changing::inject(&world, fault).await;
    }
    trace::event(&format!("{} of node {id}", fault.kind.name()));
    world.calm.begin_fault();
    inject_now(&world, fault, id).await;
    world.calm.end_fault();
}

async fn inject_now(world: &World, fault: Fault, id: NodeId) {
    if let Some(directions) = directions(fault.kind, id, &world.ids()) {
        directions.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        world.coverage.fault(fault.kind.name());
        SimRuntime::sleep(fault.lasts).await;
        directions.iter().for_each(|(from, to)| world.net.heal(*from, *to));
        return;
    }
    match fault.kind {
        FaultKind::Pause => return pause(world, fault.kind, &[id], fault.lasts).await,
        FaultKind::PauseAll => return pause(world, fault.kind, &world.ids(), fault.lasts).await,
        FaultKind::CrashVoting => return crash_voting(world, id, fault.lasts).await,
        FaultKind::CrashTruncating => return truncated_log::inject(world, fault).await,
        FaultKind::LateAnswers => return late_answers::inject(world, fault).await,
        FaultKind::OlderDisk => return older_disk::inject(world, fault, id).await,
        FaultKind::Crash
        | FaultKind::CrashWriting
        | FaultKind::CrashAll
        | FaultKind::Stop
        | FaultKind::Isolate
        | FaultKind::IsolateFromPeers
        | FaultKind::CutInbound
        | FaultKind::CutOutbound
        | FaultKind::CutPair
        | FaultKind::BreakConnections
        | FaultKind::SlowDisk
        | FaultKind::DiskError
        | FaultKind::DiskFull
        | FaultKind::HandOver
        | FaultKind::WrongDisk
        | FaultKind::ChangeProgram
        | FaultKind::CrashChanging
        | FaultKind::ChangeAddresses => {}
    }
    if begin(world, fault.kind, id).await {
        world.coverage.fault(fault.kind.name());
    }
    SimRuntime::sleep(fault.lasts).await;
    end(world, fault.kind, id);
}

/// The directions that a partition cuts; `None` if the fault is of another kind.
fn directions(kind: FaultKind, id: NodeId, nodes: &[NodeId]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes: Vec<NodeId> = nodes.iter().copied().filter(|other| *other != id).collect();
    let all: Vec<NodeId> = nodes.iter().copied().chain([CLIENTS]).collect();
    let both = |others: &[NodeId]| others.iter().flat_map(|other| [(id, *other), (*other, id)]).collect();
    match kind {
        FaultKind::Isolate => Some(both(&all)),
        FaultKind::IsolateFromPeers => Some(both(&nodes)),
        FaultKind::CutPair => Some(both(&all[..1])),
        FaultKind::CutInbound => Some(all.iter().map(|other| (*other, id)).collect()),
        FaultKind::CutOutbound => Some(all.iter().map(|other| (id, *other)).collect()),
        FaultKind::Crash
        | FaultKind::CrashWriting
        | FaultKind::CrashVoting
        | FaultKind::CrashTruncating
        | FaultKind::CrashAll
        | FaultKind::Stop
        | FaultKind::Pause
        | FaultKind::PauseAll
        | FaultKind::BreakConnections
        | FaultKind::SlowDisk
        | FaultKind::DiskError
        | FaultKind::DiskFull
        | FaultKind::HandOver
        | FaultKind::WrongDisk
        | FaultKind::OlderDisk
        | FaultKind::LateAnswers
        | FaultKind::ChangeProgram
        | FaultKind::CrashChanging
        | FaultKind::ChangeAddresses => None,
    }
}

/// Begins a fault. Returns whether it had an effect.
async fn begin(world: &World, kind: FaultKind, id: NodeId) -> bool {
    let disk = world.disk(id);
    let was_on = world.host(id).is_some();
    match kind {
        FaultKind::Crash => world.crash(id),
        FaultKind::CrashWriting => {
            let caught = written(disk).await;
            world.crash(id) && caught
        }
        FaultKind::CrashAll => crash_all(world),
        FaultKind::ChangeAddresses => {
            world.change_addresses();
            crash_all(world)
        }
        FaultKind::Stop => world.stop(id).await,
        FaultKind::ChangeProgram => world.change_program(id).await,
        FaultKind::BreakConnections => {
            world.ids().into_iter().chain([CLIENTS]).for_each(|other| world.net.break_connections(id, other));
            was_on
        }
        FaultKind::SlowDisk => {
            disk.into_iter().for_each(|disk| disk.slow_down(SLOW_FLUSH));
            was_on
        }
        FaultKind::DiskError => {
            disk.into_iter().for_each(|disk| disk.fail());
            was_on
        }
        FaultKind::DiskFull => {
            disk.into_iter().for_each(|disk| disk.fill(true));
            was_on
        }
        FaultKind::WrongDisk => world.replace_disk_with_empty(id),
        FaultKind::HandOver => {
            let to = world.ids().into_iter().find(|other| *other != id);
            let (Some(to), Some(host), Some(running)) = (to, world.host(id), world.running(id)) else { return false };
            // While rights are enforced, the leader refuses a request of nobody.
            let node = running.node.for_caller(FileTokens::default().caller());
            // Its outcome does not matter, but no invariant may be violated.
            drop(host.spawn(async move { drop(node.hand_over(to, None, HAND_OVER_WITHIN).await) }));
            true
        }
        FaultKind::Pause | FaultKind::PauseAll | FaultKind::CrashVoting | FaultKind::CrashTruncating => false,
        FaultKind::OlderDisk | FaultKind::LateAnswers | FaultKind::CrashChanging => false,
        FaultKind::Isolate
        | FaultKind::IsolateFromPeers
        | FaultKind::CutPair
        | FaultKind::CutInbound
        | FaultKind::CutOutbound => false,
    }
}

/// Switches all machines off. Returns whether one of them was on.
fn crash_all(world: &World) -> bool {
    world.ids().into_iter().fold(false, |struck, id| world.crash(id) | struck)
}

fn end(world: &World, kind: FaultKind, id: NodeId) {
    let disk = world.disk(id);
    match kind {
        FaultKind::Crash | FaultKind::CrashWriting | FaultKind::Stop | FaultKind::ChangeProgram => world.start(id),
        FaultKind::CrashAll | FaultKind::ChangeAddresses => world.ids().into_iter().for_each(|id| world.start(id)),
        FaultKind::SlowDisk => disk.into_iter().for_each(|disk| disk.slow_down(Duration::ZERO)),
        FaultKind::DiskFull => disk.into_iter().for_each(|disk| disk.fill(false)),
        FaultKind::WrongDisk => world.restore_disk(id),
        FaultKind::BreakConnections | FaultKind::DiskError | FaultKind::HandOver => {}
        FaultKind::Pause | FaultKind::PauseAll | FaultKind::CrashVoting | FaultKind::CrashTruncating => {}
        FaultKind::OlderDisk | FaultKind::LateAnswers | FaultKind::CrashChanging => {}
        FaultKind::Isolate
        | FaultKind::IsolateFromPeers
        | FaultKind::CutPair
        | FaultKind::CutInbound
        | FaultKind::CutOutbound => {}
    }
}

/// Waits a while for an unflushed write. Returns whether there is one.
async fn written(disk: Option<Disk>) -> bool {
    let mut looked = Duration::ZERO;
    while disk.as_ref().is_some_and(|disk| !disk.is_dirty()) && looked < DIRTY_WITHIN {
        SimRuntime::sleep(POLL_EVERY).await;
        looked += POLL_EVERY;
    }
    disk.is_some_and(|disk| disk.is_dirty())
}

/// Pauses machines, and then watches the remaining leaders: their clocks must not count the pause.
async fn pause(world: &World, kind: FaultKind, ids: &[NodeId], lasts: Duration) {
    let leadership = |id| world.running(id).and_then(|running| running.replica.leadership());
    let hosts: Vec<_> = ids.iter().filter_map(|id| Some((*id, world.host(*id)?, leadership(*id)))).collect();
    hosts.iter().for_each(|(_, host, _)| host.pause());
    if !hosts.is_empty() {
        world.coverage.fault(kind.name());
    }
    SimRuntime::sleep(lasts).await;
    for (id, host, led) in hosts {
        let paused_for = host.paused_for();
        host.resume();
        if let (Some(led), Some(paused_for)) = (led, paused_for) {
            drop(SimRuntime::spawn(watch_after_pause(world.clone(), id, led, paused_for)));
        }
    }
}

async fn watch_after_pause(world: World, id: NodeId, led: Leadership, paused_for: Duration) {
    let until = trace::since_start();
    let leadership = |id| world.running(id).and_then(|running| running.replica.leadership());
    // A partitioned node may not know the newly elected leader.
    let is_followed = || world.ids().into_iter().filter_map(leadership).any(|other| other.term() > led.term());
    let leads = || leadership(id) == Some(led) && !is_followed();
    let mut led_until = until;
    while leads() && led_until < until + WATCHED_FOR && !world.host(id).is_some_and(|host| host.is_paused()) {
        SimRuntime::sleep(WATCH_EVERY).await;
        led_until = trace::since_start();
    }
    world.oracle.observe(&Fact::LeaderPaused { until, paused_for, led_until });
}

/// Pauses a leader, so that the others hold an election, and crashes the first of them that has an unflushed vote.
async fn crash_voting(world: &World, id: NodeId, lasts: Duration) {
    let leader = world.host(id);
    leader.iter().for_each(|host| host.pause());
    let others: Vec<NodeId> = world.ids().into_iter().filter(|other| *other != id).collect();
    let voting = || others.iter().copied().find(|other| world.disk(*other).is_some_and(|disk| disk.has_unflushed_vote()));
    if wait_until(ELECTED_WITHIN, || voting().is_some()).await
        && let Some(voter) = voting()
    {
        if world.crash(voter) {
            world.coverage.fault(FaultKind::CrashVoting.name());
        }
        SimRuntime::sleep(lasts / 2).await;
        world.start(voter);
    }
    SimRuntime::sleep(lasts / 2).await;
    leader.iter().for_each(|host| host.resume());
}
