//! What the log store shares with its readers and threads.

use crate::{fault::Faults, log_db::LogDb, log_tail::Tail};
use std::{
    io,
    sync::{Mutex, MutexGuard},
};

/// The log on disk and its tail in memory.
#[derive(Debug)]
pub(crate) struct SharedLog {
    pub(crate) db: LogDb,
    pub(crate) tail: Mutex<Tail>,
    pub(crate) faults: Faults,
}

impl SharedLog {
    /// The tail, or the error that ended the store.
    pub(crate) fn tail(&self) -> io::Result<MutexGuard<'_, Tail>> {
        let tail = self.tail.lock().map_err(|_| poisoned())?;
        tail.check()?;
        Ok(tail)
    }
}

pub(crate) fn poisoned() -> io::Error {
    io::Error::other("the log store failed in the middle of a change")
}
