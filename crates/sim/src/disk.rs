//! A machine's disk: flushed data survives a crash. Unflushed data may survive up to any entry, like the tail of a torn log.

mod kept;
mod snapshots;

use crate::{
    conditions::Flushes,
    host::Host,
    tally::{Probe, Tally},
    trace,
};
use fairhold_raft::snapshot::SnapshotImage;
use fairhold_types::{
    Incarnation, failpoint,
    planted::{self, Bug},
};
use kept::{C, LogContent, Write};
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

/// One flush in so many takes ten times as long.
const SLOW_FLUSH_ONE_IN: u32 = 50;

enum FlushWaiter {
    Nobody,
    Append(IOFlushed<C>),
    Vote(oneshot::Sender<io::Result<()>>),
}

impl FlushWaiter {
    fn tell(self, result: io::Result<()>) {
        match self {
            FlushWaiter::Nobody => {}
            FlushWaiter::Append(flushed) => flushed.io_completed(result),
            // The waiting task may be gone.
            FlushWaiter::Vote(done) => drop(done.send(result)),
        }
    }

    /// The callers to answer at once, and after the flush.
    fn unless_planted(self) -> (FlushWaiter, FlushWaiter) {
        let early = match &self {
            FlushWaiter::Nobody => false,
            FlushWaiter::Append(_) => planted::has(Bug::AcknowledgesUnflushed),
            FlushWaiter::Vote(_) => planted::has(Bug::VotesUnflushed),
        };
        if early { (self, FlushWaiter::Nobody) } else { (FlushWaiter::Nobody, self) }
    }
}

#[derive(Default)]
struct Platter {
    durable: LogContent,
    snapshot: Option<SnapshotImage>,
    /// The one before, for a disk that lies.
    snapshot_before: Option<SnapshotImage>,
    /// As this life of the machine sees it.
    seen: LogContent,
    pending: VecDeque<(Vec<Write>, FlushWaiter)>,
    /// How often a cut of the log was flushed.
    cuts: u64,
    /// Which life writes; an earlier one's writes are refused.
    life: u64,
    slow: Duration,
    /// No write succeeds, also after the machine was started again.
    full: bool,
    fails: Option<io::ErrorKind>,
    failed: Option<io::ErrorKind>,
}

/// The callers that wait for pending writes.
fn unheard(pending: &mut (Vec<Write>, FlushWaiter)) -> (Vec<Write>, FlushWaiter) {
    (Vec::new(), std::mem::replace(&mut pending.1, FlushWaiter::Nobody))
}

