//! How nodes are removed, and when that must be refused.

use super::view::{MembersSeen, TRIES, ask_to_leave, call, until};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
};
use fairhold_types::NodeId;
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::time::Duration;

/// How long a machine is off before another one is to be removed: by then no leader counts on it, by any clock.
const OFF_FOR: Duration = Duration::from_millis(6_500);
/// How often the operator looks whether a removed node has ended, and the pause between.
const TOLD_LOOKS: u32 = 30;
const TOLD_LOOK: Duration = Duration::from_millis(500);
/// How long a server works on a request at most, and a little more.
const LATE_ATTEMPT: Duration = Duration::from_secs(4);
/// How often a request is sent that must be refused.
const REFUSED_TRIES: u32 = 4;

/// Removes a member, or a machine that was admitted.
pub(super) async fn remove(client: &mut SimClient, node: NodeId) {
    ask_to_leave(client, node);
    for _ in 0..TRIES {
        match request_removal(client, node).await {
            Some((StatusCode::NO_CONTENT, _)) => break,
            Some((StatusCode::CONFLICT, code)) if code == "would_lose_quorum" => {
                client.world.coverage.probe(Probe::RemovalRefused);
                // An earlier attempt may still be on its way.
                return SimRuntime::sleep(LATE_ATTEMPT).await;
            }
            Some(_) | None => client.idle(800).await,
        }
    }
    if until(client, |seen| seen.removed.contains(&node) && !seen.is_member(node)).await.is_some() {
        client.world.coverage.probe(Probe::Removed);
        if client.world.host(node).is_some() {
            until_told(client, node).await;
        }
    }
}

/// Removes the leader.
pub(super) async fn remove_leader(client: &mut SimClient, leader: NodeId) {
    let leads = client.world.leader() == Some(leader);
    remove(client, leader).await;
    if leads && client.world.leader().is_some_and(|now| now != leader) {
        client.world.coverage.probe(Probe::LeaderRemoved);
    }
}

/// Of three voters, one is off: the removal of another one must be refused.
pub(super) async fn be_refused(client: &mut SimClient, seen: &MembersSeen) {
    let mut others = seen.voters.iter().copied().filter(|voter| Some(*voter) != seen.leader);
    let (Some(off), Some(node)) = (others.next(), others.next()) else { return };
    client.world.crash(off);
    SimRuntime::sleep(OFF_FOR).await;
    ask_to_leave(client, node);
    for _ in 0..REFUSED_TRIES {
        let answer = request_removal(client, node).await;
        // A fault may have ended, and restarted the machine.
        if client.world.host(off).is_some() {
            break;
        }
        match answer {
            Some((StatusCode::CONFLICT, code)) if code == "would_lose_quorum" => {
                client.world.coverage.probe(Probe::RemovalRefused);
                break;
            }
            Some((StatusCode::NO_CONTENT, _)) => {
                client.world.oracle.violation(format!("node {node} was removed, although node {off} is off"));
                break;
            }
            Some(_) | None => client.idle(300).await,
        }
    }
    client.world.start(off);
}

/// Requests a removal once. `None`: no answer.
async fn request_removal(client: &mut SimClient, node: NodeId) -> Option<(StatusCode, String)> {
    let request = ClientRequest::new(Method::DELETE, format!("/v1/cluster/members/{node}"));
    let reply = call(client, &request).await?;
    let code = reply.field("code").to_owned();
    match (reply.status, code.as_str()) {
        (StatusCode::NO_CONTENT | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {}
        (StatusCode::CONFLICT, "would_lose_quorum" | "change_in_progress") => {}
        _ => client.unexpected("a removal", &reply),
    }
    Some((reply.status, code))
}

/// Waits a while until a removed node has ended: the others tell it. If its machine is off, it learns that later.
pub(super) async fn until_told(client: &mut SimClient, node: NodeId) {
    for _ in 0..TOLD_LOOKS {
        if client.world.is_retired(node) {
            return;
        }
        SimRuntime::sleep(TOLD_LOOK).await;
    }
}
