//! Clients that change their grants: shared, exclusive, shared again, with a longer and a shorter ttl.

use super::{
    Keys,
    locks::{WAIT, pause, renewed_if_late},
};
use crate::{
    client::{AcquireOptions, ChaosClient, HeldLock},
    history::Outcome,
};
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// The longest wait for an upgrade.
const UPGRADE_WAIT_MS_MAX: u64 = 800;
/// The ttls of renewals.
const TTL_MS: std::ops::RangeInclusive<u64> = 1_000..=4_000;

pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>) {
    while !client.is_over() {
        let shared = client.random.random_range(0..4) > 0;
        let wish = AcquireOptions { key: keys.next(), shared, wait: WAIT, ..AcquireOptions::default() };
        let Some(mut held) = client.acquire(&wish).await else {
            pause(&mut client, 10).await;
            continue;
        };
        if renewed_if_late(&mut client, &mut held).await {
            change(&mut client, &mut held, shared).await;
        }
        client.release(&held).await;
        pause(&mut client, 10).await;
    }
}

/// Changes a grant a few times, as long as its mode and its lease are known.
async fn change(client: &mut ChaosClient, held: &mut HeldLock, mut shared: bool) {
    for _ in 0..client.random.random_range(1..=4) {
        let outcome = match client.random.random_range(0..5) {
            0 | 1 if shared => {
                let outcome = upgrade(client, held).await;
                shared = outcome != Outcome::Ok;
                outcome
            }
            0 | 1 => {
                let outcome = client.downgrade(held).await;
                shared = outcome == Outcome::Ok;
                outcome
            }
            2 => {
                let ttl = Duration::from_millis(client.random.random_range(TTL_MS));
                client.renew_for(held, ttl).await
            }
            _write => {
                client.write_fenced(held).await;
                Outcome::Ok
            }
        };
        if outcome == Outcome::Unknown || !client.believes_in(held) {
            return;
        }
        pause(client, 15).await;
    }
}

/// Upgrades a grant. Then writes with the old token: the fence must refuse it.
async fn upgrade(client: &mut ChaosClient, held: &mut HeldLock) -> Outcome {
    let before = held.clone();
    let wait = Duration::from_millis(client.random.random_range(0..UPGRADE_WAIT_MS_MAX));
    let outcome = client.upgrade(held, wait).await;
    match outcome {
        Outcome::Ok | Outcome::Unknown => client.write_fenced(&before).await,
        Outcome::Fail => {}
    }
    outcome
}
