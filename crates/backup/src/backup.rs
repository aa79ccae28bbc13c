//! A backup in memory, and what is known about its file.

use crate::header::BackupHeader;
use fairhold_state::State;

/// A backup in memory: the header, and the state without any capability.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    pub(crate) header: BackupHeader,
    pub(crate) state: State,
}

/// What was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupSummary {
    /// How many blocks it has.
    pub blocks: u64,
    /// How many bytes the whole file has.
    pub bytes: u64,
    /// The SHA-256 in its trailer. Backups of equal states at different times differ.
    pub sha256: [u8; 32],
}

impl Backup {
    /// Its header.
    #[must_use]
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Its state, without sessions, grants and ids.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }
}
