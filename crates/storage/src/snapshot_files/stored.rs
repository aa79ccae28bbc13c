//! A complete snapshot file.

use super::{
    directory::Directory,
    layout::{Layout, Unreadable},
};
use crate::durable;
use bytes::Bytes;
use fairhold_raft::snapshot::StoredSnapshot;
use fairhold_types::failpoint;
use futures_util::future::BoxFuture;
use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::task::spawn_blocking;

/// A complete snapshot, open for reading.
#[derive(Debug)]
pub(super) struct Stored {
    directory: Arc<Directory>,
    path: PathBuf,
    file: File,
    meta: Bytes,
    blocks: Vec<Range<u64>>,
    /// Whether it is, or was, the newest. Then the `keep` of a newer one removes it.
    kept: AtomicBool,
    /// Exists for as long as this snapshot is open.
    reader: Arc<()>,
}

impl Stored {
    /// Opens a file and verifies it.
    pub(super) fn open(directory: &Arc<Directory>, path: PathBuf) -> io::Result<Stored> {
        let named = |error| durable::with_path(&path, error);
        let file = File::open(&path).map_err(named)?;
        let length = file.metadata().map_err(named)?.len();
        let layout = Layout::verified(length, |buffer, at| file.read_exact_at(buffer, at));
        let layout = layout.map_err(|unreadable| match unreadable {
            Unreadable::Damaged(damage) => durable::damaged(&path, damage),
            Unreadable::Failed(error) => named(error),
        })?;
        let meta = read(&file, &layout.meta).map_err(named)?;
        Ok(Stored::new(directory, path, file, meta, layout))
    }

    /// A snapshot that this process has written.
    pub(super) fn written(directory: &Arc<Directory>, path: PathBuf, meta: Bytes, layout: Layout) -> io::Result<Stored> {
        let file = File::open(&path).map_err(|error| durable::with_path(&path, error))?;
        Ok(Stored::new(directory, path, file, meta, layout))
    }

    fn new(directory: &Arc<Directory>, path: PathBuf, file: File, meta: Bytes, layout: Layout) -> Stored {
        let directory = Arc::clone(directory);
        let kept = AtomicBool::new(false);
        let reader = Arc::new(());
        Stored { directory, path, file, meta, blocks: layout.blocks, kept, reader }
    }

    /// The newest snapshot of a directory, read and verified.
    pub(super) fn newest(directory: &Arc<Directory>) -> io::Result<Option<Arc<Stored>>> {
        failpoint!(StorageSnapshotLoad)?;
        let Some((number, path)) = directory.newest()? else { return Ok(None) };
        let stored = Stored::open(directory, path)?;
        stored.set_kept();
        directory.record_reader(number, &stored.reader);
        Ok(Some(Arc::new(stored)))
    }

    /// Makes it the newest, and removes the older ones.
    fn make_newest(&self) -> io::Result<()> {
        let older = self.directory.publish(&self.path, &self.reader)?;
        self.set_kept();
        self.directory.remove_older(older)
    }

    fn set_kept(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if !*self.kept.get_mut() {
            self.directory.remove_abandoned(std::mem::take(&mut self.path));
        }
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
        read(&self.file, range).map_err(|error| durable::with_path(&self.path, error))
    }

    fn fetch(self: Arc<Self>, index: u32) -> BoxFuture<'static, io::Result<Bytes>> {
        Box::pin(async move { spawn_blocking(move || self.block(index)).await.map_err(io::Error::other)? })
    }

    fn keep(self: Arc<Self>) -> BoxFuture<'static, io::Result<()>> {
        let snapshot_thread = self.directory.snapshot_thread.clone();
        let kept = snapshot_thread.run(move || self.make_newest().inspect_err(|error| self.directory.faults.record(error)));
        Box::pin(async move { kept.await? })
    }
}

fn read(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(Bytes::from(bytes))
}
