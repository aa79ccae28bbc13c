//! A migration that must run once, however many programs start at the same time:
//! `cargo run --example migration -- http://127.0.0.1:7171`, as often as you like.

use fairhold_client::{Client, Error};

/// Where it is written down that the migration is done.
const DONE: &str = "/example/migration-7";

/// Runs the migration unless it was run before; says whether it did. All who start wait until it is done.
pub(crate) async fn migrate_once<Work: Future<Output = ()>>(
    endpoints: &str,
    migrate: impl FnOnce() -> Work,
) -> Result<bool, Error> {
    let client = Client::new(endpoints)?;
    let nodes = client.nodes();
    // Cheap, and right where it says yes: what is written there stays.
    if nodes.get(DONE).await?.is_some() {
        return Ok(false);
    }
    let migrated = client.lock("example/migration-7").run(|held| async move {
        if nodes.get(DONE).await?.is_some() {
            return Ok(false);
        }
        // Dropped where it stands if the lock is lost meanwhile.
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
    eprintln!("{}", if migrated { "this program migrated" } else { "it was migrated before" });
    Ok(())
}
