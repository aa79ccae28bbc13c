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
use bytes::Bytes;
use fairhold_state::{
    State,
    snapshot::{SnapshotDecoder, SnapshotError},
};
use fairhold_types::failpoint;
use openraft::{
    AsyncRuntime, Instant, RaftSnapshotBuilder,
    alias::{SnapshotMetaOf, SnapshotOf},
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A snapshot that openraft passes on.
pub(crate) enum SnapshotData {
    /// It is on disk.
    Stored(OpenSnapshot),
    /// All its blocks have arrived from the leader.
    Arrived(Arc<ArrivingSnapshot>),
}

/// The newest snapshot, open for reading. Clones are the same.
#[derive(Clone)]
pub(crate) struct OpenSnapshot {
    snapshot: Arc<dyn StoredSnapshot>,
    /// Whether a block could not be read, or is damaged.
    is_unreadable: Arc<AtomicBool>,
}

impl OpenSnapshot {
    fn new(snapshot: Arc<dyn StoredSnapshot>) -> OpenSnapshot {
        OpenSnapshot { snapshot, is_unreadable: Arc::default() }
    }

    /// The stored snapshot.
    pub(crate) fn stored(&self) -> &Arc<dyn StoredSnapshot> {
        &self.snapshot
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> u32 {
        self.snapshot.blocks()
    }

    /// Reads one block, and verifies it. After an error, the state machine verifies the whole file before it passes it on
    /// again, and that error ends the node.
    pub(crate) async fn fetch(&self, index: u32) -> io::Result<Bytes> {
        let block = Arc::clone(&self.snapshot).fetch(index).await;
        let verified = block.and_then(|block| verified(block, index));
        if verified.is_err() {
            self.is_unreadable.store(true, Ordering::Relaxed);
        }
        verified
    }
}

/// A snapshot whose blocks are written and decoded as they arrive. Reading them back at the end would take the disk from
/// the log for as long as the whole file takes. The first error is kept until the end, and then ends the node.
pub(crate) struct ArrivingSnapshot {
    arriving: Mutex<io::Result<Arriving>>,
    store: Arc<dyn SnapshotStore>,
}

struct Arriving {
    draft: Box<dyn SnapshotDraft>,
    decoder: Box<SnapshotDecoder>,
}

impl Arriving {
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.decoder.add(block).map_err(undecodable)?;
        self.draft.write(block)
    }

    fn finish(self) -> io::Result<(Arc<dyn StoredSnapshot>, State)> {
        let state = self.decoder.finish().map_err(undecodable)?;
        Ok((self.draft.finish()?, state))
    }
}

impl ArrivingSnapshot {
    /// Begins one. `meta` is the encoded description of what it covers.
    pub(crate) fn new(store: &Arc<dyn SnapshotStore>, meta: Bytes) -> ArrivingSnapshot {
        let arriving = Arriving { draft: store.draft(meta), decoder: Box::default() };
        ArrivingSnapshot { arriving: Mutex::new(Ok(arriving)), store: Arc::clone(store) }
    }

    /// Writes and decodes the next block. Call it through `run_blocking`.
    pub(crate) fn write(&self, block: &[u8]) {
        let mut arriving = self.arriving.lock();
        if let Ok(open) = &mut *arriving
            && let Err(error) = open.write(block)
        {
            *arriving = Err(error);
        }
    }

    /// Makes the snapshot durable, and returns it with its state. Call it through `run_blocking`.
    fn finish(&self) -> io::Result<(Arc<dyn StoredSnapshot>, State)> {
        let mut arriving = self.arriving.lock();
        std::mem::replace(&mut *arriving, Err(already_finished()))?.finish()
    }
}

impl Drop for ArrivingSnapshot {
    /// Freeing a large state takes a while, and openraft drops a snapshot that it does not need on Raft's thread.
    fn drop(&mut self) {
        if let Ok(left) = std::mem::replace(self.arriving.get_mut(), Err(already_finished())) {
            drop(self.store.run_blocking(Box::new(move || drop(left))));
        }
    }
}

fn already_finished() -> io::Error {
    io::Error::other("the snapshot was already finished")
}

/// Stores snapshots, and never replaces a newer one with an older one: one may be built while another is installed.
pub(crate) struct SnapshotWriter {
    pub(crate) store: Arc<dyn SnapshotStore>,
    newest: tokio::sync::Mutex<Option<LogId>>,
    /// The newest snapshot, if it was verified or written by this process. openraft asks for it between two calls of
    /// `apply`: verifying the whole file there, or waiting until the store has built the next one, would stop all writes.
    open: Mutex<Option<OpenSnapshot>>,
}

impl SnapshotWriter {
    pub(crate) fn new(store: Arc<dyn SnapshotStore>) -> SnapshotWriter {
        SnapshotWriter { store, newest: tokio::sync::Mutex::new(None), open: Mutex::default() }
    }

    /// Records what the snapshot covers with which the node starts.
    pub(crate) async fn record_start(&self, covered: Option<LogId>) {
        *self.newest.lock().await = covered;
    }

    /// Makes a snapshot the newest, unless a newer one is there.
    pub(crate) async fn keep<RT: AsyncRuntime>(
        &self,
        meta: &SnapshotMetaOf<Types<RT>>,
        snapshot: &Arc<dyn StoredSnapshot>,
    ) -> io::Result<()> {
        let mut newest = self.newest.lock().await;
        if *newest > meta.last_log_id {
            return Ok(());
        }
        // Before the store removes the file of the previous one, which must not be open then: the file system would free
        // it in one step.
        *self.open.lock() = Some(OpenSnapshot::new(Arc::clone(snapshot)));
        Arc::clone(snapshot).keep().await?;
        *newest = meta.last_log_id;
        Ok(())
    }

    /// The newest snapshot, verified when it was opened.
    pub(crate) async fn load<RT: AsyncRuntime>(&self) -> io::Result<Option<SnapshotOf<Types<RT>, OpenSnapshot>>> {
        let Some(snapshot) = self.open().await? else { return Ok(None) };
        Ok(Some(openraft::Snapshot { meta: header::decode::<RT>(&snapshot.snapshot.meta())?, snapshot }))
    }

    async fn open(&self) -> io::Result<Option<OpenSnapshot>> {
        let readable = |open: &&OpenSnapshot| !open.is_unreadable.load(Ordering::Relaxed);
        if let Some(open) = self.open.lock().as_ref().filter(readable) {
            return Ok(Some(open.clone()));
        }
        let was_unreadable = self.open.lock().is_some();
        let Some(verified) = self.store.newest().await? else { return Ok(None) };
        if was_unreadable {
            // The file may have been written with a block that was damaged in memory.
            let snapshot = Arc::clone(&verified);
            run_blocking(&*self.store, move || verify_blocks(&*snapshot)).await??;
        }
        let mut open = self.open.lock();
        if open.as_ref().filter(readable).is_none() {
            *open = Some(OpenSnapshot::new(verified));
        }
        // If a newer one was kept meanwhile, that one.
        Ok(open.clone())
    }

    /// The snapshot that openraft passes on, on disk, and its state.
    pub(crate) async fn installable(&self, data: SnapshotData) -> io::Result<(Arc<dyn StoredSnapshot>, State)> {
        let read = move || match data {
            SnapshotData::Stored(OpenSnapshot { snapshot, .. }) => state_of(&*snapshot).map(|state| (snapshot, state)),
            SnapshotData::Arrived(arrived) => arrived.finish(),
        };
        run_blocking(&*self.store, read).await?
    }
}

fn verified(block: Bytes, index: u32) -> io::Result<Bytes> {
    match fairhold_codec::verify(&block) {
        Ok(()) => Ok(block),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("block {index} of the snapshot: {error}"))),
    }
}

