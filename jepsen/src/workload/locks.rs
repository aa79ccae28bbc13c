//! Clients that acquire a lock, hold it for a moment and release it. Some sleep for longer than their lease.

use super::{Keys, Workload};
use crate::client::{AcquireOptions, ChaosClient, HeldLock, TTL};
use rand::RngExt;
use std::{sync::Arc, time::Duration};

/// The smallest limit of a semaphore: as many permits as one client may want.
const PERMITS_MIN: u32 = 2;
/// The wait for a lock.
pub(super) const WAIT: Duration = Duration::from_millis(1_500);
/// The wait of an impatient client.
const SHORT_WAIT_MS_MAX: u64 = 150;
/// How long sleepers sleep.
pub(super) const SLEEP: Duration = Duration::from_millis(2_600);

/// For `OwnLock`, each client has its own keys.
pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>, workload: Workload, number: u64) {
    while !client.is_over() {
        if workload == Workload::Election && number % 3 == 2 {
            client.leader(&keys.current()).await;
            pause(&mut client, 10).await;
            continue;
        }
        let wish = wish(&mut client, &keys, workload);
        let Some(mut held) = client.acquire(&wish).await else {
            pause(&mut client, 10).await;
            continue;
        };
        if !renewed_if_late(&mut client, &mut held).await {
            client.release(&held).await;
            continue;
        }
        match workload {
            Workload::FencedMutex => write_under_fence(&mut client, &mut held).await,
            Workload::Election => {
                client.proclaim(&held).await;
                pause(&mut client, 20).await;
            }
            Workload::FairOrder | Workload::OwnLock => pause(&mut client, 8).await,
            Workload::Mutex
            | Workload::RwLock
            | Workload::Semaphore
            | Workload::TryLock
            | Workload::SessionExpiry
            | Workload::Registers
            | Workload::Watches
            | Workload::Convert
            | Workload::Txn
            | Workload::Batch
            | Workload::Administer
            | Workload::AccessChange => pause(&mut client, 25).await,
        }
        client.release(&held).await;
        if workload == Workload::TryLock {
            pause(&mut client, 25).await;
        }
    }
}

/// Renews a grant if half of its lease has passed since its acquire was sent, which may be long ago. Returns whether
/// the lease is good afterwards.
pub(super) async fn renewed_if_late(client: &mut ChaosClient, held: &mut HeldLock) -> bool {
    let late = client.shared.recorder.now() + u64::try_from(TTL.as_micros() / 2).unwrap_or(u64::MAX) > held.good_until;
    !late || client.renew(held).await
}

fn wish(client: &mut ChaosClient, keys: &Keys, workload: Workload) -> AcquireOptions {
    let wait = if workload == Workload::TryLock {
        Duration::from_millis(client.random.random_range(0..SHORT_WAIT_MS_MAX))
    } else {
        WAIT
    };
    let key = keys.next();
    AcquireOptions {
        election: workload == Workload::Election,
        shared: workload == Workload::RwLock && client.random.random_range(0..10) < 6,
        permits: (workload == Workload::Semaphore).then(|| client.random.random_range(1..=PERMITS_MIN)),
        limit: (workload == Workload::Semaphore).then(|| permits_of(&key)),
        key,
        wait,
        session: None,
    }
}

/// The limit of a semaphore, which differs by key.
fn permits_of(key: &str) -> u32 {
    PERMITS_MIN + key.bytes().map(u32::from).sum::<u32>() % 3
}

async fn write_under_fence(client: &mut ChaosClient, held: &mut HeldLock) {
    client.read_resource(held);
    client.write_resource(held);
    client.write_fenced(held).await;
    if client.random.random_range(0..1_000) < client.shared.sleepers {
        tokio::time::sleep(SLEEP).await;
    } else {
        pause(client, 15).await;
    }
    // It does not check whether its lease is over: the fence must refuse it.
    client.write_resource(held);
    if !client.believes_in(held) {
        client.write_fenced(held).await;
    }
}

/// Sleeps for up to this many milliseconds.
pub(super) async fn pause(client: &mut ChaosClient, milliseconds: u64) {
    let length = client.random.random_range(0..=milliseconds * 1_000);
    tokio::time::sleep(Duration::from_micros(length)).await;
}
