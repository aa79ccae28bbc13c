//! Snapshots, one checksummed file each. Only the newest is kept.
//!
//! A file gets its name, `snapshot/<number>.snap`, only when it is whole and durable, and the ones before it go only then. So
//! the one with the highest number is the newest, and it is whole. If it is not, the disk has damaged it, and that is an
//! error even where an older one is left: the log in between may be gone.
//!
//! While it is written it is called `<number>.snap.new`, and while it is removed `<number>.snap.old`. A start removes both.

mod directory;
mod draft;
mod layout;
mod stored;

pub use layout::{Damage, SNAPSHOT_FILE_FORMAT, bytes_of, parse};

use crate::{
    fault::Faults,
    room::{START_ROOM_BYTES, free_bytes},
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
    /// Opens a directory that exists, and removes what an interrupted save left there. The first error is noted in `faults`.
    pub(crate) fn open(path: &Path, faults: Faults) -> io::Result<SnapshotFiles> {
        Ok(SnapshotFiles { directory: Arc::new(Directory::open(path, faults)?) })
    }

    /// From now on this is called on the thread that makes and reads snapshots when it has been without work for a moment: what
    /// it had allocated is free then. The first one stays.
    pub fn when_idle(&self, idle: fn()) {
        self.directory.aside.when_idle(idle);
    }

    /// What the newest snapshot says that it covers, after all of it was verified.
    pub(crate) fn newest_meta(&self) -> io::Result<Option<Bytes>> {
        Ok(Stored::newest(&self.directory)?.map(|stored| stored.meta()))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.directory.numbers()?.is_empty())
    }
}

impl SnapshotStore for SnapshotFiles {
    fn draft(&self, meta: Bytes) -> Box<dyn SnapshotDraft> {
        Box::new(Draft::new(Arc::clone(&self.directory), meta))
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        // What cannot be looked at is not guessed: a write that fails says it all.
        free_bytes(&self.directory.path).map_or(true, |free| free >= bytes.saturating_add(START_ROOM_BYTES))
    }

    fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>> {
        let directory = Arc::clone(&self.directory);
        let opened =
            self.directory.aside.run(move || Stored::newest(&directory).inspect_err(|error| directory.faults.note(error)));
        Box::pin(async move { Ok(opened.await??.map(|stored| stored as Arc<dyn StoredSnapshot>)) })
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        self.directory.aside.run(work)
    }
}
