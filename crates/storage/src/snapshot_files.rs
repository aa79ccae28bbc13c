//! Snapshots, one checksummed file each. Only the newest is kept.
//!
//! A file gets its name, `snapshot/<number>.snap`, only when it is whole and durable, and the ones before it go only then. So
//! the one with the highest number is the newest, and it is whole. If it is not, the disk has damaged it, and that is an
//! error even where an older one is left: the log in between may be gone.
//!
//! While it is written it is called `<number>.snap.new`, and while it is removed `<number>.snap.old`. A start removes both.

mod draft;
mod layout;
mod stored;

pub use layout::{Damage, SNAPSHOT_FILE_FORMAT, bytes_of, parse};

use crate::{
    aside::Aside,
    durable,
    fault::Faults,
    room::{START_ROOM_BYTES, free_bytes},
};
use bytes::Bytes;
use draft::Draft;
use fairhold_raft::snapshot::{SnapshotDraft, SnapshotStore, StoredSnapshot};
use fairhold_types::failpoint;
use futures_util::future::BoxFuture;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use stored::Stored;

const SUFFIX: &str = ".snap";
const NEW_SUFFIX: &str = ".snap.new";
const OLD_SUFFIX: &str = ".snap.old";

/// The snapshots in one directory.
#[derive(Debug, Clone)]
pub struct SnapshotFiles {
    directory: Arc<Directory>,
}

/// The directory, and what all that work in it share.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Where all is done, one thing at a time: a new snapshot removes what somebody could be opening.
    aside: Aside,
    faults: Faults,
    /// Drafts that were begun, for their names.
    drafts: AtomicU64,
    /// Snapshots that somebody may be reading, by their numbers.
    open: Mutex<Vec<(u64, Weak<Stored>)>>,
}

impl SnapshotFiles {
    /// Opens a directory that exists, and removes what an interrupted save left there. The first error is noted in `faults`.
    pub(crate) fn open(path: &Path, faults: Faults) -> io::Result<SnapshotFiles> {
        failpoint!(StorageSnapshotClean)?;
        for name in names(path)? {
            if name.ends_with(NEW_SUFFIX) || name.ends_with(OLD_SUFFIX) {
                let leftover = path.join(name);
                fs::remove_file(&leftover).map_err(|error| durable::naming(&leftover, error))?;
            }
        }
        // A name whose directory could not be synced is seen again after a start, and may be gone after a loss of power. The
        // log behind the newest snapshot is purged, so that its name must last.
        durable::sync_directory(path)?;
        let (path, aside) = (path.to_owned(), Aside::start()?);
        let (drafts, open) = (AtomicU64::new(0), Mutex::default());
        Ok(SnapshotFiles { directory: Arc::new(Directory { path, aside, faults, drafts, open }) })
    }

    /// From now on this is called on the thread that makes and reads snapshots when it has been without work for a moment: what
    /// it had allocated is free then. The first one stays.
    pub fn when_idle(&self, idle: fn()) {
        self.directory.aside.when_idle(idle);
    }

    /// What the newest snapshot says that it covers, after all of it was verified.
    pub(crate) fn newest_meta(&self) -> io::Result<Option<Bytes>> {
        Ok(self.directory.newest()?.map(|stored| stored.meta()))
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
        let opened = self.directory.aside.run(move || directory.newest().inspect_err(|error| directory.faults.note(error)));
        Box::pin(async move { Ok(opened.await??.map(|stored| stored as Arc<dyn StoredSnapshot>)) })
    }

    fn aside(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        self.directory.aside.run(work)
    }
}

impl Directory {
    /// The newest snapshot, all of it read and verified.
    fn newest(self: &Arc<Self>) -> io::Result<Option<Arc<Stored>>> {
        failpoint!(StorageSnapshotLoad)?;
        let Some(newest) = self.numbers()?.pop() else { return Ok(None) };
        let stored = Arc::new(Stored::open(self, self.file(newest))?);
        stored.set_kept();
        self.note_open(newest, &stored);
        Ok(Some(stored))
    }

    /// Makes a snapshot the newest, and removes those before it.
    fn keep(&self, snapshot: &Arc<Stored>) -> io::Result<()> {
        let older = self.numbers()?;
        let number = older.last().map_or(1, |newest| newest + 1);
        durable::name(snapshot.path(), &self.file(number))?;
        snapshot.set_kept();
        self.note_open(number, snapshot);
        failpoint!(StorageSnapshotOlder)?;
        older.into_iter().try_for_each(|number| self.remove(number))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let (path, old) = (self.file(number), self.path.join(format!("{number:020}{OLD_SUFFIX}")));
        if self.open().iter().any(|(open, stored)| *open == number && stored.strong_count() > 0) {
            // Somebody reads it, or sends it to another node: its bytes stay until they are done.
            return fs::remove_file(&path).map_err(|error| durable::naming(&path, error));
        }
        durable::remove(&old, &path)
    }

    fn note_open(&self, number: u64, stored: &Arc<Stored>) {
        let mut open = self.open();
        open.retain(|(_, stored)| stored.strong_count() > 0);
        open.push((number, Arc::downgrade(stored)));
    }

    fn open(&self) -> MutexGuard<'_, Vec<(u64, Weak<Stored>)>> {
        // Whole after every statement.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the files that are there, in order.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for name in names(&self.path)? {
            if let Some(number) = name.strip_suffix(SUFFIX) {
                let number = number.parse().map_err(|_| durable::damaged(&self.path.join(&name), "its name is no number"))?;
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A name under which nothing is yet.
    fn temporary(&self) -> PathBuf {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{number:020}{NEW_SUFFIX}"))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }

    /// Removes the file of a snapshot that was given up, aside: it may be large.
    fn give_up(&self, path: PathBuf) {
        let removed = self.aside.run(move || {
            // It has no name that counts; what is left of it, the next start removes.
            if let Err(error) = durable::remove(&path, &path) {
                tracing::debug!(%error, "an incomplete snapshot could not be removed: it stays until the next start");
            }
        });
        drop(removed);
    }
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| durable::naming(directory, error))? {
        let name = entry.map_err(|error| durable::naming(directory, error))?.file_name();
        names.extend(name.into_string().ok());
    }
    Ok(names)
}
