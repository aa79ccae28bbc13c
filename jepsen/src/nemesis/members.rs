//! An operator changes the members: a node joins on another machine and a member is removed, or a new node replaces one
//! that lost its data.

use super::{Fault, Injected, Skipped, Undo, World};
use crate::{http::Request, log_line, new_key};
use rand::RngExt;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Machines without a node at the start of a run that changes members.
const SPARES: usize = 1;
/// How long a change may take once everything else is healed.
const CHANGED_WITHIN: Duration = Duration::from_secs(60);
/// How long an operator tries to get a join token.
const TOKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long a removed node may take to notice it, and to exit.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(50);
/// The exit code of a node that cannot take part any more.
const CANNOT_TAKE_PART: i32 = 3;

/// A change that has begun.
#[derive(Debug)]
pub(super) enum Change {
    /// A node joins from this machine. When it is a member, another one is removed.
    Grows { machine: usize },
    /// A node joins from this machine, in place of the member with this id.
    Replaces { machine: usize, replaced: u64 },
}

/// How many further machines these faults need.
pub(crate) fn spares(faults: &[Fault]) -> usize {
    if faults.iter().any(|fault| fault.changes_members()) { SPARES } else { 0 }
}

pub(super) async fn add_remove(world: &mut World) -> Injected {
    let machine = world.cluster.spare().ok_or_else(|| Skipped::NotNow("every machine has a node".to_owned()))?;
    let token = join_token(world, &json!({})).await?;
    start_joining(world, machine, &token).map_err(Skipped::NotNow)?;
    Ok((format!("machine {machine}"), Undo::Members(Change::Grows { machine })))
}

pub(super) async fn replace_wiped(world: &mut World) -> Injected {
    let lost = world.follower().await?;
    let replaced = world.cluster.member_id(lost).await;
    let replaced = replaced.ok_or_else(|| Skipped::NotNow(format!("the node on machine {lost} does not answer")))?;
    let spare = world.cluster.spare().filter(|_| world.random.random());
    let machine = spare.unwrap_or(lost);
    let token = join_token(world, &json!({ "replaces": replaced })).await?;
    world.cluster.node(lost).kill().await.map_err(Skipped::NotNow)?;
    let started = world.cluster.has_left(lost).and_then(|()| start_joining(world, machine, &token));
    world.record(started);
    let detail = format!("the data of node {replaced} on machine {lost} is gone, and a node on machine {machine} replaces it");
    Ok((detail, Undo::Members(Change::Replaces { machine, replaced })))
}

/// A new join token.
async fn join_token(world: &World, wish: &Value) -> Result<String, Skipped> {
    let request = Request::post("/v1/cluster/join-tokens", &new_key()).json(wish);
    let created = world.cluster.ask_until_accepted(&request, TOKEN_WITHIN).await.map_err(Skipped::NotNow)?;
    let token = created.json["token"].as_str();
    token.map(str::to_owned).ok_or_else(|| Skipped::NotNow(format!("no token: {}", created.text)))
}

/// Starts an empty node on a machine, with a join token.
fn start_joining(world: &mut World, machine: usize, token: &str) -> Result<(), String> {
    world.cluster.will_join(machine, token)?;
    world.cluster.start(machine)
}

/// Waits until the change is done, and completes it. What is not done by then breaks a promise.
pub(super) async fn heal(world: &mut World, change: Change) -> Result<String, String> {
    // What the other fault has ended.
    let all = world.nodes();
    world.restart(&all).await;
    let done = match change {
        Change::Grows { machine } => grow_and_shrink(world, machine).await,
        Change::Replaces { machine, replaced } => replace(world, machine, replaced).await,
    };
    done.inspect_err(|why| world.complaints.push(why.clone()))
}

async fn grow_and_shrink(world: &mut World, machine: usize) -> Result<String, String> {
    let (joined, members) = joined(world, machine).await?;
    let others: Vec<usize> = world.nodes().into_iter().filter(|other| *other != machine).collect();
    if others.is_empty() {
        return Err("there is no other member".to_owned());
    }
    let other = others[world.random.random_range(0..others.len())];
    let removed = world.cluster.member_id(other).await.ok_or_else(|| format!("the node on machine {other} does not answer"))?;
    let request = Request::delete(format!("/v1/cluster/members/{removed}"));
    // Until the leader has heard from all of them, it refuses.
    let accepted = world.cluster.ask_until_accepted(&request, CHANGED_WITHIN).await;
    accepted.map_err(|why| format!("node {removed} was not removed: {why}"))?;
    let left = world.cluster.settled(CHANGED_WITHIN).await?;
    if left.contains(&removed) || left.len() + 1 != members {
        return Err(format!("node {removed} was removed, and the members are {left:?}"));
    }
    ends_by_itself(world, other).await?;
    world.cluster.has_left(other)?;
    Ok(format!("node {joined} joined on machine {machine}, and node {removed} on machine {other} was removed"))
}

async fn replace(world: &mut World, machine: usize, replaced: u64) -> Result<String, String> {
    let (joined, _) = joined(world, machine).await?;
    let members = world.cluster.settled(CHANGED_WITHIN).await?;
    if members.contains(&replaced) || !members.contains(&joined) {
        return Err(format!("node {joined} was to replace node {replaced}, and the members are {members:?}"));
    }
    Ok(format!("node {joined} on machine {machine} replaced node {replaced}"))
}

/// Waits until the node on this machine is a member and ready. Returns its id, and the number of members.
async fn joined(world: &mut World, machine: usize) -> Result<(u64, usize), String> {
    let started = Instant::now();
    world.cluster.ready(machine, CHANGED_WITHIN).await?;
    let members = world.cluster.settled(CHANGED_WITHIN).await?;
    let id = world.cluster.member_id(machine).await.filter(|id| members.contains(id));
    let id = id.ok_or_else(|| format!("the node on machine {machine} is not among the members {members:?}"))?;
    log_line(&format!("          node {id} on machine {machine} is a member, {:.1?} after everything else", started.elapsed()));
    world.cluster.has_joined(machine);
    Ok((id, members.len()))
}

/// Waits until the process of a removed node ends. It must say that a restart does not help.
async fn ends_by_itself(world: &mut World, machine: usize) -> Result<(), String> {
    let started = Instant::now();
    // Another fault may have stopped it.
    while world.cluster.node(machine).runs() {
        if let Some(status) = world.cluster.node(machine).end_seen() {
            let line = world.cluster.node(machine).last_line();
            let is_right = status.code() == Some(CANNOT_TAKE_PART);
            return if is_right { Ok(()) } else { Err(format!("a removed node ended with {status}: {line}")) };
        }
        if started.elapsed() > GONE_WITHIN {
            world.cluster.node(machine).kill().await?;
            return Err(format!("a removed node still ran after {GONE_WITHIN:?}"));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}
