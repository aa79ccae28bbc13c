//! Snapshots of the machine: made from a copy of the state beside `apply`, kept newest first, and read at a start.

use crate::{
    base::{
        aliases::{LogId, Members},
        types::Types,
    },
    machine::{
        shared::{Progress, Shared},
        snapshot::{SnapshotDraft, SnapshotStore, StoredSnapshot, aside, header},
    },
};
use fairhold_state::{State, snapshot::SnapshotError};
use fairhold_types::failpoint;
use openraft::{
    AsyncRuntime, Instant, RaftSnapshotBuilder,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use parking_lot::Mutex;
use std::{fmt, io, sync::Arc};

/// A snapshot on its way through openraft.
#[derive(Clone)]
pub(crate) enum SnapshotData {
    /// It is on the disk.
    Stored(Arc<dyn StoredSnapshot>),
    /// All of it has come from the leader.
    Arrived(Arc<Arriving>),
}

impl fmt::Debug for SnapshotData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SnapshotData::Stored(_) => "Stored",
            SnapshotData::Arrived(_) => "Arrived",
        })
    }
}

/// A snapshot whose blocks are written as they come. Its first error is kept for the end: then it ends the node.
pub(crate) struct Arriving(Mutex<io::Result<Box<dyn SnapshotDraft>>>);

impl Arriving {
    pub(crate) fn new(draft: Box<dyn SnapshotDraft>) -> Arriving {
        Arriving(Mutex::new(Ok(draft)))
    }

    /// Writes the next block. To be called aside.
    pub(crate) fn write(&self, block: &[u8]) {
        let mut draft = self.0.lock();
        if let Ok(whole_so_far) = &mut *draft
            && let Err(error) = whole_so_far.write(block)
        {
            *draft = Err(error);
        }
    }

    /// Makes all of it durable. To be called aside.
    fn finish(&self) -> io::Result<Arc<dyn StoredSnapshot>> {
        let mut draft = self.0.lock();
        std::mem::replace(&mut *draft, Err(io::Error::other("the snapshot was taken before")))?.finish()
    }
}

/// Keeps snapshots, and never an older one over a newer one: one may be built while another is installed.
pub(crate) struct SnapshotWriter {
    pub(crate) store: Arc<dyn SnapshotStore>,
    pub(crate) newest: tokio::sync::Mutex<Option<LogId>>,
}

impl SnapshotWriter {
    pub(crate) async fn keep<RT: AsyncRuntime>(
        &self,
        meta: &SnapshotMetaOf<Types<RT>>,
        snapshot: &Arc<dyn StoredSnapshot>,
    ) -> io::Result<()> {
        let mut newest = self.newest.lock().await;
        if *newest > meta.last_log_id {
            return Ok(());
        }
        Arc::clone(snapshot).keep().await?;
        *newest = meta.last_log_id;
        Ok(())
    }

    pub(crate) async fn load<RT: AsyncRuntime>(&self) -> io::Result<Option<SnapshotOf<Types<RT>, Arc<dyn StoredSnapshot>>>> {
        let Some(snapshot) = self.store.newest().await? else {
            return Ok(None);
        };
        Ok(Some(openraft::Snapshot { meta: header::decode::<RT>(&snapshot.meta())?, snapshot }))
    }

    /// The snapshot that openraft hands over, on the disk.
    pub(crate) async fn stored(&self, data: SnapshotData) -> io::Result<Arc<dyn StoredSnapshot>> {
        match data {
            SnapshotData::Stored(stored) => Ok(stored),
            SnapshotData::Arrived(arrived) => aside(&*self.store, move || arrived.finish()).await?,
        }
    }

    /// The state of a snapshot.
    pub(crate) async fn state(&self, snapshot: &Arc<dyn StoredSnapshot>) -> io::Result<State> {
        let snapshot = Arc::clone(snapshot);
        aside(&*self.store, move || state_of(&*snapshot)).await?
    }
}

/// The state of a snapshot. Each of its blocks is gone before the next is read. It blocks.
pub(crate) fn state_of(snapshot: &dyn StoredSnapshot) -> io::Result<State> {
    let mut failure = None;
    let blocks = (0..snapshot.blocks()).map_while(|index| snapshot.block(index).map_err(|error| failure = Some(error)).ok());
    let state = State::from_snapshot_blocks(blocks);
    match failure {
        Some(error) => Err(error),
        None => state
            .map_err(|error: SnapshotError| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's state: {error}"))),
    }
}

/// Writes one snapshot beside `apply`, from a cheap copy of the state.
pub(crate) struct Builder<RT: AsyncRuntime> {
    pub(crate) state: State,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) members: Members,
    pub(crate) keeper: Arc<SnapshotWriter>,
    pub(crate) shared: Arc<Shared<RT>>,
    pub(crate) made_at: Progress,
}

impl<RT: AsyncRuntime> RaftSnapshotBuilder<Types<RT>> for Builder<RT> {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types<RT>, SnapshotData>> {
        failpoint!(RaftSnapshotBuild, RT)?;
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: self.last_applied, last_membership: self.members.clone() };
        let begun = RT::Instant::now();
        // It is freed there too: what was changed meanwhile is its own by now.
        let state = std::mem::take(&mut self.state);
        let draft = self.keeper.store.draft(header::encode::<RT>(&meta)?);
        let snapshot = aside(&*self.keeper.store, move || write(draft, state)).await??;
        failpoint!(RaftSnapshotSave, RT)?;
        self.keeper.keep::<RT>(&meta, &snapshot).await?;
        failpoint!(RaftSnapshotSaved, RT)?;
        let metrics = &self.shared.metrics;
        metrics.snapshot_build.observe(begun.elapsed());
        metrics.note_snapshot(&metrics.snapshots_built, snapshot.bytes());
        self.shared.note_snapshot(self.made_at, snapshot.bytes());
        Ok(openraft::Snapshot { meta, snapshot: SnapshotData::Stored(snapshot) })
    }
}

/// Each block is on its way to the disk before the next is made.
fn write(mut draft: Box<dyn SnapshotDraft>, state: State) -> io::Result<Arc<dyn StoredSnapshot>> {
    state.snapshot_blocks().try_for_each(|block| draft.write(&block))?;
    draft.finish()
}
