//! Where snapshots are kept: files in `fairhold-storage`, memory in a simulator.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::io;
use tokio::sync::oneshot;

/// A snapshot as it is kept and sent: what it covers, and the state in blocks, each with its own checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotImage {
    /// The last log entry and the membership that it covers, encoded.
    pub meta: Bytes,
    /// The state, in order.
    pub blocks: Vec<Bytes>,
}

/// Keeps the newest snapshot.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Makes this the newest snapshot. When it returns, it survives a loss of power, so the log behind it may be purged.
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>>;

    /// The newest snapshot, verified. `Ok(None)` where there never was one; damage is an error that names the file.
    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>>;

    /// Does work that takes as long as the state is large: to turn it into bytes, or bytes into it. Where threads are real it
    /// must have one of its own: Raft has one thread, and whatever keeps that busy for some milliseconds delays each of the
    /// twenty tasks that an entry passes through.
    fn aside(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move {
            work();
            Ok(())
        })
    }
}

/// Does work aside, and gives back what came of it.
pub(crate) async fn aside<T: Send + 'static>(
    store: &dyn SnapshotStore,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // Whoever asked may be gone: then nobody needs what came of it.
    store.aside(Box::new(move || drop(done.send(work())))).await?;
    result.await.map_err(io::Error::other)
}
