//! Snapshots, one checksummed file each. Only the newest is kept.
//!
//! A file gets its name, `snapshot/<number>.snap`, only when it is complete and durable, and only then are older files
//! removed. So the file with the highest number is the newest, and complete. If it is not, the disk has damaged it.
//! That is an error even if an older one is left, because the log in between may be purged.
//!
//! While it is written, its name is `<number>.snap.new`; while it is removed, `<number>.snap.old`. A start removes
//! both.

mod directory;
mod draft;
mod layout;
mod stored;

pub use layout::{Damage, SNAPSHOT_FILE_FORMAT, bytes_of, parse};

use crate::{
    fault::Faults,
    free_space::{START_ROOM_BYTES, free_bytes},
};
use bytes::Bytes;
use directory::Directory;
use draft::Draft;
use fairhold_raft::snapshot::{SnapshotDraft, SnapshotStore, StoredSnapshot};
use futures_util::future::BoxFuture;
use std::{io, path::Path, sync::Arc};
use stored::Stored;

/// The snapshots in one directory.
#[derive(Debug, Clone)]
pub struct SnapshotFiles {
    directory: Arc<Directory>,
}

impl SnapshotFiles {
    /// Opens an existing directory, and removes the leftovers of an interrupted save. `faults` records the first error.
    pub(crate) fn open(path: &Path, faults: Faults) -> io::Result<SnapshotFiles> {
        Ok(SnapshotFiles { directory: Arc::new(Directory::open(path, faults)?) })
    }

    /// Sets the function that the snapshot thread calls when it becomes idle, after it has freed its memory. Only the
    /// first call counts.
    pub fn when_idle(&self, idle: fn()) {
        self.directory.snapshot_thread.when_idle(idle);
    }

    /// Writes a snapshot and makes it the newest, before anything else uses the directory. It blocks.
    pub(crate) fn write(&self, meta: Bytes, blocks: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        let mut draft = Draft::new(Arc::clone(&self.directory), meta);
        for block in blocks {
            draft.append(&block)?;
        }
        draft.complete()?.keep_now()
    }

    /// The metadata of the newest snapshot, after the whole file was verified.
    pub(crate) fn newest_meta(&self) -> io::Result<Option<Bytes>> {
        Ok(Stored::newest(&self.directory)?.map(|stored| stored.meta()))
    }

    /// Whether there is no snapshot.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.directory.numbers()?.is_empty())
    }
}

impl SnapshotStore for SnapshotFiles {
    fn draft(&self, meta: Bytes) -> Box<dyn SnapshotDraft> {
        Box::new(Draft::new(Arc::clone(&self.directory), meta))
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        // If the free space is unknown, try: a failed write reports the error.
        free_bytes(&self.directory.path).map_or(true, |free| free >= bytes.saturating_add(START_ROOM_BYTES))
    }

    fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>> {
        let directory = Arc::clone(&self.directory);
        let read = move || Stored::newest(&directory).inspect_err(|error| directory.faults.record(error));
        let opened = self.directory.snapshot_thread.run(read);
        Box::pin(async move { Ok(opened.await??.map(|stored| stored as Arc<dyn StoredSnapshot>)) })
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        self.directory.snapshot_thread.run(work)
    }
}
