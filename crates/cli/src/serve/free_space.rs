//! Free disk space: a node waits for enough of it before it starts, warns when it runs low, and refuses writes before
//! the disk is full.
//!
//! A node whose disk is full stops (`ServeError::Stopped`). After a restart it is alive but not ready, and says why. It
//! takes part by itself once there is enough space.

use super::{certificates::Certificates, error::ServeError, waiting::WaitingListeners};
use crate::config::{ServeConfig, start::StartingNode};
use fairhold_health::answer::WAITS_FOR_SPACE;
use fairhold_node::{Node, node::Concern};
use fairhold_raft::Replica;
use fairhold_storage::{
    Storage, StorageError,
    data_dir::DataDir,
    free_space::{START_ROOM_BYTES, WRITE_ROOM_BYTES, free_bytes},
    make_room::free_covered_log,
};
use fairhold_types::{ClusterId, NodeId};
use openraft_rt_tokio::TokioRuntime;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::sleep};

/// How often a waiting node checks the free space.
const WAITING_CHECK_EVERY: Duration = Duration::from_secs(1);
/// How often a running node checks the free space. At full speed it writes about ten MiB in that time.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Writes are accepted again when this much more is free. The difference prevents flapping.
const WRITE_ROOM_HYSTERESIS_BYTES: u64 = 64 * MIB;
/// The warning ends when this many times the space is free. The difference prevents flapping.
const RECOVERED_FACTOR: u64 = 2;

const MIB: u64 = 1024 * 1024;

/// Opens the storage of a node, and records the members that it knows. If the disk is full, first waits for space.
pub(super) async fn open_storage(
    config: &ServeConfig,
    node: &StartingNode,
    certificates: &Certificates,
) -> Result<Storage, ServeError> {
    let data = config.data.clone();
    let id = node.id;
    let members = node.known_members();
    when_there_is_space(config, certificates, move |is_first| {
        if is_first && is_short(&data) {
            free_log(&data, id)?;
        }
        if_there_is_space(&data, || {
            let storage = Storage::open(&data, id)?;
            storage.data_dir.set_members(&members)?;
            Ok(storage)
        })
    })
    .await
}

/// Opens the data directory of a node that joins a cluster. If the disk is full, first waits for space.
pub(super) async fn open_to_join(config: &ServeConfig, certificates: &Certificates) -> Result<DataDir, ServeError> {
    let data = config.data.clone();
    when_there_is_space(config, certificates, move |_| if_there_is_space(&data, || Ok(DataDir::open_to_join(&data)?))).await
}

/// Repeats an attempt until there is enough space, and meanwhile answers requests with the reason. An attempt blocks.
/// It learns whether it is the first one, and returns what it opened, or a message that says what is missing.
async fn when_there_is_space<T: Send + 'static>(
    config: &ServeConfig,
    certificates: &Certificates,
    attempt: impl Fn(bool) -> Result<Result<T, String>, ServeError> + Clone + Send + 'static,
) -> Result<T, ServeError> {
    let mut waiting = None;
    let mut is_first = true;
    loop {
        let attempt = attempt.clone();
        let result = spawn_blocking(move || attempt(is_first)).await;
        let shortage = match result.map_err(|error| ServeError::Ended(error.to_string()))?? {
            Ok(opened) => {
                if let Some(listeners) = waiting {
                    tracing::info!("there is enough disk space again: starting");
                    WaitingListeners::stop(listeners).await;
                }
                return Ok(opened);
            }
            Err(shortage) => shortage,
        };
        if waiting.is_none() {
            let reason = format!("{shortage}. This node does not take part; {WAITS_FOR_SPACE}");
            tracing::error!("{reason}");
            let cluster = recorded_cluster(config.data.clone()).await?;
            waiting = Some(WaitingListeners::start(config, certificates, &reason, cluster).await?);
        }
        is_first = false;
        sleep(WAITING_CHECK_EVERY).await;
    }
}

/// The cluster of the data directory. If the directory cannot be read, opening it says why.
async fn recorded_cluster(data: PathBuf) -> Result<Option<ClusterId>, ServeError> {
    let recorded = spawn_blocking(move || DataDir::recorded(&data)).await;
    let recorded = recorded.map_err(|error| ServeError::Ended(error.to_string()))?;
    Ok(recorded.ok().flatten().and_then(|node| node.cluster))
}

/// Opens something in the data directory, or returns a message that says what is missing.
fn if_there_is_space<T>(data: &Path, open: impl FnOnce() -> Result<T, StorageError>) -> Result<Result<T, String>, ServeError> {
    // Checked first: a start that fails halfway because the disk is full would leave files behind each time.
    if is_short(data) {
        let needed = START_ROOM_BYTES / MIB;
        let data = data.display();
        return Ok(Err(format!("the file system of {data} has less than {needed} MiB free, which a start needs")));
    }
    match open() {
        Ok(opened) => Ok(Ok(opened)),
        // A quota, which the free space of the file system does not show.
        Err(error) if error.is_out_of_space() => Ok(Err(format!("no space on the disk: {error}"))),
        Err(error) => Err(ServeError::from(error)),
    }
}

