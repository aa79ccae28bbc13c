//! `fairhold backup`: saves backups of a cluster.

mod save;

use crate::remote::{self, RemoteArgs};
use clap::Subcommand;
use save::SaveArgs;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Save a backup of the whole state to a file, or write it to standard output (for administrators)
    #[command(after_help = "Examples:
  fairhold backup save fairhold-2026-11-27.backup --auth-token-file admin
  fairhold backup save - --auth-token-file admin | age -r age1… > fairhold.backup.age

The file gets its name when it is complete and verified. It is not encrypted, and contains all values: keep it safe.")]
    Save(SaveArgs),
}

/// Runs the command.
pub(crate) fn main(args: &BackupArgs) -> ExitCode {
    match &args.command {
        BackupCommand::Save(save) => remote::run(&args.remote, async |_| save::run(save, &args.remote).await),
    }
}
