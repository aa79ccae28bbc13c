//! Backups: the state of a cluster in one file, and how a new cluster begins with it.
//!
//! ```text
//! "FAIRHOLD-BACKUP" │ format (1) │ header │ block │ block │ … │ 0 (4) │ trailer
//! header, block = length (4, never 0) │ bytes, sealed by `fairhold_codec`
//! trailer = count of blocks (8) │ SHA-256 of all before it (32) │ the magic, reversed (15)    all numbers little endian
//! ```
//!
//! The blocks are those of a snapshot. Without its trailer, a backup is not complete. Nothing follows the trailer.
//!
//! # Model
//!
//! - A backup has no capability: `State::for_backup` ends all sessions and grants in a copy, and forgets all ids. So a
//!   reader of a backup cannot renew or release anything in the cluster from which it comes.
//! - `Backup::new` makes that copy, which shares all parts that it does not change. `Backup::pieces` encodes it piece by
//!   piece: the whole file is never in memory.
//! - `Backup::read` verifies all checksums, and then `State::check`. No length in a file is trusted.
//! - `RestoreRequest` has what a restored state gets anew. `revision` chooses its first revision, so that it exceeds every
//!   revision of the clusters from which the backup comes.
//!
//! # Caveats
//!
//! A backup is not encrypted, and it is not signed: its checksums find damage, not forgery. It contains all values.

mod backup;
mod damage;
mod format;
mod header;
mod priority;
mod reader;
mod restore;
mod revision;
#[cfg(test)]
mod tests;
mod writer;

pub use backup::{Backup, BackupSummary};
pub use damage::{BackupDamage, BackupPart, ReadBackupError};
pub use format::{BACKUP_FORMAT, MAGIC, MEDIA_TYPE};
pub use header::{BackupHeader, BackupMember, BackupOrigin, BackupSource};
pub use priority::lower_priority;
pub use restore::{RestoreError, RestoreRequest, restored};
pub use revision::{is_ahead, restored_revision};
pub use writer::BackupPieces;
