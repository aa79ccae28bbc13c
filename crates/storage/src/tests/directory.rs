//! The data directory, and the storage as a whole.

use super::*;
use crate::{
    Storage, StorageError,
    data_dir::{DataDir, DataDirError, RecordedNode, mark_lost_entries, mark_removed},
    known_members::{KnownAddresses, KnownMembers},
    timing_file,
};
use fairhold_raft::snapshot::SnapshotImage;
use fairhold_types::{ClusterId, Timing};
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
fn a_directory_of_a_removed_node_is_refused_by_every_later_start() {
    let home = tempfile::tempdir().unwrap();
    let first = DataDir::open(home.path(), 4).unwrap();
    mark_lost_entries(home.path(), "entries 41 to 57 are gone").unwrap();
    mark_removed(home.path(), "node 4 was removed at revision 9").unwrap();
    drop(first);
    for opened in [DataDir::open(home.path(), 4), DataDir::open(home.path(), 5), DataDir::open_to_join(home.path())] {
        let error = opened.unwrap_err();
        assert!(matches!(&error, DataDirError::Removed { why, .. } if why == "node 4 was removed at revision 9"), "{error}");
    }
}

/// Members as a node that joins learns them.
pub(super) fn known_members() -> KnownMembers {
    let addresses = |host: &str| KnownAddresses { url: format!("http://{host}:7171"), peer: format!("{host}:7271") };
    KnownMembers { joined: true, members: [(1, addresses("a")), (3, addresses("c")), (4, addresses("d"))].into() }
}

#[test]
fn a_node_that_joins_keeps_its_incarnation_and_gets_its_id_last() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(DataDir::recorded(home.path()).unwrap(), None);
    let first = DataDir::open_to_join(home.path()).unwrap();
    let incarnation = first.incarnation();
    assert!(first.is_new() && first.node() == 0);
    drop(first);
    let unfinished = RecordedNode { id: None, cluster: None, members: None, timing: None };
    assert_eq!(DataDir::recorded(home.path()).unwrap(), Some(unfinished.clone()));
    let error = DataDir::open(home.path(), 4).unwrap_err();
    assert!(matches!(error, DataDirError::NotJoined { .. }), "{error}");

    // The process crashes after it has written the members, before it writes the id.
    let second = DataDir::open_to_join(home.path()).unwrap();
    second.set_members(&known_members()).unwrap();
    drop(second);
    let with_members = RecordedNode { members: Some(known_members()), ..unfinished };
    assert_eq!(DataDir::recorded(home.path()).unwrap(), Some(with_members.clone()));

    let mut third = DataDir::open_to_join(home.path()).unwrap();
    assert_eq!((third.incarnation(), third.is_new()), (incarnation, false));
    third.set_joined(4, ClusterId(9), &known_members()).unwrap();
    let error = third.set_joined(5, ClusterId(9), &known_members()).unwrap_err();
    assert!(matches!(error, DataDirError::OtherNode { recorded: 4, own: 5, .. }), "{error}");
    drop(third);
    let joined = RecordedNode { id: Some(4), cluster: Some(ClusterId(9)), ..with_members };
    assert_eq!(DataDir::recorded(home.path()).unwrap(), Some(joined));
    let error = DataDir::open(home.path(), 5).unwrap_err();
    assert!(matches!(error, DataDirError::OtherNode { recorded: 4, own: 5, .. }), "{error}");
    let mut opened = DataDir::open(home.path(), 4).unwrap();
    assert_eq!((opened.incarnation(), opened.node(), opened.cluster()), (incarnation, 4, Some(ClusterId(9))));
    let error = opened.set_cluster(ClusterId(10)).unwrap_err();
    assert!(matches!(error, DataDirError::OtherCluster { .. }), "{error}");
}

#[test]
fn recorded_members_are_written_only_if_they_change() {
    let home = tempfile::tempdir().unwrap();
    let directory = DataDir::open(home.path(), 1).unwrap();
    let written = || home.path().join("MEMBERS").metadata().unwrap().modified().unwrap();
    directory.set_members(&known_members()).unwrap();
    let first = written();
    directory.set_members(&known_members()).unwrap();
    assert_eq!(written(), first);
    let others = KnownMembers { members: [].into(), ..known_members() };
    directory.set_members(&others).unwrap();
    assert_eq!(DataDir::recorded(home.path()).unwrap().unwrap().members, Some(others));
}

#[test]
fn the_timing_profile_is_kept_for_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    drop(DataDir::open(home.path(), 1).unwrap());
    let recorded = || DataDir::recorded(home.path()).unwrap().unwrap().timing;
    assert_eq!((timing_file::read(home.path()).unwrap(), recorded()), (None, None));
    for timing in [Timing::Global, Timing::Lan] {
        timing_file::write(home.path(), timing).unwrap();
        assert_eq!((timing_file::read(home.path()).unwrap(), recorded()), (Some(timing), Some(timing)));
    }
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
fn every_flipped_byte_of_a_small_file_is_refused_with_its_name() {
    let home = tempfile::tempdir().unwrap();
    let directory = DataDir::open(home.path(), 1).unwrap();
    directory.set_members(&known_members()).unwrap();
    timing_file::write(home.path(), Timing::Wan).unwrap();
    drop(directory);
    for name in ["IDENTITY", "MEMBERS", "TIMING"] {
        let path = home.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            std::fs::write(&path, bytes).unwrap();
            let error = DataDir::recorded(home.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("damaged"), "byte {at}: {error}");
            if name == "IDENTITY" {
                assert_eq!(DataDir::open(home.path(), 1).unwrap_err().to_string(), error);
            }
        }
        std::fs::write(&path, whole).unwrap();
    }
    DataDir::recorded(home.path()).unwrap();
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
