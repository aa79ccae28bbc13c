//! Damaged files: refused by name, or proved harmless.

use super::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Bytes flipped in each kind of file.
const FLIPS: usize = 200;

async fn make_log(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    let mut log = LogStore::open(directory, false).unwrap();
    append(&mut log, entries(1, 0..300)).await.unwrap();
    log.purge(log_id(1, 20)).await.unwrap();
    drop(log);
    flush(directory);
    let mut log = LogStore::open(directory, true).unwrap();
    for index in 300..400 {
        append(&mut log, vec![entry(2, index, 1)]).await.unwrap();
    }
    log.save_vote(&vote(5)).await.unwrap();
}

async fn is_intact(log: &mut LogStore) -> io::Result<()> {
    let expected = [entries(1, 21..300), entries(2, 300..400)].concat();
    assert!(read_all(log).await? == expected, "the log changed without a word");
    assert_eq!(read_vote(log).await?, Some(vote(5)), "the vote changed without a word");
    Ok(())
}

/// Flips bytes in the files of one kind, and returns how many flips were refused.
async fn sweep(kind: impl Fn(&str) -> bool) -> usize {
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole");
    make_log(&whole).await;
    let mut rng = StdRng::seed_from_u64(7);
    let targets = files(&whole, kind);
    assert!(!targets.is_empty(), "no such file");
    let mut refused = 0;
    for _ in 0..FLIPS {
        let target = &targets[rng.random_range(0..targets.len())];
        let mut bytes = std::fs::read(target).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let at = rng.random_range(0..bytes.len());
        let flip = if rng.random_bool(0.5) { 1 << rng.random_range(0..8) } else { rng.random_range(1..=255) };
        bytes[at] ^= flip;
        let damaged = tempfile::tempdir_in(home.path()).unwrap();
        copy_files(&whole, damaged.path());
        let name = target.file_name().unwrap().to_str().unwrap();
        std::fs::write(damaged.path().join(name), &bytes).unwrap();
        let result = match LogStore::open(damaged.path(), true) {
            Ok(mut log) => is_intact(&mut log).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            let text = error.to_string();
            assert!(text.contains(name), "byte {at} of {name} ^ {flip:#x}: the file is not named: {text}");
            refused += 1;
        }
    }
    refused
}

#[tokio::test]
async fn a_flipped_byte_in_a_write_ahead_log_is_refused() {
    assert_eq!(sweep(|name| name.ends_with(".log")).await, FLIPS);
}

#[tokio::test]
async fn a_flipped_byte_in_the_manifest_is_refused() {
    assert_eq!(sweep(|name| name.starts_with("MANIFEST")).await, FLIPS);
}

#[tokio::test]
async fn a_flipped_byte_in_current_is_refused() {
    assert_eq!(sweep(|name| name == "CURRENT").await, FLIPS);
}

#[tokio::test]
async fn a_flipped_byte_in_a_table_is_refused_or_harmless() {
    let refused = sweep(|name| name.ends_with(".sst")).await;
    assert!(refused > FLIPS / 4, "only {refused} of {FLIPS} were refused: the sweep shows nothing");
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
