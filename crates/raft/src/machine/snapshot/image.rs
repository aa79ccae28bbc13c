//! Snapshots in memory: for a simulator, whose states are small, and for tests.

use super::{SnapshotDraft, SnapshotStore, StoredSnapshot};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::{io, sync::Arc};

/// A snapshot in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotImage {
    /// What it covers, encoded.
    pub meta: Bytes,
    /// The state, in order.
    pub blocks: Vec<Bytes>,
}

/// A store for whole images. It implements `SnapshotStore`.
pub trait ImageStore: Clone + Send + Sync + 'static {
    /// Makes this the newest snapshot. Once it returns, the snapshot survives a power loss.
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>>;

    /// The newest snapshot.
    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>>;
}

struct Stored<S> {
    store: S,
    image: SnapshotImage,
}

impl<S: ImageStore> SnapshotStore for S {
    fn draft(&self, meta: Bytes) -> Box<dyn SnapshotDraft> {
        Box::new(Stored { store: self.clone(), image: SnapshotImage { meta, blocks: Vec::new() } })
    }

    fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>> {
        let store = self.clone();
        let loading = self.load();
        async move { Ok(loading.await?.map(|image| Arc::new(Stored { store, image }) as Arc<dyn StoredSnapshot>)) }.boxed()
    }
}

impl<S: ImageStore> SnapshotDraft for Stored<S> {
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.image.blocks.push(Bytes::copy_from_slice(block));
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<Arc<dyn StoredSnapshot>> {
        Ok(Arc::new(*self))
    }
}

impl<S: ImageStore> StoredSnapshot for Stored<S> {
    fn meta(&self) -> Bytes {
        self.image.meta.clone()
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.image.blocks.len()).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> u64 {
        self.image.blocks.iter().map(|block| block.len() as u64).sum()
    }

    fn block(&self, index: u32) -> io::Result<Bytes> {
        let block = usize::try_from(index).ok().and_then(|index| self.image.blocks.get(index));
        block.cloned().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such block"))
    }

    fn fetch(self: Arc<Self>, index: u32) -> BoxFuture<'static, io::Result<Bytes>> {
        ready(self.block(index)).boxed()
    }

    fn keep(self: Arc<Self>) -> BoxFuture<'static, io::Result<()>> {
        self.store.save(self.image.clone())
    }
}
