//! A follower whose disk returns to an older state: it must detect this, and take no part.

use super::becomes::becomes;
use crate::{
    fault::{Fault, FaultKind},
    world::World,
};
use fairhold_raft::{Leadership, MemberStatus};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How old the disk is.
const AGE: Duration = Duration::from_secs(5);
/// When it must have been noticed: the node has to start, and its leader has to reach it.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// When its leader must know of it.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Puts the backup of a follower's disk in its place, and the newest one back at the end.
pub(super) async fn strike(world: &World, fault: Fault, id: NodeId) {
    let Some(leader) = world.leader() else { return };
    let Some(id) = world.ids().into_iter().cycle().skip_while(|other| *other != id).find(|other| *other != leader) else {
        return;
    };
    let Some(backup) = world.disk(id).map(|disk| disk.backup()) else { return };
    let led = leadership(world, leader);
    SimRuntime::sleep(AGE).await;
    let acknowledged = member(world, leader, id).and_then(|member| member.matched);
    // Only a leader to which it acknowledged entries can know that they are gone.
    if led.is_none() || leadership(world, leader) != led || acknowledged <= backup.last_flushed() {
        return;
    }
    world.tally.fault(FaultKind::OlderDisk.name());
    world.put_backup(id, backup);
    let noticed = becomes(NOTICED_WITHIN, || world.host(id).is_none()).await;
    let told = || member(world, leader, id).is_some_and(|member| member.lost_entries.is_some());
    let in_time = noticed && becomes(TOLD_WITHIN, told).await;
    // No answer to a heartbeat comes in time where the machines are too far apart.
    if !in_time && !world.is_too_far_apart && leadership(world, leader) == led {
        let goes_on = if noticed { "and its leader does not know" } else { "and goes on" };
        world.oracle.violation(format!("node {id} lost entries that it had acknowledged to node {leader}, {goes_on}"));
    }
    SimRuntime::sleep(fault.lasts).await;
    world.give_disk_back(id);
}

fn leadership(world: &World, id: NodeId) -> Option<Leadership> {
    world.running(id)?.replica.leadership()
}

/// What a leader knows of a follower.
fn member(world: &World, leader: NodeId, id: NodeId) -> Option<MemberStatus> {
    world.running(leader)?.replica.status().members.into_iter().find(|member| member.id == id)
}
