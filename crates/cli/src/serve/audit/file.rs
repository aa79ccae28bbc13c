//! The files of the audit log. The newest one has the name of the configuration, and `.1` to `.9` are older ones.
//!
//! They are only appended to, and have whole lines: a part of a line that a full disk let through is taken back, and
//! one of an earlier run is ended with a newline.

use rustix::fs::OFlags;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Only the user of the node reads and writes the files.
const MODE: u32 = 0o600;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o777;

/// The newest file, and how to begin another one.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    bytes_max: u64,
    files_max: usize,
    current: Option<OpenAuditFile>,
}

#[derive(Debug)]
struct OpenAuditFile {
    file: File,
    device: u64,
    inode: u64,
    /// Others, such as pipes and terminals, have no size and no older files.
    is_regular: bool,
    bytes: u64,
    ends_with_newline: bool,
    is_dirty: bool,
}

/// Lines that are not written yet.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    lines: Vec<u8>,
    written: usize,
    entries: u64,
}

impl PendingLines {
    pub(super) fn add(&mut self, lines: Vec<u8>, entries: u64) {
        if self.is_empty() {
            *self = PendingLines { lines, written: 0, entries };
        } else {
            self.lines.extend_from_slice(&lines);
            self.entries += entries;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    fn rest(&self) -> &[u8] {
        self.lines.get(self.written..).unwrap_or_default()
    }

    /// The next whole lines that fit into this room; at least one line if `even_too_long`.
    fn fitting(&self, room: u64, even_too_long: bool) -> &[u8] {
        let rest = self.rest();
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
        let end_of = |part: &[u8]| part.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let fits = end_of(rest.get(..room).unwrap_or_default());
        let first = || rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |newline| newline + 1);
        let length = if fits == 0 && even_too_long { first() } else { fits };
        rest.get(..length).unwrap_or_default()
    }

    fn take(&mut self, bytes: usize) {
        let lines = self.rest().get(..bytes).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
        self.entries = self.entries.saturating_sub(lines as u64);
        self.written += bytes;
        if self.is_empty() {
            *self = PendingLines::default();
        }
    }
}

impl AuditFile {
    pub(super) fn new(path: PathBuf, bytes_max: u64, files_max: usize) -> AuditFile {
        AuditFile { path, bytes_max, files_max, current: None }
    }

    /// An error with the name of the file.
    pub(super) fn fault(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Opens the file, unless it is open and still has its name: it may have been removed, or renamed by another
    /// program.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let is_current = self.current.as_ref().is_some_and(|current| current.has_name(&self.path));
        if !is_current {
            self.current = None;
            self.current = Some(OpenAuditFile::open(&self.path)?);
        }
        Ok(())
    }

    /// Goes on in another file, whose older ones are beside it. The old file is synced first.
    pub(super) fn move_to(&mut self, path: PathBuf) -> io::Result<()> {
        let synced = self.sync();
        self.close();
        self.path = path;
        synced
    }

    /// Closes it. `open` opens it again.
    pub(super) fn close(&mut self) {
        self.current = None;
    }

    /// Appends lines, and begins another file where one is full. Lines that it cannot write stay.
    pub(super) fn append(&mut self, pending: &mut PendingLines) -> io::Result<()> {
        while !pending.is_empty() {
            self.open()?;
            let Some(current) = &mut self.current else { return Ok(()) };
            let room = if current.is_regular { self.bytes_max.saturating_sub(current.bytes) } else { u64::MAX };
            let lines = pending.fitting(room, current.bytes == 0);
            if lines.is_empty() {
                self.rotate()?;
                continue;
            }
            let length = lines.len();
            let (whole, result) = current.write(lines);
            debug_assert!(whole <= length, "wrote more than there was");
            pending.take(whole);
            result?;
        }
        Ok(())
    }

    /// Makes what was appended survive a crash of the machine.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &mut self.current {
            Some(current) if current.is_dirty && current.is_regular => {
                current.file.sync_data()?;
                current.is_dirty = false;
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Renames the files, the oldest one first. If that is interrupted, a number is missing, and no file is lost.
    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        for number in (0..self.files_max.saturating_sub(1)).rev() {
            match fs::rename(self.older(number), self.older(number + 1)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.close();
        Ok(())
    }

    /// The name of an older file; 0 is the newest one.
    fn older(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    }
}

impl OpenAuditFile {
    fn open(path: &Path) -> io::Result<OpenAuditFile> {
        // A pipe without a reader must not block the thread.
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
        // It is read once: its last byte shows whether an earlier run ended in the middle of a line.
        let file = OpenOptions::new().read(true).append(true).create(true).mode(MODE).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        let is_regular = metadata.is_file();
        if is_regular && metadata.mode() & PERMISSIONS & !MODE != 0 {
            file.set_permissions(Permissions::from_mode(MODE))?;
        }
        let bytes = if is_regular { metadata.len() } else { 0 };
        let mut last = [b'\n'];
        if bytes > 0 {
            file.read_exact_at(&mut last, bytes - 1)?;
        }
        let ends_with_newline = last == [b'\n'];
        let (device, inode) = (metadata.dev(), metadata.ino());
        Ok(OpenAuditFile { file, device, inode, is_regular, bytes, ends_with_newline, is_dirty: false })
    }

    /// Whether this is the file of that name.
    fn has_name(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == (self.device, self.inode))
    }

    /// Appends whole lines. Returns how many bytes of them are written for good, which is a number of whole lines.
    fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        if !self.ends_with_newline {
            match self.file.write_all(b"\n") {
                Ok(()) => (self.ends_with_newline, self.bytes) = (true, self.bytes + 1),
                Err(error) => return (0, Err(error)),
            }
        }
        self.is_dirty = true;
        let mut done = 0;
        let result = loop {
            match self.file.write(lines.get(done..).unwrap_or_default()) {
                Ok(0) => break if done == lines.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) },
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if done >= lines.len() {
                break Ok(());
            }
        };
        let written = lines.get(..done).unwrap_or_default();
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        self.bytes += done as u64;
        if whole < done {
            let kept = self.bytes - (done - whole) as u64;
            if self.is_regular && self.file.set_len(kept).is_ok() {
                self.bytes = kept;
            } else {
                self.ends_with_newline = false;
            }
        }
        (whole, result)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
