//! openraft's state machine over `fairhold_state::State`: applies entries, tells the audience, makes and takes snapshots.

use crate::{
    aliases::{LogId, Members},
    metrics::ReplicaMetrics,
    snapshot::{SnapshotImage, SnapshotStore, aside},
    types::{Answers, Batch, Types},
};
use bytes::Bytes;
use fairhold_state::{
    State,
    command::{Applied, Command, Event},
};
use fairhold_types::{
    Revision, failpoint,
    planted::{self, Bug},
};
use futures_util::{Stream, StreamExt};
use openraft::{
    AsyncRuntime, EntryPayload, Instant, OptionalSend, RaftSnapshotBuilder,
    alias::{SnapshotMetaOf, SnapshotOf, WatchReceiverOf, WatchSenderOf},
    async_runtime::watch::{WatchReceiver, WatchSender},
    storage::{EntryResponder, RaftStateMachine},
    type_config::TypeConfigExt,
};
use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// The version byte of a snapshot's header: the last log entry and the membership that it covers.
const SNAPSHOT_HEADER_FORMAT: u8 = 1;

/// Hears of every change, on every node, in the same order.
///
/// It is called while the state is locked for writing, so that who registers and then reads the state misses nothing: it must
/// be quick, and must not read the state through the replica.
pub trait Audience: Send + Sync + 'static {
    /// A command changed something. `state` is already the state after it.
    fn applied(&self, state: &State, revision: Revision, events: &[Event]);

    /// A snapshot took the place of the state: what happened in between is not known here.
    fn replaced(&self, state: &State);
}

/// How far this node's state got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The index of the last log entry in it.
    pub(crate) applied: Option<u64>,
    /// Its revision.
    pub(crate) revision: Revision,
    /// What was applied since the start, refused commands too, as it counts beside the items of a snapshot.
    pub(crate) work: u64,
    /// About how many items a snapshot of it has.
    pub(crate) items: u64,
}

/// The state, as the whole node reads it.
pub(crate) struct Shared<RT: AsyncRuntime> {
    state: RwLock<State>,
    // A sender need not be `Sync`.
    publish: Mutex<WatchSenderOf<Types<RT>, Progress>>,
    progress: WatchReceiverOf<Types<RT>, Progress>,
    /// What the whole replica counts.
    pub(crate) metrics: ReplicaMetrics,
}

impl<RT: AsyncRuntime> fmt::Debug for Shared<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("progress", &*self.progress.borrow_watched()).finish_non_exhaustive()
    }
}

impl<RT: AsyncRuntime> Shared<RT> {
    fn new(state: State, applied: Option<u64>) -> Self {
        let (publish, progress) =
            Types::<RT>::watch_channel(Progress { applied, revision: state.revision(), work: 0, items: items(&state) });
        Shared { state: RwLock::new(state), publish: Mutex::new(publish), progress, metrics: ReplicaMetrics::default() }
    }

    /// The state for reading. Never keep it across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // Only a panic in the middle of a change poisons the lock, and the node is stopping then: half a change
        // must not be served.
        self.state.read().expect("the machine panicked in the middle of a change; the node is stopping")
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("the machine panicked in the middle of a change; the node is stopping")
    }

    /// A view of how far the state got, to wait on.
    pub(crate) fn progress(&self) -> WatchReceiverOf<Types<RT>, Progress> {
        self.progress.clone()
    }

    fn publish(&self, progress: Progress) {
        let publish = self.publish.lock().unwrap_or_else(PoisonError::into_inner);
        publish.send_if_different(progress);
    }
}

/// The state in blocks, in memory, as it goes to and comes from a peer.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotBlocks(pub(crate) Vec<Bytes>);

impl SnapshotBlocks {
    fn bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// Saves snapshots, and never an older one over a newer one: one may be built while another is installed.
struct Keeper {
    store: Arc<dyn SnapshotStore>,
    newest: tokio::sync::Mutex<Option<LogId>>,
}

impl Keeper {
    async fn save<RT: AsyncRuntime>(&self, meta: &SnapshotMetaOf<Types<RT>>, blocks: &SnapshotBlocks) -> io::Result<()> {
        let header = fairhold_codec::encode(SNAPSHOT_HEADER_FORMAT, meta).map_err(io::Error::other)?;
        let mut newest = self.newest.lock().await;
        if *newest > meta.last_log_id {
            return Ok(());
        }
        self.store.save(SnapshotImage { meta: Bytes::from(header), blocks: blocks.0.clone() }).await?;
        *newest = meta.last_log_id;
        Ok(())
    }

