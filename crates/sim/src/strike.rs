//! A fault, from its beginning to its end.

use crate::{
    disk::Disk,
    net::CLIENTS,
    plan::{Fault, Kind, Whom},
    trace,
    world::World,
};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// For how long a write that is not flushed is looked for, and how often.
const DIRTY_WITHIN: Duration = Duration::from_secs(3);
const LOOK_OFTEN: Duration = Duration::from_micros(150);
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
    world.tally.fault(fault.kind.name());
    trace::event(&format!("{} of node {id}", fault.kind.name()));
    if let Some(ways) = ways(fault.kind, id, &world.ids()) {
        ways.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        SimRuntime::sleep(fault.lasts).await;
        ways.iter().for_each(|(from, to)| world.net.mend(*from, *to));
        return;
    }
    begin(&world, fault.kind, id).await;
    SimRuntime::sleep(fault.lasts).await;
    end(&world, fault.kind, id);
}

/// What a cut cuts, from whom to whom; none where the fault is of another kind.
fn ways(kind: Kind, id: NodeId, nodes: &[NodeId]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes: Vec<NodeId> = nodes.iter().copied().filter(|other| *other != id).collect();
    let all: Vec<NodeId> = nodes.iter().copied().chain([CLIENTS]).collect();
    let both = |others: &[NodeId]| others.iter().flat_map(|other| [(id, *other), (*other, id)]).collect();
    match kind {
        Kind::Isolate => Some(both(&all)),
        Kind::Apart => Some(both(&nodes)),
        Kind::Bridge => Some(both(&all[..1])),
        Kind::Deaf => Some(all.iter().map(|other| (*other, id)).collect()),
        Kind::Mute => Some(all.iter().map(|other| (id, *other)).collect()),
        Kind::Crash
        | Kind::CrashWriting
        | Kind::CrashAll
        | Kind::Stop
        | Kind::Pause
        | Kind::Breaks
        | Kind::SlowDisk
        | Kind::DiskError
        | Kind::DiskFull
        | Kind::HandOver
        | Kind::WrongDisk => None,
    }
}

async fn begin(world: &World, kind: Kind, id: NodeId) {
    let disk = world.disk(id);
    match kind {
        Kind::Crash => world.crash(id),
        Kind::CrashWriting => {
            written(disk).await;
            world.crash(id);
        }
        Kind::CrashAll => world.ids().into_iter().for_each(|id| world.crash(id)),
        Kind::Stop => world.stop(id).await,
        Kind::Pause => world.host(id).into_iter().for_each(|host| host.pause()),
        Kind::Breaks => world.ids().into_iter().chain([CLIENTS]).for_each(|other| world.net.break_connections(id, other)),
        Kind::SlowDisk => disk.into_iter().for_each(|disk| disk.slow_down(SLOW_FLUSH)),
        Kind::DiskError => disk.into_iter().for_each(|disk| disk.fail()),
        Kind::DiskFull => disk.into_iter().for_each(|disk| disk.fill(true)),
        Kind::WrongDisk => world.take_disk(id),
        Kind::HandOver => {
            let to = world.ids().into_iter().find(|other| *other != id);
            let (Some(to), Some(host), Some(running)) = (to, world.host(id), world.running(id)) else { return };
            // What became of it does not matter, only that nothing breaks.
            drop(host.spawn(async move { drop(running.node.hand_over(to, HAND_OVER_WITHIN).await) }));
        }
        Kind::Isolate | Kind::Apart | Kind::Bridge | Kind::Deaf | Kind::Mute => {}
    }
}

fn end(world: &World, kind: Kind, id: NodeId) {
    let disk = world.disk(id);
    match kind {
        Kind::Crash | Kind::CrashWriting | Kind::Stop => world.start(id),
        Kind::CrashAll => world.ids().into_iter().for_each(|id| world.start(id)),
        Kind::Pause => world.host(id).into_iter().for_each(|host| host.resume()),
        Kind::SlowDisk => disk.into_iter().for_each(|disk| disk.slow_down(Duration::ZERO)),
        Kind::DiskFull => disk.into_iter().for_each(|disk| disk.fill(false)),
        Kind::WrongDisk => world.give_disk_back(id),
        Kind::Breaks | Kind::DiskError | Kind::HandOver => {}
        Kind::Isolate | Kind::Apart | Kind::Bridge | Kind::Deaf | Kind::Mute => {}
    }
}

/// Waits until something is written and not flushed, for a while at most.
async fn written(disk: Option<Disk>) {
    let mut looked = Duration::ZERO;
    while disk.as_ref().is_some_and(|disk| !disk.is_dirty()) && looked < DIRTY_WITHIN {
        SimRuntime::sleep(LOOK_OFTEN).await;
        looked += LOOK_OFTEN;
    }
}
