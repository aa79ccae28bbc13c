//! A partitioned leader with entries that no other node has. When the partition heals, other entries replace them, and the
//! machine loses power while its log is truncated, or right after.

use super::{
    becomes::{ELECTED_WITHIN, becomes},
    late_answers::{next_leader, seed, write},
};
use crate::{
    client::SimClient,
    fault::{Fault, FaultKind},
    world::World,
};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How many entries the leader has for itself, at least, and how far apart they are written. If a node forgets the cut, only
/// those entries remain that newer entries have not replaced yet, so one is not enough.
const ENTRIES: u32 = 2;
const APART: Duration = Duration::from_millis(20);

/// Strikes the leader.
pub(super) async fn strike(world: &World, fault: Fault) {
    let Some(old) = world.leader() else { return };
    let Some(disk) = world.disk(old) else { return };
    let others: Vec<NodeId> = world.ids().into_iter().filter(|other| *other != old).collect();
    let ways: Vec<(NodeId, NodeId)> = others.iter().flat_map(|other| [(old, *other), (*other, old)]).collect();
    ways.iter().for_each(|(from, to)| world.net.cut(*from, *to));
    let mut client = SimClient::new(world.clone(), format!("cut-{}", fault.at.as_millis()), seed(fault));
    for _ in 0..ENTRIES {
        drop(SimRuntime::spawn(write(world.clone(), old, client.key())));
        SimRuntime::sleep(APART).await;
    }
    // The sooner it is reached again, the fewer entries take the place of its own.
    next_leader(world, &others).await;
    let before = disk.cuts();
    ways.iter().for_each(|(from, to)| world.net.mend(*from, *to));
    let is_in_the_middle = fault.at.as_millis().is_multiple_of(2);
    let cut = || if is_in_the_middle { disk.has_unflushed_cut() } else { disk.cuts() > before };
    if becomes(ELECTED_WITHIN, cut).await {
        if world.crash(old) {
            world.tally.fault(FaultKind::CrashTruncating.name());
        }
        SimRuntime::sleep(fault.lasts).await;
        world.start(old);
    }
}
