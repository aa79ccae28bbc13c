//! Clients that acquire, release and renew in batches. Some calls of a batch have the same id.

use super::{Keys, locks::pause};
use crate::{
    client::{AcquireOptions, ChaosClient, HeldLock, Opened, Part, TTL},
    history::{Call, Outcome},
};
use rand::{RngExt, seq::SliceRandom};
use std::{sync::Arc, time::Duration};

/// How many released ids may be used again.
const RELEASED_MAX: usize = 8;

/// The state of a client.
#[derive(Debug, Default)]
struct BatchState {
    /// The grants that it may hold, released in the next batch.
    held: Vec<Part>,
    /// The released ids.
    released: Vec<Part>,
}

pub(super) async fn run(mut client: ChaosClient, keys: Arc<Keys>, number: u64) {
    let mut turn = 0_u64;
    while !client.is_over() {
        turn += 1;
        let key = format!("batch-own-{number}-{turn}");
        let Some(session) = client.open(&key).await else {
            pause(&mut client, 50).await;
            continue;
        };
        let held = client
            .acquire(&AcquireOptions { key: key.clone(), wait: Duration::from_millis(500), ..AcquireOptions::default() })
            .await;
        live(&mut client, &keys, &key, &session, held.clone()).await;
        if let Some(held) = &held {
            client.release(held).await;
        }
        client.close(&key, &session).await;
    }
}

/// Sends batches for as long as the session is alive.
async fn live(client: &mut ChaosClient, keys: &Keys, key: &str, session: &Opened, mut own: Option<HeldLock>) {
    let mut state = BatchState::default();
    let mut kept_at = client.shared.recorder.now();
    while !client.is_over() {
        let now = client.shared.recorder.now();
        if now - kept_at > u64::try_from(TTL.as_micros() / 4).unwrap_or(u64::MAX) {
            if client.keepalive(key, session).await != Outcome::Ok {
                return;
            }
            kept_at = now;
        }
        let parts = parts(client, keys, &state, own.as_ref());
        let (sent, outcomes) = client.batch(session, &parts).await;
        if let (Some(held), Some(renewed)) = (&mut own, parts.iter().position(|part| part.call == Call::Renew)) {
            match outcomes[renewed] {
                Outcome::Ok => held.good_until = sent + u64::try_from(TTL.as_micros()).unwrap_or(u64::MAX),
                Outcome::Unknown => {}
                Outcome::Fail => own = None,
            }
        }
        state.sort(&parts, &outcomes);
        pause(client, 25).await;
    }
}

/// The calls of a batch: calls with the same id stay in order, all others are shuffled.
fn parts(client: &mut ChaosClient, keys: &Keys, state: &BatchState, own: Option<&HeldLock>) -> Vec<Part> {
    let mut groups: Vec<Vec<Part>> = state.held.iter().map(|part| vec![part.then(Call::Release)]).collect();
    groups.extend(own.map(|held| vec![Part::renewal(held)]));
    let queue = client.random.random_range(0..4) == 0;
    groups.push(vec![client.part(&keys.next(), queue)]);
    let twice = client.part(&keys.next(), false);
    match client.random.random_range(0..4) {
        0 => groups.push(vec![twice.clone(), twice.then(Call::Release)]),
        1 => groups.push(vec![twice.then(Call::Release), twice.then(Call::Again)]),
        2 => groups.push(vec![twice.clone(), twice.then(Call::Again), twice.then(Call::Release), twice.then(Call::Again)]),
        _none => {}
    }
    if let Some(late) = state.released.first().filter(|_| client.random.random_range(0..3) == 0) {
        groups.push(vec![late.then(Call::Again)]);
    }
    groups.shuffle(&mut client.random);
    groups.into_iter().flatten().collect()
}

impl BatchState {
    /// Records the outcomes of a batch. The next batch releases the grants that may be held.
    fn sort(&mut self, parts: &[Part], outcomes: &[Outcome]) {
        let released: Vec<&Part> = parts
            .iter()
            .zip(outcomes)
            .filter_map(|(part, outcome)| (part.call == Call::Release && *outcome == Outcome::Ok).then_some(part))
            .collect();
        let is_released = |part: &Part| released.iter().any(|other| other.is_same(part));
        let acquired =
            parts.iter().zip(outcomes).filter(|(part, outcome)| part.call == Call::Acquire && **outcome != Outcome::Fail);
        self.held.extend(acquired.map(|(part, _)| part.clone()));
        self.held.retain(|part| !is_released(part));
        self.released.extend(released.iter().map(|part| (*part).clone()));
        let over = self.released.len().saturating_sub(RELEASED_MAX);
        self.released.drain(..over);
    }
}
