//! Why a command about backups failed, each with what to do.

use crate::exit;
use fairhold_backup::{BackupDamage, ReadBackupError, RestoreError};
use fairhold_storage::{StorageError, data_dir::DataDirError};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a command about backups failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackupError {
    /// The backup is damaged, or cannot be read.
    #[error("{}: {error}{}", shown(file), more(error))]
    Read { file: PathBuf, error: ReadBackupError },
    /// A file cannot be opened or written.
    #[error("{}: {error}", shown(file))]
    File { file: PathBuf, error: io::Error },
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The disk of the data directory is full or read-only.
    #[error(
        "{error}. To read a data directory, this program writes to it: copy the directory to a disk with free space that you can \
         write to, `cp -a {} DIR`, and name the copy with --data", data.display()
    )]
    Disk { data: PathBuf, error: StorageError },
    /// The node of the data directory was removed from its cluster.
    #[error(
        "{error}. To save its state, copy the directory, `cp -a {} DIR`, delete the file REMOVED in the copy, and name the copy \
         with --data", data.display()
    )]
    Removed { data: PathBuf, error: StorageError },
    /// The data directory is not that of a node with an id.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The state of the stopped node cannot be read.
    #[error("the state in {} cannot be read: {error}", data.display())]
    State { data: PathBuf, error: io::Error },
    /// The clock, or the revision.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The restored state is inconsistent: a defect.
    #[error("the restored state is inconsistent, which is a defect in fairhold: {0}. Nothing was written")]
    Inconsistent(String),
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl BackupError {
    /// Why the storage of a stopped node cannot be opened.
    pub(super) fn of_storage(data: &Path, error: StorageError) -> BackupError {
        if error.needs_another_disk() {
            return BackupError::Disk { data: data.to_owned(), error };
        }
        match error {
            StorageError::DataDir(DataDirError::Removed { .. }) => BackupError::Removed { data: data.to_owned(), error },
            StorageError::DataDir(_) | StorageError::Log(_) | StorageError::Snapshots(_) | StorageError::SnapshotLost { .. } => {
                BackupError::Storage(error)
            }
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            BackupError::Usage(_) => exit::USAGE,
            BackupError::Read { .. }
            | BackupError::File { .. }
            | BackupError::Storage(_)
            | BackupError::Disk { .. }
            | BackupError::Removed { .. }
            | BackupError::DataDir(_)
            | BackupError::State { .. }
            | BackupError::Restore(_)
            | BackupError::Inconsistent(_)
            | BackupError::Output(_) => exit::FAILURE,
        }
    }
}

/// Whether a file stands for standard input or output.
pub(super) fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn shown(file: &Path) -> String {
    if is_standard(file) { "the standard input or output".to_owned() } else { file.display().to_string() }
}

/// The cause, or what to do.
fn more(error: &ReadBackupError) -> String {
    match error {
        ReadBackupError::Io(cause) => format!(": {cause}"),
        ReadBackupError::Damaged(
            BackupDamage::Truncated(_) | BackupDamage::Part { .. } | BackupDamage::Trailing | BackupDamage::State(_),
        ) => ". Use another copy, or an older backup".to_owned(),
        ReadBackupError::Damaged(BackupDamage::NotABackup | BackupDamage::Format(_) | BackupDamage::Version { .. }) => {
            String::new()
        }
    }
}
