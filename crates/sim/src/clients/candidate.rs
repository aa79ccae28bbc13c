//! A candidate: it enters an election, proclaims new values while it leads, resigns, and looks up the leader.

use super::grip::{Grip, GripWish, TRIES, give_back};
use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    tally::Probe,
};
use fairhold_types::{FencingToken, Mode};
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(2);

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let name = format!("chief-{}", client.chance.random_range(1..=2));
        look(&mut client, &name).await;
        let value = client.key();
        let wait = Duration::from_millis(client.chance.random_range(0..4_000));
        let (route, more) = (format!("/v1/elections/{name}"), format!("&value={value}"));
        let wish = GripWish::new(&mut client, &route, (&name, Mode::Exclusive), TTL, wait, &more);
        let wish = wish.in_a_hurry_sometimes(&mut client);
        if let Some(mut grip) = wish.take(&mut client).await {
            lead(&mut client, &mut grip).await;
            grip.let_go(&client);
        }
        give_back(&mut client, &wish.key).await;
    }
}

async fn lead(client: &mut SimClient, grip: &mut Grip) {
    for _ in 0..client.chance.random_range(1..5) {
        let goes_on = match client.chance.random_range(0..4) {
            0 | 1 => proclaim(client, grip).await,
            2 => {
                look(client, grip.lock.as_str()).await;
                true
            }
            _ => {
                grip.write(client).await;
                true
            }
        };
        if !goes_on || !grip.renew(client).await {
            return;
        }
        client.idle(600).await;
    }
}

/// Says whether it still leads, as far as is known.
async fn proclaim(client: &mut SimClient, grip: &Grip) -> bool {
    let value = client.key();
    let uri = format!("/v1/elections/{}?grant={}&value={value}", grip.lock, grip.id);
    let ask = Ask::new(Method::PUT, uri).header("idempotency-key", value.clone()).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return true };
    match (told.status, told.field("code"), told.number("version")) {
        (StatusCode::OK, _, Some(version)) => {
            client.world.tally.probe(Probe::Proclaimed);
            let (election, token) = (grip.lock.clone(), grip.token);
            client.world.oracle.told(&Fact::Led { election, token, version, value });
            true
        }
        (StatusCode::CONFLICT, "not_leader", _) => false,
        _ => {
            client.unexpected("a proclamation", &told);
            false
        }
    }
}

async fn look(client: &mut SimClient, name: &str) {
    let Some(told) = client.once(&Ask::new(Method::GET, format!("/v1/elections/{name}"))).await else { return };
    match (told.status, told.field("code"), told.number("token").zip(told.number("version"))) {
        (StatusCode::OK, _, Some((token, version))) => {
            let (election, token, value) = (super::grip::lock(name), FencingToken(token), told.field("value").to_owned());
            client.world.oracle.told(&Fact::Led { election, token, version, value });
        }
        (StatusCode::NOT_FOUND, "no_leader", _) => {}
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _, _) => {}
        _ => client.unexpected("a look at an election", &told),
    }
}
