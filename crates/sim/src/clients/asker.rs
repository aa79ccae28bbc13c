//! A client that queues without an open request (`Prefer: respond-async`), polls its grant, and then holds it.

use super::grip::{Grip, GripWish, TRIES, give_back, refused};
use crate::{
    client::{Ask, SimClient},
    tally::Probe,
};
use fairhold_types::Mode;
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3);
/// How often it asks how its grant stands before it leaves the queue.
const LOOKS: u32 = 5;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let name = format!("door-{}", client.chance.random_range(1..=2));
        let more = format!("&priority={}", client.chance.random_range(0..3));
        let wish = GripWish::new(&mut client, &format!("/v1/locks/{name}"), (&name, Mode::Exclusive), TTL, Duration::ZERO, &more);
        let uri = format!("/v1/locks/{name}?ttl={}ms&owner={}{more}", TTL.as_millis(), client.name);
        let ask = Ask::new(Method::POST, uri).header("idempotency-key", wish.key.clone()).header("prefer", "respond-async");
        let wish = GripWish { ask, ..wish }.in_a_hurry_sometimes(&mut client);
        if let Some(mut grip) = take(&mut client, &wish).await {
            grip.work(&mut client).await;
        }
        give_back(&mut client, &wish.key).await;
    }
}

async fn take(client: &mut SimClient, wish: &GripWish) -> Option<Grip> {
    let told = client.until_known(&wish.ask, TRIES).await?;
    match (told.status, told.field("state")) {
        (StatusCode::OK, "held") => return Grip::of(client, wish, &told),
        (StatusCode::ACCEPTED, "queued") => client.world.tally.probe(Probe::QueuedWithoutRequest),
        (_, _) => {
            refused(client, &wish.lock, &told);
            return None;
        }
    }
    for _ in 0..LOOKS {
        let wait = Duration::from_millis(client.chance.random_range(0..1_000));
        let look = Ask::new(Method::GET, format!("/v1/grants/{}?wait={}ms", wish.key, wait.as_millis())).wait(wait);
        match client.once(&look).await {
            Some(told) if told.status == StatusCode::OK && told.field("state") == "held" => {
                client.world.tally.probe(Probe::HeldAfterQueued);
                return Grip::found(client, wish, &told);
            }
            Some(told) if told.status == StatusCode::OK && told.field("state") == "queued" => {}
            Some(told) if matches!(told.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {}
            Some(told) => {
                refused(client, &wish.lock, &told);
                return None;
            }
            None => {}
        }
        let renew = Ask::new(Method::POST, format!("/v1/grants/{}/renew", wish.key));
        match client.once(&renew).await {
            Some(told) if told.status == StatusCode::GONE => return None,
            Some(told) if told.status.is_client_error() => client.unexpected("a renewal in the queue", &told),
            Some(_) | None => {}
        }
    }
    None
}
