//! The one thread that removes the files of purged entries, so that nobody who appends waits for it.
//!
//! Each removal writes and syncs RocksDB's manifest and frees space in the file system; beside a snapshot of a large state
//! that took the writer longer than all of its appends.

use crate::{
    fault::Faults,
    log_db::LogDb,
    log_tail::{Tail, TailFailure},
};
use std::sync::{Arc, Mutex, mpsc};

/// Purges whose files may wait for the sweeper. There is one for each snapshot; a later one takes the files of an earlier one
/// along.
pub(crate) const PURGES_MAX: usize = 16;

/// The thread's own state.
pub(crate) struct Sweeper {
    pub(crate) db: Arc<LogDb>,
    /// Nobody needs the entries before this index any more.
    pub(crate) purges: mpsc::Receiver<u64>,
    pub(crate) tail: Arc<Mutex<Tail>>,
    pub(crate) faults: Faults,
}

impl Sweeper {
    /// Runs until the writer is gone and all that it purged is removed.
    pub(crate) fn run(self) {
        while let Ok(end) = self.purges.recv() {
            let end = self.purges.try_iter().last().unwrap_or(end);
            if let Err(error) = self.db.remove_purged_tables(end) {
                // As after an error of the writer's, nothing is written any more: the next append says so.
                self.faults.note(&error);
                if let Ok(mut tail) = self.tail.lock() {
                    tail.fail(TailFailure::new(&error));
                }
                return;
            }
        }
    }
}