fn is_short(data: &Path) -> bool {
    free_bytes(data).is_ok_and(|free| free < START_ROOM_BYTES)
}

/// Frees the log entries that a snapshot covers.
fn free_log(data: &Path, id: NodeId) -> Result<(), ServeError> {
    match free_covered_log(data, id) {
        Ok(None) => Ok(()),
        Ok(Some(through)) => {
            tracing::warn!(
                through_index = through,
                "the disk is nearly full: freed the log entries that the newest snapshot covers"
            );
            Ok(())
        }
        Err(error) if error.is_out_of_space() => {
            tracing::debug!(%error, "the disk is too full even to free log entries that are no longer needed");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// What a running node makes of the free space. Each part ends at another figure than it begins, so that it does not flap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shortage {
    /// The leader counts this node as one without space for writes.
    refuses: bool,
    /// The node may stop soon.
    low: bool,
}

impl Shortage {
    /// The same when so many bytes are free.
    fn at(self, free: u64) -> Shortage {
        let refused_below = if self.refuses { WRITE_ROOM_BYTES + WRITE_ROOM_HYSTERESIS_BYTES } else { WRITE_ROOM_BYTES };
        let low_below = if self.low { RECOVERED_FACTOR * START_ROOM_BYTES } else { START_ROOM_BYTES };
        Shortage { refuses: free < refused_below, low: free < low_below }
    }

    /// What `/readyz?verbose` says about it.
    fn warning(self, free: u64, data: &Path) -> Option<String> {
        let consequence = match self {
            Shortage { low: true, .. } => "this node stops when the disk is full",
            Shortage { refuses: true, low: false } => "the cluster refuses writes that need space while too few nodes have it",
            Shortage { refuses: false, low: false } => return None,
        };
        let (free, data) = (free / MIB, data.display());
        Some(format!("only {free} MiB are free on the file system of {data}: {consequence}. Free some space"))
    }
}

/// Informs the replica while free space is low, and warns. When it is even lower, transfers the leadership: a follower can
/// stop without disturbing clients.
pub(super) async fn watch(data: PathBuf, node: Node<TokioRuntime>, replica: Replica<TokioRuntime>) {
    let mut shortage = Shortage::default();
    loop {
        sleep(WATCH_EVERY).await;
        let Some(free) = read_free_bytes(&data).await else { continue };
        let now = shortage.at(free);
        let before = std::mem::replace(&mut shortage, now);
        let warning = shortage.warning(free, &data);
        node.warn(Concern::Disk, warning.clone());
        if before.refuses != shortage.refuses {
            replica.set_disk_low(shortage.refuses);
            if shortage.refuses {
                tracing::warn!(
                    free_mib = free / MIB,
                    "the disk is nearly full: the leader refuses writes that need space while too few nodes have it"
                );
            } else {
                tracing::info!(free_mib = free / MIB, "the disk has enough space for writes again");
            }
        }
        if shortage.low && !before.low {
            tracing::error!("{}", warning.unwrap_or_default());
            replica.transfer_leadership().await;
        } else if before.low && !shortage.low {
            tracing::info!(free_mib = free / MIB, "the disk has enough space again");
        }
    }
}

async fn read_free_bytes(data: &Path) -> Option<u64> {
    let path = data.to_owned();
    match spawn_blocking(move || free_bytes(&path)).await {
        Ok(Ok(free)) => Some(free),
        // Without a figure nothing happens: a write that fails reports the problem.
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot read the free space on the disk");
            None
        }
        Err(error) => {
            tracing::debug!(%error, "cannot read the free space on the disk");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_lasts_as_long_as_writes_are_refused() {
        let data = Path::new("/data");
        let mut shortage = Shortage::default();
        for (free_mib, says) in [
            (256, None),
            (255, Some("refuses writes")),
            (319, Some("refuses writes")),
            (320, None),
            (214, Some("refuses writes")),
            (127, Some("stops when the disk is full")),
            (255, Some("stops when the disk is full")),
            (256, Some("refuses writes")),
            (400, None),
        ] {
            shortage = shortage.at(free_mib * MIB);
            assert_eq!(shortage.refuses, says.is_some(), "{free_mib} MiB");
            let warning = shortage.warning(free_mib * MIB, data);
            assert_eq!(warning.is_some(), says.is_some(), "{free_mib} MiB: {warning:?}");
            let begins = format!("only {free_mib} MiB are free on the file system of /data: ");
            assert!(warning.is_none_or(|text| text.starts_with(&begins) && says.is_some_and(|says| text.contains(says))));
        }
    }
}
