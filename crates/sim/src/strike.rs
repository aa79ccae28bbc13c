//! The injection of a fault, from its beginning to its end.

mod becomes;
mod cut_log;
mod late_answers;
mod older_disk;

use self::becomes::{ELECTED_WITHIN, becomes};
use crate::{
    disk::Disk,
    facts::Fact,
    fault::{Fault, FaultKind, Whom},
    net::CLIENTS,
    strike::becomes::LOOK_OFTEN,
    trace,
    world::World,
};
use fairhold_raft::Leadership;
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// For how long a write that is not flushed is looked for, and how often.
const DIRTY_WITHIN: Duration = Duration::from_secs(3);
/// For how long a leader is watched after it was paused, and how often.
const AWAKE_FOR: Duration = Duration::from_secs(6);
const AWAKE_LOOK: Duration = Duration::from_millis(20);
/// How much slower a disk is, while it is slow.
const SLOW_FLUSH: Duration = Duration::from_millis(250);
/// How long a hand-over may take.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);

/// Waits for a fault's time, lets it strike, and ends it.
pub(crate) async fn strike(world: World, fault: Fault) {
    SimRuntime::sleep(fault.at).await;
    let id = match fault.whom {
        Whom::Leader => world.leader().unwrap_or(1),
        Whom::Node(id) => id,
    };
    trace::event(&format!("{} of node {id}", fault.kind.name()));
    world.calm.begin_trouble();
    strike_now(&world, fault, id).await;
    world.calm.end_trouble();
}

async fn strike_now(world: &World, fault: Fault, id: NodeId) {
    if let Some(ways) = ways(fault.kind, id, &world.ids()) {
        ways.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        world.tally.fault(fault.kind.name());
        SimRuntime::sleep(fault.lasts).await;
        ways.iter().for_each(|(from, to)| world.net.mend(*from, *to));
        return;
    }
    match fault.kind {
        FaultKind::Pause => return pause(world, fault.kind, &[id], fault.lasts).await,
        FaultKind::PauseAll => return pause(world, fault.kind, &world.ids(), fault.lasts).await,
        FaultKind::CrashVoting => return crash_voting(world, id, fault.lasts).await,
        FaultKind::CrashTruncating => return cut_log::strike(world, fault).await,
        FaultKind::LateAnswers => return late_answers::strike(world, fault).await,
        FaultKind::OlderDisk => return older_disk::strike(world, fault, id).await,
        FaultKind::Crash
        | FaultKind::CrashWriting
        | FaultKind::CrashAll
        | FaultKind::Stop
        | FaultKind::Isolate
        | FaultKind::Apart
        | FaultKind::Deaf
        | FaultKind::Mute
        | FaultKind::Bridge
        | FaultKind::Breaks
        | FaultKind::SlowDisk
        | FaultKind::DiskError
        | FaultKind::DiskFull
        | FaultKind::HandOver
        | FaultKind::WrongDisk
        | FaultKind::Moved => {}
    }
    if begin(world, fault.kind, id).await {
        world.tally.fault(fault.kind.name());
    }
    SimRuntime::sleep(fault.lasts).await;
    end(world, fault.kind, id);
}

/// What a cut cuts, from whom to whom; none where the fault is of another kind.
fn ways(kind: FaultKind, id: NodeId, nodes: &[NodeId]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes: Vec<NodeId> = nodes.iter().copied().filter(|other| *other != id).collect();
    let all: Vec<NodeId> = nodes.iter().copied().chain([CLIENTS]).collect();
    let both = |others: &[NodeId]| others.iter().flat_map(|other| [(id, *other), (*other, id)]).collect();
    match kind {
        FaultKind::Isolate => Some(both(&all)),
        FaultKind::Apart => Some(both(&nodes)),
        FaultKind::Bridge => Some(both(&all[..1])),
        FaultKind::Deaf => Some(all.iter().map(|other| (*other, id)).collect()),
        FaultKind::Mute => Some(all.iter().map(|other| (id, *other)).collect()),
        FaultKind::Crash
        | FaultKind::CrashWriting
        | FaultKind::CrashVoting
        | FaultKind::CrashTruncating
        | FaultKind::CrashAll
        | FaultKind::Stop
        | FaultKind::Pause
        | FaultKind::PauseAll
        | FaultKind::Breaks
        | FaultKind::SlowDisk
        | FaultKind::DiskError
        | FaultKind::DiskFull
        | FaultKind::HandOver
        | FaultKind::WrongDisk
        | FaultKind::OlderDisk
        | FaultKind::LateAnswers
        | FaultKind::Moved => None,
    }
}

