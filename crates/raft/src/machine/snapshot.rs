//! Where snapshots are kept: files in `fairhold-storage`, memory in a simulator.
//!
//! A state may be as large as half of a machine's memory, so it is never there a second time as bytes: a snapshot is written
//! and read a block at a time.

pub(crate) mod header;
mod image;

pub use image::{ImageStore, SnapshotImage};

use crate::base::types::Types;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{AsyncRuntime, alias::LogIdOf};
use std::{io, sync::Arc};
use tokio::sync::oneshot;

/// Keeps the newest snapshot.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Begins a snapshot. `meta` says what it covers: the last log entry and the membership, encoded.
    fn draft(&self, meta: Bytes) -> Box<dyn SnapshotDraft>;

    /// Whether a snapshot of about so many bytes can be written without filling the disk, which would end the node.
    fn has_room_for(&self, bytes: u64) -> bool {
        let _always = bytes;
        true
    }

    /// The newest snapshot, verified. `Ok(None)` where there never was one; damage is an error that names the file.
    fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>>;

    /// Does work that takes as long as the state is large: to turn it into bytes, or bytes into it. Where threads are real it
    /// must have one of its own: Raft has one thread, and whatever keeps that busy for some milliseconds delays each of the
    /// twenty tasks that an entry passes through. Work is done in the order of these calls, whether the future is awaited or not.
    fn aside(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        work();
        ready(Ok(())).boxed()
    }
}

/// A snapshot that is being written. Nothing is left of one that is dropped.
pub trait SnapshotDraft: Send + 'static {
    /// Writes the next block of the state. It may block: to be called aside.
    fn write(&mut self, block: &[u8]) -> io::Result<()>;

    /// Makes all of it durable. It is not the newest snapshot yet. It may block: to be called aside.
    fn finish(self: Box<Self>) -> io::Result<Arc<dyn StoredSnapshot>>;
}

/// A whole snapshot: the state in blocks, each with its own checksum. Nothing is left of one that is dropped and was never the
/// newest; one that is no longer the newest stays readable until it is dropped.
pub trait StoredSnapshot: Send + Sync + 'static {
    /// What it covers, encoded.
    fn meta(&self) -> Bytes;

    /// How many blocks it has.
    fn blocks(&self) -> u32;

    /// How many bytes the blocks have.
    fn bytes(&self) -> u64;

    /// One of the blocks. It may block: to be called aside.
    fn block(&self, index: u32) -> io::Result<Bytes>;

    /// The same for those who must not block. It does not wait for what is done aside.
    fn fetch(self: Arc<Self>, index: u32) -> BoxFuture<'static, io::Result<Bytes>>;

    /// Makes it the newest. When it returns, it survives a loss of power, so the log behind it may be purged.
    fn keep(self: Arc<Self>) -> BoxFuture<'static, io::Result<()>>;
}

/// The last log entry that a snapshot covers, by what it says.
pub fn covered_by<RT: AsyncRuntime>(meta: &[u8]) -> io::Result<Option<LogIdOf<Types<RT>>>> {
    Ok(header::decode::<RT>(meta)?.last_log_id)
}

/// Does work aside, and gives back what came of it.
pub(crate) async fn aside<T: Send + 'static>(
    store: &dyn SnapshotStore,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // The caller may be gone: then nobody needs the result.
    store.aside(Box::new(move || drop(done.send(work())))).await?;
    result.await.map_err(io::Error::other)
}
