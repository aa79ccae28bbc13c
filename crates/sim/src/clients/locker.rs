//! A client that takes locks without a session: it acquires, waits, renews, writes with its fence, pauses, releases.

use super::grip::{GripWish, LIMIT, give_back};
use crate::client::SimClient;
use crate::trade::Trade;
use fairhold_types::Mode;
use rand::RngExt;
use std::time::Duration;

/// A lease's time.
const TTL: Duration = Duration::from_secs(2);
/// Clients of an exclusive lock use the priorities below this one.
const PRIORITIES: i32 = 3;

pub(super) async fn work(trade: Trade, mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(400).await;
        let wish = wish(trade, &mut client);
        if let Some(mut grip) = wish.take(&mut client).await {
            grip.work(&mut client).await;
        }
        // Whatever came of it: the key is given back, so that nothing of it is left.
        give_back(&mut client, &wish.key).await;
    }
}

fn wish(trade: Trade, client: &mut SimClient) -> GripWish {
    let wait = Duration::from_millis(client.chance.random_range(0..4_000));
    let number: u32 = client.chance.random_range(1..=2);
    let permits: u32 = if trade == Trade::Permits { client.chance.random_range(1..=2) } else { 1 };
    let (name, mode, more) = if trade == Trade::Reader {
        let reads = client.chance.random_range(0..3) > 0;
        let (mode, more) = if reads { (Mode::Shared, "&mode=shared") } else { (Mode::Exclusive, "") };
        (format!("book-{number}"), mode, more.to_owned())
    } else if trade == Trade::Permits {
        (format!("pool-{number}"), Mode::Exclusive, format!("&limit={LIMIT}&permits={permits}"))
    } else {
        let priority: i32 = client.chance.random_range(0..PRIORITIES);
        (format!("door-{number}"), Mode::Exclusive, format!("&priority={priority}"))
    };
    let more = if client.chance.random_range(0..8) == 0 { format!("{more}&max_hold=1s") } else { more };
    let wish = GripWish::new(client, &format!("/v1/locks/{name}"), (&name, mode), TTL, wait, &more);
    GripWish { permits, ..wish }.in_a_hurry_sometimes(client)
}