/// Begins a fault: whether there was anything that it could be done to.
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
        FaultKind::Moved => {
            world.give_other_addresses();
            crash_all(world)
        }
        FaultKind::Stop => world.stop(id).await,
        FaultKind::Breaks => {
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
        FaultKind::WrongDisk => world.take_disk(id),
        FaultKind::HandOver => {
            let to = world.ids().into_iter().find(|other| *other != id);
            let (Some(to), Some(host), Some(running)) = (to, world.host(id), world.running(id)) else { return false };
            // What became of it does not matter, only that nothing breaks.
            drop(host.spawn(async move { drop(running.node.hand_over(to, None, HAND_OVER_WITHIN).await) }));
            true
        }
        FaultKind::Pause | FaultKind::PauseAll | FaultKind::CrashVoting | FaultKind::CrashTruncating => false,
        FaultKind::OlderDisk | FaultKind::LateAnswers => false,
        FaultKind::Isolate | FaultKind::Apart | FaultKind::Bridge | FaultKind::Deaf | FaultKind::Mute => false,
    }
}

/// Switches all machines off; whether one of them was on.
fn crash_all(world: &World) -> bool {
    world.ids().into_iter().fold(false, |struck, id| world.crash(id) | struck)
}

fn end(world: &World, kind: FaultKind, id: NodeId) {
    let disk = world.disk(id);
    match kind {
        FaultKind::Crash | FaultKind::CrashWriting | FaultKind::Stop => world.start(id),
        FaultKind::CrashAll | FaultKind::Moved => world.ids().into_iter().for_each(|id| world.start(id)),
        FaultKind::SlowDisk => disk.into_iter().for_each(|disk| disk.slow_down(Duration::ZERO)),
        FaultKind::DiskFull => disk.into_iter().for_each(|disk| disk.fill(false)),
        FaultKind::WrongDisk => world.give_disk_back(id),
        FaultKind::Breaks | FaultKind::DiskError | FaultKind::HandOver => {}
        FaultKind::Pause | FaultKind::PauseAll | FaultKind::CrashVoting | FaultKind::CrashTruncating => {}
        FaultKind::OlderDisk | FaultKind::LateAnswers => {}
        FaultKind::Isolate | FaultKind::Apart | FaultKind::Bridge | FaultKind::Deaf | FaultKind::Mute => {}
    }
}

/// Waits until something is written and not flushed, for a while at most; whether something is.
async fn written(disk: Option<Disk>) -> bool {
    let mut looked = Duration::ZERO;
    while disk.as_ref().is_some_and(|disk| !disk.is_dirty()) && looked < DIRTY_WITHIN {
        SimRuntime::sleep(LOOK_OFTEN).await;
        looked += LOOK_OFTEN;
    }
    disk.is_some_and(|disk| disk.is_dirty())
}

/// Pauses machines, and watches those that led and go on to lead: their clocks must not have counted the time.
async fn pause(world: &World, kind: FaultKind, ids: &[NodeId], lasts: Duration) {
    let leadership = |id| world.running(id).and_then(|running| running.replica.leadership());
    let hosts: Vec<_> = ids.iter().filter_map(|id| Some((*id, world.host(*id)?, leadership(*id)))).collect();
    hosts.iter().for_each(|(_, host, _)| host.pause());
    if !hosts.is_empty() {
        world.tally.fault(kind.name());
    }
    SimRuntime::sleep(lasts).await;
    for (id, host, led) in hosts {
        let slept = host.paused_for();
        host.resume();
        if let (Some(led), Some(slept)) = (led, slept) {
            drop(SimRuntime::spawn(stay_awake(world.clone(), id, led, slept)));
        }
    }
}

async fn stay_awake(world: World, id: NodeId, led: Leadership, slept: Duration) {
    let until = trace::since_start();
    let leadership = |id| world.running(id).and_then(|running| running.replica.leadership());
    // A node that is cut off may not have heard of the leader elected meanwhile.
    let is_followed = || world.ids().into_iter().filter_map(leadership).any(|other| other.term() > led.term());
    let leads = || leadership(id) == Some(led) && !is_followed();
    let mut led_until = until;
    while leads() && led_until < until + AWAKE_FOR && !world.host(id).is_some_and(|host| host.is_paused()) {
        SimRuntime::sleep(AWAKE_LOOK).await;
        led_until = trace::since_start();
    }
    world.oracle.told(&Fact::Slept { until, slept, led_until });
}

/// Pauses a leader, so that the others elect another one, and takes the power from the first of them that has a vote to flush.
async fn crash_voting(world: &World, id: NodeId, lasts: Duration) {
    let leader = world.host(id);
    leader.iter().for_each(|host| host.pause());
    let others: Vec<NodeId> = world.ids().into_iter().filter(|other| *other != id).collect();
    let voting = || others.iter().copied().find(|other| world.disk(*other).is_some_and(|disk| disk.has_unflushed_vote()));
    if becomes(ELECTED_WITHIN, || voting().is_some()).await
        && let Some(voter) = voting()
    {
        if world.crash(voter) {
            world.tally.fault(FaultKind::CrashVoting.name());
        }
        SimRuntime::sleep(lasts / 2).await;
        world.start(voter);
    }
    SimRuntime::sleep(lasts / 2).await;
    leader.iter().for_each(|host| host.resume());
}
