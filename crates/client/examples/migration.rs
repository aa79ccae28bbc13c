//! A migration that must run once, however many programs start at the same time:
//! `cargo run --example migration -- http://127.0.0.1:7171`, as often as you like.

use fairhold_client::{Client, Error};

/// The node that records that the migration is done.
const DONE: &str = "/example/migration-7";

/// Runs the migration unless it has been run before. Returns whether it ran. All programs wait until it is done.
pub(crate) async fn migrate_once<Work: Future<Output = ()>>(
    endpoints: &str,
    migrate: impl FnOnce() -> Work,
) -> Result<bool, Error> {
    let client = Client::new(endpoints)?;
    let nodes = client.nodes();
    // This check is cheap, and a positive result is final: the node stays.
    if nodes.get(DONE).await?.is_some() {
        return Ok(false);
    }
    let migrated = client.lock("example/migration-7").run(|held| async move {
        if nodes.get(DONE).await?.is_some() {
            return Ok(false);
        }
        // If the lock is lost, this is dropped at its current `.await`.
        migrate().await;
        held.put(DONE, "done").parents().await?;
        Ok(true)
    });
    let migrated: Result<bool, Error> = migrated.await?;
    client.settled().await;
    migrated
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let endpoints = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7171".to_owned());
    let migrated = migrate_once(&endpoints, || async { eprintln!("migrating") }).await?;
    eprintln!("{}", if migrated { "this program migrated" } else { "the migration was run before" });
    Ok(())
}
