//! The file of a backup. It gets its name only when it is complete, durable and verified.

use super::error::BackupError;
use fairhold_backup::{Backup, BackupSummary};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Bytes read or written at once.
const BUFFER_BYTES: usize = 256 * 1024;

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
/// read it. An older file with this name stays until then.
pub(super) fn save(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(Backup, BackupSummary), BackupError> {
    let partial = file.with_added_extension("partial");
    let result = save_as(&partial, write).and_then(|read| {
        let named = fs::rename(&partial, file).and_then(|()| sync_folder(file));
        named.map_err(|error| BackupError::File { file: file.to_owned(), error })?;
        Ok(read)
    });
    if result.is_err() {
        // The first error is the one that tells.
        fs::remove_file(&partial).ok();
    }
    result
}

fn save_as(partial: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(Backup, BackupSummary), BackupError> {
    let written = || {
        // A leftover may have another mode.
        match fs::remove_file(partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, created);
        write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()
    };
    written().map_err(|error| BackupError::File { file: partial.to_owned(), error })?;
    Backup::read(open(partial)?).map_err(|error| BackupError::Read { file: partial.to_owned(), error })
}

fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
