//! One client of the demo: queues for a lock, holds it for a moment and releases it, forever.
//!
//! The Rust client does the rest: it keeps the place in the queue when a node dies, renews the grant while it is held, and
//! retries the release.

use super::{
    board::{Board, DemoGrant},
    names::LOCKS,
};
use fairhold_client::{Client, Guard};
use rand::RngExt;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// How long a call may take, over all its retries.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a grant outlives its client if the client dies.
const TTL: Duration = Duration::from_secs(10);
/// How long a client holds a lock, in milliseconds.
const HOLD_MILLIS: std::ops::Range<u64> = 1_000..3_000;
/// The pause after a failed acquire.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Acquires one lock after the other.
pub(super) async fn queue_forever(name: &'static str, client: Client, board: Arc<Board>) {
    loop {
        let lock = LOCKS[rand::rng().random_range(0..LOCKS.len())];
        let requested_at = Instant::now();
        match client.lock(lock).owner(name).ttl(TTL).await {
            Ok(guard) => hold(guard, lock, name, &board, requested_at).await,
            // The cluster was unavailable for too long, for example.
            Err(_) => sleep(RETRY_PAUSE).await,
        }
    }
}

/// Holds the lock for a moment, at most until it is lost, and releases it.
async fn hold(guard: Guard, lock: &'static str, owner: &'static str, board: &Board, requested_at: Instant) {
    // A lock that is already lost has no token.
    if let Ok(token) = guard.token() {
        board.granted(lock, DemoGrant { owner, token: token.0, at: Instant::now() }, requested_at);
        tokio::select! {
            biased;
            _ = guard.lost() => {}
            () = sleep(hold_time()) => {}
        }
        board.released(lock, Instant::now());
    }
    // If this fails, the client keeps trying in the background, and the grant expires after its ttl.
    guard.release().await.ok();
}

fn hold_time() -> Duration {
    Duration::from_millis(rand::rng().random_range(HOLD_MILLIS))
}
