//! Looks once a second for what is wrong with this node and its machine, beside everything that serves requests.

use super::{audit, certificate_alarm::OwnCertificates, memory};
use crate::config::{
    ServeConfig,
    start::{MemberSource, StartingNode},
};
use fairhold_health::alarms::readings::{DiskReading, MachineReading, MemoryReading, SyncReading};
use fairhold_http::Audit;
use fairhold_metrics::Histogram;
use fairhold_node::Node;
use fairhold_raft::Replica;
use fairhold_storage::free_space;
use fairhold_types::NodeId;
use openraft_rt_tokio::TokioRuntime;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the node looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the node finds what it knows of its machine.
#[derive(Debug)]
pub(super) struct MachineSources {
    data: PathBuf,
    syncs: Histogram,
    memory_limit: Option<u64>,
    certificates: OwnCertificates,
    audit: Audit,
    /// The members in the configuration, if it has a list.
    configured_members: Option<BTreeSet<NodeId>>,
}

impl MachineSources {
    pub(super) fn new(
        config: &ServeConfig,
        node: &StartingNode,
        syncs: Histogram,
        (certificates, audit): (OwnCertificates, Audit),
    ) -> MachineSources {
        let is_listed = node.source == MemberSource::List;
        MachineSources {
            data: config.data.clone(),
            syncs,
            memory_limit: memory::limit(),
            certificates,
            audit,
            configured_members: is_listed.then(|| node.members.keys().copied().collect()),
        }
    }
}

/// Looks until it is dropped.
pub(super) async fn watch(sources: MachineSources, node: Node<TokioRuntime>, replica: Replica<TokioRuntime>) {
    loop {
        let data = sources.data.clone();
        let limit = sources.memory_limit;
        let files = spawn_blocking(move || (read_disk(&data), limit.and_then(read_memory))).await;
        let (disk, memory) = files.unwrap_or_default();
        let syncs = sources.syncs.larger_than(replica.timing().heartbeat());
        node.look_for_alarms(MachineReading {
            disk,
            syncs: Some(SyncReading { all: syncs.all, slow: syncs.larger, bound: syncs.bound }),
            memory,
            certificates: sources.certificates.statuses(),
            audit: audit::status(&sources.audit),
            configured_members: sources.configured_members.clone(),
        });
        sleep(LOOK_EVERY).await;
    }
}

fn read_disk(data: &Path) -> Option<DiskReading> {
    let (free_bytes, total_bytes) = free_space::of(data).ok()?;
    Some(DiskReading { free_bytes, total_bytes })
}

fn read_memory(limit_bytes: u64) -> Option<MemoryReading> {
    Some(MemoryReading { resident_bytes: memory::resident()?, limit_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_and_the_memory_can_be_read() {
        let disk = read_disk(Path::new("/")).unwrap();
        assert!(0 < disk.total_bytes && disk.free_bytes <= disk.total_bytes, "{disk:?}");
        assert_eq!(read_disk(Path::new("/missing/folder")), None);
        let memory = read_memory(7).unwrap();
        assert!(memory.resident_bytes > 0 && memory.limit_bytes == 7, "{memory:?}");
    }
}
