//! Flips single bytes in every kind of file that a node keeps. The node refuses the file and names it, or the flip is
//! harmless.

use super::*;
use crate::{DAMAGE_ADVICE, Storage, StorageError};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::io::Write as _;

/// Flips in each kind of file, in every run of the tests.
const FLIPS: usize = 40;
/// Flips in the long form, with `FAIRHOLD_TRIAL=long`.
const FLIPS_LONG: usize = 300;
const SEED: u64 = 7;

/// The kinds of file, and the allowed effects of a flipped byte.
const KINDS: [(&str, Allowed); 8] = [
    ("write-ahead log", Allowed::Refused),
    ("table", Allowed::RefusedOrHarmless),
    ("MANIFEST", Allowed::Refused),
    ("CURRENT", Allowed::Refused),
    // RocksDB writes it for people and tools. This crate sets its options at each start.
    ("OPTIONS", Allowed::Harmless),
    // RocksDB's own id of the database, which this crate does not use.
    ("log/IDENTITY", Allowed::Harmless),
    ("IDENTITY", Allowed::Refused),
    ("snapshot", Allowed::Refused),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    /// Every byte matters, and has a checksum.
    Refused,
    /// Some bytes are unused or redundant.
    RefusedOrHarmless,
    /// The storage does not read it.
    Harmless,
}

/// The effect of a flip that is not refused.
#[derive(Debug)]
enum FlipEffect {
    /// All stored data is intact.
    Harmless,
    /// The log has lost its tail, as if a crash had torn it.
    Torn,
}

fn kind_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let in_log = path.parent()?.ends_with("log");
    match name {
        _ if name.ends_with(".log") => Some("write-ahead log"),
        _ if name.ends_with(".sst") => Some("table"),
        _ if name.starts_with("MANIFEST") => Some("MANIFEST"),
        _ if name.starts_with("OPTIONS") => Some("OPTIONS"),
        _ if name.ends_with(".snap") => Some("snapshot"),
        "CURRENT" => Some("CURRENT"),
        "IDENTITY" if in_log => Some("log/IDENTITY"),
        "IDENTITY" => Some("IDENTITY"),
        // The lock files have at most a pid, and RocksDB's info log is only for people.
        _ => None,
    }
}

async fn make_log(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    let mut log = LogStore::open(directory, false).unwrap();
    append(&mut log, entries(1, 0..300)).await.unwrap();
    log.purge(log_id(1, 20)).await.unwrap();
    drop(log);
    flush(directory);
    let mut log = LogStore::open(directory, true).unwrap();
    fill_wal(&mut log).await;
}

async fn fill_wal(log: &mut LogStore) {
    for index in 300..400 {
        append(log, vec![entry(2, index, 1)]).await.unwrap();
    }
    log.save_vote(&vote(5)).await.unwrap();
}

/// A complete data directory: a snapshot, entries in tables, and entries and the vote in a write-ahead log.
async fn make_storage(directory: &Path) {
    let mut storage = Storage::open(directory, 1).unwrap();
    append(&mut storage.log, entries(1, 0..300)).await.unwrap();
    snapshots::save(&storage.snapshots, snapshots::image("through 20")).await.unwrap();
    storage.log.purge(log_id(1, 20)).await.unwrap();
    drop(storage);
    drop(Storage::open(directory, 1).unwrap());
    let mut storage = Storage::open(directory, 1).unwrap();
    fill_wal(&mut storage.log).await;
}

