//! A client that changes its grant: shared, exclusive, shared again, with a longer and a shorter ttl.

use super::grip::{Grip, GripWish, TRIES, give_back};
use crate::{
    client::{Ask, SimClient},
    facts::{Conversion, Fact},
    tally::Probe,
    trace,
};
use fairhold_types::{FencingToken, Mode};
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

/// How long it waits to hold alone, at most.
const UPGRADE_WAIT_MAX_MS: u64 = 2_500;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let name = format!("book-{}", client.chance.random_range(1..=2));
        let alone = client.chance.random_range(0..3) == 0;
        let (mode, more) = if alone { (Mode::Exclusive, "") } else { (Mode::Shared, "&mode=shared") };
        let (ttl, wait) = (ttl(&mut client), Duration::from_millis(client.chance.random_range(0..3_000)));
        let wish = GripWish::new(&mut client, &format!("/v1/locks/{name}"), (&name, mode), ttl, wait, more);
        let wish = wish.in_a_hurry_sometimes(&mut client);
        if let Some(mut grip) = wish.take(&mut client).await {
            convert(&mut client, &mut grip).await;
            grip.let_go(&client);
        }
        give_back(&mut client, &wish.key).await;
    }
}

fn ttl(client: &mut SimClient) -> Duration {
    Duration::from_secs(client.chance.random_range(1..=5))
}

async fn convert(client: &mut SimClient, grip: &mut Grip) {
    for _ in 0..client.chance.random_range(2..6) {
        let goes_on = match client.chance.random_range(0..8) {
            0 | 1 => downgrade(client, grip).await,
            2 => upgrade(client, grip, Duration::ZERO).await,
            3 | 4 => {
                let wait = Duration::from_millis(client.chance.random_range(100..UPGRADE_WAIT_MAX_MS));
                upgrade(client, grip, wait).await
            }
            5 => {
                let ttl = ttl(client);
                grip.renew_for(client, ttl).await
            }
            6 => {
                grip.write(client).await;
                true
            }
            _ => grip.renew(client).await,
        };
        if !goes_on {
            return;
        }
        client.idle(500).await;
    }
}

/// Says whether it is still held, in a mode that is known.
async fn downgrade(client: &mut SimClient, grip: &mut Grip) -> bool {
    let key = client.key();
    let before = grip.mode;
    client.world.oracle.told(&Fact::Changing { whose: grip.whose(), key: key.clone(), change: Conversion::Downgraded });
    let ask = Ask::new(Method::POST, format!("/v1/grants/{}/downgrade", grip.id)).header("idempotency-key", key);
    let ask = ask.hang_up_sometimes(client);
    let asked = trace::since_start();
    let told = client.until_known(&ask, TRIES).await;
    let Some(told) = told.filter(|told| told.status != StatusCode::GONE) else {
        // It may share since it first asked.
        let token = grip.token;
        grip.changed(client, asked, asked, (Mode::Shared, token));
        return false;
    };
    let (StatusCode::OK, "shared", Some(token)) = (told.status, told.field("mode"), told.number("token")) else {
        client.unexpected("a downgrade", &told);
        return false;
    };
    client.world.oracle.told(&Fact::Held { lock: grip.lock.clone(), number: grip.number, token: FencingToken(token) });
    if before == Mode::Exclusive {
        client.world.tally.probe(Probe::Downgraded);
    }
    grip.changed(client, asked, told.came, (Mode::Shared, FencingToken(token)));
    true
}

/// Says whether it is still held.
async fn upgrade(client: &mut SimClient, grip: &mut Grip, wait: Duration) -> bool {
    let key = client.key();
    let before = grip.mode;
    client.world.oracle.told(&Fact::Changing { whose: grip.whose(), key: key.clone(), change: Conversion::Upgraded });
    let uri = format!("/v1/grants/{}/upgrade?wait={}ms", grip.id, wait.as_millis());
    let ask = Ask::new(Method::POST, uri).header("idempotency-key", key).wait(wait).hang_up_sometimes(client);
    let Some(told) = client.until_known(&ask, TRIES).await else { return false };
    match (told.status, told.field("code"), told.field("mode"), told.number("token")) {
        (StatusCode::OK, _, "exclusive", Some(token)) => {
            client.world.oracle.told(&Fact::Held { lock: grip.lock.clone(), number: grip.number, token: FencingToken(token) });
            if before == Mode::Shared {
                client.world.tally.probe(if wait.is_zero() { Probe::UpgradedAtOnce } else { Probe::Upgraded });
            }
            grip.changed(client, told.came, told.came, (Mode::Exclusive, FencingToken(token)));
            true
        }
        (StatusCode::CONFLICT, "lock_held" | "wait_timeout" | "would_deadlock", _, _) => {
            client.world.tally.probe(Probe::UpgradeRefused);
            true
        }
        (StatusCode::GONE, "grant_gone", _, _) => false,
        _ => {
            client.unexpected("an upgrade", &told);
            false
        }
    }
}
