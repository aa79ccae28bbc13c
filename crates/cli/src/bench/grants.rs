//! Acquires and releases a lock over HTTP.

use super::wire::Wire;
use serde::Deserialize;
use std::time::Duration;
use ulid::Ulid;

/// A held grant.
#[derive(Debug)]
pub(super) struct BenchHeld {
    id: Ulid,
    /// Its fencing token.
    pub(super) token: u64,
}

/// Acquires a lock. `url_path` is its path with the parameters.
///
/// # Errors
/// The lock was not acquired. A grant that may exist nevertheless is released if possible.
pub(super) async fn acquire(wire: &mut Wire, url_path: &str, within: Duration) -> Result<BenchHeld, String> {
    #[derive(Deserialize)]
    struct BenchGrant {
        state: String,
        token: Option<u64>,
    }
    let id = Ulid::generate();
    let key = format!("idempotency-key: {id}\r\n");
    let answer = wire.send_within(within, "POST", url_path, &key, &[]).await;
    let held = answer.and_then(|answer| {
        let answer = answer.success()?;
        match serde_json::from_slice(&answer.body) {
            Ok(BenchGrant { state, token: Some(token) }) if state == "held" => Ok(BenchHeld { id, token }),
            Ok(BenchGrant { state, .. }) => Err(format!("the answer to an acquire says {state}")),
            Err(error) => Err(format!("the answer to an acquire is invalid: {error}")),
        }
    });
    if held.is_err() {
        // Leaves the queue. If this fails too, the grant expires after its ttl.
        release_id(wire, id).await.ok();
    }
    held
}

/// Releases a grant.
///
/// # Errors
/// The outcome of the release is unknown.
pub(super) async fn release(wire: &mut Wire, held: &BenchHeld) -> Result<(), String> {
    release_id(wire, held.id).await
}

async fn release_id(wire: &mut Wire, id: Ulid) -> Result<(), String> {
    wire.send("DELETE", &format!("/v1/grants/{id}"), "", &[]).await?.success().map(drop)
}
