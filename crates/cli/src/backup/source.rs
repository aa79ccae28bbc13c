//! Reads backups, and says what they are.

use super::{
    error::{BackupError, is_standard},
    file,
};
use fairhold_backup::{Backup, BackupSummary};
use fairhold_raft::wall_now;
use fairhold_types::time::WallMillis;
use std::{
    io::{self, Write as _},
    path::Path,
};

/// Reads and verifies a whole backup, from a file or from standard input.
pub(super) fn read(file: &Path) -> Result<(Backup, BackupSummary), BackupError> {
    let failed = |error| BackupError::Read { file: file.to_owned(), error };
    if is_standard(file) {
        return Backup::read(io::stdin().lock()).map_err(failed);
    }
    Backup::read(file::open(file)?).map_err(failed)
}

/// The same, and then says what it is.
pub(super) fn verify(file: &Path) -> Result<String, BackupError> {
    let verified = |(backup, summary, digest): (Backup, BackupSummary, String)| verified(&backup, &summary, &digest);
    let failed = |error| BackupError::Read { file: file.to_owned(), error };
    if is_standard(file) {
        return Backup::read_with_digest(io::stdin().lock()).map(verified).map_err(failed);
    }
    Backup::read_with_digest(file::open(file)?).map(verified).map_err(failed)
}

/// What `verify` and `save` say about a whole backup.
pub(super) fn verified(backup: &Backup, summary: &BackupSummary, digest: &str) -> String {
    let BackupSummary { blocks, bytes, sha256 } = summary;
    let sha256: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let header = backup.header();
    format!(
        "verified: {bytes} bytes in {blocks} blocks, revision {}, {} nodes\nsha256:   {sha256}\ndigest:   {digest}\n",
        header.revision, header.nodes
    )
}

/// A message for people that is no result.
pub(super) fn note(text: &str) {
    // Nobody may read stderr; the exit code is what matters.
    writeln!(io::stderr(), "fairhold: {text}").ok();
}

/// The time, by the clock of this machine.
pub(super) fn now() -> WallMillis {
    wall_now()
}
