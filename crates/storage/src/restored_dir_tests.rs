//! Tests of the directory that a restore makes.

use super::*;
use crate::{Storage, data_dir::DataDir, known_members::KnownAddresses};
use std::collections::BTreeMap;

fn node() -> RestoredNode {
    let addresses = KnownAddresses { url: "http://a:1".to_owned(), peer: "a:2".to_owned() };
    let members = KnownMembers { joined: false, members: BTreeMap::from([(1, addresses)]) };
    RestoredNode { id: 1, cluster: ClusterId(7), members, timing: Timing::Wan }
}

fn restore(path: &Path, blocks: Vec<Vec<u8>>) -> Result<(), StorageError> {
    create(path, node(), (Bytes::from_static(b"meta"), 10), blocks.into_iter())
}

#[test]
fn a_node_opens_the_directory_and_finds_the_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a/b");
    restore(&path, vec![vec![1, 2], vec![3]]).unwrap();
    let recorded = DataDir::recorded(&path).unwrap().unwrap();
    assert_eq!((recorded.id, recorded.cluster, recorded.timing), (Some(1), Some(ClusterId(7)), Some(Timing::Wan)));
    assert_eq!(recorded.members, Some(node().members));
    let storage = Storage::open(&path, 1).unwrap();
    assert_eq!(storage.data_dir.cluster(), Some(ClusterId(7)));
    assert_eq!(storage.snapshots.newest_meta().unwrap().as_deref(), Some(&b"meta"[..]));
}

#[test]
fn a_directory_with_files_is_refused_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("IDENTITY"), b"x").unwrap();
    let error = restore(home.path(), Vec::new()).unwrap_err();
    assert!(matches!(error, StorageError::DataDir(DataDirError::NotEmpty { .. })), "{error}");
    assert_eq!(durable::names(home.path()).unwrap(), ["IDENTITY"]);
}

#[test]
fn a_directory_in_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let _lock = data_dir::lock(home.path()).unwrap();
    let error = restore(home.path(), Vec::new()).unwrap_err();
    assert!(matches!(error, StorageError::DataDir(DataDirError::InUse { .. })), "{error}");
}

#[test]
fn an_interrupted_restore_leaves_nothing_that_a_node_takes_for_an_empty_directory() {
    let home = tempfile::tempdir().unwrap();
    restore(home.path(), vec![vec![1]]).unwrap();
    fs::remove_file(home.path().join(data_dir::IDENTITY)).unwrap();
    let error = DataDir::open(home.path(), 1).unwrap_err();
    assert!(matches!(error, DataDirError::NoIdentity { .. }), "{error}");
    assert!(error.to_string().contains("delete the directory and restore again"), "{error}");
}

#[test]
fn a_restore_without_room_leaves_the_directory_empty() {
    let home = tempfile::tempdir().unwrap();
    let error = create(home.path(), node(), (Bytes::new(), u64::MAX / 2), std::iter::empty()).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    check_empty(home.path()).unwrap();
    restore(home.path(), vec![vec![1]]).unwrap();
}
