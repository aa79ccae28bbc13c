//! A backup as a file: it gets its name when it is complete, verified and on the disk.

use sha2::{Digest as _, Sha256};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Only the owner may read and write a backup: it has all values.
const MODE: u32 = 0o600;
/// The bytes of a backup after those that its trailer's SHA-256 covers: the SHA-256 and the magic.
const SEAL_BYTES: usize = 32 + fairhold_backup::MAGIC.len();
const READ_BYTES: usize = 256 * 1024;
/// The most bytes of a backup that are written, but not on the disk. If a node's log is on the same file system, a sync
/// of the log can wait until the disk has them.
const UNSYNCED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Checks a backup by its trailer, as its bytes pass, in little memory. It finds every backup that was cut off or has a
/// damaged byte. It does not decode the state.
#[derive(Debug, Default)]
pub(crate) struct SealCheck {
    hasher: Sha256,
    /// The last bytes, which may be the seal.
    tail: Vec<u8>,
    bytes: u64,
}

impl SealCheck {
    /// The next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        let covered = self.tail.len().saturating_sub(SEAL_BYTES);
        self.hasher.update(self.tail.drain(..covered).as_slice());
    }

    /// The number of bytes, or why they are no complete backup.
    pub(crate) fn finish(self) -> Result<u64, &'static str> {
        let (sha256, magic) = self.tail.split_at_checked(SEAL_BYTES - fairhold_backup::MAGIC.len()).unwrap_or_default();
        if !magic.iter().eq(fairhold_backup::MAGIC.iter().rev()) {
            return Err("it is truncated: its trailer is missing");
        }
        let found: [u8; 32] = self.hasher.finalize().into();
        if found.as_slice() != sha256 {
            return Err("it is damaged: its bytes do not have the SHA-256 in its trailer");
        }
        Ok(self.bytes)
    }
}

/// A backup that is being written. Until it is complete, its file has another name. Dropping it removes that file.
#[derive(Debug)]
pub(crate) struct PartialBackup {
    partial: PathBuf,
    file: File,
    /// The bytes that are written, but may not be on the disk.
    unsynced: usize,
    is_kept: bool,
}

impl PartialBackup {
    /// Creates the file, or takes over one that an earlier process left. While another process writes it, this is an
    /// error.
    pub(crate) fn create(partial: PathBuf) -> io::Result<PartialBackup> {
        let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).custom_flags(flags).clone();
        let file = options.open(&partial).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => io::Error::other("it is a link: remove it"),
            Some(_) | None => error,
        })?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file: remove it"));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process writes it: wait until it ends")),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (named, own) = (fs::symlink_metadata(&partial)?, file.metadata()?);
        if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
            return Err(io::Error::other("another process has just completed it: try again"));
        }
        if own.uid() != rustix::process::geteuid().as_raw() || own.nlink() != 1 {
            return Err(io::Error::other("another user has made it, or it has a second name: remove it"));
        }
        let partial = PartialBackup { partial, file, unsynced: 0, is_kept: false };
        partial.file.set_permissions(fs::Permissions::from_mode(MODE))?;
        partial.file.set_len(0)?;
        Ok(partial)
    }

    /// Appends bytes, and syncs the file after every few MiB.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        write_in_steps(bytes, &mut self.unsynced, |step| file.write_all(step), || self.file.sync_data())
    }

    /// Syncs the file, and goes back to its beginning, to verify it.
    pub(crate) fn sync(&mut self) -> io::Result<&File> {
        self.file.sync_all()?;
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&self.file)
    }

    /// Checks the written file by its trailer. Returns its size.
    pub(crate) fn verify_seal(&mut self) -> io::Result<u64> {
        let mut file = self.sync()?;
        let mut check = SealCheck::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer)? {
                0 => return check.finish().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)),
                count => check.add(buffer.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Gives the file its name, and syncs the folder. Replaces a file of that name only if `replaces`.
    pub(crate) fn keep_as(mut self, path: &Path, replaces: bool) -> io::Result<()> {
        if !replaces && fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(&self.partial, path)?;
        self.is_kept = true;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is incomplete. If it cannot be removed, the next backup takes it over.
            fs::remove_file(&self.partial).ok();
        }
    }
}

/// Writes bytes, and syncs whenever `UNSYNCED_BYTES_MAX` bytes are unsynced.
fn write_in_steps(
    mut bytes: &[u8],
    unsynced: &mut usize,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
    mut sync: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let (step, rest) = bytes.split_at(bytes.len().min(UNSYNCED_BYTES_MAX - *unsynced));
        write(step)?;
        *unsynced += step.len();
        bytes = rest;
        if *unsynced == UNSYNCED_BYTES_MAX {
            sync()?;
            *unsynced = 0;
        }
    }
    Ok(())
}

/// The name of a file while it is incomplete: `FILE.partial`.
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}

#[cfg(test)]
#[path = "backup_file_tests.rs"]
mod tests;
