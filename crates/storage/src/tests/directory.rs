//! The data directory, and the storage as a whole.

use super::*;
use crate::{
    Storage, StorageError,
    data_dir::{DataDir, DataDirError, mark_lost_entries},
};
use fairhold_raft::snapshot::SnapshotImage;
use fairhold_types::ClusterId;
use std::os::unix::fs::PermissionsExt;

#[test]
fn an_identity_is_created_once_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a/b");
    let mut first = DataDir::open(&path, 3).unwrap();
    let incarnation = first.incarnation();
    assert!(first.is_new());
    assert_eq!(first.cluster(), None);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    first.set_cluster(ClusterId(9)).unwrap();
    drop(first);
    let mut second = DataDir::open(&path, 3).unwrap();
    assert!(!second.is_new());
    assert_eq!((second.incarnation(), second.cluster(), second.node()), (incarnation, Some(ClusterId(9)), 3));
    second.set_cluster(ClusterId(9)).unwrap();
    let error = second.set_cluster(ClusterId(10)).unwrap_err();
    assert!(matches!(error, DataDirError::OtherCluster { .. }), "{error}");
    let other = DataDir::open(&home.path().join("other"), 3).unwrap();
    assert_ne!(other.incarnation(), incarnation);
}

#[test]
fn a_file_instead_of_the_directory_is_refused_with_its_name() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = DataDir::open(&path, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("{}: it is not a directory", file.display())), "{error}");
    }
}

#[test]
fn another_node_is_refused() {
    let home = tempfile::tempdir().unwrap();
    drop(DataDir::open(home.path(), 1).unwrap());
    let error = DataDir::open(home.path(), 2).unwrap_err();
    assert!(matches!(error, DataDirError::OtherNode { recorded: 1, own: 2, .. }), "{error}");
}

#[test]
fn a_second_process_is_refused_and_the_error_names_the_first() {
    let home = tempfile::tempdir().unwrap();
    let first = DataDir::open(home.path(), 1).unwrap();
    let error = DataDir::open(home.path(), 1).unwrap_err();
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(first);
    DataDir::open(home.path(), 1).unwrap();
}

#[test]
fn a_directory_that_lost_entries_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let first = DataDir::open(home.path(), 1).unwrap();
    mark_lost_entries(home.path(), "entries 41 to 57 are gone").unwrap();
    drop(first);
    for _ in 0..2 {
        let error = DataDir::open(home.path(), 1).unwrap_err();
        assert!(matches!(&error, DataDirError::LostEntries { why, .. } if why == "entries 41 to 57 are gone"), "{error}");
    }
    std::fs::remove_file(home.path().join("LOST-ENTRIES")).unwrap();
    DataDir::open(home.path(), 1).unwrap();
}

#[test]
fn files_without_an_identity_are_refused() {
    let home = tempfile::tempdir().unwrap();
    drop(DataDir::open(home.path(), 1).unwrap());
    std::fs::remove_file(home.path().join("IDENTITY")).unwrap();
    let error = DataDir::open(home.path(), 1).unwrap_err();
    assert!(matches!(error, DataDirError::NoIdentity { .. }), "{error}");
}

#[test]
fn leftovers_of_an_interrupted_first_start_are_accepted() {
    let home = tempfile::tempdir().unwrap();
    for name in ["LOCK", "IDENTITY.new"] {
        std::fs::write(home.path().join(name), "half").unwrap();
    }
    std::fs::create_dir(home.path().join("lost+found")).unwrap();
    assert!(DataDir::open(home.path(), 1).unwrap().is_new());
}

#[test]
fn every_flipped_byte_of_an_identity_is_refused_with_its_name() {
    let home = tempfile::tempdir().unwrap();
    drop(DataDir::open(home.path(), 1).unwrap());
    let path = home.path().join("IDENTITY");
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&path, bytes).unwrap();
        let error = DataDir::open(home.path(), 1).unwrap_err();
        assert!(error.to_string().contains("IDENTITY"), "byte {at}: {error}");
    }
}

#[tokio::test]
async fn a_log_that_continues_from_a_lost_snapshot_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut storage = Storage::open(home.path(), 1).unwrap();
    append(&mut storage.log, entries(1, 0..5)).await.unwrap();
    snapshots::save(&storage.snapshots, SnapshotImage { meta: "through 2".into(), blocks: vec!["state".into()] }).await.unwrap();
    storage.log.purge(log_id(1, 2)).await.unwrap();
    drop(storage);
    let storage = Storage::open(home.path(), 1).unwrap();
    drop(storage);
    for file in files(&home.path().join("snapshot"), |_| true) {
        std::fs::remove_file(file).unwrap();
    }
    let error = Storage::open(home.path(), 1).unwrap_err();
    assert!(matches!(error, StorageError::SnapshotLost { purged: 2, .. }), "{error}");
}

#[tokio::test]
async fn a_missing_log_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    drop(Storage::open(home.path(), 1).unwrap());
    drop(Storage::open(home.path(), 1).unwrap());
    std::fs::remove_dir_all(home.path().join("log")).unwrap();
    let error = Storage::open(home.path(), 1).unwrap_err();
    assert!(matches!(error, StorageError::Log(_)), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}
