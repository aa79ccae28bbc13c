//! The file of a backup. It gets its name only when it is complete, durable and verified.

use super::error::BackupError;
use crate::backup_file::{PartialBackup, partial_of};
use fairhold_backup::{Backup, BackupSummary};
use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
};

/// Bytes read at once.
pub(super) const BUFFER_BYTES: usize = 256 * 1024;

/// Opens a backup.
pub(super) fn open(file: &Path) -> Result<BufReader<File>, BackupError> {
    let opened = File::open(file).map_err(|error| BackupError::File { file: file.to_owned(), error })?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, opened))
}

/// Checks that a backup may get this name. Otherwise the reason, with what to do.
pub(super) fn check_free(file: &Path, force: bool) -> Result<(), String> {
    let unusable = |why: &str| Err(format!("{}: {why}", file.display()));
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => unusable(&error.to_string()),
        Ok(entry) if !entry.is_file() => unusable("it is not a file: to write to a pipe, pass - and redirect the output"),
        Ok(_) if !force => unusable("this file exists: choose another name, or pass --force to replace it"),
        Ok(_) => Ok(()),
    }
}

/// Writes a backup to `FILE.partial`, verifies what the disk has, and only then gives it its name. Only its owner can
/// read it. An older file with this name stays until then, and is replaced only if `replaces`.
pub(super) fn save(backup: &Backup, file: &Path, replaces: bool) -> Result<(Backup, BackupSummary), BackupError> {
    let path = partial_of(file);
    let failed = |error| BackupError::File { file: path.clone(), error };
    let mut partial = PartialBackup::create(path.clone()).map_err(failed)?;
    for piece in backup.pieces() {
        piece.and_then(|piece| partial.write(&piece)).map_err(failed)?;
    }
    let written = BufReader::with_capacity(BUFFER_BYTES, partial.sync().map_err(failed)?);
    let read = Backup::read(written).map_err(|error| BackupError::Read { file: path.clone(), error })?;
    partial.keep_as(file, replaces).map_err(|error| BackupError::File { file: file.to_owned(), error })?;
    Ok(read)
}
