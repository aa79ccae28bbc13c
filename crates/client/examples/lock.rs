//! A lock in a few lines: `cargo run --example lock -- http://127.0.0.1:7171`, in two terminals.

use fairhold_client::{Client, Error};
use std::time::Duration;

/// Acquires the lock, makes a write that only its holder can make, and releases the lock.
pub(crate) async fn deploy(endpoints: &str, version: &str) -> Result<(), Error> {
    let client = Client::new(endpoints)?;
    let lock = client.lock("example/deploy").ttl(Duration::from_secs(10)).wait(Duration::from_secs(600));
    let guard = lock.on_queue(|place| eprintln!("waiting at place {}", place.position)).await?;
    tokio::select! {
        lost = guard.lost() => return Err(Error::Lost(lost)),
        written = guard.put("/example/version", version).parents().into_future() => drop(written?),
    }
    guard.release().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let endpoints = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7171".to_owned());
    deploy(&endpoints, "v1.7").await
}
