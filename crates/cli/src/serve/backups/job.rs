//! One scheduled backup: writes the file, verifies it, gives it its name, and deletes old ones. It blocks.

use super::plan::{BackupName, WallSeconds, newest, partial_name, to_delete};
use crate::backup_file::PartialBackup;
use fairhold_backup::{Backup, ReadBackupError};
use fairhold_node::Node;
use fairhold_raft::wall_now;
use fairhold_storage::free_space::{WRITE_ROOM_BYTES, free_bytes};
use fairhold_types::{ClusterId, NodeId, limits::BACKUP_BLOCK_WITHIN};
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::runtime::Handle;

/// A backup leaves this much space on the file system of the data directory: below half of it, writes are refused.
const ROOM_LEFT_BYTES: u64 = 2 * WRITE_ROOM_BYTES;

const MIB: u64 = 1024 * 1024;

/// The work of a thread.
#[derive(Debug, Clone)]
pub(super) struct BackupJob {
    pub(super) dir: PathBuf,
    /// The data directory of the node.
    pub(super) data: PathBuf,
    /// The name of the cluster in the names of files.
    pub(super) cluster: String,
    /// The id of the cluster: only its own backups count, and only they are deleted.
    pub(super) cluster_id: ClusterId,
    pub(super) id: NodeId,
    pub(super) keep: usize,
    pub(super) node: Node<TokioRuntime>,
    /// Changes with every step.
    pub(super) progress: Arc<AtomicU64>,
}

/// A complete backup.
#[derive(Debug)]
pub(super) struct MadeBackup {
    /// The name of its file.
    pub(super) file: String,
    pub(super) bytes: u64,
    /// What became of old backups, or why they could not be deleted.
    pub(super) old: Result<OldBackups, String>,
}

/// What became of old backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OldBackups {
    /// How many were deleted.
    pub(super) deleted: usize,
    /// How many files have a name of this cluster, and are not its backups: they stay.
    pub(super) others: usize,
}

/// What a folder has under the names of a cluster.
#[derive(Debug, Default)]
struct Found {
    own: BTreeSet<BackupName>,
    /// How many files are backups of another cluster, or cannot be read.
    others: usize,
}

impl BackupJob {
    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// When the newest backup of this cluster in the folder was made. A folder that cannot be read has none: the next backup
    /// says why.
    pub(super) fn newest(&self, now: WallSeconds) -> Option<WallSeconds> {
        newest(&find(&self.dir, &self.cluster, self.cluster_id).ok()?.own, now)
    }

    /// Makes a backup, or says why it cannot.
    pub(super) fn run(&self, runtime: &Handle) -> Result<MadeBackup, String> {
        let named = |error: io::Error| format!("{}: {error}", self.dir.display());
        // The folder is tried first: if its mount is dead, the thread waits here without a copy of the state.
        let mut file = PartialBackup::create(self.dir.join(partial_name(&self.cluster, self.id))).map_err(named)?;
        let keeps_room = is_same_device(&self.dir, &self.data);
        let made_at = wall_now().0 / 1_000;
        let backup = self.node.scheduled_backup(BACKUP_BLOCK_WITHIN);
        let mut backup = backup.ok_or_else(|| "the cluster has not formed".to_owned())?;
        let name = BackupName { made_at, revision: backup.revision(), cluster: self.cluster.clone() };
        while let Some(piece) = runtime.block_on(backup.next()) {
            let piece = piece.map_err(|cut| cut.to_string())?;
            if keeps_room {
                check_room(&self.dir).map_err(named)?;
            }
            file.write(&piece).map_err(named)?;
            self.step();
        }
        let bytes = file.verify_seal().map_err(named)?;
        self.step();
        let path = self.dir.join(name.to_string());
        if fs::symlink_metadata(&path).is_ok() && !is_backup_of(&path, self.cluster_id) {
            return Err(format!("{}: this file is there, and is no backup of this cluster", path.display()));
        }
        file.keep_as(&path, true).map_err(named)?;
        let old = delete_old(&self.dir, &name, self.cluster_id, self.keep).map_err(|error| error.to_string());
        Ok(MadeBackup { file: name.to_string(), bytes, old })
    }

    fn step(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }
}

/// The backups of a cluster in a folder. Another cluster may have used its name: the header of a file tells. Anything
/// else there does not count: other files, links, folders.
fn find(dir: &Path, cluster: &str, id: ClusterId) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(|name| BackupName::parse(name, cluster)) else { continue };
        if !entry.file_type()?.is_file() {
            continue;
        }
        if is_backup_of(&entry.path(), id) {
            found.own.insert(name);
        } else {
            found.others += 1;
        }
    }
    Ok(found)
}

/// Whether a file is a backup of this cluster. One whose header cannot be read may be of another one.
fn is_backup_of(path: &Path, id: ClusterId) -> bool {
    match File::open(path).map_err(ReadBackupError::from).and_then(Backup::read_header) {
        Ok(header) => header.cluster == Some(id),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "this file may be a backup of another cluster: it stays");
            false
        }
    }
}

/// Deletes old backups of this cluster after `verified`.
fn delete_old(dir: &Path, verified: &BackupName, id: ClusterId, keep: usize) -> io::Result<OldBackups> {
    let Found { own, others } = find(dir, &verified.cluster, id)?;
    let old = to_delete(own, verified, keep);
    for name in &old {
        match fs::remove_file(dir.join(name.to_string())) {
            // Another node that shares the folder was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => {}
        }
    }
    Ok(OldBackups { deleted: old.len(), others })
}

/// Whether both are on one file system: then a backup can take the space that the node needs.
fn is_same_device(dir: &Path, data: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|entry| entry.dev());
    matches!((device(dir), device(data)), (Ok(one), Ok(other)) if one == other)
}

fn check_room(dir: &Path) -> io::Result<()> {
    if free_bytes(dir)? >= ROOM_LEFT_BYTES {
        return Ok(());
    }
    let needed = ROOM_LEFT_BYTES / MIB;
    Err(io::Error::new(io::ErrorKind::StorageFull, format!("less than {needed} MiB are free, which the node itself needs")))
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
