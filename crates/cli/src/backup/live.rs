//! `fairhold backup save` of a running cluster: reads a backup from a node, and keeps it only if it is complete.

use super::{
    error::is_standard,
    file::{BUFFER_BYTES, check_free},
    save::SaveArgs,
};
use crate::{
    backup_file::{PartialBackup, SealCheck, partial_of},
    cluster::older_program,
    output,
    remote::{self, Failure},
};
use fairhold_backup::{Backup, BackupHeader, BackupSummary, ReadBackupError};
use fairhold_client::{BackupStream, Error, Revision};
use std::{
    fs::File,
    io::{self, BufReader, IsTerminal as _, Read, Write as _},
    path::Path,
    sync::mpsc,
};

/// What to do if the stream breaks.
const AGAIN: &str = "run the command again; if it breaks again, pass another node with -e, and read faster: a node waits 30 s \
                     for each block, and wants 256 KiB a second on average";

/// Reads a file that is being written, up to where it is written, and ends when the writer does.
struct Behind {
    file: File,
    /// Each message is the number of further bytes that are written.
    progress: mpsc::Receiver<usize>,
    /// The bytes that are written, but not read.
    ahead: usize,
}

impl Read for Behind {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ahead == 0 {
            let Ok(more) = self.progress.recv() else { return Ok(0) };
            self.ahead += more;
        }
        let count = (&self.file).take(self.ahead as u64).read(buffer)?;
        self.ahead -= count;
        Ok(count)
    }
}

/// Saves a backup.
pub(super) async fn run(args: &SaveArgs) -> Result<(), Failure> {
    let to_stdout = is_standard(&args.file);
    if to_stdout && io::stdout().is_terminal() {
        let why = "a backup is binary: redirect standard output to a file or a pipe, or name a file instead of -";
        return Err(Failure::Usage(why.to_owned()));
    }
    if !to_stdout {
        check_free(&args.file, args.force).map_err(Failure::Usage)?;
    }
    let connect = &args.remote.connect;
    let mut backups = remote::client(connect, None)?.backups();
    if args.read.local {
        backups = backups.local();
    }
    if let Some(revision) = args.read.min_revision {
        backups = backups.at_least(Revision(revision));
    }
    let opened = backups.take_at(connect.urls()?).await;
    let mut stream = opened.map_err(|error| {
        let failure = older_program::explain(Failure::from_client(&error), "backups");
        if args.read.local { failure } else { or_local(failure) }
    })?;
    let summary = match to_stdout {
        true => pipe(&mut stream).await?,
        false => save(&mut stream, args).await?,
    };
    if !connect.quiet {
        output::note(&summary);
    }
    Ok(())
}

/// If no node made a backup, says how to save one without a quorum.
fn or_local(failure: Failure) -> Failure {
    match failure {
        Failure::Unavailable(why) => Failure::Unavailable(format!(
            "{why}. If a majority of the nodes is down, add --local: a node then saves its own state, which may lack the newest \
             writes"
        )),
        Failure::Refused { .. } | Failure::Usage(_) | Failure::Local(_) | Failure::Ended(_) => failure,
    }
}

async fn save(stream: &mut BackupStream, args: &SaveArgs) -> Result<String, Failure> {
    let path = &args.file;
    let named =
        |path: &Path, error: io::Error| Failure::Local(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
    let partial_path = partial_of(path);
    let mut partial = PartialBackup::create(partial_path.clone()).map_err(|error| named(&partial_path, error))?;
    // The check takes longer than the stream. It reads from the file, so that the node does not wait for it.
    let file = File::open(&partial_path).map_err(|error| named(&partial_path, error))?;
    let (report, progress) = mpsc::channel();
    let checking = tokio::task::spawn_blocking(|| check(Behind { file, progress, ahead: 0 }));
    while let Some(bytes) = stream.chunk().await.map_err(|error| broken(&error))? {
        partial.write(&bytes).map_err(|error| named(&partial_path, error))?;
        if report.send(bytes.len()).is_err() {
            // It has found damage.
            break;
        }
    }
    drop(report);
    // Whether the disk has what was written. The check, which is still behind, goes on meanwhile. What it finds comes
    // first.
    let sealed = partial.verify_seal();
    let (header, summary) = checking.await.map_err(io::Error::other)?.map_err(|error| unverified(&error))?;
    let bytes = sealed.map_err(|error| named(&partial_path, error))?;
    if bytes != summary.bytes {
        let why = format!("it has {bytes} bytes instead of {}", summary.bytes);
        return Err(named(&partial_path, io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    partial.keep_as(path, args.force).map_err(|error| named(path, error))?;
    let BackupHeader { revision, node, .. } = header;
    Ok(format!("{}: {bytes} bytes, revision {revision}, made by node {node}, verified", path.display()))
}

/// Reads a backup to its end, and verifies all of it.
fn check(file: Behind) -> Result<(BackupHeader, BackupSummary), ReadBackupError> {
    let (backup, summary) = Backup::read(BufReader::with_capacity(BUFFER_BYTES, file))?;
    let header = backup.header().clone();
    // The process ends soon, which frees everything at once. To free node by node would keep the backup waiting.
    std::mem::forget(backup);
    Ok((header, summary))
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
    fn a_save_without_a_quorum_names_the_option_for_it() {
        let late = or_local(Failure::Unavailable("no answer from the cluster in time: a".to_owned()));
        assert!(late.to_string().starts_with("no answer from the cluster in time: a. If a majority"), "{late}");
        assert!(late.to_string().contains("add --local") && matches!(late, Failure::Unavailable(_)), "{late}");
        assert!(!or_local(Failure::Ended("broken".to_owned())).to_string().contains("--local"));
    }
}
