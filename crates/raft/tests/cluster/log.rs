//! A Raft log in memory, which survives its node.

use fairhold_raft::types::Types;
use openraft::{
    AsyncRuntime, LogState, OptionalSend,
    alias::{EntryOf, LogIdOf, VoteOf},
    storage::{IOFlushed, RaftLogReader, RaftLogStorage},
};
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeMap,
    fmt::Debug,
    io,
    ops::RangeBounds,
    sync::{Arc, Mutex},
    time::Duration,
};

type C = Types<TokioRuntime>;

#[derive(Default, Clone)]
struct Kept {
    vote: Option<VoteOf<C>>,
    entries: BTreeMap<u64, EntryOf<C>>,
    purged: Option<LogIdOf<C>>,
}

#[derive(Clone, Default)]
pub(crate) struct MemoryLog(Arc<Mutex<Kept>>, tokio::sync::watch::Sender<u64>, Arc<Mutex<Duration>>);

impl MemoryLog {
    /// A copy of this log's current contents.
    pub(crate) fn copy(&self) -> MemoryLog {
        let kept = self.0.lock().unwrap().clone();
        MemoryLog(Arc::new(Mutex::new(kept)), tokio::sync::watch::Sender::new(0), Arc::default())
    }

    /// Makes each write take this long from now on.
    pub(crate) fn slow_down(&self, by: Duration) {
        *self.2.lock().unwrap() = by;
    }

    /// Waits for the time that a write takes.
    fn synced(&self) -> impl Future<Output = ()> + use<> {
        let write = TokioRuntime::timeout(*self.2.lock().unwrap(), std::future::pending::<()>());
        async move { assert!(write.await.is_err(), "a pending future never resolves") }
    }

    pub(crate) fn entries(&self) -> usize {
        self.0.lock().unwrap().entries.len()
    }

    /// The index of the last entry, or 0.
    pub(crate) fn last_index(&self) -> u64 {
        self.0.lock().unwrap().entries.keys().next_back().copied().unwrap_or(0)
    }

    /// Waits until all entries up to this one are purged.
    pub(crate) async fn purged(&self, through: u64) {
        self.1.subscribe().wait_for(|purged| *purged >= through).await.unwrap();
    }
}

impl RaftLogReader<C> for MemoryLog {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<EntryOf<C>>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        Ok(self.0.lock().unwrap().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(self.0.lock().unwrap().vote)
    }
}

impl RaftLogStorage<C> for MemoryLog {
    type LogReader = MemoryLog;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let kept = self.0.lock().unwrap();
        let last = kept.entries.values().next_back().map(|entry| entry.log_id).or(kept.purged);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> MemoryLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        self.synced().await;
        self.0.lock().unwrap().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut kept = self.0.lock().unwrap();
        for entry in entries {
            kept.entries.insert(entry.log_id.index, entry);
        }
        drop(kept);
        let synced = self.synced();
        drop(TokioRuntime::spawn(async move {
            synced.await;
            callback.io_completed(Ok(()));
        }));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        let next = last.map_or(0, |last| last.index + 1);
        self.0.lock().unwrap().entries.split_off(&next);
        Ok(())
    }

    async fn purge(&mut self, through: LogIdOf<C>) -> io::Result<()> {
        let mut kept = self.0.lock().unwrap();
        kept.entries = kept.entries.split_off(&(through.index + 1));
        kept.purged = Some(through);
        self.1.send_replace(through.index);
        Ok(())
    }
}
