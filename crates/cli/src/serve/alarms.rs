//! Looks once a second for what is wrong with this node and its machine, beside everything that serves requests.

use super::{audit, backups::NewestBackup, certificate_alarm::OwnCertificates, memory, open_files};
use crate::config::{
    ServeConfig,
    start::{MemberSource, StartingNode},
};
use fairhold_health::alarms::readings::{DiskReading, MachineReading, MemoryReading, OpenFilesReading, SyncReading};
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
    time::{Duration, Instant},
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// How often the node looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a look waits for the disk.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Where the node finds what it knows of its machine.
#[derive(Debug)]
pub(super) struct MachineSources {
    data: PathBuf,
    syncs: Histogram,
    memory_limit: Option<u64>,
    certificates: OwnCertificates,
    audit: Audit,
    /// The newest scheduled backup, if the node makes any.
    newest_backup: Option<NewestBackup>,
    /// The members in the configuration, if it has a list.
    configured_members: Option<BTreeSet<NodeId>>,
}

impl MachineSources {
    pub(super) fn new(
        config: &ServeConfig,
        node: &StartingNode,
        syncs: Histogram,
        (certificates, audit): (OwnCertificates, Audit),
        newest_backup: Option<NewestBackup>,
    ) -> MachineSources {
        let is_listed = node.source == MemberSource::List;
        MachineSources {
            data: config.data.clone(),
            syncs,
            memory_limit: memory::limit(),
            certificates,
            audit,
            newest_backup,
            configured_members: is_listed.then(|| node.members.keys().copied().collect()),
        }
    }
}

/// Looks until it is dropped.
pub(super) async fn watch(sources: MachineSources, node: Node<TokioRuntime>, replica: Replica<TokioRuntime>) {
    let mut files = FileReader::new(sources.data.clone(), sources.memory_limit);
    loop {
        let (disk, memory, open_files) = files.read().await;
        let syncs = sources.syncs.larger_than(replica.timing().heartbeat());
        node.look_for_alarms(MachineReading {
            disk,
            syncs: Some(SyncReading { all: syncs.all, slow: syncs.larger, bound: syncs.bound }),
            memory,
            open_files,
            certificates: sources.certificates.statuses(),
            audit: audit::status(&sources.audit),
            backups: sources.newest_backup.as_ref().and_then(|newest| newest.reading(Instant::now())),
            configured_members: sources.configured_members.clone(),
        });
        sleep(LOOK_EVERY).await;
    }
}

type FileReadings = (Option<DiskReading>, Option<MemoryReading>, Option<OpenFilesReading>);

/// Reads files that may be on a disk that does not answer. Such a disk must not hold up the other alarms.
#[derive(Debug)]
struct FileReader {
    data: PathBuf,
    memory_limit: Option<u64>,
    /// What was read last.
    last: FileReadings,
    /// A reading that takes too long. There is one at most.
    pending: Option<JoinHandle<FileReadings>>,
}

impl FileReader {
    fn new(data: PathBuf, memory_limit: Option<u64>) -> FileReader {
        FileReader { data, memory_limit, last: (None, None, None), pending: None }
    }

    /// Reads them, or returns what was read last if that takes too long.
    async fn read(&mut self) -> FileReadings {
        let (data, limit) = (self.data.clone(), self.memory_limit);
        let start = || spawn_blocking(move || (read_disk(&data), limit.and_then(read_memory), read_open_files()));
        let mut reading = self.pending.take().unwrap_or_else(start);
        match timeout(READ_TIMEOUT, &mut reading).await {
            Ok(read) => self.last = read.unwrap_or_default(),
            Err(_) => self.pending = Some(reading),
        }
        self.last
    }
}

fn read_disk(data: &Path) -> Option<DiskReading> {
    let (free_bytes, total_bytes) = free_space::of(data).ok()?;
    Some(DiskReading { free_bytes, total_bytes })
}

fn read_memory(limit_bytes: u64) -> Option<MemoryReading> {
    Some(MemoryReading { resident_bytes: memory::resident()?, limit_bytes })
}

fn read_open_files() -> Option<OpenFilesReading> {
    Some(OpenFilesReading { open: open_files::count()?, max: open_files::limit() })
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
        assert!(read_open_files().is_none_or(|files| files.open > 0));
    }

    #[tokio::test]
    async fn a_disk_that_does_not_answer_holds_up_no_look() {
        let mut files = FileReader::new(PathBuf::from("/"), Some(7));
        let first = files.read().await;
        assert!(first.0.is_some() && first.1.is_some(), "{first:?}");
        let (answer, answered) = tokio::sync::oneshot::channel::<FileReadings>();
        files.pending = Some(tokio::spawn(async move { answered.await.unwrap() }));
        assert_eq!(files.read().await, first, "what was read last");
        assert!(files.pending.is_some(), "no second reading is started");
        answer.send((None, None, None)).unwrap();
        assert_eq!(files.read().await, (None, None, None));
        assert!(files.pending.is_none());
    }
}
