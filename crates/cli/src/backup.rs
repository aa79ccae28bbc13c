//! `fairhold backup`: saves, shows, verifies and restores backups.

mod file;
mod inspect;
mod restore;
mod save;
mod stopped;

use crate::{exit, output};
use clap::{Args, Subcommand};
use fairhold_backup::{Backup, BackupSummary, ReadBackupError, RestoreError};
use fairhold_raft::wall_now;
use fairhold_storage::{StorageError, data_dir::DataDirError};
use fairhold_types::time::WallMillis;
use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Save a backup from the data directory of a stopped node
    ///
    /// It has the newest snapshot of the node and its whole log, also entries that may not be committed. A backup has no
    /// session, no grant and no key of a request, but all values: only its owner can read the file.
    #[command(after_help = "Example:
  fairhold backup save --data /var/lib/fairhold cluster.backup")]
    Save(save::SaveArgs),
    /// Show what a backup, or the data directory of a stopped node, has
    #[command(after_help = "Examples:
  fairhold backup inspect cluster.backup
  Which of the nodes that are left has the longest log:
  fairhold backup inspect --data /var/lib/fairhold")]
    Inspect(inspect::InspectArgs),
    /// Verify a backup from its first byte to its last
    ///
    /// Exits with 1 if it is damaged, and names the place.
    #[command(after_help = "Examples:
  fairhold backup verify cluster.backup
  age -d -i key.txt cluster.backup.age | fairhold backup verify -")]
    Verify {
        /// File of the backup; `-` reads it from standard input
        file: PathBuf,
    },
    /// Make the data directory of one node of a new cluster from a backup
    ///
    /// Start this node, and the other nodes with empty data directories and the same list of members. The cluster begins
    /// when all of them have started. Its fencing tokens are larger than all before.
    #[command(after_help = "Example:
  fairhold backup restore cluster.backup --data /var/lib/fairhold --id 1 \\
    --member 1=http://a:7171,a:7271 --member 2=http://b:7171,b:7271 --member 3=http://c:7171,c:7271")]
    Restore(restore::RestoreArgs),
}

/// Why a command about backups failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// The backup is damaged, or cannot be read.
    #[error("{}: {error}{}", shown(file), cause(error))]
    Read { file: PathBuf, error: ReadBackupError },
    /// A file cannot be opened or written.
    #[error("{}: {error}", shown(file))]
    File { file: PathBuf, error: io::Error },
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The data directory is not that of a node with an id.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The state of the stopped node cannot be read.
    #[error("the state in {} cannot be read: {error}", data.display())]
    State { data: PathBuf, error: io::Error },
    /// The clock, or the revision.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The restored state is inconsistent: a defect.
    #[error("the restored state is inconsistent, which is a defect in fairhold: {0}. Nothing was written")]
    Inconsistent(String),
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl BackupError {
    fn exit_code(&self) -> u8 {
        match self {
            BackupError::Usage(_) => exit::USAGE,
            BackupError::Read { .. }
            | BackupError::File { .. }
            | BackupError::Storage(_)
            | BackupError::DataDir(_)
            | BackupError::State { .. }
            | BackupError::Restore(_)
            | BackupError::Inconsistent(_)
            | BackupError::Output(_) => exit::FAILURE,
        }
    }
}

pub(crate) fn main(args: &BackupArgs) -> ExitCode {
    let done = match &args.command {
        BackupCommand::Save(args) => save::run(args),
        BackupCommand::Inspect(args) => inspect::run(args).and_then(|text| print(&text)),
        BackupCommand::Verify { file } => read(file).and_then(|(backup, summary)| print(&verified(&backup, &summary))),
        BackupCommand::Restore(args) => restore::run(args).and_then(|text| print(&text)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::with_error(error.exit_code(), &error),
    }
}

/// Reads and verifies a whole backup, from a file or from standard input.
fn read(file: &Path) -> Result<(Backup, BackupSummary), BackupError> {
    let failed = |error| BackupError::Read { file: file.to_owned(), error };
    if is_standard(file) {
        return Backup::read(io::stdin().lock()).map_err(failed);
    }
    Backup::read(file::open(file)?).map_err(failed)
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn shown(file: &Path) -> String {
    if is_standard(file) { "the standard input or output".to_owned() } else { file.display().to_string() }
}

fn cause(error: &ReadBackupError) -> String {
    match error {
        ReadBackupError::Io(cause) => format!(": {cause}"),
        ReadBackupError::Damaged(_) => String::new(),
    }
}

/// What `verify` and `save` say about a whole backup.
fn verified(backup: &Backup, summary: &BackupSummary) -> String {
    let BackupSummary { blocks, bytes, sha256 } = summary;
    let sha256: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let (header, digest) = (backup.header(), backup.state().digest());
    format!(
        "verified: {bytes} bytes in {blocks} blocks, revision {}, {} nodes\nsha256:   {sha256}\ndigest:   {digest}\n",
        header.revision, header.nodes
    )
}

fn print(text: &str) -> Result<(), BackupError> {
    output::unless_closed(output::write_stdout(text)).map_err(BackupError::Output)
}

/// A message for people that is no result.
fn note(text: &str) {
    // Nobody may read stderr; the exit code is what matters.
    writeln!(io::stderr(), "fairhold: {text}").ok();
}

/// The time, by the clock of this machine.
fn now() -> WallMillis {
    wall_now()
}

#[cfg(test)]
mod tests;
