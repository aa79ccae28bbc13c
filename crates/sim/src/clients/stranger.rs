//! A client that lets servers choose the ids of its grants, and often disconnects before it learns one. Only the server that made
//! such a grant can release it.

use super::grip::give_back;
use crate::client::{Ask, SimClient};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// Longer than any story: what ends sooner was ended by somebody.
const TTL: &str = "1h";
/// A server tries for half a minute to end what nobody was told of. All faults have ended by then, too.
const GIVEN_UP: Duration = Duration::from_secs(90);
/// How often it looks and ends by itself what is left.
const TRIES: u32 = 40;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    let lock = format!("strange-{}", client.name);
    let mut servers = Vec::new();
    for _ in 0..rounds {
        client.idle(1_000).await;
        servers.extend(acquire(&mut client, &lock).await);
    }
    SimRuntime::sleep(GIVEN_UP).await;
    // A server that has ended has ended nothing: then only the time to live does.
    let lives_on = |(id, life): &(u64, u64)| client.world.host(*id).is_some_and(|host| host.name() == (*id, *life));
    let is_owed = !client.world.is_too_far_apart && servers.iter().all(lives_on);
    end_what_is_left(&mut client, &lock, is_owed).await;
}

/// Asks for the lock at one server, and gives back what it is told of; else which life of which server was asked.
async fn acquire(client: &mut SimClient, lock: &str) -> Option<(u64, u64)> {
    let ids = client.world.ids();
    let to = ids[client.chance.random_range(0..ids.len())];
    let life = client.world.host(to).map(|host| host.name());
    let wait = Duration::from_millis(client.chance.random_range(0..500));
    let uri = format!("/v1/locks/{lock}?wait={}ms&ttl={TTL}&owner={}", wait.as_millis(), client.name);
    let hurry = Duration::from_micros(client.chance.random_range(500..40_000));
    let ask = Ask::new(Method::POST, uri).wait(wait);
    let ask = if client.chance.random_range(0..2) == 0 { ask.hang_up_after(hurry) } else { ask };
    let told = client.once_at(to, &ask).await;
    match told.as_ref().map(|told| (told, told.field("id"))) {
        Some((_, id)) if !id.is_empty() => {
            give_back(client, id).await;
            None
        }
        Some((told, _)) if told.status == StatusCode::OK => {
            client.unexpected("an acquire without an id", told);
            None
        }
        Some(_) | None => life,
    }
}

/// Ends all grants of the lock. `is_owed`: there must be none.
async fn end_what_is_left(client: &mut SimClient, lock: &str, is_owed: bool) {
    for _ in 0..TRIES {
        let Some(told) = client.until_known(&Ask::new(Method::GET, format!("/v1/locks/{lock}")), TRIES).await else { return };
        let holders = told.json["holders"].as_array().cloned().unwrap_or_default();
        if holders.is_empty() {
            return;
        }
        if is_owed {
            client
                .world
                .oracle
                .violation(format!("{}: nobody was told of a grant, and nobody ends it: {}", client.name, told.text));
        }
        for session in holders.iter().filter_map(|holder| holder["session"].as_u64()) {
            let reason = client.key();
            client.once(&Ask::new(Method::DELETE, format!("/v1/sessions/{session}?reason={reason}"))).await;
        }
    }
}
