//! Where snapshots are kept: files in `fairhold-storage`, memory in a simulator.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::io;

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
}
