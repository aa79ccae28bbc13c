//! The RocksDB log store, the snapshot files and the data directory.
//!
//! ```text
//! <data directory>/
//!   LOCK          held by the process that uses the directory
//!   IDENTITY      whose directory it is: node (0 while it joins its cluster), incarnation, cluster
//!   MEMBERS       the addresses of the node and of the members, for a start without a list of members
//!   TIMING        the cluster's timing profile for the next start; absent if it was always the default
//!   REMOVED       only if the node was removed from its cluster: the directory is not used again
//!   LOST-ENTRIES  only if the node lost entries that it had acknowledged: the directory is not used again
//!   DEFECTS       only if a command panicked on this node: the commands
//!   log/          RocksDB: entries, vote, committed
//!   snapshot/     the newest snapshot, one checksummed file
//! ```
//!
//! Acknowledged writes survive a power loss, or the node refuses to start and names the damaged file. This crate never
//! retries after an error: a failed fsync may have dropped the pages that it should have written, and a second fsync
//! succeeds without them.

pub mod data_dir;
pub mod defect_file;
mod durable;
pub mod fault;
pub mod free_space;
pub mod known_members;
mod log_db;
mod log_shared;
pub mod log_store;
mod log_sweeper;
mod log_tail;
mod log_writer;
pub mod make_room;
mod metrics;
pub mod record_file;
pub mod restored_dir;
pub mod snapshot_files;
mod snapshot_thread;
#[cfg(test)]
mod tests;
pub mod timing_file;
mod type_config;

pub use log_db::LOG_STORE_FORMAT;
pub use type_config::TypeConfig;
pub(crate) use type_config::{Entry, LogId, Vote};

use crate::{
    data_dir::{DataDir, DataDirError},
    fault::Faults,
    log_store::LogStore,
    snapshot_files::SnapshotFiles,
};
use fairhold_metrics::{Histogram, Registry};
use fairhold_types::NodeId;
use std::{io, path::Path};

/// Everything that a node keeps on disk.
#[derive(Debug)]
pub struct Storage {
    /// The directory and its identity. It holds the lock: keep it as long as the other fields.
    pub data_dir: DataDir,
    /// The replicated log and the vote.
    pub log: LogStore,
    /// The snapshots.
    pub snapshots: SnapshotFiles,
    /// The first error that ended the storage, if any.
    pub faults: Faults,
}

/// The advice for a damaged file, to append to its error.
pub const DAMAGE_ADVICE: &str = "Leave the files as they are. A node with a damaged file takes no part, because it may have \
     lost votes or writes that it acknowledged; the other nodes have all acknowledged writes. Look for a failing disk or memory, \
     then replace this node: `fairhold cluster replace N`";

fn advised(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidData { format!("{error}. {DAMAGE_ADVICE}") } else { error.to_string() }
}

/// Why a node's storage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The log cannot be used.
    #[error("the log cannot be used: {}", advised(.0))]
    Log(#[source] io::Error),
    /// The snapshots cannot be used.
    #[error("the snapshots cannot be used: {}", advised(.0))]
    Snapshots(#[source] io::Error),
    /// The log continues from a missing snapshot.
    #[error(
        "{directory} has no snapshot, but the log's entries through {purged} were removed because a snapshot covered them. \
         Files were lost: replace this node, `fairhold cluster replace N`"
    )]
    SnapshotLost {
        /// Where the snapshot should be.
        directory: String,
        /// The index of the last purged entry.
        purged: u64,
    },
}

impl StorageError {
    /// Whether a retry may succeed once the file system has more free space.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        match self {
            StorageError::Log(error) | StorageError::Snapshots(error) | StorageError::DataDir(DataDirError::Io(error)) => {
                fault::is_out_of_space(error)
            }
            StorageError::DataDir(_) | StorageError::SnapshotLost { .. } => false,
        }
    }

    /// Whether a copy of the directory on another disk may be usable: this disk is full, or nothing may write to it.
    #[must_use]
    pub fn needs_another_disk(&self) -> bool {
        match self {
            StorageError::Log(error) | StorageError::Snapshots(error) | StorageError::DataDir(DataDirError::Io(error)) => {
                fault::is_out_of_space(error) || error.kind() == io::ErrorKind::ReadOnlyFilesystem
            }
            StorageError::DataDir(_) | StorageError::SnapshotLost { .. } => false,
        }
    }
}

impl Storage {
    /// How long the syncs of the log took since the start.
    #[must_use]
    pub fn sync_times(&self) -> Histogram {
        self.log.metrics().sync_times()
    }

    /// Registers the metrics of the storage.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.log.metrics().register(registry, self.data_dir.log_path(), self.data_dir.snapshot_path());
    }

    /// Opens or creates the directory, and verifies all of it. It blocks: call it before the runtime has work to do.
    pub fn open(path: &Path, node: NodeId) -> Result<Storage, StorageError> {
        let mut data_dir = DataDir::open(path, node)?;
        let log = LogStore::open(&data_dir.log_path(), data_dir.has_log()).map_err(StorageError::Log)?;
        data_dir.set_has_log()?;
        let faults = log.faults();
        let snapshots = SnapshotFiles::open(&data_dir.snapshot_path(), faults.clone()).map_err(StorageError::Snapshots)?;
        if let Some(purged) = log.purged_index().map_err(StorageError::Log)?
            && snapshots.is_empty().map_err(StorageError::Snapshots)?
        {
            let directory = data_dir.snapshot_path().display().to_string();
            return Err(StorageError::SnapshotLost { directory, purged });
        }
        Ok(Storage { data_dir, log, snapshots, faults })
    }
}
