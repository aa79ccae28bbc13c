//! A follower whose disk reverts to an older state: it must detect this, and not participate.

use super::wait_until::wait_until;
use crate::{
    fault::{Fault, FaultKind},
    world::World,
};
use fairhold_raft::{Leadership, MemberStatus};
use fairhold_types::NodeId;
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// The age of the backup.
const AGE: Duration = Duration::from_secs(5);
/// How long the node may take to notice: it must start, and its leader must reach it.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// How long its leader may then take to learn of it.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// Restarts a follower with a backup of its disk. At the end, it has its newest disk.
pub(super) async fn inject(world: &World, fault: Fault, id: NodeId) {
    let Some(leader) = world.leader() else { return };
    let Some(id) = world.ids().into_iter().cycle().skip_while(|other| *other != id).find(|other| *other != leader) else {
        return;
    };
    let Some(backup) = world.disk(id).map(|disk| disk.backup()) else { return };
    let led = leadership(world, leader);
    SimRuntime::sleep(AGE).await;
    let acknowledged = member(world, leader, id).and_then(|member| member.matched);
    // Only a leader that received its acknowledgements can know that entries are lost.
    if led.is_none() || leadership(world, leader) != led || acknowledged <= backup.last_flushed() {
        return;
    }
    world.coverage.fault(FaultKind::OlderDisk.name());
    world.replace_disk_with_backup(id, backup);
    let life = world.lives(id);
    let noticed = wait_until(NOTICED_WITHIN, || world.host(id).is_none()).await;
    let reply = || member(world, leader, id).is_some_and(|member| member.lost_entries.is_some());
    let in_time = noticed && wait_until(KNOWN_WITHIN, reply).await;
    // If the machines are too far apart, no heartbeat is answered in time. A failpoint can end the node before it notices.
    if !in_time && !world.is_too_far_apart && !world.was_spoiled_since(id, life) && leadership(world, leader) == led {
        let continues = if noticed { "and its leader does not know it" } else { "and continues" };
        world.oracle.violation(format!("node {id} lost entries that it had acknowledged to node {leader}, {continues}"));
    }
    SimRuntime::sleep(fault.lasts).await;
    // If another node leads by now, nobody could know that the disk is older. The node has acknowledged entries with it, so it
    // is the newest one. The same leader knows it, and refuses a node that has not noticed yet.
    let takes_part = world.host(id).is_some() && leadership(world, leader) != led;
    if takes_part { world.keep_backup(id) } else { world.restore_disk(id) }
}

fn leadership(world: &World, id: NodeId) -> Option<Leadership> {
    world.running(id)?.replica.leadership()
}

/// The leader's status of a follower.
fn member(world: &World, leader: NodeId, id: NodeId) -> Option<MemberStatus> {
    world.running(leader)?.replica.status().members.into_iter().find(|member| member.id == id)
}
