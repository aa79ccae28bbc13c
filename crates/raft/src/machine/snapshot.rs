//! Storage for snapshots: files in `fairhold-storage`, memory in a simulator.
//!
//! A state may take half of a machine's memory, so it never exists there a second time as bytes: a snapshot is written
//! and read one block at a time.

pub(crate) mod header;
mod image;

pub use image::{ImageStore, SnapshotImage};

use crate::base::types::Types;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use openraft::{AsyncRuntime, alias::LogIdOf};
use std::{io, sync::Arc};
use tokio::sync::oneshot;

/// Stores the newest snapshot.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Begins a snapshot. `meta` is the encoded description of what it covers: the last log entry and the membership.
    fn draft(&self, meta: Bytes) -> Box<dyn SnapshotDraft>;

    /// Whether a snapshot of about this many bytes fits without filling the disk, which would end the node.
    fn has_room_for(&self, bytes: u64) -> bool {
        let _: u64 = bytes;
        true
    }

    /// The newest snapshot, verified. `Ok(None)` if none was ever stored; damage is an error that names the file.
    fn newest(&self) -> BoxFuture<'static, io::Result<Option<Arc<dyn StoredSnapshot>>>>;

    /// Runs work that takes time proportional to the state: encoding or decoding it. With real threads, it must run on
    /// a separate thread: Raft has one thread, and blocking it for milliseconds delays each of the twenty tasks that an
    /// entry passes through. Work runs in the order of these calls, whether or not the future is awaited.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        work();
        ready(Ok(())).boxed()
    }
}

/// A snapshot that is being written. Dropping it removes it.
pub trait SnapshotDraft: Send + 'static {
    /// Writes the next block of the state. It may block: call it through `run_blocking`.
    fn write(&mut self, block: &[u8]) -> io::Result<()>;

    /// Makes the snapshot durable. It is not the newest snapshot yet. It may block: call it through `run_blocking`.
    fn finish(self: Box<Self>) -> io::Result<Arc<dyn StoredSnapshot>>;
}

/// A complete snapshot: the state in blocks, each with its own checksum. Dropping it removes it, unless it is or was
/// the newest. A snapshot that is no longer the newest stays readable until it is dropped.
pub trait StoredSnapshot: Send + Sync + 'static {
    /// What it covers, encoded.
    fn meta(&self) -> Bytes;

    /// How many blocks it has.
    fn blocks(&self) -> u32;

    /// How many bytes the blocks have.
    fn bytes(&self) -> u64;

    /// Reads one block. It may block: call it through `run_blocking`.
    fn block(&self, index: u32) -> io::Result<Bytes>;

    /// Reads one block without blocking the caller, and without waiting for work in `run_blocking`.
    fn fetch(self: Arc<Self>, index: u32) -> BoxFuture<'static, io::Result<Bytes>>;

    /// Makes it the newest. Once it returns, the snapshot survives a power loss, so the log that it covers may be
    /// purged.
    fn keep(self: Arc<Self>) -> BoxFuture<'static, io::Result<()>>;
}

/// The last log entry that a snapshot covers, decoded from its `meta`.
pub fn covered_by<RT: AsyncRuntime>(meta: &[u8]) -> io::Result<Option<LogIdOf<Types<RT>>>> {
    Ok(header::decode::<RT>(meta)?.last_log_id)
}

/// Runs work through the store's `run_blocking`, and returns its result.
pub(crate) async fn run_blocking<T: Send + 'static>(
    store: &dyn SnapshotStore,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // The caller may be gone; then the result is dropped.
    store.run_blocking(Box::new(move || drop(done.send(work())))).await?;
    result.await.map_err(io::Error::other)
}
