//! A machine's disk: flushed data survives a crash. Unflushed data may survive up to any entry, like the tail of a torn
//! log.

mod log_content;
mod members;
mod snapshots;

pub(crate) use members::{Position, SetMembers};

use crate::{
    conditions::Flushes,
    coverage::{Coverage, Probe},
    host::Host,
    trace,
};
use fairhold_raft::snapshot::SnapshotImage;
use fairhold_types::{
    Incarnation, failpoint,
    planted::{self, Bug},
};
use log_content::{C, LogContent, Write};
use openraft::{
    LogState, OptionalSend,
    alias::{EntryOf, LogIdOf, VoteOf},
    storage::{IOFlushed, RaftLogReader, RaftLogStorage},
};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{collections::VecDeque, fmt::Debug, io, ops::RangeBounds, sync::Arc, time::Duration};
use tokio::sync::{Notify, oneshot};

/// One flush in this many takes ten times as long.
const SLOW_FLUSH_ONE_IN: u32 = 50;

enum FlushWaiter {
    Nobody,
    Append(IOFlushed<C>),
    Vote(oneshot::Sender<io::Result<()>>),
    Truncation(oneshot::Sender<io::Result<()>>),
}

impl FlushWaiter {
    fn complete(self, result: io::Result<()>) {
        match self {
            FlushWaiter::Nobody => {}
            FlushWaiter::Append(flushed) => flushed.io_completed(result),
            // The waiting task may be gone.
            FlushWaiter::Vote(done) | FlushWaiter::Truncation(done) => drop(done.send(result)),
        }
    }

    /// The callers to answer at once, and those to answer after the flush. Without a planted bug no caller is answered
    /// before the flush.
    fn before_and_after_flush(self) -> (FlushWaiter, FlushWaiter) {
        if self.is_answered_early() { (self, FlushWaiter::Nobody) } else { (FlushWaiter::Nobody, self) }
    }

    /// Only with a planted bug.
    fn is_answered_early(&self) -> bool {
        match self {
            FlushWaiter::Nobody | FlushWaiter::Truncation(_) => false,
            FlushWaiter::Append(_) => planted::has(Bug::AcknowledgesUnflushed),
            FlushWaiter::Vote(_) => planted::has(Bug::VotesUnflushed),
        }
    }
}

#[derive(Default)]
struct DiskInner {
    durable: LogContent,
    snapshot: Option<SnapshotImage>,
    /// The previous one, for a disk that does not flush it.
    snapshot_before: Option<SnapshotImage>,
    /// The content as the running process sees it.
    seen: LogContent,
    pending: VecDeque<(Vec<Write>, FlushWaiter)>,
    /// The number of flushed truncations of the log.
    truncations: u64,
    /// The number of this start of the machine. Writes of an earlier start are refused.
    life: u64,
    slow: Duration,
    /// No write succeeds, even after a restart.
    full: bool,
    fails: Option<io::ErrorKind>,
    failed: Option<io::ErrorKind>,
}

/// Takes the waiter of a pending write, which stays pending.
fn take_waiter(pending: &mut (Vec<Write>, FlushWaiter)) -> (Vec<Write>, FlushWaiter) {
    (Vec::new(), std::mem::replace(&mut pending.1, FlushWaiter::Nobody))
}

