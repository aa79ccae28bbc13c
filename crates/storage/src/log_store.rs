//! The replicated log and the vote, for openraft: `append` returns when the entries are readable, and their callback is
//! called when they are on disk. A vote and a truncation return when they are on disk.
//!
//! All writes go through one queue to one thread (`log_writer`), so they happen in the order of the calls. Writes that
//! arrive during a sync share the next one (group commit). The newest entries are in memory (`log_tail`), older ones
//! are on disk.
//!
//! After an error, every later request fails with the same error: openraft stops, and with it the process.

use crate::{
    Entry, LogId, TypeConfig, Vote,
    fault::Faults,
    log_db::{self, LogDb, WriteFn},
    log_shared::SharedLog,
    log_sweeper::{self, PURGES_MAX},
    log_tail::{View, invalid},
    log_writer::{REQUESTS_MAX, WAITING_BYTES_MAX, WriteRequest, Writer},
    metrics::StorageMetrics,
};
use fairhold_types::failpoint;
use futures_util::{Stream, TryStreamExt, stream};
use openraft::{
    OptionalSend,
    entry::RaftEntry,
    storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage},
};
use std::{
    fmt::Debug,
    io,
    ops::{Bound, Range, RangeBounds},
    path::Path,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// A read that may be cut short returns about this many bytes, so that a lagging follower does not fill the leader's
/// memory.
pub const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum bytes of the entries that are read to be sent in one request, unless it is one entry. Encoding a larger
/// request would keep Raft's thread from everything else for milliseconds.
const SENT_BYTES_MAX: usize = 512 * 1024;

/// The log store. Dropping it makes all pending writes and ends its threads.
#[derive(Debug)]
pub struct LogStore {
    shared: Arc<SharedLog>,
    /// `None` only during the drop.
    requests: Option<mpsc::Sender<WriteRequest>>,
    /// Bytes of entries that may still queue for the writer.
    room: Arc<Semaphore>,
    writer: Option<JoinHandle<()>>,
    sweeper: Option<JoinHandle<()>>,
    metrics: StorageMetrics,
}

/// A reader of the log.
#[derive(Debug, Clone)]
pub struct LogReader {
    shared: Arc<SharedLog>,
}

impl LogStore {
    /// Opens the log in a directory and verifies it. If `exists`, a missing log is an error; otherwise it is created.
    pub(crate) fn open(path: &Path, exists: bool) -> io::Result<LogStore> {
        LogStore::start(LogDb::open(path, exists)?, Box::new(LogDb::write))
    }

    /// Starts the writer thread, which writes with `write`.
    pub(crate) fn start(db: LogDb, write: WriteFn) -> io::Result<LogStore> {
        let tail = db.recover()?;
        let committed = tail.state.committed;
        let shared = Arc::new(SharedLog { db, tail: Mutex::new(tail), faults: Faults::default() });
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let metrics = StorageMetrics::default();
        let (purged, purges) = std::sync::mpsc::sync_channel(PURGES_MAX);
        let log = Arc::clone(&shared);
        let sweeper = thread::Builder::new().name("log-sweeper".to_owned()).spawn(move || log_sweeper::run(&log, &purges))?;
        let writer = Writer { shared: Arc::clone(&shared), requests, write, purged, metrics: metrics.clone(), committed };
        let writer = thread::Builder::new().name("log-writer".to_owned()).spawn(move || writer.run())?;
        Ok(LogStore {
            shared,
            requests: Some(sender),
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize)),
            writer: Some(writer),
            sweeper: Some(sweeper),
            metrics,
        })
    }

    /// The metrics of its writer.
    pub(crate) fn metrics(&self) -> &StorageMetrics {
        &self.metrics
    }

    /// The index of the last purged entry, if any.
    pub(crate) fn purged_index(&self) -> io::Result<Option<u64>> {
        Ok(self.shared.tail()?.state.purged.as_ref().map(|purged| purged.index))
    }

    /// The record of the first error.
    pub(crate) fn faults(&self) -> Faults {
        self.shared.faults.clone()
    }

    async fn send(&self, request: WriteRequest) -> io::Result<()> {
        let requests = self.requests.as_ref().ok_or_else(writer_stopped)?;
        requests.send(request).await.map_err(|_| writer_stopped())
    }

    /// Sends a request, and waits until it is on disk.
    async fn sync(&self, request: impl FnOnce(oneshot::Sender<io::Result<()>>) -> WriteRequest) -> io::Result<()> {
        let (done, result) = oneshot::channel();
        self.send(request(done)).await?;
        result.await.map_err(|_| writer_stopped())?
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.requests = None;
        // The sweeper ends after the writer.
        for (thread, name) in [(self.writer.take(), "writer"), (self.sweeper.take(), "sweeper")] {
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the log's {name} thread panicked");
            }
        }
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let tail = self.shared.tail()?;
        Ok(LogState { last_purged_log_id: tail.state.purged, last_log_id: tail.state.last })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader { shared: Arc::clone(&self.shared) }
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        failpoint!(StorageVoteSave)?;
        self.shared.tail().map(drop)?;
        self.sync(|done| WriteRequest::Vote { vote: *vote, done }).await?;
        failpoint!(StorageVoteSaved)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        failpoint!(StorageCommittedSave)?;
        // The writer records it with the next write.
        self.shared.tail()?.state.committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.shared.tail()?.state.committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        failpoint!(StorageLogAppend)?;
        let mut sealed = Vec::new();
        let mut kept = Vec::new();
        let mut total = 0;
        for entry in entries {
            let index = entry.index();
            let bytes = log_db::seal(&entry)?;
            total += bytes.len();
            sealed.push((index, bytes));
            kept.push(entry);
        }
        // An append larger than the whole limit uses all of it.
        let wanted = u32::try_from(total).unwrap_or(u32::MAX).min(WAITING_BYTES_MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(wanted).await.map_err(|_| writer_stopped())?;
        let (change, first, last) = {
            let mut tail = self.shared.tail()?;
            let change = tail.append(kept)?;
            (change, tail.state.first, tail.state.last)
        };
        self.send(WriteRequest::Append { change, entries: sealed, first, last, flushed: callback, room }).await
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        failpoint!(StorageTruncateBegin)?;
        let (change, removed, last) = {
            let mut tail = self.shared.tail()?;
            let (change, removed) = tail.truncate_after(last_log_id)?;
            (change, removed, tail.state.last)
        };
        // A snapshot may replace these entries next. If a crash brought them back after the snapshot is on disk, the log
        // and the snapshot would contradict each other, and the node would not start again.
        self.sync(|done| WriteRequest::Truncate { change, removed, last, done }).await?;
        failpoint!(StorageTruncateDone)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        failpoint!(StoragePurgeBegin)?;
        let ((removed, evicted), last) = {
            let mut tail = self.shared.tail()?;
            (tail.purge(log_id)?, tail.state.last)
        };
        tokio::task::spawn_blocking(move || drop(evicted));
        if removed.end == 0 {
            return Ok(());
        }
        self.send(WriteRequest::Purge { removed, purged: log_id, last }).await?;
        failpoint!(StoragePurgeDone)
    }
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(indexes(&range), usize::MAX).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.shared.tail()?.state.vote)
    }

    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        // In parts: openraft reads the committed entries through this, to apply them. After a start it reads all entries after
        // the snapshot.
        let start = (self.clone(), indexes(&range), false);
        let pieces = stream::try_unfold(start, |(reader, range, is_continued)| async move {
            let entries = if range.is_empty() { Vec::new() } else { reader.read(range.clone(), READ_BYTES_MAX).await? };
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(None) };
            if is_continued && first.index() != range.start {
                return Err(invalid(format_args!("entry {} was purged while it was read", range.start)));
            }
            let rest = last.index() + 1..range.end;
            Ok(Some((stream::iter(entries.into_iter().map(Ok)), (reader, rest, true))))
        });
        Box::pin(pieces.try_flatten())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start..end, SENT_BYTES_MAX).await
    }
}

