//! An administrator: changes limits and maximum hold times, revokes and breaks grants, and ends sessions.

use super::held_grant::TRIES;
use crate::{
    client::{ClientRequest, SimClient, lock_in_path},
    coverage::Probe,
    facts::{Conversion, Fact},
};
use fairhold_types::SessionNumber;
use http::{Method, StatusCode};
use rand::RngExt;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds * 2 {
        client.idle(1_500).await;
        let number: u32 = client.rng.random_range(1..=2);
        let kind = ["door", "book", "pool", "chief"][client.rng.random_range(0..4_usize)];
        let lock = format!("{kind}-{number}");
        match client.rng.random_range(0..8) {
            0 | 1 => {
                let limit: u32 = client.rng.random_range(2..=5);
                let change = Conversion::Limited(Some(limit), None, None);
                set(&mut client, &format!("pool-{number}"), &format!("limit={limit}"), change, Probe::LimitSet).await;
            }
            2 => {
                let most = [0, 1_000, 3_000][client.rng.random_range(0..3_usize)];
                let change = Conversion::Limited(None, None, Some(most));
                set(&mut client, &lock, &format!("max_hold={most}ms"), change, Probe::HoldBounded).await;
            }
            3 => {
                let lock = a_held_lock(&mut client).await.unwrap_or(lock);
                let most = [1, 100][client.rng.random_range(0..2_usize)];
                let change = Conversion::Limited(None, Some(most), None);
                set(&mut client, &lock, &format!("max_waiters={most}"), change, Probe::WaitersBounded).await;
            }
            4 => {
                let lock = a_held_lock(&mut client).await.unwrap_or(lock);
                break_lock(&mut client, &lock).await;
            }
            5 => {
                let lock = a_held_lock(&mut client).await.unwrap_or(lock);
                revoke(&mut client, &lock).await;
            }
            _ => end_session(&mut client).await,
        }
    }
}

async fn set(client: &mut SimClient, lock: &str, what: &str, change: Conversion, probe: Probe) {
    let (key, target) = (client.key(), lock.to_owned());
    client.world.oracle.observe(&Fact::Changing { target, key: key.clone(), change });
    let request =
        ClientRequest::new(Method::PATCH, format!("/v1/locks/{}?{what}", lock_in_path(lock))).header("idempotency-key", key);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match reply.status {
        StatusCode::OK => client.world.coverage.probe(probe),
        _ => client.unexpected("a lock's setting", &reply),
    }
}

/// A random held lock, if the list shows one.
async fn a_held_lock(client: &mut SimClient) -> Option<String> {
    let reply = client.call_once(&ClientRequest::new(Method::GET, "/v1/locks?state=held")).await?;
    let names = reply.json["items"].as_array().into_iter().flatten().filter_map(|lock| lock["lock"].as_str().map(str::to_owned));
    let names: Vec<String> = names.collect();
    names.get(client.rng.random_range(0..names.len().max(1))).cloned()
}

/// The reason is the key, so that a break that happens twice shows the same reason twice.
async fn break_lock(client: &mut SimClient, lock: &str) {
    let key = client.key();
    let request = ClientRequest::new(Method::DELETE, format!("/v1/locks/{}/holders?reason={key}", lock_in_path(lock)));
    let request = request.header("idempotency-key", key).disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match reply.status {
        StatusCode::NO_CONTENT => client.world.coverage.probe(Probe::Broke),
        _ => client.unexpected("the break of a lock", &reply),
    }
}

async fn revoke(client: &mut SimClient, lock: &str) {
    let key = client.key();
    let request = ClientRequest::new(Method::POST, format!("/v1/locks/{}/holders/revoke?reason={key}", lock_in_path(lock)));
    let request = request.header("idempotency-key", key).disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match reply.status {
        StatusCode::ACCEPTED => client.world.coverage.probe(Probe::Revoked),
        _ => client.unexpected("a revocation", &reply),
    }
}

async fn end_session(client: &mut SimClient) {
    let Some(reply) = client.call_once(&ClientRequest::new(Method::GET, "/v1/sessions")).await else { return };
    let list = reply.json["items"].as_array().or_else(|| reply.json["sessions"].as_array());
    let numbers: Vec<u64> = list.into_iter().flatten().filter_map(|session| session["number"].as_u64()).collect();
    if numbers.is_empty() {
        return;
    }
    let number = numbers[client.rng.random_range(0..numbers.len())];
    client.world.oracle.observe(&Fact::Closing { session: SessionNumber(number) });
    let request = ClientRequest::new(Method::DELETE, format!("/v1/sessions/{number}?reason={}", client.key()));
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return };
    match (reply.status, reply.field("code")) {
        (StatusCode::NO_CONTENT, _) => client.world.coverage.probe(Probe::SessionEnded),
        (StatusCode::NOT_FOUND, "session_not_found") => {}
        _ => client.unexpected("the end of a session", &reply),
    }
}
