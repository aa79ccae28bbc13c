//! Free disk space: a node waits for enough of it before it starts, warns when it runs low, and refuses writes before
//! the disk is full.
//!
//! A node whose disk is full stops (`ServeError::Stopped`). After a restart it is alive but not ready, and says why. It
//! takes part by itself once there is enough space.

use super::{
    error::ServeError,
    listeners::{ListenerTask, listen_for_clients, listen_for_status, stop_requested},
};
use crate::config::ServeConfig;
use fairhold_http::waiting_router;
use fairhold_node::{Node, node::Concern};
use fairhold_raft::Replica;
use fairhold_storage::{
    Storage,
    free_space::{START_ROOM_BYTES, WRITE_ROOM_BYTES, free_bytes},
    make_room::free_covered_log,
};
use fairhold_types::NodeId;
use openraft_rt_tokio::TokioRuntime;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::oneshot, task::spawn_blocking, time::sleep};

/// How often a waiting node checks the free space.
const WAITING_CHECK_EVERY: Duration = Duration::from_secs(1);
/// How often a running node checks the free space. At full speed it writes about ten MiB in that time.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Writes are accepted again when this much more is free. The difference prevents flapping.
const WRITE_ROOM_HYSTERESIS_BYTES: u64 = 64 * MIB;
/// The warning ends when this many times the space is free. The difference prevents flapping.
const RECOVERED_FACTOR: u64 = 2;
/// How long a listener of a waiting node may take to write its answers.
const WAITING_STOP_TIMEOUT: Duration = Duration::from_secs(1);

const MIB: u64 = 1024 * 1024;

/// Opens the storage. If the disk is full, first waits for space, and meanwhile answers requests with the reason.
pub(super) async fn open_storage(config: &ServeConfig) -> Result<Storage, ServeError> {
    let mut waiting = Vec::<ListenerTask>::new();
    let mut is_first = true;
    loop {
        let shortage = match attempt(config, std::mem::take(&mut is_first)).await? {
            Ok(storage) => {
                if !waiting.is_empty() {
                    tracing::info!("there is enough disk space again: starting");
                }
                for server in waiting {
                    server.stop(WAITING_STOP_TIMEOUT).await;
                }
                return Ok(storage);
            }
            Err(shortage) => shortage,
        };
        if waiting.is_empty() {
            let reason = format!("{shortage}. This node does not take part; it starts automatically when there is enough space");
            tracing::error!("{reason}");
            let clients = listen_for_clients(&config.listen).await?;
            for listener in [Some(clients), listen_for_status(config).await?].into_iter().flatten() {
                let (stop, stopped) = oneshot::channel();
                let serving = listener.serve(waiting_router(&reason), stop_requested(stopped));
                waiting.push(ListenerTask { name: "HTTP", stop, task: tokio::spawn(serving) });
            }
        }
        sleep(WAITING_CHECK_EVERY).await;
    }
}

/// Returns the storage, or a message that says what is missing. The first attempt frees space if possible.
async fn attempt(config: &ServeConfig, is_first: bool) -> Result<Result<Storage, String>, ServeError> {
    let data = config.data.clone();
    let id = config.id;
    let opened = spawn_blocking(move || {
        // Checked first: a start that fails halfway because the disk is full would leave files behind each time.
        let is_short = || free_bytes(&data).is_ok_and(|free| free < START_ROOM_BYTES);
        if is_first && is_short() {
            free_log(&data, id)?;
        }
        if is_short() {
            let needed = START_ROOM_BYTES / MIB;
            let data = data.display();
            return Ok(Err(format!("the file system of {data} has less than {needed} MiB free, which a start needs")));
        }
        match Storage::open(&data, id) {
            Ok(storage) => Ok(Ok(storage)),
            // A quota, which the free space of the file system does not show.
            Err(error) if error.is_out_of_space() => Ok(Err(format!("no space on the disk: {error}"))),
            Err(error) => Err(ServeError::from(error)),
        }
    });
    opened.await.map_err(|error| ServeError::Ended(error.to_string()))?
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

/// Informs the replica while free space is low. When it is even lower, warns and transfers the leadership: a follower
/// can stop without disturbing clients.
pub(super) async fn watch(data: PathBuf, node: Node<TokioRuntime>, replica: Replica<TokioRuntime>) {
    let mut low = false;
    let mut refuses = false;
    loop {
        sleep(WATCH_EVERY).await;
        let Some(free) = read_free_bytes(&data).await else { continue };
        let refused_below = if refuses { WRITE_ROOM_BYTES + WRITE_ROOM_HYSTERESIS_BYTES } else { WRITE_ROOM_BYTES };
        if refuses != (free < refused_below) {
            refuses = !refuses;
            replica.set_disk_low(refuses);
            if refuses {
                tracing::warn!(
                    free_mib = free / MIB,
                    "the disk is nearly full: the leader refuses writes that need space while too few nodes have it"
                );
            } else {
                tracing::info!(free_mib = free / MIB, "the disk has enough space for writes again");
            }
        }
        if !low && free < START_ROOM_BYTES {
            low = true;
            let warning = format!(
                "only {} MiB are free on the file system of {}: this node stops when the disk is full. Free some space",
                free / MIB,
                data.display()
            );
            tracing::error!("{warning}");
            node.warn(Concern::Disk, Some(warning));
            replica.transfer_leadership().await;
        } else if low && free >= RECOVERED_FACTOR * START_ROOM_BYTES {
            low = false;
            tracing::info!(free_mib = free / MIB, "the disk has enough space again");
            node.warn(Concern::Disk, None);
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
