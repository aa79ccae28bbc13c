//! `fairhold backup save`: reads a backup from a node, and keeps it only if it is complete.

use crate::{
    backup_file::{PartialBackup, SealCheck, partial_of},
    output,
    remote::{self, Failure, ReadArgs, RemoteArgs},
};
use fairhold_backup::{Backup, ReadBackupError};
use fairhold_client::{BackupStream, Error, Revision};
use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

/// The name that stands for standard output.
const STDOUT: &str = "-";
/// What to do if the stream breaks.
const AGAIN: &str = "run the command again; if it breaks again, pass another node with -e, and read faster: a node waits 30 s \
                     for each block";

#[derive(Debug, clap::Args)]
pub(crate) struct SaveArgs {
    /// Write to this file, which must not exist, or to standard output: -
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// Saves a backup.
pub(super) async fn run(args: &SaveArgs, remote: &RemoteArgs) -> Result<(), Failure> {
    let to_stdout = args.file.as_os_str() == STDOUT;
    if to_stdout && io::stdout().is_terminal() {
        let why = "a backup is binary: redirect standard output to a file or a pipe, or name a file instead of -";
        return Err(Failure::Usage(why.to_owned()));
    }
    if !to_stdout {
        check_free(&args.file, args.force)?;
    }
    let connect = &remote.connect;
    let mut backups = remote::client(connect, None)?.backups();
    if args.read.local {
        backups = backups.local();
    }
    if let Some(revision) = args.read.min_revision {
        backups = backups.at_least(Revision(revision));
    }
    let opened = backups.take_at(connect.urls()?).await;
    let mut stream = opened.map_err(|error| Failure::from_client(&error))?;
    let summary = match to_stdout {
        true => pipe(&mut stream).await?,
        false => save(&mut stream, args).await?,
    };
    if !connect.quiet {
        output::note(&summary);
    }
    Ok(())
}

/// Checks that the file may be written.
fn check_free(file: &Path, force: bool) -> Result<(), Failure> {
    let unusable = |why: &str| Failure::Usage(format!("{}: {why}", file.display()));
    match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unusable(&error.to_string())),
        Ok(entry) if !entry.is_file() => Err(unusable("it is not a file: to write to a pipe, pass - and redirect the output")),
        Ok(_) if !force => Err(unusable("this file exists: choose another name, or pass --force to replace it")),
        Ok(_) => Ok(()),
    }
}

async fn save(stream: &mut BackupStream, args: &SaveArgs) -> Result<String, Failure> {
    let path = &args.file;
    let named =
        |path: &Path, error: io::Error| Failure::Local(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
    let partial_path = partial_of(path);
    let mut partial = PartialBackup::create(partial_path.clone()).map_err(|error| named(&partial_path, error))?;
    while let Some(bytes) = stream.chunk().await.map_err(|error| broken(&error))? {
        partial.write(&bytes).map_err(|error| named(&partial_path, error))?;
    }
    let written = partial.sync().map_err(|error| named(&partial_path, error))?;
    let (backup, summary) = Backup::read(io::BufReader::new(written)).map_err(|error| unverified(&error))?;
    partial.keep_as(path, args.force).map_err(|error| named(path, error))?;
    let (header, bytes) = (backup.header(), summary.bytes);
    let (revision, node) = (header.revision, header.node);
    Ok(format!("{}: {bytes} bytes, revision {revision}, made by node {node}, verified", path.display()))
}

/// Writes the backup to standard output. What a pipe has taken cannot be taken back, so only the exit code says whether
/// it is complete.
async fn pipe(stream: &mut BackupStream) -> Result<String, Failure> {
    let mut check = SealCheck::default();
    while let Some(bytes) = stream.chunk().await.map_err(|error| broken(&error))? {
        check.add(&bytes);
        io::stdout().lock().write_all(&bytes)?;
    }
    io::stdout().lock().flush()?;
    let bytes = check.finish().map_err(|why| Failure::Ended(format!("the backup is not usable: {why}; {AGAIN}")))?;
    let revision = stream.revision().map(|revision| format!(", revision {revision}")).unwrap_or_default();
    Ok(format!("a backup of {bytes} bytes{revision}; verify the stored copy with fairhold backup verify"))
}

fn broken(error: &Error) -> Failure {
    Failure::Ended(format!("the backup broke off, and is not usable: {error}; {AGAIN}"))
}

fn unverified(error: &ReadBackupError) -> Failure {
    Failure::Ended(format!("the backup is not usable: {error}; {AGAIN}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_replaced_and_only_with_force() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.backup"), folder.path().join("link"));
        assert!(check_free(&file, false).is_ok());
        fs::write(&file, "older").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let refused = check_free(&file, false).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().ends_with("pass --force to replace it"), "{refused}");
        assert!(check_free(&file, true).is_ok());
        for other in [folder.path().to_owned(), link, "/dev/null".into()] {
            assert_eq!(check_free(&other, true).unwrap_err().code(), 2, "{}", other.display());
        }
    }
}
