//! An operator upgrades the nodes from the program of the cluster version before, and back again: until the upgrade is
//! finished, nodes may go up and down. Afterwards the older program must refuse to start.

use super::{Fault, Injected, Skipped, Undo, World};
use crate::{history::FaultSpan, http::Request, log_line, new_key};
use rustix::process::Signal;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long the end of an upgrade may take.
const FINISHED_WITHIN: Duration = Duration::from_secs(30);
/// How long the older program may take to notice that it cannot take part.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(50);
/// The name of the end of an upgrade in the history: it is no fault, but nodes restart.
const END_OF_UPGRADE: &str = "end-of-upgrade";

/// The two programs of an upgrade that is not finished.
#[derive(Debug)]
pub(super) struct Upgrade {
    older: PathBuf,
    newer: PathBuf,
}

/// Some nodes run this program, and these do not yet.
#[derive(Debug)]
pub(super) struct Roll {
    to: PathBuf,
    left: Vec<usize>,
}

/// Starts all nodes with the older program if a fault changes programs.
pub(super) fn prepare(world: &mut World, faults: &[Fault], older: &Path) {
    let wanted: Vec<Fault> = faults.iter().copied().filter(|fault| fault.changes_program()).collect();
    if wanted.is_empty() {
        return;
    }
    if !older.is_file() {
        let why = format!("there is no {}: run ./fairhold build-baseline", older.display());
        return world.not_covered.extend(wanted.into_iter().map(|fault| (fault.name(), why.clone())));
    }
    let Some(newer) = world.cluster.nodes.first().map(|node| node.program.clone()) else { return };
    set_programs(world, older);
    world.upgrade = Some(Upgrade { older: older.to_owned(), newer });
}

pub(super) async fn roll_upgrade(world: &mut World) -> Injected {
    let Upgrade { older, newer } = open(world)?;
    roll(world, &older, newer).await
}

pub(super) async fn roll_downgrade(world: &mut World) -> Injected {
    let Upgrade { older, newer } = open(world)?;
    roll(world, &newer, older).await
}

fn open(world: &World) -> Result<Upgrade, Skipped> {
    let Some(Upgrade { older, newer }) = &world.upgrade else {
        return Err(Skipped::NotNow("the upgrade is finished".to_owned()));
    };
    Ok(Upgrade { older: older.clone(), newer: newer.clone() })
}

/// Restarts half of the nodes with another program. The others follow later, so that programs are mixed meanwhile.
async fn roll(world: &mut World, from: &Path, to: PathBuf) -> Injected {
    if without(world, &to).is_empty() {
        let all = world.nodes();
        restart_with(world, &all, from).await;
    }
    let behind = without(world, &to);
    let (first, left) = behind.split_at(behind.len().div_ceil(2));
    restart_with(world, first, &to).await;
    let detail = format!("{} of {} nodes run {}", first.len(), behind.len(), to.display());
    Ok((detail, Undo::Roll(Roll { to, left: left.to_vec() })))
}

/// Restarts the remaining nodes.
pub(super) async fn heal(world: &mut World, roll: Roll) -> String {
    restart_with(world, &roll.left, &roll.to).await;
    format!("all nodes run {}", roll.to.display())
}

/// Restarts nodes one after the other with a program, and waits until each is ready.
async fn restart_with(world: &mut World, ids: &[usize], program: &Path) {
    for id in ids {
        if world.cluster.node(*id).signal(Signal::TERM).is_ok() {
            let ended = world.cluster.node(*id).exited().await;
            world.record(ended);
        }
        program.clone_into(&mut world.cluster.node(*id).program);
        world.restart(&[*id]).await;
    }
}

/// The machines whose node has another program.
fn without(world: &World, program: &Path) -> Vec<usize> {
    world.nodes().into_iter().filter(|id| world.cluster.nodes[id - 1].program != program).collect()
}

fn set_programs(world: &mut World, program: &Path) {
    for node in &mut world.cluster.nodes {
        program.clone_into(&mut node.program);
    }
}

/// Ends the upgrade if one is open: all nodes get the newer program, the cluster its next version, and the older program
/// must not start any more.
pub(super) async fn finish(world: &mut World) {
    let Some(Upgrade { older, newer }) = world.upgrade.take() else { return };
    let start = world.recorder.now();
    let behind = without(world, &newer);
    restart_with(world, &behind, &newer).await;
    // Also the program of machines that have no node yet.
    set_programs(world, &newer);
    let effect = raise_version(world).await;
    match &effect {
        Ok(what) => {
            log_line(&format!("          {what}"));
            there_is_no_way_back(world, &older, &newer).await;
        }
        Err(why) => world.complaints.push(format!("the upgrade could not be finished: {why}")),
    }
    let (detail, end) = (String::new(), world.recorder.now());
    world.recorder.fault(FaultSpan { fault: END_OF_UPGRADE, detail, start, end, bends_time: false, effect });
}

async fn raise_version(world: &World) -> Result<String, String> {
    let status = world.cluster.ask_until_accepted(&Request::get("/v1/cluster/upgrade"), FINISHED_WITHIN).await?.json;
    let next = status["next"].as_u64().ok_or_else(|| format!("there is no next version: {status}"))?;
    let finalize = Request::post("/v1/cluster/upgrade/finalize", &new_key()).json(&json!({ "to": next }));
    world.cluster.ask_until_accepted(&finalize, FINISHED_WITHIN).await?;
    Ok(format!("the cluster has version {next}"))
}

/// A follower with the older program must end, and must be as before with the newer one.
async fn there_is_no_way_back(world: &mut World, older: &Path, newer: &Path) {
    let Ok(id) = world.follower().await else { return };
    let stopped = match world.cluster.node(id).signal(Signal::TERM) {
        Ok(()) => world.cluster.node(id).exited().await,
        Err(why) => Err(why),
    };
    older.clone_into(&mut world.cluster.node(id).program);
    let started = stopped.and_then(|()| world.cluster.start(id));
    let seen = match started {
        Ok(()) => refusal(world, id).await,
        Err(why) => Err(why),
    };
    world.record(seen);
    newer.clone_into(&mut world.cluster.node(id).program);
    world.restart(&[id]).await;
}

async fn refusal(world: &mut World, id: usize) -> Result<(), String> {
    let started = Instant::now();
    loop {
        if let Some(status) = world.cluster.node(id).end_seen() {
            log_line(&format!("          the older program ended with {status}: {}", world.cluster.node(id).last_line()));
            return if status.success() { Err("the older program ended as if all were well".to_owned()) } else { Ok(()) };
        }
        if started.elapsed() > REFUSED_WITHIN {
            world.cluster.node(id).kill().await?;
            return Err(format!("the older program still ran {REFUSED_WITHIN:?} after the end of the upgrade"));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
