//! A directory on a disk that is too full for a start.

use super::{snapshots::save, *};
use crate::{Storage, StorageError, make_room::free_covered_log};
use bytes::Bytes;
use fairhold_raft::{encoding::Encodable, snapshot::SnapshotImage};
use openraft::alias::SnapshotMetaOf;

/// A snapshot whose metadata covers the log through `index`, as a node's does.
fn covering(term: u64, index: u64) -> SnapshotImage {
    let meta = SnapshotMetaOf::<TypeConfig> { last_log_id: Some(log_id(term, index)), last_membership: Default::default() };
    let meta = fairhold_codec::encode(1, &Encodable(&meta)).unwrap();
    SnapshotImage { meta: Bytes::from(meta), blocks: vec![Bytes::from_static(b"state")] }
}

fn log_bytes(home: &Path) -> u64 {
    files(&home.join("log"), |_| true).iter().map(|file| file.metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn only_log_entries_covered_by_the_snapshot_are_freed() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(free_covered_log(home.path(), 1).unwrap(), None, "the directory does not exist yet");
    assert!(files(home.path(), |_| true).is_empty(), "it must create nothing");
    let mut storage = Storage::open(home.path(), 1).unwrap();
    let commands = 50_000;
    for index in 0..200 {
        append(&mut storage.log, vec![entry(1, index, commands)]).await.unwrap();
    }
    storage.log.save_vote(&vote(5)).await.unwrap();
    drop(storage);
    assert_eq!(free_covered_log(home.path(), 1).unwrap(), None, "no snapshot covers anything");
    let storage = Storage::open(home.path(), 1).unwrap();
    save(&storage.snapshots, covering(1, 179)).await.unwrap();
    drop(storage);

    let before = log_bytes(home.path());
    assert_eq!(free_covered_log(home.path(), 1).unwrap(), Some(179));
    let after = log_bytes(home.path());
    assert!(after < before / 2, "{before} bytes before, {after} after");
    assert_eq!(free_covered_log(home.path(), 1).unwrap(), None, "they are already purged");

    for _ in 0..2 {
        let mut storage = Storage::open(home.path(), 1).unwrap();
        assert_eq!(storage.log.purged_index().unwrap(), Some(179));
        let left = read_all(&mut storage.log).await.unwrap();
        assert_eq!(left.iter().map(|entry| entry.log_id.index).collect::<Vec<_>>(), (180..200).collect::<Vec<_>>());
        assert_eq!(read_vote(&mut storage.log).await.unwrap(), Some(vote(5)));
    }
}

/// The node installed a snapshot from the leader, and crashed before it purged the log that the snapshot replaces. The
/// deposed leader led in a later term than the entries of the snapshot, and no other node got its own entries.
#[tokio::test]
async fn a_log_that_ends_before_its_snapshot_continues_after_it() {
    for (node, term, covered_term, next_term) in [("a follower", 1, 1, 2), ("a deposed leader", 3, 2, 4)] {
        let home = tempfile::tempdir().unwrap();
        let mut storage = Storage::open(home.path(), 1).unwrap();
        append(&mut storage.log, entries(term, 0..10)).await.unwrap();
        save(&storage.snapshots, covering(covered_term, 50)).await.unwrap();
        drop(storage);
        assert_eq!(free_covered_log(home.path(), 1).unwrap(), Some(50), "{node}");
        let mut storage = Storage::open(home.path(), 1).unwrap();
        assert!(read_all(&mut storage.log).await.unwrap().is_empty(), "{node}");
        append(&mut storage.log, entries(next_term, 51..53)).await.unwrap();
        assert_eq!(read_all(&mut storage.log).await.unwrap(), entries(next_term, 51..53), "{node}");
    }
}

#[tokio::test]
async fn nothing_is_freed_for_a_damaged_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let mut storage = Storage::open(home.path(), 1).unwrap();
    append(&mut storage.log, entries(1, 0..10)).await.unwrap();
    save(&storage.snapshots, covering(1, 5)).await.unwrap();
    drop(storage);
    let file = files(&home.path().join("snapshot"), |_| true).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(matches!(free_covered_log(home.path(), 1), Err(StorageError::Snapshots(_))));
    let mut storage = Storage::open(home.path(), 1).unwrap();
    assert_eq!(read_all(&mut storage.log).await.unwrap(), entries(1, 0..10));
}
