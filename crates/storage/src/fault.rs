//! The first error that ended the storage, for the final message to the operator.

use std::{
    io,
    sync::{Arc, OnceLock},
};

/// The kind of an error, by the action that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The file system, or the quota on it, is full.
    OutOfSpace,
    /// A file is damaged.
    Damage,
    /// The process or the machine has too many open files and sockets.
    OpenFiles,
    /// The disk or its driver failed.
    Failed,
}

/// An error that ended the storage. Its text names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The message, which names the file.
    pub message: String,
}

/// Records the first error. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<OnceLock<Fault>>);

impl FaultKind {
    pub(crate) fn of(error: &io::Error) -> FaultKind {
        if is_out_of_space(error) {
            FaultKind::OutOfSpace
        } else if has_too_many_open(error) {
            FaultKind::OpenFiles
        } else if error.kind() == io::ErrorKind::InvalidData {
            FaultKind::Damage
        } else {
            FaultKind::Failed
        }
    }
}

impl Faults {
    /// The error that ended the storage, if any. Later errors are its consequences.
    #[must_use]
    pub fn first(&self) -> Option<Fault> {
        self.0.get().cloned()
    }

    pub(crate) fn record(&self, error: &io::Error) {
        self.0.get_or_init(|| Fault { kind: FaultKind::of(error), message: error.to_string() });
    }
}

/// Whether more free space would have prevented it.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether too many open files caused it. RocksDB passes on the system's message, not its error number.
fn has_too_many_open(error: &io::Error) -> bool {
    let too_many = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    too_many.contains(&error.raw_os_error()) || error.to_string().contains("Too many open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_is_not_a_disk_failure() {
        let message = "IO error: While open a file for appending: /log/000008.log: Too many open files";
        for error in [io::Error::other(message), io::Error::from_raw_os_error(24), io::Error::from_raw_os_error(23)] {
            assert_eq!(FaultKind::of(&error), FaultKind::OpenFiles, "{error}");
        }
        assert_eq!(FaultKind::of(&io::Error::from_raw_os_error(5)), FaultKind::Failed);
        assert_eq!(FaultKind::of(&io::Error::from_raw_os_error(28)), FaultKind::OutOfSpace);
    }
}