    async fn load<RT: AsyncRuntime>(&self) -> io::Result<Option<SnapshotOf<Types<RT>, SnapshotBlocks>>> {
        let Some(image) = self.store.load().await? else {
            return Ok(None);
        };
        let meta = fairhold_codec::decode(SNAPSHOT_HEADER_FORMAT, &image.meta)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's header: {error}")))?;
        Ok(Some(openraft::Snapshot { meta, snapshot: SnapshotBlocks(image.blocks) }))
    }
}

fn items(state: &State) -> u64 {
    state.snapshot_items() as u64
}

fn state_of(blocks: &SnapshotBlocks) -> io::Result<State> {
    State::from_snapshot_blocks(blocks.0.iter().map(AsRef::as_ref))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's state: {error}")))
}

/// The machine as openraft drives it: one call at a time, so its own fields always agree with the state.
pub(crate) struct Machine<RT: AsyncRuntime> {
    shared: Arc<Shared<RT>>,
    audience: Arc<dyn Audience>,
    keeper: Arc<Keeper>,
    last_applied: Option<LogId>,
    members: Members,
    /// What was applied since the start.
    work: u64,
}

impl<RT: AsyncRuntime> Machine<RT> {
    /// Begins with the newest snapshot, or with nothing.
    pub(crate) async fn load(snapshots: Arc<dyn SnapshotStore>, audience: Arc<dyn Audience>) -> io::Result<Machine<RT>> {
        failpoint!(RaftStartLoad, RT)?;
        let keeper = Keeper { store: snapshots, newest: tokio::sync::Mutex::new(None) };
        let (state, meta) = match keeper.load::<RT>().await? {
            Some(snapshot) => (state_of(&snapshot.snapshot)?, snapshot.meta),
            None => (State::default(), SnapshotMetaOf::<Types<RT>>::default()),
        };
        *keeper.newest.lock().await = meta.last_log_id;
        let shared = Shared::new(state, meta.last_log_id.map(|id| id.index));
        audience.replaced(&shared.read());
        Ok(Machine {
            shared: Arc::new(shared),
            audience,
            keeper: Arc::new(keeper),
            last_applied: meta.last_log_id,
            members: meta.last_membership,
            work: 0,
        })
    }

    /// The state that this machine writes.
    pub(crate) fn shared(&self) -> Arc<Shared<RT>> {
        self.shared.clone()
    }

    /// Applies one entry's commands. Each gets its own answer, and its events are told before anybody can read the state.
    fn apply_batch(&self, batch: Batch) -> Answers {
        let mut state = self.shared.write();
        let one = |command| {
            let Applied { answer, events } = state.apply(command);
            if !events.is_empty() {
                self.audience.applied(&state, answer.revision, &events);
            }
            answer
        };
        Answers(batch.0.into_iter().map(one).collect())
    }

    fn advance(&mut self, log_id: LogId) {
        self.last_applied = Some(log_id);
        let (revision, items) = {
            let state = self.shared.read();
            (state.revision(), items(&state))
        };
        self.shared.publish(Progress { applied: Some(log_id.index), revision, work: self.work, items });
    }
}

impl<RT: AsyncRuntime> RaftStateMachine<Types<RT>> for Machine<RT> {
    type SnapshotData = SnapshotBlocks;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        Ok((self.last_applied, self.members.clone()))
    }

