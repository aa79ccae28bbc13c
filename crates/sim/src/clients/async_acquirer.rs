//! A client that queues without an open request (`Prefer: respond-async`), polls its grant, and then holds it.

use super::held_grant::{Acquisition, HeldGrant, TRIES, refused, release};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
};
use fairhold_types::Mode;
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3);
/// How often it polls its grant before it leaves the queue.
const LOOKS: u32 = 5;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let name = format!("door-{}", client.rng.random_range(1..=2));
        let more = format!("&priority={}", client.rng.random_range(0..3));
        let acquisition =
            Acquisition::new(&mut client, &format!("/v1/locks/{name}"), (&name, Mode::Exclusive), TTL, Duration::ZERO, &more);
        let uri = format!("/v1/locks/{name}?ttl={}ms&owner={}{more}", TTL.as_millis(), client.name);
        let request = ClientRequest::new(Method::POST, uri)
            .header("idempotency-key", acquisition.key.clone())
            .header("prefer", "respond-async");
        let acquisition = Acquisition { request, ..acquisition }.disconnect_early_sometimes(&mut client);
        if let Some(mut grant) = take(&mut client, &acquisition).await {
            grant.work(&mut client).await;
        }
        release(&mut client, &acquisition.key).await;
    }
}

async fn take(client: &mut SimClient, acquisition: &Acquisition) -> Option<HeldGrant> {
    let reply = client.call_until_known(&acquisition.request, TRIES).await?;
    match (reply.status, reply.field("state")) {
        (StatusCode::OK, "held") => return HeldGrant::from_reply(client, acquisition, &reply),
        (StatusCode::ACCEPTED, "queued") => client.world.coverage.probe(Probe::QueuedWithoutRequest),
        (_, _) => {
            refused(client, &acquisition.lock, &reply);
            return None;
        }
    }
    for _ in 0..LOOKS {
        let wait = Duration::from_millis(client.rng.random_range(0..1_000));
        let look =
            ClientRequest::new(Method::GET, format!("/v1/grants/{}?wait={}ms", acquisition.key, wait.as_millis())).wait(wait);
        match client.call_once(&look).await {
            Some(reply) if reply.status == StatusCode::OK && reply.field("state") == "held" => {
                client.world.coverage.probe(Probe::HeldAfterQueued);
                return HeldGrant::from_look(client, acquisition, &reply);
            }
            Some(reply) if reply.status == StatusCode::OK && reply.field("state") == "queued" => {}
            Some(reply) if matches!(reply.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {}
            Some(reply) => {
                refused(client, &acquisition.lock, &reply);
                return None;
            }
            None => {}
        }
        let renew = ClientRequest::new(Method::POST, format!("/v1/grants/{}/renew", acquisition.key));
        match client.call_once(&renew).await {
            Some(reply) if reply.status == StatusCode::GONE => return None,
            Some(reply) if reply.status.is_client_error() => client.unexpected("a renewal in the queue", &reply),
            Some(_) | None => {}
        }
    }
    None
}
