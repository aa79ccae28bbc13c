//! Faults of processes: they exit, stop, hand over, or restart.

use super::{Injected, Skipped, Undo, UnusableDisk, World, pressure::Pressure};
use crate::{http::Request, shell::run_line};
use rustix::process::Signal;
use serde_json::json;
use std::{fs, path::PathBuf, time::Duration};

/// How often leadership is handed over during that fault.
const TRANSFERS: usize = 3;

pub(super) async fn kill_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    kill(world, vec![leader]).await
}

pub(super) async fn kill_follower(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    kill(world, vec![follower]).await
}

pub(super) async fn kill_all(world: &mut World) -> Injected {
    kill(world, world.cluster.running()).await
}

pub(super) async fn stop_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    world.cluster.node(leader).signal(Signal::TERM).map_err(Skipped::NotNow)?;
    world.cluster.node(leader).exited().await.map_err(Skipped::NotNow)?;
    Ok((format!("node {leader}"), Undo::Start(vec![leader])))
}

pub(super) async fn pause_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    pause(world, leader)
}

pub(super) async fn pause_follower(world: &mut World) -> Injected {
    let follower = world.follower().await?;
    pause(world, follower)
}

pub(super) async fn freeze_leader(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    let pid = world.cluster.node(leader).pid().ok_or_else(|| Skipped::NotNow("it has ended".to_owned()))?;
    let group = Freezer::around(pid).map_err(Skipped::NotHere)?;
    group.freeze().map_err(Skipped::NotHere)?;
    Ok((format!("node {leader}"), Undo::Pressure(Pressure::Frozen { node: leader, group })))
}

async fn kill(world: &mut World, ids: Vec<usize>) -> Injected {
    for id in &ids {
        world.cluster.node(*id).signal(Signal::KILL).map_err(Skipped::NotNow)?;
    }
    for id in &ids {
        world.cluster.node(*id).exited().await.map_err(Skipped::NotNow)?;
    }
    Ok((named(&ids), Undo::Start(ids)))
}

fn pause(world: &mut World, id: usize) -> Injected {
    world.cluster.node(id).signal(Signal::STOP).map_err(Skipped::NotNow)?;
    Ok((format!("node {id}"), Undo::Continue(vec![id])))
}

/// Resumes stopped processes; an error if they were not stopped.
pub(super) fn wake(world: &mut World, ids: &[usize]) -> Result<String, String> {
    let mut stopped = 0;
    for id in ids {
        let node = world.cluster.node(*id);
        stopped += usize::from(node.state() == Some('T'));
        node.signal(Signal::CONT)?;
    }
    if stopped == 0 { Err("no process was stopped".to_owned()) } else { Ok(format!("{stopped} were stopped")) }
}

pub(super) async fn rolling_restart(world: &mut World) -> Injected {
    for id in world.nodes() {
        let disk = world.unusable_disks.get(&id).copied();
        // A process whose disk is frozen cannot end.
        if disk != Some(UnusableDisk::Frozen) && world.cluster.node(id).signal(Signal::TERM).is_ok() {
            let ended = world.cluster.node(id).exited().await;
            world.record(ended);
            match disk {
                // The node waits for space. `recovered` waits for the node, once there is space again.
                Some(UnusableDisk::Full) => world.start(&[id]),
                Some(UnusableDisk::Frozen) | None => world.restart(&[id]).await,
            }
        }
    }
    Ok(("each node".to_owned(), Undo::Nothing("all were restarted".to_owned())))
}

pub(super) async fn transfer_leader(world: &mut World) -> Injected {
    let mut done = 0;
    for _ in 0..TRANSFERS {
        let leader = world.leader().await?;
        let to = world.follower().await?;
        let Some(to) = world.cluster.member_id(to).await else { continue };
        let request = Request::post("/v1/cluster/leader", &crate::new_key()).json(&json!({ "to": to }));
        let reply = world.cluster.http.ask(leader, &request.within(Duration::from_secs(2), Duration::ZERO)).await;
        done += usize::from(reply.status == 200);
    }
    if done == 0 {
        return Err(Skipped::NotNow("no hand-over succeeded".to_owned()));
    }
    Ok((format!("{done} times"), Undo::Nothing(format!("{done} new leaders"))))
}

pub(super) async fn take_snapshots(world: &mut World) -> Injected {
    let mut taken = 0;
    for id in world.cluster.running() {
        let request = Request::post("/v1/cluster/snapshot", &crate::new_key());
        let reply = world.cluster.http.ask(id, &request.within(Duration::from_secs(5), Duration::ZERO)).await;
        taken += usize::from(reply.status < 300 && reply.status >= 200);
    }
    if taken == 0 {
        return Err(Skipped::NotNow("no node took one".to_owned()));
    }
    Ok((format!("{taken} nodes"), Undo::Nothing(format!("{taken} snapshots"))))
}

fn named(ids: &[usize]) -> String {
    let ids: Vec<String> = ids.iter().map(usize::to_string).collect();
    format!("node {}", ids.join(", "))
}

/// A control group of version 1 that can be frozen.
#[derive(Debug)]
pub(super) struct Freezer(PathBuf);

impl Freezer {
    fn around(pid: u32) -> Result<Freezer, String> {
        let root = PathBuf::from("/sys/fs/cgroup/freezer");
        if !root.join("tasks").exists() {
            return Err("there is no freezer at /sys/fs/cgroup/freezer".to_owned());
        }
        let group = root.join(format!("fhc-{pid}"));
        fs::create_dir_all(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let freezer = Freezer(group);
        freezer.write("cgroup.procs", &pid.to_string())?;
        Ok(freezer)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.0.join(file), text).map_err(|error| format!("{}/{file}: {error}", self.0.display()))
    }

    fn freeze(&self) -> Result<(), String> {
        self.write("freezer.state", "FROZEN")
    }

    /// Resumes it. Fails if it was not frozen.
    pub(super) fn thaw(&self) -> Result<String, String> {
        let state = fs::read_to_string(self.0.join("freezer.state")).unwrap_or_default();
        self.write("freezer.state", "THAWED")?;
        if state.trim() == "FROZEN" { Ok("it was frozen".to_owned()) } else { Err(format!("it was {}", state.trim())) }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // A process in a frozen group could not even be killed.
        drop(self.write("freezer.state", "THAWED"));
        if let Ok(pids) = fs::read_to_string(self.0.join("cgroup.procs")) {
            for pid in pids.lines() {
                drop(fs::write("/sys/fs/cgroup/freezer/cgroup.procs", pid));
            }
        }
        drop(run_line(&format!("rmdir {}", self.0.display())));
    }
}
