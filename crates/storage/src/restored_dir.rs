//! The data directory that a restore makes: a snapshot, and the identity of a node of the new cluster.
//!
//! The identity is written last. Until then the directory belongs to no node, and no node starts with it: an interrupted
//! restore never looks like an empty directory.

use crate::{
    StorageError,
    data_dir::{self, DataDirError, Identity},
    durable,
    fault::Faults,
    known_members::{self, KnownMembers},
    snapshot_files::SnapshotFiles,
    timing_file,
};
use bytes::Bytes;
use fairhold_raft::snapshot::SnapshotStore;
use fairhold_types::{ClusterId, Incarnation, NodeId, Timing};
use std::{fs, io, path::Path};

/// The names that an empty directory may have.
const ALLOWED_NAMES: [&str; 2] = [data_dir::LOCK, "lost+found"];

/// The content of a restored directory beside its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredNode {
    /// The node.
    pub id: NodeId,
    /// The new cluster.
    pub cluster: ClusterId,
    /// The members with which it forms.
    pub members: KnownMembers,
    /// The timing profile of the restored state.
    pub timing: Timing,
}

/// Refuses a directory with files. A directory that does not exist is empty.
pub fn check_empty(path: &Path) -> Result<(), DataDirError> {
    let names = match durable::names(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    match names.into_iter().find(|name| !ALLOWED_NAMES.contains(&name.as_str())) {
        Some(found) => Err(DataDirError::NotEmpty { path: path.to_owned(), found }),
        None => Ok(()),
    }
}

/// Makes the directory, durably. `meta` describes the snapshot, whose blocks have about `bytes` bytes. It blocks.
pub fn create(
    path: &Path,
    node: RestoredNode,
    (meta, bytes): (Bytes, u64),
    blocks: impl Iterator<Item = Vec<u8>>,
) -> Result<(), StorageError> {
    // First without the lock: nothing in the directory of another node changes.
    check_empty(path)?;
    data_dir::create_directory(path).map_err(DataDirError::Io)?;
    let lock = data_dir::lock(path)?;
    check_empty(path)?;
    let result = fill(path, &node, (meta, bytes), blocks);
    if result.is_err() {
        remove_rest(path);
    }
    drop(lock);
    result
}

fn fill(
    path: &Path,
    node: &RestoredNode,
    (meta, bytes): (Bytes, u64),
    blocks: impl Iterator<Item = Vec<u8>>,
) -> Result<(), StorageError> {
    let directory = path.join(data_dir::SNAPSHOT);
    data_dir::create_directory(&directory).map_err(DataDirError::Io)?;
    let snapshots = SnapshotFiles::open(&directory, Faults::default()).map_err(StorageError::Snapshots)?;
    // The node writes it once more when it begins.
    let bytes = bytes.saturating_mul(2);
    if !snapshots.has_room_for(bytes) {
        let error = format!("the file system of {} has less than {bytes} bytes free", path.display());
        return Err(StorageError::Snapshots(io::Error::new(io::ErrorKind::StorageFull, error)));
    }
    snapshots.write(meta, blocks).map_err(StorageError::Snapshots)?;
    drop(snapshots);
    known_members::write(path, &node.members).map_err(DataDirError::Io)?;
    if node.timing != Timing::default() {
        timing_file::write(path, node.timing).map_err(DataDirError::Io)?;
    }
    let incarnation = Incarnation(rand::random());
    let identity = Identity { node: node.id, incarnation, cluster: Some(node.cluster), has_log: false };
    let bytes = data_dir::encode(&identity).map_err(DataDirError::Io)?;
    durable::write(&path.join(data_dir::IDENTITY), &[&bytes]).map_err(DataDirError::Io)?;
    Ok(())
}

/// Removes what a failed restore has written, as far as that is possible: the directory was empty before.
fn remove_rest(path: &Path) {
    for name in durable::names(path).unwrap_or_default().iter().filter(|name| !ALLOWED_NAMES.contains(&name.as_str())) {
        let path = path.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            tracing::debug!(%error, "cannot remove {}", path.display());
        }
    }
}

#[cfg(test)]
#[path = "restored_dir_tests.rs"]
mod tests;
