//! The snapshots on a machine's disk.

use super::SimLog;
use crate::tally::Probe;
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
            let mut platter = log.disk.locked();
            if platter.life != log.life {
                return Err(io::Error::other("an earlier life of the machine wrote"));
            }
            platter.snapshot_before = platter.snapshot.replace(image);
            drop(platter);
            log.disk.tally.probe(Probe::SnapshotSaved);
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
