//! `fairhold backup`: saves, shows, verifies and restores backups.

mod error;
mod file;
mod inspect;
mod live;
mod restore;
mod save;
mod source;
mod stopped;

use crate::{exit, output, remote};
use clap::{Args, Subcommand};
use error::BackupError;
use source::verify;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Save a backup of a running cluster (for administrators), or of a stopped node with --data
    ///
    /// A backup of a running cluster has everything that was acknowledged before. One of a stopped node has its newest
    /// snapshot and its whole log, also entries that may not be committed. A backup has no session, no grant and no key of
    /// a request, but all values: only its owner can read the file. It gets its name when it is complete and verified.
    #[command(after_help = "Examples:
  fairhold backup save cluster.backup -e http://n2:7171 --auth-token-file backup.token
  fairhold backup save - | age -r age1… > cluster.backup.age
  fairhold backup save --data /var/lib/fairhold cluster.backup")]
    Save(Box<save::SaveArgs>),
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
  fairhold backup restore cluster.backup --data /var/lib/fairhold --id 1 --member 1=http://a:7171,a:7271")]
    Restore(restore::RestoreArgs),
}

pub(crate) fn main(args: &BackupArgs) -> ExitCode {
    let done = match &args.command {
        BackupCommand::Save(args) => {
            save::lower_priority();
            match &args.data {
                Some(data) => save::run(args, data),
                None => return remote::run(&args.remote, async |_| live::run(args).await),
            }
        }
        BackupCommand::Inspect(args) => inspect::run(args).and_then(|text| print(&text)),
        BackupCommand::Verify { file } => verify(file).and_then(|text| print(&text)),
        BackupCommand::Restore(args) => restore::run(args).and_then(|text| print(&text)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::with_error(error.exit_code(), &error),
    }
}

fn print(text: &str) -> Result<(), BackupError> {
    output::unless_closed(output::write_stdout(text)).map_err(BackupError::Output)
}

#[cfg(test)]
mod service_tests;
#[cfg(test)]
mod tests;
