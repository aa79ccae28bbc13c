//! An administrator next to clients with locks: it changes limits and bounds, revokes and breaks locks, and ends
//! sessions.
//!
//! Clients continue with lost grants: their renewals and their tokens must be refused.

use super::{
    Keys, MAX_HOLD,
    locks::{WAIT, pause},
};
use crate::client::{AcquireOptions, ChaosClient, HeldLock, Opened, TTL};
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, rngs::SmallRng, seq::IteratorRandom};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The largest limit.
const LIMIT_MAX: u32 = 4;

/// The open sessions by number, with their keys in the history.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<BTreeMap<u64, String>>);

impl Sessions {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        // The guarded data is consistent after every statement that can panic.
        self.0.lock()
    }

    /// Removes a random one.
    fn take_any(&self, random: &mut SmallRng) -> Option<(u64, String)> {
        let mut open = self.open();
        let number = *open.keys().choose(random)?;
        open.remove_entry(&number)
    }
}

/// Whether the client with this number is an administrator.
pub(super) fn is_administrator(number: u64) -> bool {
    number.is_multiple_of(3)
}

pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>, sessions: Arc<Sessions>, number: u64) {
    let mut turn = 0_u64;
    while !client.is_over() {
        if is_administrator(number) {
            administer(&mut client, &keys.current(), &sessions).await;
            continue;
        }
        turn += 1;
        let key = keys.next();
        match client.random.random_range(0..3) {
            0 => {
                let permits = Some(client.random.random_range(1..=2));
                hold(
                    &mut client,
                    AcquireOptions { key: format!("{key}-pool"), permits, wait: WAIT, ..AcquireOptions::default() },
                    None,
                )
                .await;
            }
            1 => {
                hold(&mut client, AcquireOptions { key: format!("{key}-door"), wait: WAIT, ..AcquireOptions::default() }, None)
                    .await
            }
            _session => {
                let name = format!("administer-session-{number}-{turn}");
                let Some(session) = client.open(&name).await else { continue };
                sessions.open().insert(session.number, name.clone());
                let wish = AcquireOptions {
                    key: format!("{key}-door"),
                    wait: WAIT / 3,
                    session: Some(session.clone()),
                    ..AcquireOptions::default()
                };
                hold(&mut client, wish, Some((&name, &session))).await;
                client.close(&name, &session).await;
                sessions.open().remove(&session.number);
            }
        }
        pause(&mut client, 10).await;
    }
}

async fn administer(client: &mut ChaosClient, key: &str, sessions: &Sessions) {
    let (pool, door) = (format!("{key}-pool"), format!("{key}-door"));
    let either = if client.random.random_range(0..2) == 0 { pool.clone() } else { door.clone() };
    match client.random.random_range(0..8) {
        0..=2 => {
            let limit = client.random.random_range(1..=LIMIT_MAX);
            client.set_limit(&pool, limit).await;
        }
        3 => {
            let most = if client.random.random_range(0..2) == 0 { Duration::ZERO } else { MAX_HOLD };
            client.set_max_hold(&door, most).await;
        }
        4 | 5 => client.break_lock(&either).await,
        6 => client.revoke(&either).await,
        _session => {
            let one = sessions.take_any(&mut client.random);
            if let Some((number, key)) = one {
                client.end_session(&key, number).await;
            }
        }
    }
    pause(client, 80).await;
}

/// Holds a lock for a while. Continues for a moment after a refusal: none of these calls may succeed.
async fn hold(client: &mut ChaosClient, wish: AcquireOptions, session: Option<(&str, &Opened)>) {
    let Some(mut held) = client.acquire(&wish).await else { return };
    for _ in 0..client.random.random_range(1..=5) {
        match (client.random.random_range(0..3), session) {
            (0, Some((name, session))) => drop(client.keepalive(name, session).await),
            (0, None) => drop(client.renew(&mut held).await),
            _write => client.write_fenced(&held).await,
        }
        pause(client, 30).await;
    }
    if client.random.random_range(0..1_000) < client.shared.sleepers {
        outlive(client, &held).await;
    }
    client.release(&held).await;
    if session.is_none() {
        client.renew(&mut held).await;
    }
}

/// Sleeps for longer than the maximum hold time, and writes with the token.
async fn outlive(client: &mut ChaosClient, held: &HeldLock) {
    tokio::time::sleep(MAX_HOLD.max(TTL) + TTL / 4).await;
    client.write_fenced(held).await;
}
