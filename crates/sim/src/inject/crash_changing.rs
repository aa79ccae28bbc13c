//! A leader that loses power while the voters are joint: another one finds the change half done.

use super::wait_until::POLL_EVERY;
use crate::{
    fault::{Fault, FaultKind},
    world::World,
};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How long to wait for a change of the voters.
const CHANGES_WITHIN: Duration = Duration::from_secs(10);

/// Waits for a change of the voters, and then injects the fault at the leader.
pub(super) async fn inject(world: &World, fault: Fault) {
    let mut looked = Duration::ZERO;
    let leader = loop {
        if let Some(leader) = changing_leader(world) {
            break leader;
        }
        if looked >= CHANGES_WITHIN {
            return;
        }
        SimRuntime::sleep(POLL_EVERY).await;
        looked += POLL_EVERY;
    };
    world.calm.begin_fault();
    if world.crash(leader) {
        world.coverage.fault(FaultKind::CrashChanging.name());
    }
    SimRuntime::sleep(fault.lasts).await;
    world.start(leader);
    world.calm.end_fault();
}

/// The leader, if the voters are joint in its log and in that of another node, which can become the next leader.
fn changing_leader(world: &World) -> Option<NodeId> {
    let leader = world.leader()?;
    let is_joint = |id: NodeId| world.disk(id).and_then(|disk| disk.members()).is_some_and(|members| members.is_joint());
    let others = || world.ids().into_iter().filter(|id| *id != leader);
    (is_joint(leader) && others().any(is_joint)).then_some(leader)
}
