//! An administrator: changes limits and maximum hold times, revokes and breaks grants, and ends sessions.

use super::grip::TRIES;
use crate::{
    client::{Ask, SimClient},
    facts::{Conversion, Fact},
    tally::Probe,
};
use fairhold_types::SessionNumber;
use http::{Method, StatusCode};
use rand::RngExt;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds * 2 {
        client.idle(1_500).await;
        let number: u32 = client.chance.random_range(1..=2);
        let kind = ["door", "book", "pool", "chief"][client.chance.random_range(0..4_usize)];
        let lock = format!("{kind}-{number}");
        match client.chance.random_range(0..8) {
            0 | 1 => {
                let limit: u32 = client.chance.random_range(2..=5);
                let change = Conversion::Limited(Some(limit), None, None);
                set(&mut client, &format!("pool-{number}"), &format!("limit={limit}"), change, Probe::LimitSet).await;
            }
            2 => {
                let most = [0, 1_000, 3_000][client.chance.random_range(0..3_usize)];
                let change = Conversion::Limited(None, None, Some(most));
                set(&mut client, &lock, &format!("max_hold={most}ms"), change, Probe::HoldBounded).await;
            }
            3 => {
                let lock = one_that_is_held(&mut client).await.unwrap_or(lock);
                let most = [1, 100][client.chance.random_range(0..2_usize)];
                let change = Conversion::Limited(None, Some(most), None);
                set(&mut client, &lock, &format!("max_waiters={most}"), change, Probe::WaitersBounded).await;
            }
            4 => {
                let lock = one_that_is_held(&mut client).await.unwrap_or(lock);
                take_away(&mut client, &lock).await;
            }
            5 => {
                let lock = one_that_is_held(&mut client).await.unwrap_or(lock);
                revoke(&mut client, &lock).await;
            }
            _ => end_session(&mut client).await,
        }
    }
}

async fn set(client: &mut SimClient, lock: &str, what: &str, change: Conversion, probe: Probe) {
    let (key, whose) = (client.key(), lock.to_owned());
    client.world.oracle.told(&Fact::Changing { whose, key: key.clone(), change });
    let ask = Ask::new(Method::PATCH, format!("/v1/locks/{lock}?{what}")).header("idempotency-key", key);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match told.status {
        StatusCode::OK => client.world.tally.probe(probe),
        _ => client.unexpected("a lock's setting", &told),
    }
}

/// A lock that somebody holds, where one is known.
async fn one_that_is_held(client: &mut SimClient) -> Option<String> {
    let told = client.once(&Ask::new(Method::GET, "/v1/locks?state=held")).await?;
    let names = told.json["items"].as_array().into_iter().flatten().filter_map(|lock| lock["lock"].as_str().map(str::to_owned));
    let names: Vec<String> = names.collect();
    names.get(client.chance.random_range(0..names.len().max(1))).cloned()
}

/// The reason is the key: what is done twice is told twice with one reason.
async fn take_away(client: &mut SimClient, lock: &str) {
    let key = client.key();
    let ask = Ask::new(Method::DELETE, format!("/v1/locks/{lock}/holders?reason={key}"));
    let ask = ask.header("idempotency-key", key).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match told.status {
        StatusCode::NO_CONTENT => client.world.tally.probe(Probe::Broke),
        _ => client.unexpected("the break of a lock", &told),
    }
}

async fn revoke(client: &mut SimClient, lock: &str) {
    let key = client.key();
    let ask = Ask::new(Method::POST, format!("/v1/locks/{lock}/holders/revoke?reason={key}"));
    let ask = ask.header("idempotency-key", key).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match told.status {
        StatusCode::ACCEPTED => client.world.tally.probe(Probe::Revoked),
        _ => client.unexpected("a revocation", &told),
    }
}

async fn end_session(client: &mut SimClient) {
    let Some(told) = client.once(&Ask::new(Method::GET, "/v1/sessions")).await else { return };
    let list = told.json["items"].as_array().or_else(|| told.json["sessions"].as_array());
    let numbers: Vec<u64> = list.into_iter().flatten().filter_map(|session| session["number"].as_u64()).collect();
    if numbers.is_empty() {
        return;
    }
    let number = numbers[client.chance.random_range(0..numbers.len())];
    client.world.oracle.told(&Fact::LettingGo { session: SessionNumber(number) });
    let ask = Ask::new(Method::DELETE, format!("/v1/sessions/{number}?reason={}", client.key()));
    let Some(told) = client.until_known(&ask, TRIES).await else { return };
    match (told.status, told.field("code")) {
        (StatusCode::NO_CONTENT, _) => client.world.tally.probe(Probe::SessionEnded),
        (StatusCode::NOT_FOUND, "session_not_found") => {}
        _ => client.unexpected("the end of a session", &told),
    }
}
