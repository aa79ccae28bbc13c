//! Snapshot files.

use super::files;
use crate::snapshot_files::{Parts, SnapshotFiles, parse};
use bytes::Bytes;
use fairhold_raft::snapshot::{SnapshotImage, SnapshotStore};

pub(super) fn image(text: &str) -> SnapshotImage {
    SnapshotImage {
        meta: Bytes::from(format!("through {text}")),
        blocks: vec![Bytes::from(text.to_owned()), Bytes::new(), Bytes::from_static(b"end")],
    }
}

pub(super) fn bytes_of(image: &SnapshotImage) -> Vec<u8> {
    Parts::of(image).unwrap().in_order(image).concat()
}

#[tokio::test]
async fn the_newest_snapshot_is_kept_alone() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = SnapshotFiles::open(home.path()).unwrap();
    assert_eq!(snapshots.load().await.unwrap(), None);
    for text in ["one", "two", "three"] {
        snapshots.save(image(text)).await.unwrap();
        assert_eq!(snapshots.load().await.unwrap(), Some(image(text)));
    }
    assert_eq!(files(home.path(), |_| true).len(), 1);
    let again = SnapshotFiles::open(home.path()).unwrap();
    assert_eq!(again.load().await.unwrap(), Some(image("three")));
    again.save(SnapshotImage { meta: Bytes::new(), blocks: Vec::new() }).await.unwrap();
    assert_eq!(again.load().await.unwrap(), Some(SnapshotImage { meta: Bytes::new(), blocks: Vec::new() }));
}

#[tokio::test]
async fn a_snapshot_interrupted_before_its_name_leaves_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    SnapshotFiles::open(home.path()).unwrap().save(image("old")).await.unwrap();
    let whole = bytes_of(&image("new"));
    for length in [0, 5, whole.len() - 1, whole.len()] {
        std::fs::write(home.path().join("00000000000000000002.snap.new"), &whole[..length]).unwrap();
        let snapshots = SnapshotFiles::open(home.path()).unwrap();
        assert_eq!(snapshots.load().await.unwrap(), Some(image("old")));
        assert_eq!(files(home.path(), |_| true).len(), 1, "the leftover stayed");
    }
}

#[tokio::test]
async fn a_snapshot_interrupted_before_the_old_one_went_is_the_newest() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = SnapshotFiles::open(home.path()).unwrap();
    snapshots.save(image("old")).await.unwrap();
    std::fs::write(home.path().join("00000000000000000002.snap"), bytes_of(&image("new"))).unwrap();
    assert_eq!(snapshots.load().await.unwrap(), Some(image("new")));
    snapshots.save(image("newer")).await.unwrap();
    assert_eq!(files(home.path(), |_| true), [home.path().join("00000000000000000003.snap")]);
}

#[tokio::test]
async fn a_damaged_newest_snapshot_is_refused_by_name_although_an_older_one_is_there() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = SnapshotFiles::open(home.path()).unwrap();
    snapshots.save(image("old")).await.unwrap();
    let whole = bytes_of(&image("new"));
    let path = home.path().join("00000000000000000002.snap");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let error = snapshots.load().await.unwrap_err();
        assert!(error.to_string().contains("00000000000000000002.snap"), "byte {at}: {error}");
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(snapshots.load().await.is_err(), "{length} bytes were taken");
    }
}

#[test]
fn a_length_is_not_believed_even_with_a_right_checksum() {
    let mut bytes = bytes_of(&image("a"));
    bytes.truncate(bytes.len() - 4);
    for length in [u32::MAX, 1000, 100] {
        bytes[9..13].copy_from_slice(&length.to_le_bytes());
        let mut sealed = bytes.clone();
        sealed.extend_from_slice(&fairhold_codec::checksum(&bytes).to_le_bytes());
        parse(&Bytes::from(sealed)).unwrap_err();
    }
}
