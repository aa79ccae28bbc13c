//! The audit log of this node as files: a thread writes what the requests left in the queue. No request waits for it.
//!
//! While it cannot write, it keeps what it took, and tries again every second. The queue fills meanwhile, and what does
//! not fit is lost and counted.

mod alarm;
mod file;

use super::error::ServeError;
use crate::config::audit::AuditConfig;
use alarm::AuditAlarm;
use fairhold_http::{Audit, AuditBatch, AuditLog};
use fairhold_node::Node;
use fairhold_types::{
    dto::AuditStatus,
    limits::{AUDIT_FILE_BYTES_MAX, AUDIT_FILES_MAX},
    time::WallMillis,
};
use file::{AuditFile, PendingLines};
use openraft_rt_tokio::TokioRuntime;
use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How often the writer looks after its file, and syncs it to the disk.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the last lines may take when the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The thread that writes. Dropping it writes what there is.
#[derive(Debug)]
pub(super) struct AuditWriter {
    log: Arc<AuditLog>,
    ended: Receiver<()>,
}

/// Opens the audit log of the configuration, and starts its thread. A file that can never be written is an error. A
/// disk that is full now is none: the node starts, and reports it.
pub(super) fn start(config: Option<&AuditConfig>) -> Result<(Audit, Option<AuditWriter>), ServeError> {
    let Some(config) = config else { return Ok((Audit::off(), None)) };
    let mut file = AuditFile::new(config.file.clone(), AUDIT_FILE_BYTES_MAX, AUDIT_FILES_MAX);
    let audit = Audit::new(config.scope, config.is_required);
    let Some(log) = audit.log().cloned() else { return Ok((audit, None)) };
    if let Err(error) = file.open() {
        if is_permanent(&error) {
            return Err(ServeError::Audit { file: config.file.display().to_string(), error });
        }
        log.set_fault(Some(file.fault(&error)));
    }
    let (end, ended) = channel();
    let writer = WriterThread { log: log.clone(), file, pending: PendingLines::default(), looked_at: None };
    let run = move || {
        writer.run();
        // The other side may have given up.
        end.send(()).ok();
    };
    thread::Builder::new().name("fairhold-audit".to_owned()).spawn(run).map_err(ServeError::Runtime)?;
    let (file, what, required) = (config.file.display(), config.scope.as_str(), config.is_required);
    tracing::info!(%file, what, required, "writing an audit log");
    Ok((audit, Some(AuditWriter { log, ended })))
}

/// What `/readyz?verbose` shows.
pub(super) fn status(audit: &Audit) -> Option<AuditStatus> {
    audit.log().map(|log| AuditStatus { entries_lost: log.entries_lost(), fault: log.fault() })
}

/// Whether entries can go on in another file. It is made if it does not exist.
pub(super) fn try_file(config: &AuditConfig) -> Result<(), ServeError> {
    let mut file = AuditFile::new(config.file.clone(), AUDIT_FILE_BYTES_MAX, AUDIT_FILES_MAX);
    file.open().map_err(|error| ServeError::Audit { file: config.file.display().to_string(), error })
}

/// Warns while entries are lost, or while the file cannot be written.
pub(super) async fn watch(log: Arc<AuditLog>, node: Node<TokioRuntime>) {
    let mut alarm = AuditAlarm::default();
    loop {
        alarm.look(log.fault(), log.entries_lost(), Instant::now()).report(&node);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether opening fails until somebody changes the configuration or the folder.
fn is_permanent(error: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::NotADirectory, io::ErrorKind::IsADirectory]
        .contains(&error.kind())
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.log.stop();
        match self.ended.recv_timeout(STOP_TIMEOUT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the audit log was not written within {} s: its last entries are lost", STOP_TIMEOUT.as_secs());
            }
            Err(RecvTimeoutError::Disconnected) => tracing::error!("the thread of the audit log failed"),
        }
    }
}

/// The work of the thread.
struct WriterThread {
    log: Arc<AuditLog>,
    file: AuditFile,
    pending: PendingLines,
    looked_at: Option<Instant>,
}

impl WriterThread {
    fn run(mut self) {
        loop {
            let batch = if self.pending.is_empty() { self.log.take(LOOK_EVERY) } else { self.log.take_signals(LOOK_EVERY) };
            if self.step(batch) {
                break;
            }
        }
        self.log.summarize_refusals(now());
        let last = self.log.close();
        self.step(last);
        self.log.record_lost(self.pending.entries());
    }

    /// Writes a batch. Returns whether it is the last one.
    fn step(&mut self, batch: AuditBatch) -> bool {
        let AuditBatch { lines, entries, move_to, is_last } = batch;
        self.pending.add(lines, entries);
        let moved = move_to.map_or(Ok(()), |path| self.file.move_to(path));
        let is_due = is_last || self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        let before = self.pending.entries();
        let written = self.file.open().and_then(|()| self.file.append(&mut self.pending));
        self.log.record_written(before - self.pending.entries());
        let synced = moved.and(written).and_then(|()| if is_due { self.file.sync() } else { Ok(()) });
        self.log.set_fault(synced.err().map(|error| self.file.fault(&error)));
        if is_due {
            self.looked_at = Some(Instant::now());
            self.log.summarize_refusals(now());
        }
        is_last
    }
}

fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_http::AuditScope;
    use std::{fs, path::Path};

    fn config(file: &Path) -> AuditConfig {
        AuditConfig { file: file.to_owned(), scope: AuditScope::All, is_required: false }
    }

    #[test]
    fn what_is_left_when_the_node_stops_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let (audit, writer) = start(Some(&config(&path))).unwrap();
        let log = audit.log().unwrap();
        log.append(b"{\"a\":1}\n");
        log.append(b"{\"b\":2}\n");
        drop(writer);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":2}\n");
        assert_eq!((log.entries_lost(), log.fault()), (0, None));
    }

    #[test]
    fn a_full_disk_is_reported_and_what_it_loses_is_counted() {
        let (audit, writer) = start(Some(&config(Path::new("/dev/full")))).unwrap();
        let log = audit.log().unwrap();
        log.append(b"lost\n");
        drop(writer);
        assert_eq!(log.entries_lost(), 1);
        assert_eq!(status(&audit).unwrap().fault.unwrap(), "/dev/full: No space left on device (os error 28)");
    }

    #[test]
    fn a_file_that_can_never_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing/audit.log")] {
            let error = start(Some(&config(&path))).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn a_log_goes_on_in_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first.log"), folder.path().join("second.log"));
        let (audit, writer) = start(Some(&config(&first))).unwrap();
        let log = audit.log().unwrap();
        log.move_to(second.clone());
        log.append(b"{\"b\":2}\n");
        drop(writer);
        assert_eq!(fs::read_to_string(&first).unwrap(), "");
        assert_eq!(fs::read_to_string(&second).unwrap(), "{\"b\":2}\n");
    }

    #[test]
    fn without_a_table_there_is_no_log() {
        let (audit, writer) = start(None).unwrap();
        assert!(audit.log().is_none() && writer.is_none() && status(&audit).is_none());
    }
}
