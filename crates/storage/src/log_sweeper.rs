//! The thread that removes the files of purged entries, so that no append waits for it.
//!
//! Each removal writes and syncs RocksDB's manifest and frees space in the file system. While a snapshot of a large
//! state was written, this took the writer longer than all of its appends.

use crate::log_shared::SharedLog;
use std::sync::mpsc::Receiver;

/// Purges in the sweeper's queue. There is one for each snapshot; a later purge also covers the files of an earlier
/// one.
pub(crate) const PURGES_MAX: usize = 16;

/// Runs until the writer has ended and all purged files are removed, or until a removal fails. No reader needs entries
/// before a purge's index.
pub(crate) fn run(log: &SharedLog, purges: &Receiver<u64>) {
    while let Ok(end) = purges.recv() {
        let end = purges.try_iter().last().unwrap_or(end);
        if let Err(error) = log.db.remove_purged_tables(end) {
            // As after an error of the writer, nothing is written any more. The next append returns the error.
            log.faults.record(&error);
            if let Ok(mut tail) = log.tail.lock() {
                tail.fail(&error);
            }
            return;
        }
    }
}
