//! A complete snapshot file.

use super::{
    directory::{Directory, SnapshotFile},
    layout::{Layout, Unreadable},
};
use crate::durable;
use bytes::Bytes;
use fairhold_raft::snapshot::StoredSnapshot;
use fairhold_types::failpoint;
use futures_util::future::BoxFuture;
use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, sync::Arc};
use tokio::task::spawn_blocking;

/// A complete snapshot, open for reading.
#[derive(Debug)]
pub(super) struct Stored {
    named: SnapshotFile,
    file: File,
    meta: Bytes,
    blocks: Vec<Range<u64>>,
    /// Exists for as long as this snapshot is open.
    reader: Arc<()>,
}

impl Stored {
    /// A snapshot that this process has written.
    pub(super) fn written(named: SnapshotFile, meta: Bytes, layout: Layout) -> io::Result<Stored> {
        let file = named.open()?;
        Ok(Stored { named, file, meta, blocks: layout.blocks, reader: Arc::new(()) })
    }

    /// The newest snapshot of a directory, read and verified.
    pub(super) fn newest(directory: &Arc<Directory>) -> io::Result<Option<Arc<Stored>>> {
        failpoint!(StorageSnapshotLoad)?;
        let Some((number, named)) = SnapshotFile::newest(directory)? else { return Ok(None) };
        let with_path = |error| durable::with_path(&named.path, error);
        let file = named.open()?;
        let length = file.metadata().map_err(with_path)?.len();
        let layout = Layout::verified(length, |buffer, at| file.read_exact_at(buffer, at));
        let layout = layout.map_err(|unreadable| match unreadable {
            Unreadable::Damaged(damage) => durable::damaged(&named.path, damage),
            Unreadable::Failed(error) => with_path(error),
        })?;
        let meta = read(&file, &layout.meta).map_err(with_path)?;
        let reader = Arc::new(());
        directory.record_reader(number, &reader);
        Ok(Some(Arc::new(Stored { named, file, meta, blocks: layout.blocks, reader })))
    }

    /// Makes it the newest. It blocks.
    pub(super) fn keep_now(&self) -> io::Result<()> {
        self.named.keep(&self.reader).inspect_err(|error| self.named.directory.faults.record(error))
    }
}

impl StoredSnapshot for Stored {
    fn meta(&self) -> Bytes {
        self.meta.clone()
    }

    fn blocks(&self) -> u32 {
        // The file format has four bytes for the number of blocks.
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.end - block.start).sum()
    }

    fn block(&self, index: u32) -> io::Result<Bytes> {
        let range = usize::try_from(index).ok().and_then(|index| self.blocks.get(index));
        let range = range.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no such block"))?;
        read(&self.file, range).map_err(|error| durable::with_path(&self.named.path, error))
    }

    fn fetch(self: Arc<Self>, index: u32) -> BoxFuture<'static, io::Result<Bytes>> {
        Box::pin(async move { spawn_blocking(move || self.block(index)).await.map_err(io::Error::other)? })
    }

    fn keep(self: Arc<Self>) -> BoxFuture<'static, io::Result<()>> {
        let directory = Arc::clone(&self.named.directory);
        let kept = directory.snapshot_thread.run(move || self.keep_now());
        Box::pin(async move { kept.await? })
    }
}

fn read(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(Bytes::from(bytes))
}