/// A disk, which outlives its machine's lives. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct Disk {
    platter: Arc<Mutex<Platter>>,
    chance: Arc<Mutex<SmallRng>>,
    tally: Tally,
    written: Arc<Notify>,
    flushes: Flushes,
    /// The identity of the data directory.
    pub(crate) incarnation: Incarnation,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new(incarnation: Incarnation, flushes: Flushes, seed: u64, tally: Tally) -> Disk {
        let chance = Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)));
        Disk { platter: Arc::default(), chance, tally, written: Arc::default(), flushes, incarnation }
    }

    /// Another disk with what is flushed on this one now: a backup of its data directory.
    pub(crate) fn backup(&self) -> Disk {
        let platter = self.locked();
        let (durable, snapshot) = (platter.durable.clone(), platter.snapshot.clone());
        drop(platter);
        let seed = self.draw(|chance| chance.random());
        let backup = Disk::new(self.incarnation, self.flushes, seed, self.tally.clone());
        let mut platter = backup.locked();
        (platter.durable, platter.snapshot) = (durable, snapshot);
        drop(platter);
        backup
    }

    /// The index of the last log entry that is flushed.
    pub(crate) fn last_flushed(&self) -> Option<u64> {
        let platter = self.locked();
        platter.durable.entries.keys().next_back().copied().or(platter.durable.purged.map(|purged| purged.index))
    }

    /// The machine lost its power: any first part of what was not flushed is there, the rest is not.
    pub(crate) fn crash(&self) {
        let mut platter = self.locked();
        let mut pending: Vec<Write> = platter.pending.drain(..).flat_map(|(writes, _)| writes).collect();
        if planted::has(Bug::TailWithHoles) {
            pending.reverse();
        }
        if planted::has(Bug::VotesUnflushed) {
            pending.retain(|write| !matches!(write, Write::Vote(_)));
        }
        if planted::has(Bug::SnapshotUnflushed) && self.draw(|chance| chance.random_range(0..2)) == 0 {
            platter.snapshot = platter.snapshot_before.take();
        }
        if !pending.is_empty() {
            let kept = self.draw(|chance| chance.random_range(0..=pending.len()));
            self.tally.probe(if kept < pending.len() { Probe::UnflushedLost } else { Probe::UnflushedKept });
            pending[..kept].iter().filter(|write| write.is_kept()).for_each(|write| platter.durable.apply(write));
        }
        platter.life += 1;
        platter.slow = Duration::ZERO;
        (platter.fails, platter.failed) = (None, None);
    }

    /// The log and the snapshots for one life of the machine.
    pub(crate) fn mount(&self, host: &Arc<Host>) -> SimLog {
        let mut platter = self.locked();
        platter.seen = platter.durable.clone();
        let life = platter.life;
        drop(platter);
        let log = SimLog { disk: self.clone(), life };
        drop(host.spawn(log.clone().flush()));
        log
    }

    /// Every flush takes this much longer, until told otherwise.
    pub(crate) fn slow_down(&self, by: Duration) {
        self.locked().slow = by;
    }

    /// The next flush fails, and after it all others until the machine is started again.
    pub(crate) fn fail(&self) {
        self.locked().fails = Some(io::ErrorKind::Other);
    }

    /// No flush succeeds, until told otherwise.
    pub(crate) fn fill(&self, full: bool) {
        self.locked().full = full;
    }

    /// Whether something is written and not flushed.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.locked().pending.is_empty()
    }

    /// Whether a vote is.
    pub(crate) fn has_unflushed_vote(&self) -> bool {
        self.locked().pending.iter().flat_map(|(writes, _)| writes).any(|write| matches!(write, Write::Vote(_)))
    }

    /// Whether a cut of the log is, and an entry after it.
    pub(crate) fn has_unflushed_cut(&self) -> bool {
        let platter = self.locked();
        let mut writes = platter.pending.iter().flat_map(|(writes, _)| writes);
        writes.any(|write| matches!(write, Write::Truncate(_))) && writes.any(|write| matches!(write, Write::Entry(_)))
    }

    /// How often a cut of the log was flushed.
    pub(crate) fn cuts(&self) -> u64 {
        self.locked().cuts
    }

    /// Whether each entry that a start finds is of the term of the one before it, or of a later one.
    pub(crate) fn has_growing_terms(&self) -> bool {
        self.locked().durable.has_growing_terms()
    }

    /// Whether it failed in this life.
    pub(crate) fn has_failed(&self) -> bool {
        self.locked().failed.is_some()
    }

    fn locked(&self) -> MutexGuard<'_, Platter> {
        self.platter.lock()
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        draw(&mut self.chance.lock())
    }

    fn flush_time(&self) -> Duration {
        let slow = self.locked().slow;
        let micros = self.draw(|chance| {
            let micros = chance.random_range(20..self.flushes.micros);
            if chance.random_range(0..SLOW_FLUSH_ONE_IN) == 0 { micros * 10 } else { micros }
        });
        self.flushes.at_least + Duration::from_micros(micros) + slow
    }

    /// Takes the error that is due, and fails for good from then on.
    fn outcome(&self) -> io::Result<()> {
        let mut platter = self.locked();
        let due = if platter.full { Some(io::ErrorKind::StorageFull) } else { platter.fails.take() };
        platter.failed = platter.failed.or(due);
        platter.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// One life's view of the log.
#[derive(Clone)]
pub(crate) struct SimLog {
    disk: Disk,
    life: u64,
}

impl SimLog {
    fn write(&self, writes: Vec<Write>, waiter: FlushWaiter) -> io::Result<()> {
        let mut platter = self.disk.locked();
        if platter.life != self.life {
            return Err(io::Error::other("an earlier life of the machine wrote"));
        }
        if let Some(kind) = platter.failed {
            return Err(kind.into());
        }
        writes.iter().for_each(|write| platter.seen.apply(write));
        let (told, waiter) = waiter.unless_planted();
        platter.pending.push_back((writes, waiter));
        drop(platter);
        told.tell(Ok(()));
        self.disk.written.notify_one();
        Ok(())
    }

    /// Writes what is pending, all of it with one flush, and tells those who wait.
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
            let mut told = Vec::new();
            let mut platter = self.disk.locked();
            if platter.life != self.life {
                return;
            }
            // After a failure nothing is written any more, and any first part of it may be there.
            let count = if result.is_ok() { count } else { platter.pending.len() };
            for index in 0..count {
                let flushed =
                    if result.is_ok() { platter.pending.pop_front() } else { platter.pending.get_mut(index).map(unheard) };
                let Some((writes, waiter)) = flushed else { break };
                platter.cuts += u64::from(writes.iter().any(|write| matches!(write, Write::Truncate(_))));
                writes.iter().filter(|write| write.is_kept()).for_each(|write| platter.durable.apply(write));
                told.push(waiter);
            }
            drop(platter);
            let result = result.and_then(|()| failpoint!(StorageLogSynced));
            trace::bytes(&[u8::from(result.is_ok())]);
            told.into_iter().for_each(|waiter| waiter.tell(result.as_ref().copied().map_err(|error| error.kind().into())));
            if result.is_err() {
                // Also where nobody waited for what failed.
                self.disk.locked().failed.get_or_insert(io::ErrorKind::Other);
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
        let platter = self.disk.locked();
        let last = platter.seen.entries.values().next_back().map(|entry| entry.log_id).or(platter.seen.purged);
        Ok(LogState { last_purged_log_id: platter.seen.purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> SimLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        failpoint!(StorageVoteSave)?;
        let (done, saved) = oneshot::channel();
        self.write(vec![Write::Vote(*vote)], FlushWaiter::Vote(done))?;
        saved.await.unwrap_or_else(|_| Err(io::Error::other("the machine is off")))?;
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
        let writes = entries.into_iter().map(|entry| Write::Entry(Box::new(entry))).collect();
        self.write(writes, FlushWaiter::Append(callback))
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        failpoint!(StorageTruncateBegin)?;
        self.disk.tally.probe(Probe::LogTruncated);
        self.write(vec![Write::Truncate(last.map_or(0, |last| last.index + 1))], FlushWaiter::Nobody)?;
        failpoint!(StorageTruncateDone)
    }

    async fn purge(&mut self, through: LogIdOf<C>) -> io::Result<()> {
        failpoint!(StoragePurgeBegin)?;
        self.disk.tally.probe(Probe::LogPurged);
        self.write(vec![Write::Purge(through)], FlushWaiter::Nobody)?;
        failpoint!(StoragePurgeDone)
    }
}