fn verify_blocks(snapshot: &dyn StoredSnapshot) -> io::Result<()> {
    (0..snapshot.blocks()).try_for_each(|index| verified(snapshot.block(index)?, index).map(drop))
}

/// Decodes the state of a snapshot. It drops each block before it reads the next. It blocks.
pub(crate) fn state_of(snapshot: &dyn StoredSnapshot) -> io::Result<State> {
    let mut failure = None;
    let blocks = (0..snapshot.blocks()).map_while(|index| snapshot.block(index).map_err(|error| failure = Some(error)).ok());
    let state = State::from_snapshot_blocks(blocks);
    match failure {
        Some(error) => Err(error),
        None => state.map_err(undecodable),
    }
}

fn undecodable(error: SnapshotError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's state: {error}"))
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
        Ok(openraft::Snapshot { meta, snapshot: SnapshotData::Stored(OpenSnapshot::new(snapshot)) })
    }
}

/// Writes the snapshot. Each block is passed to the draft before the next one is encoded.
fn write(mut draft: Box<dyn SnapshotDraft>, state: State) -> io::Result<Arc<dyn StoredSnapshot>> {
    state.snapshot_blocks().try_for_each(|block| draft.write(&block))?;
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::snapshot::{ImageStore, SnapshotImage};
    use futures_util::future::{BoxFuture, FutureExt, ready};
    use openraft_rt_tokio::TokioRuntime;

    type RT = TokioRuntime;

    /// A store that counts how often the newest snapshot was verified.
    #[derive(Clone, Default)]
    struct Images(Arc<Mutex<(Option<SnapshotImage>, u32)>>);

    impl ImageStore for Images {
        fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
            self.0.lock().0 = Some(image);
            ready(Ok(())).boxed()
        }

        fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
            let mut inner = self.0.lock();
            inner.1 += 1;
            ready(Ok(inner.0.clone())).boxed()
        }
    }

    fn sealed(value: u64) -> Bytes {
        Bytes::from(fairhold_codec::encode(1, &value).unwrap())
    }

    async fn keep(writer: &SnapshotWriter, block: Bytes) {
        let meta = SnapshotMetaOf::<Types<RT>>::default();
        let mut draft = writer.store.draft(header::encode::<RT>(&meta).unwrap());
        draft.write(&block).unwrap();
        writer.keep::<RT>(&meta, &draft.finish().unwrap()).await.unwrap();
    }

    async fn load(writer: &SnapshotWriter) -> OpenSnapshot {
        writer.load::<RT>().await.unwrap().unwrap().snapshot
    }

    #[tokio::test]
    async fn the_newest_snapshot_is_passed_on_without_being_verified_between_two_commands() {
        let images = Images::default();
        let writer = SnapshotWriter::new(Arc::new(images.clone()));
        assert!(writer.load::<RT>().await.unwrap().is_none());
        let verified_at_start = images.0.lock().1;
        for value in 0..3 {
            keep(&writer, sealed(value)).await;
            assert_eq!(load(&writer).await.fetch(0).await.unwrap(), sealed(value));
        }
        assert_eq!(images.0.lock().1, verified_at_start);

        let restarted = SnapshotWriter::new(Arc::new(images.clone()));
        for _ in 0..2 {
            assert_eq!(load(&restarted).await.fetch(0).await.unwrap(), sealed(2));
        }
        assert_eq!(images.0.lock().1, verified_at_start + 1, "verified once after a start");
    }

    #[tokio::test]
    async fn a_damaged_block_is_not_sent_and_the_next_request_for_the_snapshot_fails() {
        let images = Images::default();
        let writer = SnapshotWriter::new(Arc::new(images.clone()));
        let mut damaged = sealed(7).to_vec();
        damaged[2] ^= 1;
        keep(&writer, Bytes::from(damaged)).await;
        let error = load(&writer).await.fetch(0).await.unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidData && error.to_string().contains("block 0"), "{error}");
        let again = writer.load::<RT>().await.err().map(|error| error.to_string());
        assert!(again.as_ref().is_some_and(|error| error.contains("block 0")), "{again:?}");
    }
}
