//! A partitioned leader with entries that no other node has. When the partition heals, other entries replace them, and
//! the machine loses power while its log is truncated, or right after.

use super::{
    late_answers::{next_leader, seed, write},
    wait_until::{ELECTED_WITHIN, wait_until},
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

/// How many entries only the leader has, and the time between them. If a node forgets the truncation, only the entries
/// remain that newer entries have not replaced yet, so one is not enough.
const ENTRIES: u32 = 2;
const APART: Duration = Duration::from_millis(20);

/// Injects the fault at the leader.
pub(super) async fn inject(world: &World, fault: Fault) {
    let Some(old) = world.leader() else { return };
    let Some(disk) = world.disk(old) else { return };
    let others: Vec<NodeId> = world.ids().into_iter().filter(|other| *other != old).collect();
    let directions: Vec<(NodeId, NodeId)> = others.iter().flat_map(|other| [(old, *other), (*other, old)]).collect();
    directions.iter().for_each(|(from, to)| world.net.cut(*from, *to));
    let mut client = SimClient::new(world.clone(), format!("cut-{}", fault.at.as_millis()), seed(fault));
    for _ in 0..ENTRIES {
        drop(SimRuntime::spawn(write(world.clone(), old, client.key())));
        SimRuntime::sleep(APART).await;
    }
    // The sooner the partition heals, the fewer entries replace its own.
    next_leader(world, &others).await;
    let before = disk.truncations();
    directions.iter().for_each(|(from, to)| world.net.heal(*from, *to));
    let is_in_the_middle = fault.at.as_millis().is_multiple_of(2);
    let cut = || if is_in_the_middle { disk.has_unflushed_truncation() } else { disk.truncations() > before };
    if wait_until(ELECTED_WITHIN, cut).await {
        if world.crash(old) {
            world.coverage.fault(FaultKind::CrashTruncating.name());
        }
        SimRuntime::sleep(fault.lasts).await;
        world.start(old);
    }
}
