//! Late answers: they reach a deposed leader one by one, long after the next election, while clients call it.
//!
//! A leader sends an entry, all others accept it, and all their answers are in flight when it is partitioned. Each
//! answer proves that it led when the entry was sent. The leader must not take it as proof of later leadership.

use super::wait_until::wait_until;
use crate::{
    client::{ClientReply, ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
    fault::{Fault, FaultKind},
    world::World,
};
use fairhold_types::{NodeId, SessionNumber};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// How long to wait for the answers of all others.
const SENT_WITHIN: Duration = Duration::from_secs(1);
/// How long to wait for another leader. The old one gives up its requests after 2 s.
const ELECTED_WITHIN: Duration = Duration::from_millis(1_500);
/// The longest time from then to the first answer.
const LATER_MAX_MS: u64 = 700;
/// The maximum number of rounds of client calls between two answers, and the longest time of each.
const ASKED_MAX: u32 = 3;
const PAUSE_MAX_MS: u64 = 15;
/// The timeout of the session that is renewed at the old leader. It must expire within the scenario.
const TTL: Duration = Duration::from_millis(1_200);

/// A session that is kept alive at the old leader only.
struct LateSession {
    id: String,
    number: SessionNumber,
}

/// Injects the fault at the leader.
pub(super) async fn inject(world: &World, fault: Fault) {
    let Some(old) = world.leader() else { return };
    let mut client = SimClient::new(world.clone(), format!("late-{}", fault.at.as_millis()), seed(fault));
    let Some(session) = open_session(&mut client, old).await else { return };
    let others: Vec<NodeId> = world.ids().into_iter().filter(|other| *other != old).collect();
    world.net.hold_answers(old);
    drop(SimRuntime::spawn(write(world.clone(), old, client.key())));
    let all_held = || {
        let held = world.net.held_answers(old);
        others.iter().all(|other| held.contains(other))
    };
    let directions: Vec<(NodeId, NodeId)> = others.iter().flat_map(|other| [(old, *other), (*other, old)]).collect();
    if !others.is_empty() && wait_until(SENT_WITHIN, all_held).await {
        directions.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        if let Some(next) = next_leader(world, &others).await
            && write(world.clone(), next, client.key()).await
        {
            world.coverage.fault(FaultKind::LateAnswers.name());
            // The later a renewal is acknowledged, the longer it promises a lease that the new leader does not know.
            client.idle(LATER_MAX_MS).await;
            release(&mut client, old, &session).await;
        }
        SimRuntime::sleep(fault.lasts).await;
    }
    world.net.stop_holding(old);
    directions.iter().for_each(|(from, to)| world.net.heal(*from, *to));
}

/// Delivers the answers in any order, and calls the old leader before each and after the last.
async fn release(client: &mut SimClient, old: NodeId, session: &LateSession) {
    loop {
        for _ in 0..client.rng.random_range(1..=ASKED_MAX) {
            if client.world.running(old).is_some_and(|running| running.node.is_leader()) {
                client.world.coverage.probe(Probe::DeposedAsked);
            }
            drop(SimRuntime::spawn(read(client.world.clone(), old, client.key())));
            drop(SimRuntime::spawn(renew(client.world.clone(), old, session.id.clone(), session.number)));
            client.idle(PAUSE_MAX_MS).await;
        }
        let held = client.world.net.held_answers(old);
        if held.is_empty() {
            return;
        }
        let from = held[client.rng.random_range(0..held.len())];
        client.world.net.deliver_held(old, from);
    }
}

/// A seed derived from the time of the fault, which depends on the scenario's seed.
pub(super) fn seed(fault: Fault) -> u64 {
    u64::try_from(fault.at.as_micros()).unwrap_or(u64::MAX)
}

/// Waits for one of these nodes to lead.
pub(super) async fn next_leader(world: &World, others: &[NodeId]) -> Option<NodeId> {
    let leads = |id: &NodeId| world.running(*id).is_some_and(|running| running.node.is_leader());
    wait_until(ELECTED_WITHIN, || others.iter().any(leads)).await;
    others.iter().copied().find(leads)
}

async fn open_session(client: &mut SimClient, at: NodeId) -> Option<LateSession> {
    let body = format!("{{\"ttl\":\"{}ms\",\"name\":\"{}\"}}", TTL.as_millis(), client.name);
    let request = ClientRequest::new(Method::POST, "/v1/sessions").header("idempotency-key", client.key());
    let reply = client.call_once_at(at, &request.header("content-type", "application/json").body(body)).await?;
    Some(LateSession { id: reply.field("id").to_owned(), number: SessionNumber(reply.number("number")?) })
}

/// Writes a node. Returns whether the write was acknowledged.
pub(super) async fn write(world: World, at: NodeId, value: String) -> bool {
    let client = SimClient::new(world, format!("write-{value}"), 0);
    let request = ClientRequest::new(Method::PUT, "/v1/nodes/late").header("idempotency-key", value.clone()).body(value);
    is_acknowledged(client.call_once_at(at, &request).await)
}

async fn read(world: World, at: NodeId, name: String) {
    let client = SimClient::new(world, format!("read-{name}"), 0);
    // The oracle checks its freshness.
    drop(client.call_once_at(at, &ClientRequest::new(Method::GET, "/v1/nodes/late")).await);
}

async fn renew(world: World, at: NodeId, id: String, session: SessionNumber) {
    let client = SimClient::new(world, format!("renew-{session}"), 0);
    let reply = client.call_once_at(at, &ClientRequest::new(Method::POST, format!("/v1/sessions/{id}/keepalive"))).await;
    if let Some(reply) = reply.filter(|reply| reply.status == StatusCode::OK) {
        client.world.oracle.observe(&Fact::Renewed { session, sent: reply.sent, ttl: TTL });
    }
}

fn is_acknowledged(reply: Option<ClientReply>) -> bool {
    reply.is_some_and(|reply| reply.status.is_success())
}
