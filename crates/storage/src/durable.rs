//! Files that appear atomically, even after a power loss.

use fairhold_types::failpoint;
use rustix::fs::OFlags;
use std::{
    fs::{DirEntry, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Bytes of a file written to the disk at a time. A sync of the log waits for one such write, and not for a whole file.
const PIECE_BYTES: usize = 128 * 1024;

/// The block size of a disk, or a multiple of it.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a file freed at a time.
const REMOVED_BYTES: u64 = 4 * 1024 * 1024;

/// How many times longer than a write the pause after it is.
const PAUSE_FACTOR: u32 = 3;

/// The longest pause after a write, in which the log gets the disk. A large file on a slow disk must still complete.
const WRITE_PAUSE_MAX: Duration = Duration::from_millis(5);

/// The longest pause between two steps of a removal.
const REMOVAL_PAUSE_MAX: Duration = Duration::from_millis(20);

/// Writes a file under the temporary name `<name>.new`, syncs it, and only then renames it.
pub(crate) fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = path.with_added_extension("new");
    if let Err(error) = NewFile::create(&temporary).and_then(|file| write_all(file, parts)) {
        // Nothing depends on the temporary file. The caller needs the first error.
        std::fs::remove_file(&temporary).ok();
        return Err(error);
    }
    rename(&temporary, path)
}

/// Renames a durable file to its final name.
pub(crate) fn rename(temporary: &Path, path: &Path) -> io::Result<()> {
    failpoint!(StorageFileRename)?;
    std::fs::rename(temporary, path).map_err(|error| with_path(path, error))?;
    failpoint!(StorageFileName)?;
    sync_parent(path)
}

/// Removes a file of any size in steps. The file system would free a large file in one step, and the log's syncs would
/// wait for it. An interrupted removal leaves the file under the name `temporary`.
pub(crate) fn remove(temporary: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(path, temporary).map_err(|error| with_path(path, error))?;
    truncate_in_steps(temporary).and_then(|()| std::fs::remove_file(temporary)).map_err(|error| with_path(temporary, error))
}

/// The content of a file; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| with_path(path, error)),
    }
}

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    std::fs::read_dir(directory).and_then(|entries| entries.map(name).collect()).map_err(|error| with_path(directory, error))
}

/// Syncs the directory of `path`.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    sync_directory(parent_of(path))
}

/// The directory of `path`, which may be the current one.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs a directory.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| with_path(directory, error))
}

/// The error, prefixed with the file's name.
pub(crate) fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// An error for damage: the content of the file is not what was written.
pub(crate) fn damaged(path: &Path, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {what}", path.display()))
}

fn truncate_in_steps(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut length = file.metadata()?.len();
    while length > REMOVED_BYTES {
        length -= REMOVED_BYTES;
        let started = Instant::now();
        file.set_len(length)?;
        std::thread::sleep(started.elapsed().min(REMOVAL_PAUSE_MAX));
    }
    Ok(())
}

/// How the parts of a new file reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoMode {
    /// Bypass the page cache, so that neither a sync nor the removal of the file keeps the file system busy for long.
    Direct,
    /// Sync each part, for file systems that cannot bypass the page cache.
    Cached,
}

/// A file written sequentially under a temporary name. It is complete only after `finish`.
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
    mode: IoMode,
    piece: Piece,
    length: u64,
    /// Whether a part has reached the disk.
    has_written: bool,
}

impl NewFile {
    /// Creates an empty file, replacing an existing one.
    pub(crate) fn create(path: &Path) -> io::Result<NewFile> {
        NewFile::create_for(path, IoMode::Direct)
    }

    fn create_for(path: &Path, preferred: IoMode) -> io::Result<NewFile> {
        let opened = match open_for(path, preferred) {
            Err(error) if is_unsupported(&error) => open_for(path, IoMode::Cached).map(|file| (file, IoMode::Cached)),
            opened => opened.map(|file| (file, preferred)),
        };
        let (file, mode) = opened.map_err(|error| with_path(path, error))?;
        Ok(NewFile { path: path.to_owned(), file, mode, piece: Piece::new(), length: 0, has_written: false })
    }

    /// Appends bytes. They reach the disk in parts.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            bytes = self.piece.fill(bytes);
            if self.piece.length == PIECE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Syncs the whole file, but not its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        // The last part was padded to the end of its block.
        let whole = self.file.set_len(self.length).and_then(|()| failpoint!(StorageFileSync)).and_then(|()| self.file.sync_all());
        whole.map_err(|error| with_path(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = match self.piece.write(&mut self.file, self.mode) {
            // The file system does not support the flag or the alignment. Nothing is written yet.
            Err(error) if !self.has_written && self.mode == IoMode::Direct && is_unsupported(&error) => {
                self.mode = IoMode::Cached;
                open_for(&self.path, self.mode).and_then(|file| {
                    self.file = file;
                    self.piece.write(&mut self.file, self.mode)
                })
            }
            written => written,
        };
        self.has_written = true;
        written.map_err(|error| with_path(&self.path, error))
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

fn open_for(path: &Path, mode: IoMode) -> io::Result<File> {
    let flags = match mode {
        IoMode::Direct => OFlags::DIRECT.bits().cast_signed(),
        IoMode::Cached => 0,
    };
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path)
}

fn write_all(mut file: NewFile, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write(part))?;
    file.finish()
}

/// A write buffer whose address and length are aligned to a disk's blocks.
struct Piece {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Piece {
    fn new() -> Piece {
        let bytes = vec![0; PIECE_BYTES + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        Piece { bytes, start, length: 0 }
    }

    /// Takes the bytes that fit, and returns the rest.
    fn fill<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = part.split_at(part.len().min(PIECE_BYTES - self.length));
        let from = self.start + self.length;
        self.bytes[from..from + taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        rest
    }

    fn write(&mut self, file: &mut File, mode: IoMode) -> io::Result<()> {
        let started = Instant::now();
        // After a failure, all bytes are still in the buffer.
        file.write_all(&self.bytes[self.start..self.start + self.length.next_multiple_of(BLOCK_BYTES)])?;
        match mode {
            IoMode::Direct => {}
            IoMode::Cached => file.sync_data()?,
        }
        if std::mem::take(&mut self.length) == PIECE_BYTES {
            // Leaves the disk to the log for most of the time.
            std::thread::sleep((started.elapsed() * PAUSE_FACTOR).min(WRITE_PAUSE_MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_written_bytes_for_any_length_and_io_mode() {
        // The directory for temporary files and the build directory: one of them may be in memory only.
        for home in [tempfile::tempdir().unwrap(), tempfile::tempdir_in(".").unwrap()] {
            let path = home.path().join("whole");
            for length in [0, 1, BLOCK_BYTES, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + BLOCK_BYTES + 7] {
                let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
                let (front, back) = bytes.split_at(length / 3);
                write(&path, &[front, &[], back]).unwrap();
                assert!(std::fs::read(&path).unwrap() == bytes, "{length} bytes, without the page cache if possible");
                write_all(NewFile::create_for(&path, IoMode::Cached).unwrap(), &[front, &[], back]).unwrap();
                assert!(std::fs::read(&path).unwrap() == bytes, "{length} bytes through the page cache");
            }
        }
    }

    #[test]
    fn removing_a_large_file_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (temporary, path) = (home.path().join("going"), home.path().join("old"));
        std::fs::write(&path, vec![1; 2 * usize::try_from(REMOVED_BYTES).unwrap() + 5]).unwrap();
        remove(&temporary, &path).unwrap();
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
