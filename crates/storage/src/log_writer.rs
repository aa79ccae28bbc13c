//! The thread that writes the log: it takes all queued requests, makes one write of them with one sync, and notifies
//! their callers in order.
//!
//! The commit index has no request of its own. Each write that changes the log records it, as far as the entries of the
//! log reach. So after a crash the recorded index may be older. This is harmless: it only bounds how far the state
//! machine applies right after a start, and the leader sends the newer one.

use crate::{
    LogId, TypeConfig, Vote,
    log_db::{LogWrite, WriteFn},
    log_shared::{SharedLog, poisoned},
    log_tail::copy_of,
    metrics::StorageMetrics,
};
use fairhold_types::{
    failpoint,
    planted::{self, Bug},
};
use openraft::storage::IOFlushed;
use std::{io, ops::Range, sync::Arc, time::Instant};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Requests in the writer's queue. Further callers wait for space.
pub(crate) const REQUESTS_MAX: usize = 1024;

/// Bytes of entries in the writer's queue.
pub(crate) const WAITING_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Bytes of a write above which it takes no more requests, so that its first request does not wait without bound.
const WRITE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request to the writer. Requests are handled in order.
pub(crate) enum WriteRequest {
    Append {
        change: u64,
        entries: Vec<(u64, Vec<u8>)>,
        /// The log's first index and last entry after this request.
        first: u64,
        last: Option<LogId>,
        flushed: IOFlushed<TypeConfig>,
        room: OwnedSemaphorePermit,
    },
    Vote {
        vote: Vote,
        done: oneshot::Sender<io::Result<()>>,
    },
    Truncate {
        change: u64,
        removed: Range<u64>,
        last: Option<LogId>,
        done: oneshot::Sender<io::Result<()>>,
    },
    Purge {
        removed: Range<u64>,
        purged: LogId,
        last: Option<LogId>,
    },
}

/// The callers that wait for a write.
enum WriteWaiter {
    Append(IOFlushed<TypeConfig>, OwnedSemaphorePermit),
    Sync(oneshot::Sender<io::Result<()>>),
}

/// The thread's own state.
pub(crate) struct Writer {
    pub(crate) shared: Arc<SharedLog>,
    pub(crate) requests: mpsc::Receiver<WriteRequest>,
    pub(crate) write: WriteFn,
    /// The queue of the sweeper.
    pub(crate) purged: std::sync::mpsc::SyncSender<u64>,
    pub(crate) metrics: StorageMetrics,
    /// The commit index on disk.
    pub(crate) committed: Option<LogId>,
}

/// A write that is being assembled.
#[derive(Default)]
struct PendingWrite {
    write: LogWrite,
    change: u64,
    /// The log's last entry after this write, if the write changes the log.
    last: Option<LogId>,
    /// The newest vote in this write.
    vote: Option<Vote>,
    waiters: Vec<WriteWaiter>,
}

impl Writer {
    /// Runs until all senders are gone and all requests are done.
    pub(crate) fn run(mut self) {
        while let Some(request) = self.requests.blocking_recv() {
            let mut pending = PendingWrite::default();
            let mut added = pending.add(request);
            while added.is_ok() && pending.write.bytes() < WRITE_BYTES_MAX {
                let Ok(request) = self.requests.try_recv() else { break };
                added = pending.add(request);
            }
            self.finish(pending, added);
        }
        self.finish_log();
    }

    /// Records the commit index of a log that gets no more entries. After an error this does nothing: the index is not
    /// needed.
    fn finish_log(&mut self) {
        let last = self.shared.tail.lock().ok().and_then(|tail| tail.state.last);
        let recorded = self.committed;
        let mut write = LogWrite::default();
        if self.put_committed(&mut write, last).is_ok() && self.committed != recorded {
            let result = self.write(write);
            drop(self.record(result, 0, None));
        }
    }

    fn finish(&mut self, pending: PendingWrite, added: io::Result<()>) {
        let PendingWrite { mut write, change, last, vote, waiters } = pending;
        let result = added.and_then(|()| self.put_committed(&mut write, last));
        let result = result.and_then(|()| failpoint!(StorageLogWrite));
        let result = result.and_then(|()| self.write(write)).and_then(|()| failpoint!(StorageLogSynced));
        let result = self.record(result, change, vote);
        for waiter in waiters {
            let result = result.as_ref().copied().map_err(copy_of);
            match waiter {
                WriteWaiter::Append(flushed, room) => {
                    drop(room);
                    flushed.io_completed(result);
                }
                // The caller may be gone. Then the answer is not needed.
                WriteWaiter::Sync(done) => drop(done.send(result)),
            }
        }
        if let Err(error) = failpoint!(StorageLogTold) {
            drop(self.record(Err(error), change, None));
        }
    }

    fn write(&mut self, write: LogWrite) -> io::Result<()> {
        let LogWrite { sync, purged_end, .. } = write;
        let bytes = write.bytes();
        let started = Instant::now();
        (self.write)(&self.shared.db, write)?;
        self.metrics.record(bytes, sync.then(|| started.elapsed()));
        if let Some(end) = purged_end {
            // If the sweeper's queue is full, the next purge covers these files too. If the sweeper has ended, nothing
            // is written any more.
            self.purged.try_send(end).ok();
        }
        Ok(())
    }

    /// Adds the commit index to a write, at most the last entry of the log after this write. An error if the store has
    /// failed: then nothing is written any more, because the content of the disk is unknown until the next start.
    fn put_committed(&mut self, write: &mut LogWrite, last: Option<LogId>) -> io::Result<()> {
        // `committed` may be after `last`: the entries in between are in the queue, for a later write. If it is, `last`
        // is committed too: a leader of a newer term commits only after this node has written its vote for that term,
        // and so all entries before it.
        let committed = self.shared.tail()?.state.committed.min(last);
        if committed > self.committed {
            write.put_committed(committed.as_ref())?;
            self.committed = committed;
        }
        Ok(())
    }

    /// Makes the result visible before any caller is notified.
    fn record(&self, result: io::Result<()>, change: u64, vote: Option<Vote>) -> io::Result<()> {
        let mut tail = self.shared.tail.lock().map_err(|_| poisoned())?;
        result.inspect_err(|error| {
            self.shared.faults.record(error);
            tail.fail(error);
        })?;
        tail.mark_written(change);
        tail.state.vote = vote.or(tail.state.vote);
        Ok(())
    }
}

impl PendingWrite {
    fn add(&mut self, request: WriteRequest) -> io::Result<()> {
        match request {
            WriteRequest::Append { change, entries, first, last, flushed, room } => {
                self.waiters.push(WriteWaiter::Append(flushed, room));
                self.change = change;
                self.last = last;
                self.write.put_entries(&entries);
                self.write.put_bounds(first, last.as_ref())
            }
            WriteRequest::Vote { vote, done } if planted::has(Bug::VotesUnflushed) => {
                done.send(Ok(())).ok();
                self.write.put_vote(&vote)
            }
            WriteRequest::Vote { vote, done } => {
                self.waiters.push(WriteWaiter::Sync(done));
                self.vote = Some(vote);
                self.write.put_vote(&vote)
            }
            WriteRequest::Truncate { change, removed, last, done } => {
                self.waiters.push(WriteWaiter::Sync(done));
                if planted::has(Bug::ForgetsTruncation) {
                    return Ok(());
                }
                self.change = change;
                self.last = last;
                self.write.delete_entries(&removed);
                self.write.put_last(last.as_ref())
            }
            WriteRequest::Purge { removed, purged, last } => {
                self.last = last;
                self.write.purge(&removed, &purged, last.as_ref())
            }
        }
    }
}
