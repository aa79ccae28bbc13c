//! Snapshots of the machine: made from a copy of the state beside `apply`, kept newest first, and read at a start.

use crate::{
    aliases::{LogId, Members},
    machine::Shared,
    snapshot::{SnapshotImage, SnapshotStore, aside},
    types::Types,
};
use bytes::Bytes;
use fairhold_state::State;
use fairhold_types::failpoint;
use openraft::{
    AsyncRuntime, Instant, RaftSnapshotBuilder,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use std::{io, sync::Arc};

/// The version byte of a snapshot's header: the last log entry and the membership that it covers.
const SNAPSHOT_HEADER_FORMAT: u8 = 1;
/// The state in blocks, in memory, as it goes to and comes from a peer.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotBlocks(pub(crate) Vec<Bytes>);

impl SnapshotBlocks {
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// Saves snapshots, and never an older one over a newer one: one may be built while another is installed.
pub(crate) struct Keeper {
    pub(crate) store: Arc<dyn SnapshotStore>,
    pub(crate) newest: tokio::sync::Mutex<Option<LogId>>,
}

impl Keeper {
    pub(crate) async fn save<RT: AsyncRuntime>(
        &self,
        meta: &SnapshotMetaOf<Types<RT>>,
        blocks: &SnapshotBlocks,
    ) -> io::Result<()> {
        let header = fairhold_codec::encode(SNAPSHOT_HEADER_FORMAT, meta).map_err(io::Error::other)?;
        let mut newest = self.newest.lock().await;
        if *newest > meta.last_log_id {
            return Ok(());
        }
        self.store.save(SnapshotImage { meta: Bytes::from(header), blocks: blocks.0.clone() }).await?;
        *newest = meta.last_log_id;
        Ok(())
    }

    pub(crate) async fn load<RT: AsyncRuntime>(&self) -> io::Result<Option<SnapshotOf<Types<RT>, SnapshotBlocks>>> {
        let Some(image) = self.store.load().await? else {
            return Ok(None);
        };
        let meta = fairhold_codec::decode(SNAPSHOT_HEADER_FORMAT, &image.meta)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's header: {error}")))?;
        Ok(Some(openraft::Snapshot { meta, snapshot: SnapshotBlocks(image.blocks) }))
    }
}

pub(crate) fn state_of(blocks: &SnapshotBlocks) -> io::Result<State> {
    State::from_snapshot_blocks(blocks.0.iter().map(AsRef::as_ref))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's state: {error}")))
}

/// Writes one snapshot beside `apply`, from a cheap copy of the state.
pub(crate) struct Builder<RT: AsyncRuntime> {
    pub(crate) state: State,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) members: Members,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) shared: Arc<Shared<RT>>,
}

impl<RT: AsyncRuntime> RaftSnapshotBuilder<Types<RT>> for Builder<RT> {
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
        let metrics = &self.shared.metrics;
        metrics.snapshot_build.observe(begun.elapsed());
        metrics.note_snapshot(&metrics.snapshots_built, snapshot.bytes());
        self.shared.note_snapshot(meta.last_log_id.map(|id| id.index), snapshot.bytes());
        Ok(openraft::Snapshot { meta, snapshot })
    }
}
