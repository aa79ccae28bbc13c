//! `fairhold backup save`.

use super::{
    error::{BackupError, is_standard},
    file,
    source::{note, now, verified},
    stopped,
};
use fairhold_backup::Backup;
use std::{
    io::{self, BufWriter, Write as _},
    path::PathBuf,
};

#[derive(Debug, clap::Args)]
pub(super) struct SaveArgs {
    /// Data directory of a stopped node
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Write the backup to this file; `-` writes it to standard output
    file: PathBuf,
}

pub(super) fn run(args: &SaveArgs) -> Result<(), BackupError> {
    let (id, node) = stopped::read(&args.data)?;
    let backup = Backup::new(&node.state, stopped::origin(id, &node, now()));
    if is_standard(&args.file) {
        let mut out = BufWriter::new(io::stdout().lock());
        backup.write(&mut out).and_then(|_| out.flush()).map_err(BackupError::Output)?;
        return Ok(());
    }
    let (saved, summary) = file::save(&args.file, |mut out| backup.write(&mut out).map(drop))?;
    note(&format!("saved {}\n{}", args.file.display(), verified(&saved, &summary).trim_end()));
    Ok(())
}
