//! The directory of the snapshots: their files, the newest one, and the open readers.

use crate::{
    durable::{self, NewFile},
    fault::Faults,
    snapshot_thread::SnapshotThread,
};
use fairhold_types::failpoint;
use parking_lot::Mutex;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

const SUFFIX: &str = ".snap";
const NEW_SUFFIX: &str = ".snap.new";
const OLD_SUFFIX: &str = ".snap.old";

/// The directory, and the state shared by its users.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The thread for all work, one job at a time: a new snapshot removes files that another job could be opening.
    pub(super) snapshot_thread: SnapshotThread,
    pub(super) faults: Faults,
    /// The number of drafts so far, for their names.
    drafts: AtomicU64,
    /// The open readers of each snapshot, by its number.
    readers: Mutex<Vec<(u64, Weak<()>)>>,
}

impl Directory {
    /// Opens an existing directory, and removes the leftovers of an interrupted save. `faults` records the first error.
    pub(super) fn open(path: &Path, faults: Faults) -> io::Result<Directory> {
        failpoint!(StorageSnapshotClean)?;
        for name in durable::names(path)? {
            if name.ends_with(NEW_SUFFIX) || name.ends_with(OLD_SUFFIX) {
                let leftover = path.join(name);
                fs::remove_file(&leftover).map_err(|error| durable::with_path(&leftover, error))?;
            }
        }
        // If an earlier sync of the directory failed, the newest snapshot's name is visible now, but a power loss can still
        // undo it. The log that it covers may be purged, so the name must be durable first.
        durable::sync_directory(path)?;
        Ok(Directory {
            path: path.to_owned(),
            snapshot_thread: SnapshotThread::start()?,
            faults,
            drafts: AtomicU64::new(0),
            readers: Mutex::default(),
        })
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let path = self.file(number);
        let old = self.path.join(format!("{number:020}{OLD_SUFFIX}"));
        if self.readers.lock().iter().any(|(read, reader)| *read == number && reader.strong_count() > 0) {
            // A reader or a transfer to another node still uses the file, so it is only unlinked. `durable::remove` would
            // truncate it during the read.
            return fs::remove_file(&path).map_err(|error| durable::with_path(&path, error));
        }
        durable::remove(&old, &path)
    }

    /// Records a reader of a snapshot, for as long as `reader` lives.
    pub(super) fn record_reader(&self, number: u64, reader: &Arc<()>) {
        let mut readers = self.readers.lock();
        readers.retain(|(_, reader)| reader.strong_count() > 0);
        readers.push((number, Arc::downgrade(reader)));
    }

    /// The numbers of the existing files, in order.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for name in durable::names(&self.path)? {
            if let Some(number) = name.strip_suffix(SUFFIX) {
                let number = number.parse().map_err(|_| durable::damaged(&self.path.join(&name), "its name is not a number"))?;
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }
}

/// The file of a snapshot. Dropping it removes the file, unless the snapshot is or was the newest.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    pub(super) directory: Arc<Directory>,
    pub(super) path: PathBuf,
    /// Whether it is or was the newest. Then the `keep` of a newer one removes it.
    kept: AtomicBool,
}

impl SnapshotFile {
    /// Creates a file with a temporary name.
    pub(super) fn create(directory: &Arc<Directory>) -> io::Result<(SnapshotFile, NewFile)> {
        let number = directory.drafts.fetch_add(1, Ordering::Relaxed);
        let path = directory.path.join(format!("{number:020}{NEW_SUFFIX}"));
        let file = NewFile::create(&path)?;
        Ok((SnapshotFile { directory: Arc::clone(directory), path, kept: AtomicBool::new(false) }, file))
    }

    /// The newest snapshot's number and file.
    pub(super) fn newest(directory: &Arc<Directory>) -> io::Result<Option<(u64, SnapshotFile)>> {
        let Some(number) = directory.numbers()?.pop() else { return Ok(None) };
        let path = directory.file(number);
        Ok(Some((number, SnapshotFile { directory: Arc::clone(directory), path, kept: AtomicBool::new(true) })))
    }

    pub(super) fn open(&self) -> io::Result<File> {
        File::open(&self.path).map_err(|error| durable::with_path(&self.path, error))
    }

    /// Makes it the newest snapshot, and removes the older ones. While `reader` lives, the
    /// file counts as being read.
    pub(super) fn keep(&self, reader: &Arc<()>) -> io::Result<()> {
        let older = self.directory.numbers()?;
        let number = older.last().map_or(1, |newest| newest + 1);
        durable::rename(&self.path, &self.directory.file(number))?;
        self.directory.record_reader(number, reader);
        self.kept.store(true, Ordering::Relaxed);
        failpoint!(StorageSnapshotOlder)?;
        older.into_iter().try_for_each(|number| self.directory.remove(number))
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            return;
        }
        let path = std::mem::take(&mut self.path);
        let remove = move || {
            // Its name is already temporary, so the next start removes what an interrupted removal leaves.
            if let Err(error) = durable::remove(&path, &path) {
                tracing::debug!(%error, "cannot remove an incomplete snapshot: it stays until the next start");
            }
        };
        // The file may be large, so the snapshot thread removes it. A failed write is on that thread already: it removes
        // the file here and now, because its error ends the node.
        if self.directory.snapshot_thread.is_current() { remove() } else { drop(self.directory.snapshot_thread.run(remove)) }
    }
}
