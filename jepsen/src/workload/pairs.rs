//! Clients that hold two locks and write a pair of nodes in one transaction, and clients that read the pair.

use super::{
    Keys,
    locks::{SLEEP, WAIT, pause, renewed_if_late},
};
use crate::{
    client::{AcquireOptions, ChaosClient, HeldLock},
    history::pair,
};
use rand::RngExt;
use std::sync::Arc;

pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>, number: u64) {
    while !client.is_over() {
        if number % 3 == 2 {
            read(&mut client, &format!("chaos/{}", keys.current())).await;
            continue;
        }
        let key = keys.next();
        // All clients acquire the left lock first, so there is no deadlock.
        let Some(left) = acquire(&mut client, format!("{key}-left")).await else { continue };
        if let Some(right) = acquire(&mut client, format!("{key}-right")).await {
            write(&mut client, &format!("chaos/{key}"), left, right).await;
        } else {
            client.release(&left).await;
        }
        pause(&mut client, 10).await;
    }
}

async fn acquire(client: &mut ChaosClient, key: String) -> Option<HeldLock> {
    let held = client.acquire(&AcquireOptions { key, wait: WAIT, ..AcquireOptions::default() }).await;
    if held.is_none() {
        pause(client, 10).await;
    }
    held
}

/// Writes the pair. Sometimes a token is stale: its lease has expired, or its grant was released.
async fn write(client: &mut ChaosClient, key: &str, mut left: HeldLock, mut right: HeldLock) {
    let live = renewed_if_late(client, &mut left).await && renewed_if_late(client, &mut right).await;
    if live {
        client.transact(key, [&left, &right]).await;
    }
    if client.random.random_range(0..1_000) < client.shared.sleepers {
        tokio::time::sleep(SLEEP).await;
    } else {
        pause(client, 10).await;
    }
    let stale_first = client.random.random_range(0..5) == 0;
    if stale_first {
        let one = if client.random.random_range(0..2) == 0 { &left } else { &right };
        client.release(one).await;
    }
    client.transact(key, [&left, &right]).await;
    client.release(&right).await;
    client.release(&left).await;
    read(client, key).await;
}

async fn read(client: &mut ChaosClient, key: &str) {
    let [left, right] = pair(key);
    match client.random.random_range(0..3) {
        0 => drop(client.read(&left).await),
        1 => drop(client.read(&right).await),
        _both => client.read_pair(key).await,
    }
    pause(client, 15).await;
}
