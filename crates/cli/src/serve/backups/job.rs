//! One scheduled backup: writes the file, verifies it, gives it its name, and deletes old ones. It blocks.

use super::plan::{BackupName, WallSeconds, newest, partial_name, to_delete};
use crate::backup_file::PartialBackup;
use fairhold_node::Node;
use fairhold_raft::wall_now;
use fairhold_storage::free_space::{WRITE_ROOM_BYTES, free_bytes};
use fairhold_types::{NodeId, limits::BACKUP_BLOCK_WITHIN};
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeSet,
    fs, io,
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
    /// How many old backups were deleted, or why that failed.
    pub(super) deleted: Result<usize, String>,
}

impl BackupJob {
    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// When the newest backup in the folder was made. A folder that cannot be read has none: the next backup says why.
    pub(super) fn newest(&self, now: WallSeconds) -> Option<WallSeconds> {
        newest(&names_in(&self.dir, &self.cluster).ok()?, now)
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
        file.keep_as(&self.dir.join(name.to_string()), true).map_err(named)?;
        let deleted = delete_old(&self.dir, &name, self.keep).map_err(|error| error.to_string());
        Ok(MadeBackup { file: name.to_string(), bytes, deleted })
    }

    fn step(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }
}

/// The backups of a cluster in a folder. Anything else there is left alone: other files, links, folders.
fn names_in(dir: &Path, cluster: &str) -> io::Result<BTreeSet<BackupName>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_str().and_then(|name| BackupName::parse(name, cluster));
        if let Some(name) = name
            && entry.file_type()?.is_file()
        {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Deletes old backups after `verified`. Returns how many.
fn delete_old(dir: &Path, verified: &BackupName, keep: usize) -> io::Result<usize> {
    let old = to_delete(names_in(dir, &verified.cluster)?, verified, keep);
    for name in &old {
        match fs::remove_file(dir.join(name.to_string())) {
            // Another node that shares the folder was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => {}
        }
    }
    Ok(old.len())
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
mod tests {
    use super::*;
    use fairhold_types::Revision;

    fn name(made_at: WallSeconds) -> BackupName {
        BackupName { made_at, revision: Revision(made_at), cluster: "prod".to_owned() }
    }

    #[test]
    fn old_backups_are_deleted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let backups = [1_000, 2_000, 3_000, 4_000].map(name);
        let others = ["notes.txt", "fairhold-test-1-19700101T000001Z.backup", "fairhold-prod-node-1.backup.partial"];
        let kept_apart = [name(10).to_string(), name(20).to_string()];
        for file in backups.iter().map(BackupName::to_string).chain(others.map(str::to_owned)) {
            fs::write(dir.join(file), "x").unwrap();
        }
        fs::create_dir(dir.join(&kept_apart[0])).unwrap();
        std::os::unix::fs::symlink(dir.join("notes.txt"), dir.join(&kept_apart[1])).unwrap();
        assert_eq!(delete_old(dir, &backups[3], 2).unwrap(), 2);
        assert_eq!(names_in(dir, "prod").unwrap().into_iter().collect::<Vec<_>>(), backups[2..]);
        for kept in others.iter().copied().chain(kept_apart.iter().map(String::as_str)) {
            assert!(fs::symlink_metadata(dir.join(kept)).is_ok(), "{kept}");
        }
        assert_eq!(delete_old(dir, &backups[3], 2).unwrap(), 0);
        assert!(names_in(&dir.join("no"), "prod").is_err());
    }
}
