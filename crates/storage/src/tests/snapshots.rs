//! Snapshot files.

use super::files;
use crate::{
    fault::Faults,
    snapshot_files::{self, SnapshotFiles, parse},
};
use bytes::Bytes;
use fairhold_raft::snapshot::{SnapshotDraft, SnapshotImage, SnapshotStore, StoredSnapshot};
use std::{io, path::Path, sync::Arc};

pub(super) fn image(text: &str) -> SnapshotImage {
    SnapshotImage {
        meta: Bytes::from(format!("through {text}")),
        blocks: vec![Bytes::from(text.to_owned()), Bytes::new(), Bytes::from_static(b"end")],
    }
}

pub(super) fn bytes_of(image: &SnapshotImage) -> Vec<u8> {
    snapshot_files::bytes_of(image).unwrap()
}

fn open(path: &Path) -> SnapshotFiles {
    SnapshotFiles::open(path, Faults::default()).unwrap()
}

fn draft(snapshots: &SnapshotFiles, image: &SnapshotImage) -> io::Result<Box<dyn SnapshotDraft>> {
    let mut draft = snapshots.draft(image.meta.clone());
    image.blocks.iter().try_for_each(|block| draft.write(block))?;
    Ok(draft)
}

pub(super) async fn save(snapshots: &SnapshotFiles, image: SnapshotImage) -> io::Result<()> {
    draft(snapshots, &image)?.finish()?.keep().await
}

fn image_of(stored: &dyn StoredSnapshot) -> io::Result<SnapshotImage> {
    let blocks = (0..stored.blocks()).map(|index| stored.block(index)).collect::<io::Result<_>>()?;
    Ok(SnapshotImage { meta: stored.meta(), blocks })
}

pub(super) async fn load(snapshots: &SnapshotFiles) -> io::Result<Option<SnapshotImage>> {
    snapshots.newest().await?.map(|stored| image_of(&*stored)).transpose()
}

/// Waits until the snapshot thread has completed all earlier jobs.
async fn settled(snapshots: &SnapshotFiles) {
    snapshots.run_blocking(Box::new(|| ())).await.unwrap();
}

/// A failed write ends the node, which has no time left for another job of the snapshot thread.
#[tokio::test]
async fn the_file_of_a_snapshot_that_fails_on_the_snapshot_thread_is_removed_at_once() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    let mut failing = snapshots.draft(image("one").meta);
    let folder = home.path().to_owned();
    let (sender, left) = std::sync::mpsc::channel();
    let job = move || {
        failing.write(b"block").unwrap();
        let written = files(&folder, |_| true).len();
        drop(failing);
        sender.send((written, files(&folder, |_| true).len())).unwrap();
    };
    snapshots.run_blocking(Box::new(job)).await.unwrap();
    assert_eq!(left.recv().unwrap(), (1, 0));
}

#[tokio::test]
async fn only_the_newest_snapshot_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    assert_eq!(load(&snapshots).await.unwrap(), None);
    for text in ["one", "two", "three"] {
        save(&snapshots, image(text)).await.unwrap();
        assert_eq!(load(&snapshots).await.unwrap(), Some(image(text)));
    }
    assert_eq!(files(home.path(), |_| true).len(), 1);
    let again = open(home.path());
    assert_eq!(load(&again).await.unwrap(), Some(image("three")));
    save(&again, SnapshotImage { meta: Bytes::new(), blocks: Vec::new() }).await.unwrap();
    assert_eq!(load(&again).await.unwrap(), Some(SnapshotImage { meta: Bytes::new(), blocks: Vec::new() }));
}

#[tokio::test]
async fn a_snapshot_interrupted_before_its_rename_leaves_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    save(&open(home.path()), image("old")).await.unwrap();
    let whole = bytes_of(&image("new"));
    for length in [0, 5, whole.len() - 1, whole.len()] {
        std::fs::write(home.path().join("00000000000000000002.snap.new"), &whole[..length]).unwrap();
        let snapshots = open(home.path());
        assert_eq!(load(&snapshots).await.unwrap(), Some(image("old")));
        assert_eq!(files(home.path(), |_| true).len(), 1, "the leftover stayed");
    }
}

#[tokio::test]
async fn a_snapshot_interrupted_before_the_old_one_is_removed_is_the_newest() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    save(&snapshots, image("old")).await.unwrap();
    std::fs::write(home.path().join("00000000000000000002.snap"), bytes_of(&image("new"))).unwrap();
    assert_eq!(load(&snapshots).await.unwrap(), Some(image("new")));
    save(&snapshots, image("newer")).await.unwrap();
    assert_eq!(files(home.path(), |_| true), [home.path().join("00000000000000000003.snap")]);
}

#[tokio::test]
async fn a_damaged_newest_snapshot_is_refused_with_its_name_even_if_an_older_one_exists() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    save(&snapshots, image("old")).await.unwrap();
    let whole = bytes_of(&image("new"));
    let path = home.path().join("00000000000000000002.snap");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        let error = load(&snapshots).await.unwrap_err();
        assert!(error.to_string().contains("00000000000000000002.snap"), "byte {at}: {error}");
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(load(&snapshots).await.is_err(), "{length} bytes were accepted");
    }
}

#[test]
fn a_wrong_length_is_refused_even_with_a_valid_checksum() {
    let mut bytes = bytes_of(&image("a"));
    bytes.truncate(bytes.len() - 4);
    for length in [u32::MAX, 1000, 100] {
        bytes[9..13].copy_from_slice(&length.to_le_bytes());
        let mut sealed = bytes.clone();
        sealed.extend_from_slice(&fairhold_codec::checksum(&bytes).to_le_bytes());
        parse(&Bytes::from(sealed)).unwrap_err();
    }
}

#[tokio::test]
async fn a_dropped_draft_leaves_nothing_and_affects_no_other() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    save(&snapshots, image("old")).await.unwrap();
    let begun = draft(&snapshots, &image("begun")).unwrap();
    let whole = draft(&snapshots, &image("whole")).unwrap().finish().unwrap();
    let kept = draft(&snapshots, &image("kept")).unwrap().finish().unwrap();
    assert_eq!(files(home.path(), |_| true).len(), 4);
    kept.keep().await.unwrap();
    drop((begun, whole));
    settled(&snapshots).await;
    assert_eq!(load(&snapshots).await.unwrap(), Some(image("kept")));
    assert_eq!(files(home.path(), |_| true), [home.path().join("00000000000000000002.snap")]);
}

/// A transfer to another node may still read it, for any length of time.
#[tokio::test]
async fn a_snapshot_stays_readable_to_its_end_after_a_newer_one_replaces_it() {
    let home = tempfile::tempdir().unwrap();
    let snapshots = open(home.path());
    let large = SnapshotImage { meta: Bytes::new(), blocks: (0..20).map(|block| vec![block; 512 * 1024].into()).collect() };
    save(&snapshots, large.clone()).await.unwrap();
    let reading = snapshots.newest().await.unwrap().unwrap();
    assert_eq!(Arc::clone(&reading).fetch(0).await.unwrap(), large.blocks[0]);
    save(&snapshots, image("newer")).await.unwrap();
    assert!(image_of(&*reading).unwrap() == large, "the open snapshot has changed");
    assert_eq!(files(home.path(), |_| true).len(), 1, "its name must already be removed");
    drop(reading);
    settled(&snapshots).await;
    assert_eq!(load(&snapshots).await.unwrap(), Some(image("newer")));
}
