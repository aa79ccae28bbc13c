//! A client that takes locks without a session: it acquires, waits, renews, writes with its fence, pauses, releases.

use super::held_grant::{Acquisition, LIMIT, release};
use crate::client::SimClient;
use crate::client_kind::ClientKind;
use fairhold_types::Mode;
use rand::RngExt;
use std::time::Duration;

/// The ttl of a lease.
const TTL: Duration = Duration::from_secs(2);
/// Clients of an exclusive lock use the priorities below this.
const PRIORITIES: i32 = 3;

pub(super) async fn work(kind: ClientKind, mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let acquisition = acquisition(kind, &mut client);
        if let Some(mut grant) = acquisition.acquire(&mut client).await {
            grant.work(&mut client).await;
        }
        // Whatever the outcome, so that nothing is left.
        release(&mut client, &acquisition.key).await;
    }
}

fn acquisition(kind: ClientKind, client: &mut SimClient) -> Acquisition {
    let wait = Duration::from_millis(client.rng.random_range(0..4_000));
    let number: u32 = client.rng.random_range(1..=2);
    let permits: u32 = if kind == ClientKind::Permits { client.rng.random_range(1..=2) } else { 1 };
    let (name, mode, more) = if kind == ClientKind::Reader {
        let reads = client.rng.random_range(0..3) > 0;
        let (mode, more) = if reads { (Mode::Shared, "&mode=shared") } else { (Mode::Exclusive, "") };
        (format!("book-{number}"), mode, more.to_owned())
    } else if kind == ClientKind::Permits {
        (format!("pool-{number}"), Mode::Exclusive, format!("&limit={LIMIT}&permits={permits}"))
    } else {
        let priority: i32 = client.rng.random_range(0..PRIORITIES);
        (format!("door-{number}"), Mode::Exclusive, format!("&priority={priority}"))
    };
    let more = if client.rng.random_range(0..8) == 0 { format!("{more}&max_hold=1s") } else { more };
    let acquisition = Acquisition::new(client, &format!("/v1/locks/{name}"), (&name, mode), TTL, wait, &more);
    Acquisition { permits, ..acquisition }.disconnect_early_sometimes(client)
}
