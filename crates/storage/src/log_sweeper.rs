//! The thread that removes the files of purged entries, so that no append waits for it.
//!
//! Each removal writes and syncs RocksDB's manifest and frees space in the file system. While a snapshot of a large
//! state was written, this took the writer longer than all of its appends.

use crate::{
    fault::Faults,
    log_db::LogDb,
    log_tail::{Tail, TailFailure},
};
use std::sync::{Arc, Mutex, mpsc};

/// Purges in the sweeper's queue. There is one for each snapshot; a later purge also covers the files of an earlier
/// one.
pub(crate) const PURGES_MAX: usize = 16;

/// The thread's own state.
pub(crate) struct Sweeper {
    pub(crate) db: Arc<LogDb>,
    /// No reader needs entries before this index.
    pub(crate) purges: mpsc::Receiver<u64>,
    pub(crate) tail: Arc<Mutex<Tail>>,
    pub(crate) faults: Faults,
}

impl Sweeper {
    /// Runs until the writer has ended and all purged files are removed.
    pub(crate) fn run(self) {
        while let Ok(end) = self.purges.recv() {
            let end = self.purges.try_iter().last().unwrap_or(end);
            if let Err(error) = self.db.remove_purged_tables(end) {
                // As after an error of the writer, nothing is written any more. The next append returns the error.
                self.faults.record(&error);
                if let Ok(mut tail) = self.tail.lock() {
                    tail.fail(TailFailure::new(&error));
                }
                return;
            }
        }
    }
}
