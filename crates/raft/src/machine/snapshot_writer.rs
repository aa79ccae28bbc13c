//! Builds, stores and loads snapshots of the state. Building works on a copy of the state, concurrently with `apply`.

use crate::{
    base::{
        aliases::{LogId, Members},
        types::Types,
    },
    machine::{
        shared::{Progress, Shared},
        snapshot::{SnapshotDraft, SnapshotStore, StoredSnapshot, header, run_blocking},
    },
};
use fairhold_state::{State, snapshot::SnapshotError};
use fairhold_types::failpoint;
use openraft::{
    AsyncRuntime, Instant, RaftSnapshotBuilder,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use parking_lot::Mutex;
use std::{io, sync::Arc};

/// A snapshot that openraft passes on.
pub(crate) enum SnapshotData {
    /// It is on disk.
    Stored(Arc<dyn StoredSnapshot>),
    /// All its blocks have arrived from the leader.
    Arrived(Arc<ArrivingSnapshot>),
}

/// A snapshot whose blocks are written as they arrive. The first error is kept until the end, and then ends the node.
pub(crate) struct ArrivingSnapshot(Mutex<io::Result<Box<dyn SnapshotDraft>>>);

impl ArrivingSnapshot {
    pub(crate) fn new(draft: Box<dyn SnapshotDraft>) -> ArrivingSnapshot {
        ArrivingSnapshot(Mutex::new(Ok(draft)))
    }

    /// Writes the next block. Call it through `run_blocking`.
    pub(crate) fn write(&self, block: &[u8]) {
        let mut draft = self.0.lock();
        if let Ok(open_draft) = &mut *draft
            && let Err(error) = open_draft.write(block)
        {
            *draft = Err(error);
        }
    }

    /// Makes the snapshot durable. Call it through `run_blocking`.
    fn finish(&self) -> io::Result<Arc<dyn StoredSnapshot>> {
        let mut draft = self.0.lock();
        std::mem::replace(&mut *draft, Err(io::Error::other("the snapshot was already finished")))?.finish()
    }
}

/// Stores snapshots, and never replaces a newer one with an older one: one may be built while another is installed.
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

    /// The snapshot that openraft passes on, on disk.
    pub(crate) async fn stored(&self, data: SnapshotData) -> io::Result<Arc<dyn StoredSnapshot>> {
        match data {
            SnapshotData::Stored(stored) => Ok(stored),
            SnapshotData::Arrived(arrived) => run_blocking(&*self.store, move || arrived.finish()).await?,
        }
    }

    /// Decodes the state of a snapshot.
    pub(crate) async fn state(&self, snapshot: &Arc<dyn StoredSnapshot>) -> io::Result<State> {
        let snapshot = Arc::clone(snapshot);
        run_blocking(&*self.store, move || state_of(&*snapshot)).await?
    }
}

/// Decodes the state of a snapshot. It drops each block before it reads the next. It blocks.
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

/// Builds one snapshot from a cheap copy of the state, concurrently with `apply`.
pub(crate) struct Builder<RT: AsyncRuntime> {
    pub(crate) state: State,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) members: Members,
    pub(crate) writer: Arc<SnapshotWriter>,
    pub(crate) shared: Arc<Shared<RT>>,
    pub(crate) made_at: Progress,
}

impl<RT: AsyncRuntime> RaftSnapshotBuilder<Types<RT>> for Builder<RT> {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types<RT>, SnapshotData>> {
        failpoint!(RaftSnapshotBuild, RT)?;
        let meta = SnapshotMetaOf::<Types<RT>> { last_log_id: self.last_applied, last_membership: self.members.clone() };
        let started_at = RT::Instant::now();
        // The copy is also freed there: by then it owns everything that has changed meanwhile.
        let state = std::mem::take(&mut self.state);
        let draft = self.writer.store.draft(header::encode::<RT>(&meta)?);
        let snapshot = run_blocking(&*self.writer.store, move || write(draft, state)).await??;
        failpoint!(RaftSnapshotSave, RT)?;
        self.writer.keep::<RT>(&meta, &snapshot).await?;
        failpoint!(RaftSnapshotSaved, RT)?;
        let metrics = &self.shared.metrics;
        metrics.histograms.snapshot_build.observe(started_at.elapsed());
        metrics.record_snapshot(&metrics.snapshots_built, snapshot.bytes());
        self.shared.record_snapshot(self.made_at, snapshot.bytes());
        Ok(openraft::Snapshot { meta, snapshot: SnapshotData::Stored(snapshot) })
    }
}

/// Writes the snapshot. Each block is passed to the draft before the next one is encoded.
fn write(mut draft: Box<dyn SnapshotDraft>, state: State) -> io::Result<Arc<dyn StoredSnapshot>> {
    state.snapshot_blocks().try_for_each(|block| draft.write(&block))?;
    draft.finish()
}
