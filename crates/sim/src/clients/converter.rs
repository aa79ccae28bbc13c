//! A client that changes its grant: shared, exclusive, shared again, with a longer and a shorter ttl.

use super::held_grant::{Acquisition, HeldGrant, TRIES, release};
use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::{Conversion, Fact},
    trace,
};
use fairhold_types::{FencingToken, Mode};
use http::{Method, StatusCode};
use rand::RngExt;
use std::time::Duration;

/// The longest wait for an upgrade.
const UPGRADE_WAIT_MAX_MS: u64 = 2_500;

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let name = format!("book-{}", client.rng.random_range(1..=2));
        let exclusive = client.rng.random_range(0..3) == 0;
        let (mode, more) = if exclusive { (Mode::Exclusive, "") } else { (Mode::Shared, "&mode=shared") };
        let (ttl, wait) = (ttl(&mut client), Duration::from_millis(client.rng.random_range(0..3_000)));
        let acquisition = Acquisition::new(&mut client, &format!("/v1/locks/{name}"), (&name, mode), ttl, wait, more);
        let acquisition = acquisition.disconnect_early_sometimes(&mut client);
        if let Some(mut grant) = acquisition.acquire(&mut client).await {
            convert(&mut client, &mut grant).await;
            grant.report_release(&client);
        }
        release(&mut client, &acquisition.key).await;
    }
}

fn ttl(client: &mut SimClient) -> Duration {
    Duration::from_secs(client.rng.random_range(1..=5))
}

async fn convert(client: &mut SimClient, grant: &mut HeldGrant) {
    for _ in 0..client.rng.random_range(2..6) {
        let continues = match client.rng.random_range(0..8) {
            0 | 1 => downgrade(client, grant).await,
            2 => upgrade(client, grant, Duration::ZERO).await,
            3 | 4 => {
                let wait = Duration::from_millis(client.rng.random_range(100..UPGRADE_WAIT_MAX_MS));
                upgrade(client, grant, wait).await
            }
            5 => {
                let ttl = ttl(client);
                grant.renew_for(client, ttl).await
            }
            6 => {
                grant.write(client).await;
                true
            }
            _ => grant.renew(client).await,
        };
        if !continues {
            return;
        }
        client.idle(500).await;
    }
}

/// Returns whether the grant is still held, in a known mode.
async fn downgrade(client: &mut SimClient, grant: &mut HeldGrant) -> bool {
    let key = client.key();
    let before = grant.mode;
    client.world.oracle.observe(&Fact::Changing { target: grant.target(), key: key.clone(), change: Conversion::Downgraded });
    let request = ClientRequest::new(Method::POST, format!("/v1/grants/{}/downgrade", grant.id)).header("idempotency-key", key);
    let request = request.disconnect_sometimes(client);
    let first_sent = trace::since_start();
    let reply = client.call_until_known(&request, TRIES).await;
    let Some(reply) = reply.filter(|reply| reply.status != StatusCode::GONE) else {
        // It may be shared since the first request.
        let token = grant.token;
        grant.changed(client, first_sent, first_sent, (Mode::Shared, token));
        return false;
    };
    let (StatusCode::OK, "shared", Some(token)) = (reply.status, reply.field("mode"), reply.number("token")) else {
        client.unexpected("a downgrade", &reply);
        return false;
    };
    client.world.oracle.observe(&Fact::Held { lock: grant.lock.clone(), number: grant.number, token: FencingToken(token) });
    if before == Mode::Exclusive {
        client.world.coverage.probe(Probe::Downgraded);
    }
    grant.changed(client, first_sent, reply.received, (Mode::Shared, FencingToken(token)));
    true
}

/// Returns whether the grant is still held.
async fn upgrade(client: &mut SimClient, grant: &mut HeldGrant, wait: Duration) -> bool {
    let key = client.key();
    let before = grant.mode;
    client.world.oracle.observe(&Fact::Changing { target: grant.target(), key: key.clone(), change: Conversion::Upgraded });
    let uri = format!("/v1/grants/{}/upgrade?wait={}ms", grant.id, wait.as_millis());
    let request = ClientRequest::new(Method::POST, uri).header("idempotency-key", key).wait(wait).disconnect_sometimes(client);
    let Some(reply) = client.call_until_known(&request, TRIES).await else { return false };
    match (reply.status, reply.field("code"), reply.field("mode"), reply.number("token")) {
        (StatusCode::OK, _, "exclusive", Some(token)) => {
            client.world.oracle.observe(&Fact::Held {
                lock: grant.lock.clone(),
                number: grant.number,
                token: FencingToken(token),
            });
            if before == Mode::Shared {
                client.world.coverage.probe(if wait.is_zero() { Probe::UpgradedAtOnce } else { Probe::Upgraded });
            }
            grant.changed(client, reply.received, reply.received, (Mode::Exclusive, FencingToken(token)));
            true
        }
        (StatusCode::CONFLICT, "lock_held" | "wait_timeout" | "would_deadlock", _, _) => {
            client.world.coverage.probe(Probe::UpgradeRefused);
            true
        }
        (StatusCode::GONE, "grant_gone", _, _) => false,
        _ => {
            client.unexpected("an upgrade", &reply);
            false
        }
    }
}
