//! A client that acquires several locks of other clients in one step: it holds all of them or none.

use super::held_grant::{Acquisition, HeldGrant, lock, release};
use crate::{client::SimClient, coverage::Probe};
use fairhold_types::Mode;
use rand::RngExt;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(2);
/// Locks that other clients also take: two exclusively, two with readers.
const NAMES: [&str; 4] = ["book-1", "door-2", "book-2", "door-1"];

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(600).await;
        let wanted = wanted(&mut client);
        let list = wanted.iter().map(|(name, mode)| serde_json::json!({"name": name, "mode": mode}));
        let body = serde_json::json!({"locks": list.collect::<Vec<_>>()}).to_string();
        let wait = Duration::from_millis(client.rng.random_range(0..4_000));
        let acquisition = Acquisition::new(&mut client, "/v1/locks", wanted[0], TTL, wait, "");
        let acquisition = Acquisition {
            request: acquisition.request.clone().header("content-type", "application/json").body(body),
            ..acquisition
        };
        let acquisition = acquisition.disconnect_early_sometimes(&mut client);
        if let Some(grant) = acquisition.acquire(&mut client).await {
            client.world.coverage.probe(Probe::MultiLockHeld);
            hold(&mut client, grant, &wanted[1..]).await;
        }
        release(&mut client, &acquisition.key).await;
    }
}

/// Two or three different locks, in any order.
fn wanted(client: &mut SimClient) -> Vec<(&'static str, Mode)> {
    let first = client.rng.random_range(0..NAMES.len());
    let step = [1, 3][client.rng.random_range(0..2_usize)];
    let count = client.rng.random_range(2..=3_usize);
    let one = |index: usize| {
        let shared = client.rng.random_range(0..2) == 0;
        (NAMES[(first + index * step) % NAMES.len()], if shared { Mode::Shared } else { Mode::Exclusive })
    };
    (0..count).map(one).collect()
}

async fn hold(client: &mut SimClient, mut first: HeldGrant, others: &[(&str, Mode)]) {
    for _ in 0..client.rng.random_range(1..4) {
        if !first.renew(client).await {
            break;
        }
        let which = client.rng.random_range(0..=others.len());
        match which.checked_sub(1).map(|other| others[other]) {
            Some((name, mode)) => first.in_lock(lock(name), mode).write(client).await,
            None => first.write(client).await,
        }
        client.idle(600).await;
    }
    first.report_release(client);
    others.iter().for_each(|(name, mode)| first.in_lock(lock(name), *mode).report_release(client));
}