/// An error if the node does not start, or a read fails.
async fn open_and_read(directory: &Path) -> Result<FlipEffect, StorageError> {
    let mut storage = Storage::open(directory, 1)?;
    let snapshot = snapshots::load(&storage.snapshots).await.map_err(StorageError::Snapshots)?;
    assert_eq!(snapshot, Some(snapshots::image("through 20")), "the snapshot changed silently");
    let log = read_all(&mut storage.log).await.map_err(StorageError::Log)?;
    let vote_read = read_vote(&mut storage.log).await.map_err(StorageError::Log)?;
    let expected = [entries(1, 21..300), entries(2, 300..400)].concat();
    if log.len() < expected.len() || vote_read != Some(vote(5)) {
        assert_eq!(log, expected[..log.len()], "the log changed silently");
        return Ok(FlipEffect::Torn);
    }
    assert_eq!(log, expected, "the log changed silently");
    Ok(FlipEffect::Harmless)
}

fn flips() -> usize {
    if is_long_form() { FLIPS_LONG } else { FLIPS }
}

#[tokio::test]
async fn a_flipped_byte_in_any_file_is_refused_with_its_name_and_advice_or_is_harmless() {
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole");
    make_storage(&whole).await;
    let mut rng = StdRng::seed_from_u64(SEED);
    let all: Vec<_> = ["", "log", "snapshot"].iter().flat_map(|folder| files(&whole.join(folder), |_| true)).collect();
    let mut table = format!("{:16} {:>6} {:>8} {:>9} {:>6}\n", "file", "flips", "refused", "harmless", "torn");
    for (kind, allowed) in KINDS {
        let targets: Vec<_> = all.iter().filter(|path| path.is_file() && kind_of(path) == Some(kind)).collect();
        let targets: Vec<_> = targets.into_iter().filter(|path| path.metadata().unwrap().len() > 0).collect();
        assert!(!targets.is_empty(), "there is no {kind}");
        let (mut refused, mut harmless, mut torn) = (0, 0, 0);
        for _ in 0..flips() {
            let target = targets[rng.random_range(0..targets.len())];
            let mut bytes = std::fs::read(target).unwrap();
            let at = rng.random_range(0..bytes.len());
            let flip = if rng.random_bool(0.5) { 1 << rng.random_range(0..8) } else { rng.random_range(1..=255) };
            bytes[at] ^= flip;
            let damaged = tempfile::tempdir_in(home.path()).unwrap();
            copy_files(&whole, damaged.path());
            let inside = target.strip_prefix(&whole).unwrap();
            std::fs::write(damaged.path().join(inside), &bytes).unwrap();
            let what = format!("byte {at} of {} ^ {flip:#x}", inside.display());
            match open_and_read(damaged.path()).await {
                Err(error) => {
                    let text = error.to_string();
                    assert!(allowed != Allowed::Harmless, "{what} was refused: {text}");
                    assert!(text.contains(inside.file_name().unwrap().to_str().unwrap()), "{what}: not named: {text}");
                    // Errors about the directory's owner have their own advice.
                    assert!(kind == "IDENTITY" || text.contains(DAMAGE_ADVICE), "{what}: no advice: {text}");
                    refused += 1;
                }
                Ok(FlipEffect::Harmless) => {
                    assert!(allowed != Allowed::Refused, "{what} was not detected");
                    harmless += 1;
                }
                // This would drop acknowledged writes.
                Ok(FlipEffect::Torn) => torn += 1,
            }
        }
        assert_eq!(torn, 0, "a single byte made a {kind} look torn");
        table.push_str(&format!("{kind:16} {:>6} {refused:>8} {harmless:>9} {torn:>6}\n", flips()));
        assert!(allowed != Allowed::RefusedOrHarmless || refused > flips() / 4, "too few flips of {kind} were refused:\n{table}");
    }
    std::io::stderr().lock().write_all(table.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_missing_table_is_refused() {
    let home = tempfile::tempdir().unwrap();
    make_log(home.path()).await;
    let table = files(home.path(), |name| name.ends_with(".sst")).pop().unwrap();
    std::fs::remove_file(&table).unwrap();
    let error = LogStore::open(home.path(), true).unwrap_err();
    assert!(error.to_string().contains(table.file_name().unwrap().to_str().unwrap()), "{error}");
}
