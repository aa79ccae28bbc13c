//! Why a backup cannot be read.

use crate::format::BACKUP_FORMAT;
use fairhold_types::{ClusterVersion, SupportedVersions};
use std::{fmt, io};

/// A part of a backup file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupPart {
    /// The first bytes.
    Magic,
    /// The header.
    Header,
    /// A block, counted from 0.
    Block(u64),
    /// The trailer.
    Trailer,
}

impl fmt::Display for BackupPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupPart::Magic => f.write_str("the beginning"),
            BackupPart::Header => f.write_str("the header"),
            BackupPart::Block(index) => write!(f, "block {index}"),
            BackupPart::Trailer => f.write_str("the trailer"),
        }
    }
}

/// What is wrong with a backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupDamage {
    /// It is another kind of file.
    #[error("it is not a backup of Fairhold")]
    NotABackup,
    /// A newer program wrote it.
    #[error("its format is {0}, but this program supports {BACKUP_FORMAT}: use the release that made it, or a newer one")]
    Format(u8),
    /// The cluster had a version that this program does not support.
    #[error(
        "its cluster has version {version}, but this program supports {supports}: use the release that made it, or a newer one"
    )]
    Version {
        /// The version of the cluster.
        version: ClusterVersion,
        /// The versions that this program supports.
        supports: SupportedVersions,
    },
    /// It ends too early.
    #[error("it is truncated in {0}")]
    Truncated(BackupPart),
    /// A part cannot be decoded.
    #[error("{part} is damaged: {reason}")]
    Part {
        /// The part.
        part: BackupPart,
        /// What is wrong.
        reason: String,
    },
    /// Something follows the trailer.
    #[error("something follows its trailer")]
    Trailing,
    /// The blocks are whole, but are no consistent state without capabilities.
    #[error("its state is inconsistent: {0}")]
    State(String),
}

/// Why a backup could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackupError {
    /// It is damaged, or is no backup.
    #[error(transparent)]
    Damaged(#[from] BackupDamage),
    /// It could not be read to its end.
    #[error("the backup cannot be read")]
    Io(#[from] io::Error),
}
