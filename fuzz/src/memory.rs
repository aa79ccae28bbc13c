//! A cluster of one node that keeps its log in memory.

use bytes::Bytes;
use fairhold_node::{Node, NodeParts};
use fairhold_raft::{
    MemberAddress, PeerService, Replica, ReplicaConfig,
    defect::NoDefectStore,
    peer::{Introduction, Lane, Peer, PeerError, Target},
    snapshot::{ImageStore, SnapshotImage},
    types::Types,
};
use fairhold_types::{Incarnation, NodeId};
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{
    LogState, OptionalSend,
    alias::{EntryOf, LogIdOf, VoteOf},
    storage::{IOFlushed, RaftLogReader, RaftLogStorage},
};
use openraft_rt_tokio::TokioRuntime;
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, fmt::Debug, io, ops::RangeBounds, sync::Arc};

type C = Types<TokioRuntime>;

/// The one node.
const ALONE: NodeId = 1;

/// Starts the node and its replica, and waits until it leads.
pub(crate) async fn start_node() -> (Node<TokioRuntime>, Replica<TokioRuntime>) {
    let address = MemberAddress { url: "http://127.0.0.1:7171".to_owned(), address: "127.0.0.1:7271".to_owned() };
    let config = ReplicaConfig::new(ALONE, BTreeMap::from([(ALONE, address)]), Incarnation(1));
    let reception = PeerService::new(&config);
    let parts = NodeParts::new();
    let (log, snapshots) = (MemoryLog::default(), Arc::new(MemorySnapshots::default()));
    let replica =
        Replica::start(config, reception, Arc::new(NoPeer), log, snapshots, parts.apply_observer(), Arc::new(NoDefectStore))
            .await
            .expect("a node without a disk and without others can start");
    replica.formed().await.expect("a cluster of one forms itself");
    (Node::start(parts, replica.clone()), replica)
}

/// A network without other nodes.
struct NoPeer;

impl Peer for NoPeer {
    fn call(&self, _: &Target, _: Lane, _: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        ready(Err(PeerError::Unreachable("nobody else is there".to_owned()))).boxed()
    }

    fn greet(&self, _: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
        ready(Err(PeerError::Unreachable("nobody else is there".to_owned()))).boxed()
    }

    fn is_refused(&self, _: &Target) -> BoxFuture<'static, bool> {
        ready(false).boxed()
    }
}

#[derive(Clone, Default)]
struct MemorySnapshots(Arc<Mutex<Option<SnapshotImage>>>);

impl ImageStore for MemorySnapshots {
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
        *locked(&self.0) = Some(image);
        ready(Ok(())).boxed()
    }

    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
        ready(Ok(locked(&self.0).clone())).boxed()
    }
}

#[derive(Default)]
struct Kept {
    vote: Option<VoteOf<C>>,
    entries: BTreeMap<u64, EntryOf<C>>,
    purged: Option<LogIdOf<C>>,
}

#[derive(Clone, Default)]
struct MemoryLog(Arc<Mutex<Kept>>);

impl RaftLogReader<C> for MemoryLog {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<EntryOf<C>>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        Ok(locked(&self.0).entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(locked(&self.0).vote)
    }
}

impl RaftLogStorage<C> for MemoryLog {
    type LogReader = MemoryLog;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let kept = locked(&self.0);
        let last = kept.entries.values().next_back().map(|entry| entry.log_id).or(kept.purged);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> MemoryLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        locked(&self.0).vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        locked(&self.0).entries.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        let next = last.map_or(0, |last| last.index + 1);
        locked(&self.0).entries.split_off(&next);
        Ok(())
    }

    async fn purge(&mut self, through: LogIdOf<C>) -> io::Result<()> {
        let mut kept = locked(&self.0);
        kept.entries = kept.entries.split_off(&(through.index + 1));
        kept.purged = Some(through);
        Ok(())
    }
}

/// A thread that panicked with the lock has already reported its failure.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
