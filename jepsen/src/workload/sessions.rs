//! Clients that open a session with a node and a lock, keep it alive for a while, and then close or abandon it.

use super::locks::pause;
use crate::{
    client::{AcquireOptions, ChaosClient, TTL},
    history::Outcome,
};
use rand::RngExt;
use std::time::Duration;

const KEEPALIVES_MAX: u32 = 6;

pub(super) async fn run(mut client: ChaosClient, number: u64) {
    let mut turn = 0_u64;
    while !client.is_over() {
        turn += 1;
        let key = format!("session-expiry-{number}-{turn}");
        let Some(session) = client.open(&key).await else {
            pause(&mut client, 50).await;
            continue;
        };
        client.ephemeral(&key, &session).await;
        let wish = AcquireOptions {
            key: key.clone(),
            wait: Duration::from_millis(500),
            session: Some(session.clone()),
            ..AcquireOptions::default()
        };
        let held = client.acquire(&wish).await;
        let mut lost = false;
        for _ in 0..client.random.random_range(0..KEEPALIVES_MAX) {
            tokio::time::sleep(TTL / 3).await;
            if client.is_over() {
                break;
            }
            lost = client.keepalive(&key, &session).await == Outcome::Fail;
        }
        // The last session is always abandoned, so that each run has an expired one.
        if lost || client.is_over() || client.random.random_range(0..2) == 0 {
            // The abandoned session must expire, with everything it owns. A checker judges the reads until then.
            read_until_gone(&mut client, &key).await;
        } else {
            if let Some(held) = &held {
                client.release(held).await;
            }
            client.close(&key, &session).await;
        }
    }
}

/// Reads its node until it is gone, or should be.
async fn read_until_gone(client: &mut ChaosClient, key: &str) {
    for _ in 0..12 {
        if client.is_over() {
            return;
        }
        let node = format!("chaos/{key}");
        if matches!(client.read(&node).await, Some((None, _))) {
            return;
        }
        tokio::time::sleep(TTL / 6).await;
    }
}