impl LogReader {
    async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        failpoint!(StorageLogRead)?;
        {
            let View { on_disk, in_memory, .. } = self.shared.tail()?.view(range.clone(), bytes_max);
            if on_disk.is_empty() {
                return Ok(in_memory);
            }
        }
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || read_from_disk(&shared, range, bytes_max)).await.map_err(io::Error::other)?
    }
}

fn read_from_disk(log: &SharedLog, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
    let (View { on_disk, in_memory, in_memory_bytes }, stored) = {
        let tail = log.tail()?;
        let view = tail.view(range, bytes_max);
        // Opened under the lock: a purge or truncation that the view does not show reaches the disk later.
        let stored = log.db.entries(view.on_disk.clone());
        (view, stored)
    };
    if on_disk.is_empty() {
        return Ok(in_memory);
    }
    let wanted = on_disk.end - on_disk.start;
    let (mut entries, bytes) = stored.read(bytes_max).inspect_err(|error| log.faults.record(error))?;
    let all = entries.len() as u64 == wanted;
    if all && bytes.saturating_add(in_memory_bytes) <= bytes_max {
        entries.extend(in_memory);
    }
    Ok(entries)
}

fn indexes(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

fn writer_stopped() -> io::Error {
    io::Error::other("the log writer has stopped")
}