/// A disk, which survives restarts of its machine. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct Disk {
    inner: Arc<Mutex<DiskInner>>,
    rng: Arc<Mutex<SmallRng>>,
    coverage: Coverage,
    written: Arc<Notify>,
    flushes: Flushes,
    /// The identity of the data directory.
    pub(crate) incarnation: Incarnation,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new(incarnation: Incarnation, flushes: Flushes, seed: u64, coverage: Coverage) -> Disk {
        let rng = Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)));
        Disk { inner: Arc::default(), rng, coverage, written: Arc::default(), flushes, incarnation }
    }

    /// A copy of the flushed content: a backup of the data directory.
    pub(crate) fn backup(&self) -> Disk {
        let inner = self.locked();
        let durable = inner.durable.clone();
        let snapshot = inner.snapshot.clone();
        drop(inner);
        let seed = self.draw(|rng| rng.random());
        let backup = Disk::new(self.incarnation, self.flushes, seed, self.coverage.clone());
        let mut inner = backup.locked();
        inner.durable = durable;
        inner.snapshot = snapshot;
        drop(inner);
        backup
    }

    /// The index of the last flushed log entry.
    pub(crate) fn last_flushed(&self) -> Option<u64> {
        let inner = self.locked();
        inner.durable.entries.keys().next_back().copied().or(inner.durable.purged.map(|purged| purged.index))
    }

    /// The machine loses power: a random prefix of the unflushed writes survives, the rest is lost.
    pub(crate) fn crash(&self) {
        let mut inner = self.locked();
        let mut pending: Vec<Write> = inner.pending.drain(..).flat_map(|(writes, _)| writes).collect();
        self.apply_planted_bugs(&mut inner, &mut pending);
        if !pending.is_empty() {
            let kept = self.draw(|rng| rng.random_range(0..=pending.len()));
            self.coverage.probe(if kept < pending.len() { Probe::UnflushedLost } else { Probe::UnflushedKept });
            pending[..kept].iter().filter(|write| write.is_kept()).for_each(|write| inner.durable.apply(write));
        }
        inner.life += 1;
        inner.slow = Duration::ZERO;
        inner.fails = None;
        inner.failed = None;
    }

    /// Without a planted bug this does nothing.
    fn apply_planted_bugs(&self, inner: &mut DiskInner, pending: &mut Vec<Write>) {
        if planted::has(Bug::TailWithHoles) {
            pending.reverse();
        }
        if planted::has(Bug::VotesUnflushed) {
            pending.retain(|write| !matches!(write, Write::Vote(_)));
        }
        if planted::has(Bug::SnapshotUnflushed) && self.draw(|rng| rng.random_range(0..2)) == 0 {
            inner.snapshot = inner.snapshot_before.take();
        }
    }

    /// The log and the snapshots for one start of the machine.
    pub(crate) fn mount(&self, host: &Arc<Host>, set_members: SetMembers) -> SimLog {
        let mut inner = self.locked();
        inner.seen = inner.durable.clone();
        let life = inner.life;
        drop(inner);
        let log = SimLog { disk: self.clone(), life, set_members };
        drop(host.spawn(log.clone().flush()));
        log
    }

    /// Every flush takes this much longer until the next call.
    pub(crate) fn slow_down(&self, by: Duration) {
        self.locked().slow = by;
    }

    /// The next flush fails, and then all others until the machine restarts.
    pub(crate) fn fail(&self) {
        self.locked().fails = Some(io::ErrorKind::Other);
    }

    /// While the disk is full, no flush succeeds.
    pub(crate) fn fill(&self, full: bool) {
        self.locked().full = full;
    }

    /// Whether there are unflushed writes.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.locked().pending.is_empty()
    }

    /// Whether an unflushed write is a vote.
    pub(crate) fn has_unflushed_vote(&self) -> bool {
        self.locked().pending.iter().flat_map(|(writes, _)| writes).any(|write| matches!(write, Write::Vote(_)))
    }

    /// Whether an unflushed write is a truncation of the log.
    pub(crate) fn has_unflushed_truncation(&self) -> bool {
        self.locked().pending.iter().flat_map(|(writes, _)| writes).any(|write| matches!(write, Write::Truncate(_)))
    }

    /// The number of flushed truncations of the log.
    pub(crate) fn truncations(&self) -> u64 {
        self.locked().truncations
    }

    /// Whether the terms of the flushed log entries never decrease.
    pub(crate) fn has_monotonic_terms(&self) -> bool {
        self.locked().durable.has_monotonic_terms()
    }

    /// Whether it failed since the last start.
    pub(crate) fn has_failed(&self) -> bool {
        self.locked().failed.is_some()
    }

    fn locked(&self) -> MutexGuard<'_, DiskInner> {
        self.inner.lock()
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        draw(&mut self.rng.lock())
    }

    fn flush_time(&self) -> Duration {
        let slow = self.locked().slow;
        let micros = self.draw(|rng| {
            let micros = rng.random_range(20..self.flushes.micros);
            if rng.random_range(0..SLOW_FLUSH_ONE_IN) == 0 { micros * 10 } else { micros }
        });
        self.flushes.at_least + Duration::from_micros(micros) + slow
    }

    /// Takes the pending error. Every later flush fails.
    fn outcome(&self) -> io::Result<()> {
        let mut inner = self.locked();
        let due = if inner.full { Some(io::ErrorKind::StorageFull) } else { inner.fails.take() };
        inner.failed = inner.failed.or(due);
        inner.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// The log as one start of the machine sees it.
#[derive(Clone)]
pub(crate) struct SimLog {
    disk: Disk,
    life: u64,
    set_members: SetMembers,
}

impl SimLog {
    fn write(&self, writes: Vec<Write>, waiter: FlushWaiter) -> io::Result<()> {
        let mut inner = self.disk.locked();
        if inner.life != self.life {
            return Err(io::Error::other("the machine has restarted since"));
        }
        if let Some(kind) = inner.failed {
            return Err(kind.into());
        }
        writes.iter().for_each(|write| inner.seen.apply(write));
        let (early, waiter) = waiter.before_and_after_flush();
        inner.pending.push_back((writes, waiter));
        drop(inner);
        early.complete(Ok(()));
        self.disk.written.notify_one();
        Ok(())
    }

    /// Writes, and waits until it is flushed.
    async fn flushed(&self, write: Write, waiter: fn(oneshot::Sender<io::Result<()>>) -> FlushWaiter) -> io::Result<()> {
        let (done, flushed) = oneshot::channel();
        self.write(vec![write], waiter(done))?;
        flushed.await.unwrap_or_else(|_| Err(io::Error::other("the machine is off")))
    }

    /// Flushes all pending writes together and answers their waiters.
    async fn flush(self) {
        loop {
            let count = self.disk.locked().pending.len();
            if count == 0 {
                self.disk.written.notified().await;
                continue;
            }
            let begun = failpoint!(StorageLogWrite);
            SimRuntime::sleep(self.disk.flush_time()).await;
            let result = begun.and_then(|()| self.disk.outcome());
            let mut flushed_waiters = Vec::new();
            let mut inner = self.disk.locked();
            if inner.life != self.life {
                return;
            }
            // No write follows a failure. A prefix of the failed writes may be on the disk.
            let count = if result.is_ok() { count } else { inner.pending.len() };
            for index in 0..count {
                let flushed =
                    if result.is_ok() { inner.pending.pop_front() } else { inner.pending.get_mut(index).map(take_waiter) };
                let Some((writes, waiter)) = flushed else { break };
                inner.truncations += u64::from(writes.iter().any(|write| matches!(write, Write::Truncate(_))));
                writes.iter().filter(|write| write.is_kept()).for_each(|write| inner.durable.apply(write));
                flushed_waiters.push(waiter);
            }
            drop(inner);
            let result = result.and_then(|()| failpoint!(StorageLogSynced));
            trace::bytes(&[u8::from(result.is_ok())]);
            if result.is_err() {
                // Even if no caller waited for the failed write.
                let mut inner = self.disk.locked();
                inner.failed.get_or_insert(io::ErrorKind::Other);
                // The writes that came during the flush fail too.
                flushed_waiters.extend(inner.pending.iter_mut().map(take_waiter).map(|(_, waiter)| waiter));
            }
            flushed_waiters
                .into_iter()
                .for_each(|waiter| waiter.complete(result.as_ref().copied().map_err(|error| error.kind().into())));
            if result.is_err() {
                return;
            }
            if failpoint!(StorageLogTold).is_err() {
                self.disk.fail();
            }
        }
    }
}

impl RaftLogReader<C> for SimLog {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<EntryOf<C>>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        failpoint!(StorageLogRead)?;
        Ok(self.disk.locked().seen.entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(self.disk.locked().seen.vote)
    }
}

impl RaftLogStorage<C> for SimLog {
    type LogReader = SimLog;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let inner = self.disk.locked();
        let last = inner.seen.entries.values().next_back().map(|entry| entry.log_id).or(inner.seen.purged);
        Ok(LogState { last_purged_log_id: inner.seen.purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> SimLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        failpoint!(StorageVoteSave)?;
        self.flushed(Write::Vote(*vote), FlushWaiter::Vote).await?;
        failpoint!(StorageVoteSaved)
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        failpoint!(StorageCommittedSave)?;
        self.write(vec![Write::Committed(committed)], FlushWaiter::Nobody)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        Ok(self.disk.locked().seen.committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        failpoint!(StorageLogAppend)?;
        let writes: Vec<Write> = entries.into_iter().map(|entry| Write::Entry(Box::new(entry))).collect();
        self.report_members(&writes);
        self.write(writes, FlushWaiter::Append(callback))
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        failpoint!(StorageTruncateBegin)?;
        self.disk.coverage.probe(Probe::LogTruncated);
        self.flushed(Write::Truncate(last.map_or(0, |last| last.index + 1)), FlushWaiter::Truncation).await?;
        failpoint!(StorageTruncateDone)
    }

    async fn purge(&mut self, through: LogIdOf<C>) -> io::Result<()> {
        failpoint!(StoragePurgeBegin)?;
        self.disk.coverage.probe(Probe::LogPurged);
        self.write(vec![Write::Purge(through)], FlushWaiter::Nobody)?;
        failpoint!(StoragePurgeDone)
    }
}
