//! The directory of the snapshots: their names, the newest one, and the open readers.

use crate::{durable, fault::Faults, snapshot_thread::SnapshotThread};
use fairhold_types::failpoint;
use parking_lot::Mutex;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
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
        for name in names(path)? {
            if name.ends_with(NEW_SUFFIX) || name.ends_with(OLD_SUFFIX) {
                let leftover = path.join(name);
                fs::remove_file(&leftover).map_err(|error| durable::with_path(&leftover, error))?;
            }
        }
        // A name whose directory could not be synced is visible after a start, but may be gone after a power loss. The
        // log that the newest snapshot covers is purged, so its name must be durable.
        durable::sync_directory(path)?;
        Ok(Directory {
            path: path.to_owned(),
            snapshot_thread: SnapshotThread::start()?,
            faults,
            drafts: AtomicU64::new(0),
            readers: Mutex::default(),
        })
    }

    /// The newest snapshot's number and file.
    pub(super) fn newest(&self) -> io::Result<Option<(u64, PathBuf)>> {
        Ok(self.numbers()?.pop().map(|number| (number, self.file(number))))
    }

    /// Makes a file the newest snapshot. Returns the numbers of the older ones, which the caller removes. `reader`
    /// keeps the file open for reading.
    pub(super) fn publish(&self, snapshot: &Path, reader: &Arc<()>) -> io::Result<Vec<u64>> {
        let older = self.numbers()?;
        let number = older.last().map_or(1, |newest| newest + 1);
        durable::rename(snapshot, &self.file(number))?;
        self.record_reader(number, reader);
        Ok(older)
    }

    /// Removes snapshots that are no longer the newest.
    pub(super) fn remove_older(&self, numbers: Vec<u64>) -> io::Result<()> {
        failpoint!(StorageSnapshotOlder)?;
        numbers.into_iter().try_for_each(|number| self.remove(number))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let path = self.file(number);
        let old = self.path.join(format!("{number:020}{OLD_SUFFIX}"));
        if self.readers.lock().iter().any(|(read, reader)| *read == number && reader.strong_count() > 0) {
            // A reader, or a transfer to another node, still uses it: its bytes stay until they are done.
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
        for name in names(&self.path)? {
            if let Some(number) = name.strip_suffix(SUFFIX) {
                let number = number.parse().map_err(|_| durable::damaged(&self.path.join(&name), "its name is not a number"))?;
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// An unused name.
    pub(super) fn temporary(&self) -> PathBuf {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{number:020}{NEW_SUFFIX}"))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }

    /// Removes the file of an abandoned snapshot on the snapshot thread, because it may be large.
    pub(super) fn remove_abandoned(&self, path: PathBuf) {
        let removed = self.snapshot_thread.run(move || {
            // Its name is temporary. The next start removes the rest.
            if let Err(error) = durable::remove(&path, &path) {
                tracing::debug!(%error, "cannot remove an incomplete snapshot: it stays until the next start");
            }
        });
        drop(removed);
    }
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| durable::with_path(directory, error))? {
        let name = entry.map_err(|error| durable::with_path(directory, error))?.file_name();
        names.extend(name.into_string().ok());
    }
    Ok(names)
}
