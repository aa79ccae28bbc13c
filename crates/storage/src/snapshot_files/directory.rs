//! The directory of the snapshots: their names, which of them is the newest, and who reads which.

use crate::{aside::SnapshotThread, durable, fault::Faults};
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

/// The directory, and what all that work in it share.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Where all is done, one thing at a time: a new snapshot removes what somebody could be opening.
    pub(super) aside: SnapshotThread,
    pub(super) faults: Faults,
    /// Drafts that were begun, for their names.
    drafts: AtomicU64,
    /// Who may be reading which snapshot, by its number.
    readers: Mutex<Vec<(u64, Weak<()>)>>,
}

impl Directory {
    /// A directory that exists, without what an interrupted save left there. The first error is noted in `faults`.
    pub(super) fn open(path: &Path, faults: Faults) -> io::Result<Directory> {
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
        let (path, aside) = (path.to_owned(), SnapshotThread::start()?);
        let (drafts, readers) = (AtomicU64::new(0), Mutex::default());
        Ok(Directory { path, aside, faults, drafts, readers })
    }

    /// The newest snapshot's number and file.
    pub(super) fn newest(&self) -> io::Result<Option<(u64, PathBuf)>> {
        Ok(self.numbers()?.pop().map(|number| (number, self.file(number))))
    }

    /// Makes a file the newest snapshot; returns the numbers of those before it, which are to be removed. It is being read for
    /// as long as `reader` lives.
    pub(super) fn publish(&self, snapshot: &Path, reader: &Arc<()>) -> io::Result<Vec<u64>> {
        let older = self.numbers()?;
        let number = older.last().map_or(1, |newest| newest + 1);
        durable::name(snapshot, &self.file(number))?;
        self.note_reader(number, reader);
        Ok(older)
    }

    /// Removes snapshots that are no longer the newest.
    pub(super) fn remove_older(&self, numbers: Vec<u64>) -> io::Result<()> {
        failpoint!(StorageSnapshotOlder)?;
        numbers.into_iter().try_for_each(|number| self.remove(number))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let (path, old) = (self.file(number), self.path.join(format!("{number:020}{OLD_SUFFIX}")));
        if self.readers.lock().iter().any(|(read, reader)| *read == number && reader.strong_count() > 0) {
            // Somebody reads it, or sends it to another node: its bytes stay until they are done.
            return fs::remove_file(&path).map_err(|error| durable::naming(&path, error));
        }
        durable::remove(&old, &path)
    }

    /// Somebody reads a snapshot for as long as `reader` lives.
    pub(super) fn note_reader(&self, number: u64, reader: &Arc<()>) {
        let mut readers = self.readers.lock();
        readers.retain(|(_, reader)| reader.strong_count() > 0);
        readers.push((number, Arc::downgrade(reader)));
    }

    /// The numbers of the files that are there, in order.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
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
    pub(super) fn temporary(&self) -> PathBuf {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{number:020}{NEW_SUFFIX}"))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }

    /// Removes the file of a snapshot that was given up, aside: it may be large.
    pub(super) fn give_up(&self, path: PathBuf) {
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
