//! Late answers: they reach a deposed leader one by one, long after the next election, while clients call it.
//!
//! A leader sends an entry, all others accept it, and all their answers are in flight when it is partitioned. Each answer proves
//! that it led when the entry was sent. The leader must not take it as proof of anything later.

use super::becomes::becomes;
use crate::{
    client::{Ask, ClientReply, SimClient},
    facts::Fact,
    fault::{Fault, FaultKind},
    tally::Probe,
    world::World,
};
use fairhold_types::{NodeId, SessionNumber};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// For how long the answers of all others are waited for.
const SENT_WITHIN: Duration = Duration::from_secs(1);
/// For how long another leader is waited for: the old one gives its requests up after 2 s.
const ELECTED_WITHIN: Duration = Duration::from_millis(1_500);
/// How long after that the first answer arrives, at most.
const LATER_MAX_MS: u64 = 700;
/// How many clients' rounds there are between two answers, at most, and how long each takes, at most.
const ASKED_MAX: u32 = 3;
const PAUSE_MAX_MS: u64 = 15;
/// How long the session lives that is renewed at the old leader: its end must come within the story.
const TTL: Duration = Duration::from_millis(1_200);

/// A session that is kept alive at the old leader only.
struct LateSession {
    id: String,
    number: SessionNumber,
}

/// Strikes the leader.
pub(super) async fn strike(world: &World, fault: Fault) {
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
    let ways: Vec<(NodeId, NodeId)> = others.iter().flat_map(|other| [(old, *other), (*other, old)]).collect();
    if !others.is_empty() && becomes(SENT_WITHIN, all_held).await {
        ways.iter().for_each(|(from, to)| world.net.cut(*from, *to));
        if let Some(next) = next_leader(world, &others).await
            && write(world.clone(), next, client.key()).await
        {
            world.tally.fault(FaultKind::LateAnswers.name());
            // The later it is acknowledged, the more does a renewal promise that the new leader knows nothing of.
            client.idle(LATER_MAX_MS).await;
            release(&mut client, old, &session).await;
        }
        SimRuntime::sleep(fault.lasts).await;
    }
    world.net.open_door(old);
    ways.iter().for_each(|(from, to)| world.net.mend(*from, *to));
}

/// Lets the answers in, in any order, and asks the old leader before each and after the last.
async fn release(client: &mut SimClient, old: NodeId, session: &LateSession) {
    loop {
        for _ in 0..client.chance.random_range(1..=ASKED_MAX) {
            if client.world.running(old).is_some_and(|running| running.node.is_leader()) {
                client.world.tally.probe(Probe::DeposedAsked);
            }
            drop(SimRuntime::spawn(read(client.world.clone(), old, client.key())));
            drop(SimRuntime::spawn(renew(client.world.clone(), old, session.id.clone(), session.number)));
            client.idle(PAUSE_MAX_MS).await;
        }
        let held = client.world.net.held_answers(old);
        if held.is_empty() {
            return;
        }
        let from = held[client.chance.random_range(0..held.len())];
        client.world.net.let_in(old, from);
    }
}

/// When it strikes is drawn from the story's seed, so this is too.
pub(super) fn seed(fault: Fault) -> u64 {
    u64::try_from(fault.at.as_micros()).unwrap_or(u64::MAX)
}

/// One of these nodes that leads, as soon as one does.
pub(super) async fn next_leader(world: &World, others: &[NodeId]) -> Option<NodeId> {
    let leads = |id: &NodeId| world.running(*id).is_some_and(|running| running.node.is_leader());
    becomes(ELECTED_WITHIN, || others.iter().any(leads)).await;
    others.iter().copied().find(leads)
}

async fn open_session(client: &mut SimClient, at: NodeId) -> Option<LateSession> {
    let body = format!("{{\"ttl\":\"{}ms\",\"name\":\"{}\"}}", TTL.as_millis(), client.name);
    let ask = Ask::new(Method::POST, "/v1/sessions").header("idempotency-key", client.key());
    let told = client.once_at(at, &ask.header("content-type", "application/json").body(body)).await?;
    Some(LateSession { id: told.field("id").to_owned(), number: SessionNumber(told.number("number")?) })
}

/// Whether it was acknowledged.
pub(super) async fn write(world: World, at: NodeId, value: String) -> bool {
    let client = SimClient::new(world, format!("write-{value}"), 0);
    let ask = Ask::new(Method::PUT, "/v1/nodes/late").header("idempotency-key", value.clone()).body(value);
    is_acknowledged(client.once_at(at, &ask).await)
}

async fn read(world: World, at: NodeId, name: String) {
    let client = SimClient::new(world, format!("read-{name}"), 0);
    // Its freshness is judged where it is told.
    drop(client.once_at(at, &Ask::new(Method::GET, "/v1/nodes/late")).await);
}

async fn renew(world: World, at: NodeId, id: String, session: SessionNumber) {
    let client = SimClient::new(world, format!("renew-{session}"), 0);
    let told = client.once_at(at, &Ask::new(Method::POST, format!("/v1/sessions/{id}/keepalive"))).await;
    if let Some(told) = told.filter(|told| told.status == StatusCode::OK) {
        client.world.oracle.told(&Fact::Renewed { session, sent: told.sent, ttl: TTL });
    }
}

fn is_acknowledged(told: Option<ClientReply>) -> bool {
    told.is_some_and(|told| told.status.is_success())
}
