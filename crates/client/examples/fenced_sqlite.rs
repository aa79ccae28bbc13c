//! A write to SQLite that checks the fencing token in its own transaction, so that a holder that slept too long cannot
//! overwrite the data of a later holder: `cargo run --example fenced_sqlite -- http://127.0.0.1:7171`

use fairhold_client::{Client, Error, FencingToken};
use rusqlite::{Connection, params};
use std::{path::Path, thread, time::Duration};

const TTL: Duration = Duration::from_secs(1);

/// Creates the table. The row stores the token of its last writer.
pub(crate) fn prepare(database: &Path) -> rusqlite::Result<()> {
    let table = "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, body TEXT NOT NULL, token INTEGER NOT NULL);
                 INSERT OR IGNORE INTO report VALUES ('today', '', 0);";
    Connection::open(database)?.execute_batch(table)
}

/// Writes unless a holder with a larger token has written before. Returns whether it wrote.
pub(crate) fn write(database: &Path, body: &str, token: FencingToken) -> rusqlite::Result<bool> {
    let connection = Connection::open(database)?;
    let token = i64::try_from(token.0).unwrap_or(i64::MAX);
    let update = "UPDATE report SET body = ?1, token = ?2 WHERE name = 'today' AND token <= ?2";
    Ok(connection.execute(update, params![body, token])? == 1)
}

/// Reads the row.
pub(crate) fn read(database: &Path) -> rusqlite::Result<String> {
    Connection::open(database)?.query_row("SELECT body FROM report WHERE name = 'today'", [], |row| row.get(0))
}

/// A holder that stops for three times its ttl between acquiring the lock and writing, like a paused machine: nothing
/// in its program runs meanwhile. Returns whether it still relied on its lock when it woke, and whether its late write
/// was made.
pub(crate) fn sleeper(endpoints: &str, database: &Path, holds: impl FnOnce()) -> Result<(bool, bool), Error> {
    // The runtime has one thread, so that blocking it stops the whole holder, including its renewals.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Invalid(error.to_string()))?;
    runtime.block_on(async {
        let client = Client::new(endpoints)?;
        let guard = client.lock("example/report").ttl(TTL).await?;
        let token = guard.token()?;
        holds();
        thread::sleep(TTL * 3);
        let relies = guard.is_held();
        let wrote = write(database, "written by the sleeper", token).map_err(|error| Error::Invalid(error.to_string()))?;
        Ok((relies, wrote))
    })
}

/// The next holder, which waits for the lock and writes in time.
pub(crate) async fn next(endpoints: &str, database: &Path) -> Result<bool, Error> {
    let client = Client::new(endpoints)?;
    let guard = client.lock("example/report").ttl(Duration::from_secs(10)).await?;
    let wrote = write(database, "written by the next one", guard.token()?).map_err(|error| Error::Invalid(error.to_string()))?;
    guard.release().await?;
    Ok(wrote)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoints = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7171".to_owned());
    let database = std::env::temp_dir().join("fairhold-example.sqlite");
    prepare(&database)?;
    let (holds, held) = std::sync::mpsc::channel();
    let (at, file) = (endpoints.clone(), database.clone());
    // The receiver lives until the end of this function.
    let sleeps = thread::spawn(move || sleeper(&at, &file, move || holds.send(()).expect("the other end waits")));
    held.recv()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wrote = runtime.block_on(next(&endpoints, &database))?;
    let (relies, wrote_late) = sleeps.join().map_err(|_| "the sleeper's thread failed")??;
    eprintln!("the next holder wrote: {wrote}; the sleeper relied on its lock when it woke: {relies}, and wrote: {wrote_late}");
    eprintln!("the row: {}", read(&database)?);
    Ok(())
}
