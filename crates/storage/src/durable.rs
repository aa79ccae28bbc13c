//! Files that appear whole or not at all, also after a loss of power.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// How much of a file is written before that much is made durable. One sync of all of a large file would hold up the
/// log's own syncs for as long as it takes.
const SYNC_EVERY_BYTES: usize = 1024 * 1024;

/// Writes a file under a temporary name, makes it durable, and only then gives it its name.
pub(crate) fn write(temporary: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let written = write_all(temporary, parts).map_err(|error| naming(temporary, error));
    if let Err(error) = written {
        // It is no file of ours yet; what matters to the caller is why it could not be written.
        std::fs::remove_file(temporary).ok();
        return Err(error);
    }
    std::fs::rename(temporary, path).map_err(|error| naming(path, error))?;
    sync_parent(path)
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    sync_directory(parent)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| naming(directory, error))
}

/// The error, with the file's name before it.
pub(crate) fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Damage: the file is not what was written.
pub(crate) fn damaged(path: &Path, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
}

fn write_all(temporary: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    let mut unsynced = 0;
    for piece in parts.iter().flat_map(|part| part.chunks(SYNC_EVERY_BYTES)) {
        file.write_all(piece)?;
        unsynced += piece.len();
        if unsynced >= SYNC_EVERY_BYTES {
            file.sync_data()?;
            unsynced = 0;
        }
    }
    file.sync_all()
}
