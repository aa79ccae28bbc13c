//! The snapshots on a machine's disk.

use super::SimLog;
use crate::coverage::Probe;
use fairhold_raft::snapshot::{ImageStore, SnapshotImage};
use fairhold_types::failpoint;
use futures_util::future::{BoxFuture, FutureExt};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::io;

impl ImageStore for SimLog {
    fn save(&self, image: SnapshotImage) -> BoxFuture<'static, io::Result<()>> {
        let log = self.clone();
        async move {
            failpoint!(StorageSnapshotWrite)?;
            SimRuntime::sleep(log.disk.flush_time() / 2).await;
            failpoint!(StorageFileSync)?;
            SimRuntime::sleep(log.disk.flush_time() / 2).await;
            log.disk.outcome()?;
            failpoint!(StorageFileRename)?;
            let mut inner = log.disk.locked();
            if inner.life != log.life {
                return Err(io::Error::other("the machine has restarted since"));
            }
            inner.snapshot_before = inner.snapshot.replace(image);
            drop(inner);
            log.disk.coverage.probe(Probe::SnapshotSaved);
            failpoint!(StorageFileName)?;
            failpoint!(StorageSnapshotOlder)
        }
        .boxed()
    }

    fn load(&self) -> BoxFuture<'static, io::Result<Option<SnapshotImage>>> {
        let snapshot = self.disk.locked().snapshot.clone();
        async move { failpoint!(StorageSnapshotLoad).map(|()| snapshot) }.boxed()
    }
}
