//! Taking a lock and giving it back, over HTTP.

use super::wire::Wire;
use serde::Deserialize;
use std::time::Duration;
use ulid::Ulid;

/// A grant that is held.
#[derive(Debug)]
pub(super) struct BenchHeld {
    id: Ulid,
    /// Its fencing token.
    pub(super) token: u64,
}

/// Asks for a lock, at `/v1/locks/…` with its parameters, and has it when this is over.
///
/// # Errors
/// Why not. What may have been granted all the same has been given back, as far as that could be done.
pub(super) async fn acquire(wire: &mut Wire, target: &str, within: Duration) -> Result<BenchHeld, String> {
    #[derive(Deserialize)]
    struct BenchGrant {
        state: String,
        token: Option<u64>,
    }
    let id = Ulid::generate();
    let key = format!("idempotency-key: {id}\r\n");
    let asked = wire.send_within(within, "POST", target, &key, &[]).await;
    let held = asked.and_then(|answer| {
        let answer = answer.well()?;
        match serde_json::from_slice(&answer.body) {
            Ok(BenchGrant { state, token: Some(token) }) if state == "held" => Ok(BenchHeld { id, token }),
            Ok(BenchGrant { state, .. }) => Err(format!("the answer to an acquire says {state}")),
            Err(error) => Err(format!("the answer to an acquire is not understood: {error}")),
        }
    });
    if held.is_err() {
        // Who asked keeps no place in a queue; where this fails too, the grant ends with its ttl.
        release_id(wire, id).await.ok();
    }
    held
}

/// Gives it back.
///
/// # Errors
/// Why that is not known to be done.
pub(super) async fn release(wire: &mut Wire, held: &BenchHeld) -> Result<(), String> {
    release_id(wire, held.id).await
}

async fn release_id(wire: &mut Wire, id: Ulid) -> Result<(), String> {
    wire.send("DELETE", &format!("/v1/grants/{id}"), "", &[]).await?.well().map(drop)
}
