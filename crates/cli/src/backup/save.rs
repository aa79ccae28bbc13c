//! `fairhold backup save`: its options, and the backup of a stopped node.

use super::{
    error::{BackupError, is_standard},
    file,
    source::{note, now, verified},
    stopped,
};
use crate::remote::{ReadArgs, RemoteArgs};
use fairhold_backup::Backup;
use std::{
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Args)]
pub(super) struct SaveArgs {
    /// Save a stopped node, whose data directory this is, instead of a running cluster
    #[arg(long, value_name = "DIR", conflicts_with_all = ["local", "min_revision"])]
    pub(super) data: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(super) force: bool,
    /// Write the backup to this file; `-` writes it to standard output
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) read: ReadArgs,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
}

/// Lowers the priority of this process: the nodes on its machine come first.
pub(super) fn lower_priority() {
    if let Err(error) = fairhold_backup::lower_priority() {
        tracing::debug!(%error, "cannot lower the priority of this process");
    }
}

/// Saves the stopped node with this data directory.
pub(super) fn run(args: &SaveArgs, data: &Path) -> Result<(), BackupError> {
    if !is_standard(&args.file) {
        file::check_free(&args.file, args.force).map_err(BackupError::Usage)?;
    }
    let (id, node) = stopped::read(data)?;
    let backup = Backup::new(&node.state, stopped::origin(id, &node, now()));
    if is_standard(&args.file) {
        let mut out = BufWriter::new(io::stdout().lock());
        backup.write(&mut out).and_then(|_| out.flush()).map_err(BackupError::Output)?;
        return Ok(());
    }
    let (saved, summary) = file::save(&backup, &args.file, args.force)?;
    note(&format!("saved {}\n{}", args.file.display(), verified(&saved, &summary, &saved.state().digest()).trim_end()));
    Ok(())
}
