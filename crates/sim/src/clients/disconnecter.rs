//! A client that lets servers choose the ids of its grants, and often disconnects before it learns one. Only the server
//! that made such a grant can release it.

use super::held_grant::release;
use crate::client::{ClientRequest, SimClient};
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// A ttl longer than any scenario: if a grant ends earlier, the cause is another.
const TTL: &str = "1h";
/// A server tries for half a minute to end a grant that its client never learned of. All faults have ended by
/// then.
const GIVEN_UP: Duration = Duration::from_secs(90);
/// How often it looks for remaining grants, and ends them.
const TRIES: u32 = 40;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    let lock = format!("strange-{}", client.name);
    let mut servers = Vec::new();
    for _ in 0..rounds {
        client.idle(1_000).await;
        servers.extend(acquire(&mut client, &lock).await);
    }
    SimRuntime::sleep(GIVEN_UP).await;
    // A restarted server ends no grant: only the ttl does.
    let still_lives = |(id, life): &(u64, u64)| client.world.host(*id).is_some_and(|host| host.name() == (*id, *life));
    let must_be_free = !client.world.is_too_far_apart && servers.iter().all(still_lives);
    end_remaining_grants(&mut client, &lock, must_be_free).await;
}

/// Acquires the lock at one server, and releases it if the answer arrives. Otherwise returns the server and its life.
async fn acquire(client: &mut SimClient, lock: &str) -> Option<(u64, u64)> {
    let ids = client.world.ids();
    let to = ids[client.rng.random_range(0..ids.len())];
    let life = client.world.host(to).map(|host| host.name());
    let wait = Duration::from_millis(client.rng.random_range(0..500));
    let uri = format!("/v1/locks/{lock}?wait={}ms&ttl={TTL}&owner={}", wait.as_millis(), client.name);
    let hurry = Duration::from_micros(client.rng.random_range(500..40_000));
    let request = ClientRequest::new(Method::POST, uri).wait(wait);
    let request = if client.rng.random_range(0..2) == 0 { request.disconnect_after(hurry) } else { request };
    let reply = client.call_once_at(to, &request).await;
    match reply.as_ref().map(|reply| (reply, reply.field("id"))) {
        Some((_, id)) if !id.is_empty() => {
            release(client, id).await;
            None
        }
        Some((reply, _)) if reply.status == StatusCode::OK => {
            client.unexpected("an acquire without an id", reply);
            None
        }
        Some(_) | None => life,
    }
}

/// Ends all grants of the lock. `must_be_free`: there must be none.
async fn end_remaining_grants(client: &mut SimClient, lock: &str, must_be_free: bool) {
    for _ in 0..TRIES {
        let Some(reply) = client.call_until_known(&ClientRequest::new(Method::GET, format!("/v1/locks/{lock}")), TRIES).await
        else {
            return;
        };
        let holders = reply.json["holders"].as_array().cloned().unwrap_or_default();
        if holders.is_empty() {
            return;
        }
        if must_be_free {
            client
                .world
                .oracle
                .violation(format!("{}: no client knows a grant, and no server ends it: {}", client.name, reply.text));
        }
        for session in holders.iter().filter_map(|holder| holder["session"].as_u64()) {
            let reason = client.key();
            client.call_once(&ClientRequest::new(Method::DELETE, format!("/v1/sessions/{session}?reason={reason}"))).await;
        }
    }
}
