//! Frees space on a disk that is too full for a start: removes the log entries that the newest snapshot covers.
//!
//! A node keeps some of these entries for followers that lag. If only they fill the disk, nothing else frees space, and
//! the node would wait forever.

use crate::{StorageError, data_dir::DataDir, fault::Faults, log_db::LogDb, snapshot_files::SnapshotFiles};
use fairhold_raft::snapshot::covered_by;
use fairhold_types::NodeId;
use openraft_rt_tokio::TokioRuntime;
use std::path::Path;

/// Purges the log entries that the newest snapshot covers, after it has verified the snapshot. Returns the index of the
/// last purged entry, or `None` if there was nothing to purge. It needs a little free space itself, and blocks.
pub fn free_covered_log(path: &Path, node: NodeId) -> Result<Option<u64>, StorageError> {
    if !DataDir::is_initialized(path) {
        return Ok(None);
    }
    let data_dir = DataDir::open(path, node)?;
    if !data_dir.has_log() {
        return Ok(None);
    }
    let snapshots = SnapshotFiles::open(&data_dir.snapshot_path(), Faults::default()).map_err(StorageError::Snapshots)?;
    let Some(meta) = snapshots.newest_meta().map_err(StorageError::Snapshots)? else { return Ok(None) };
    let Some(covered) = covered_by::<TokioRuntime>(&meta).map_err(StorageError::Snapshots)? else { return Ok(None) };
    let log = LogDb::open_to_purge(&data_dir.log_path()).map_err(StorageError::Log)?;
    Ok(log.purge_through(covered).map_err(StorageError::Log)?.then_some(covered.index))
}
