//! Power loss at the leader or at all nodes: data that was not synced is lost.

use super::{
    Injected, Skipped, Undo, World,
    disk::{disk_of, mount, unmount},
};
use crate::sys;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How long a process may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(2);
const POLL_EVERY: Duration = Duration::from_millis(1);

pub(super) async fn power_loss_one(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    power_loss(world, vec![leader]).await
}

pub(super) async fn power_loss_all(world: &mut World) -> Injected {
    power_loss(world, world.cluster.running()).await
}

/// Stops the processes before the disks: the kernel may report success for a sync in flight at that moment although it
/// keeps nothing. After a real power loss no process could act on that report.
async fn power_loss(world: &mut World, ids: Vec<usize>) -> Injected {
    if let Err(why) = wait_until_stopped(world, &ids).await {
        resume(world, &ids);
        return Err(Skipped::NotNow(why));
    }
    for (cut, id) in ids.iter().enumerate() {
        let Err(error) = sys::cut_power(&disk_of(world, *id)) else { continue };
        let why = format!("the power of node {id} cannot be cut: {error}");
        if cut == 0 {
            resume(world, &ids);
            return Err(Skipped::NotHere(why));
        }
        world.record(Err(why));
    }
    // From here on each node must be restarted, whatever fails.
    let mut went = Ok(());
    for id in &ids {
        went = went.and(cut_power_and_remount(world, *id).await);
    }
    world.record(went);
    let named: Vec<String> = ids.iter().map(usize::to_string).collect();
    Ok((format!("node {}", named.join(", ")), Undo::Start(ids)))
}

async fn wait_until_stopped(world: &mut World, ids: &[usize]) -> Result<(), String> {
    for id in ids {
        world.cluster.node(*id).signal(Signal::STOP)?;
    }
    let signalled = Instant::now();
    while !ids.iter().all(|id| world.cluster.nodes[id - 1].is_stopped()) {
        if signalled.elapsed() > STOP_WITHIN {
            return Err("the processes do not stop".to_owned());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}

/// Kills a node without power, and mounts its disk with the synced data.
async fn cut_power_and_remount(world: &mut World, id: usize) -> Result<(), String> {
    // Without its disk it may have exited already.
    drop(world.cluster.node(id).signal(Signal::KILL));
    let gone = world.cluster.node(id).exited().await;
    let disk = disk_of(world, id);
    unmount(&disk);
    gone.and(mount(&disk))
}

fn resume(world: &mut World, ids: &[usize]) {
    for id in ids {
        let result = world.cluster.node(*id).signal(Signal::CONT);
        world.record(result);
    }
}