    async fn apply<Entries>(&mut self, mut entries: Entries) -> io::Result<()>
    where
        Entries: Stream<Item = io::Result<EntryResponder<Types<RT>>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            failpoint!(RaftApplyBegin, RT)?;
            let log_id = entry.log_id;
            let answers = match entry.payload {
                EntryPayload::Blank => Answers(Vec::new()),
                EntryPayload::Normal(_) if planted::has(Bug::LosesAnEntry) && responder.is_none() && log_id.index % 16 == 0 => {
                    Answers(Vec::new())
                }
                // A panic must stop the node; left alone, it would only stop this task. It poisons the state's lock on its way.
                EntryPayload::Normal(mut batch) => {
                    if planted::has(Bug::AppliesOutOfOrder) && responder.is_none() {
                        batch.0.reverse();
                    }
                    self.work += batch.0.iter().map(Command::snapshot_items).sum::<usize>() as u64;
                    catch_unwind(AssertUnwindSafe(|| self.apply_batch(batch)))
                        .map_err(|_| io::Error::other(format!("the machine panicked at log entry {log_id}")))?
                }
                EntryPayload::Membership(membership) => {
                    failpoint!(RaftMembersApply, RT)?;
                    self.members = Members::new(Some(log_id), membership);
                    Answers(Vec::new())
                }
            };
            self.advance(log_id);
            failpoint!(RaftApplyDone, RT)?;
            if let Some(responder) = responder {
                responder.send(answers);
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Builder> {
        Some(self.builder())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types<RT>>, snapshot: SnapshotBlocks) -> io::Result<()> {
        failpoint!(RaftInstallBegin, RT)?;
        let blocks = snapshot.clone();
        let state = aside(&*self.keeper.store, move || state_of(&blocks)).await??;
        // Saved first: the log behind it is purged as soon as this returns.
        self.keeper.save::<RT>(meta, &snapshot).await?;
        failpoint!(RaftInstallSaved, RT)?;
        let replaced = {
            let mut current = self.shared.write();
            let replaced = if planted::has(Bug::SnapshotIgnored) { state } else { std::mem::replace(&mut *current, state) };
            self.audience.replaced(&current);
            replaced
        };
        self.shared.metrics.note_snapshot(&self.shared.metrics.snapshots_installed, snapshot.bytes());
        tracing::info!(index = meta.last_log_id.map(|id| id.index), "took over a snapshot of the leader");
        self.members = meta.last_membership.clone();
        match meta.last_log_id {
            Some(log_id) => self.advance(log_id),
            None => self.last_applied = None,
        }
        // Freeing a large state takes a while, for which nobody has to wait.
        let freed = self.keeper.store.aside(Box::new(move || drop(replaced)));
        drop(RT::spawn(async move { drop(freed.await) }));
        failpoint!(RaftInstallDone, RT)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types<RT>, SnapshotBlocks>>> {
        self.keeper.load::<RT>().await
    }
}

impl<RT: AsyncRuntime> Machine<RT> {
    fn builder(&self) -> Builder {
        Builder {
            state: self.shared.read().clone(),
            last_applied: self.last_applied,
            members: self.members.clone(),
            keeper: self.keeper.clone(),
            metrics: self.shared.metrics.clone(),
        }
    }
}

/// Writes one snapshot beside `apply`, from a cheap copy of the state.
pub(crate) struct Builder {
    state: State,
    last_applied: Option<LogId>,
    members: Members,
    keeper: Arc<Keeper>,
    metrics: ReplicaMetrics,
}

impl<RT: AsyncRuntime> RaftSnapshotBuilder<Types<RT>> for Builder {
    type SnapshotData = SnapshotBlocks;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types<RT>, SnapshotBlocks>> {
        failpoint!(RaftSnapshotBuild, RT)?;
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: self.last_applied, last_membership: self.members.clone() };
        let begun = RT::Instant::now();
        // It is freed there too: what was changed meanwhile is its own by now.
        let state = std::mem::take(&mut self.state);
        let blocks = aside(&*self.keeper.store, move || state.snapshot_blocks().map(Bytes::from).collect()).await?;
        let snapshot = SnapshotBlocks(blocks);
        failpoint!(RaftSnapshotSave, RT)?;
        self.keeper.save::<RT>(&meta, &snapshot).await?;
        failpoint!(RaftSnapshotSaved, RT)?;
        self.metrics.snapshot_build.observe(begun.elapsed());
        self.metrics.note_snapshot(&self.metrics.snapshots_built, snapshot.bytes());
        Ok(openraft::Snapshot { meta, snapshot })
    }
}
