//! Room on the disk: a node starts only where there is enough of it, waits for it where there is not, takes no writes before it
//! runs out, and warns.
//!
//! A node whose disk is full ends (`ServeError::Stopped`). Whoever starts it again, a supervisor or a person, gets a process that
//! lives, is not ready, and says why; it takes part as soon as there is room, without being told.

use super::{
    ServeError,
    parts::{Server, listen_for_clients, listen_for_status, told},
};
use crate::config::ServeConfig;
use fairhold_http::waiting_router;
use fairhold_node::{Node, node::Concern};
use fairhold_raft::Replica;
use fairhold_storage::{
    Storage,
    make_room::free_covered_log,
    room::{START_ROOM_BYTES, WRITE_ROOM_BYTES, free_bytes},
};
use fairhold_types::NodeId;
use openraft_rt_tokio::TokioRuntime;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::oneshot, task::spawn_blocking, time::sleep};

/// How often it is looked whether there is room again.
const ROOM_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a running node looks how much is left: while it writes as fast as it can, that is some ten MiB.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Writes are taken again when so much more is free, so that they do not come and go.
const WRITE_ROOM_AGAIN_BYTES: u64 = 64 * MIB;
/// The warning is over when this many times as much is free, so that it does not come and go.
const ROOM_AGAIN: u64 = 2;
/// How long the answers of a server that waits may take to be written.
const WAITING_STOP_TIMEOUT: Duration = Duration::from_secs(1);

const MIB: u64 = 1024 * 1024;

/// Opens the storage; where the disk is full, answers that and waits for room first.
pub(super) async fn open_storage(config: &ServeConfig) -> Result<Storage, ServeError> {
    let (mut waiting, mut is_first) = (Vec::<Server>::new(), true);
    loop {
        let shortage = match attempt(config, std::mem::take(&mut is_first)).await? {
            Ok(storage) => {
                if !waiting.is_empty() {
                    tracing::info!("there is room again: starting");
                }
                for server in waiting {
                    server.stop(WAITING_STOP_TIMEOUT).await;
                }
                return Ok(storage);
            }
            Err(shortage) => shortage,
        };
        if waiting.is_empty() {
            let reason = format!("{shortage}. This node does not take part; it starts by itself as soon as there is room");
            tracing::error!("{reason}");
            let clients = listen_for_clients(&config.listen).await?;
            for listener in [Some(clients), listen_for_status(config).await?].into_iter().flatten() {
                let (stop, stopped) = oneshot::channel();
                let serving = listener.serve(waiting_router(&reason), told(stopped));
                waiting.push(Server { name: "HTTP", stop, task: tokio::spawn(serving) });
            }
        }
        sleep(ROOM_LOOK_EVERY).await;
    }
}

/// The storage, or in words what is short. At first the node makes room itself, where it can.
async fn attempt(config: &ServeConfig, is_first: bool) -> Result<Result<Storage, String>, ServeError> {
    let (data, id) = (config.data.clone(), config.id);
    let opened = spawn_blocking(move || {
        // Looked at first: a start that fails for want of room half-way would leave files behind each time.
        let is_short = || free_bytes(&data).is_ok_and(|free| free < START_ROOM_BYTES);
        if is_first && is_short() {
            make_room(&data, id)?;
        }
        if is_short() {
            let needed = START_ROOM_BYTES / MIB;
            let data = data.display();
            return Ok(Err(format!("less than {needed} MiB, which a start needs, are free on the file system of {data}")));
        }
        match Storage::open(&data, id) {
            Ok(storage) => Ok(Ok(storage)),
            // A quota, which the look at the file system does not see.
            Err(error) if error.is_no_room() => Ok(Err(format!("no room on the disk: {error}"))),
            Err(error) => Err(ServeError::from(error)),
        }
    });
    opened.await.map_err(|error| ServeError::Ended(error.to_string()))?
}

/// Frees what the log holds of entries that a snapshot covers.
fn make_room(data: &Path, id: NodeId) -> Result<(), ServeError> {
    match free_covered_log(data, id) {
        Ok(None) => Ok(()),
        Ok(Some(through)) => {
            tracing::warn!(
                through,
                "little room is left: what the log held of entries that the newest snapshot covers was freed"
            );
            Ok(())
        }
        Err(error) if error.is_no_room() => {
            tracing::debug!(%error, "there is not even room to free what the log holds in vain");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the replica while little room is left. Warns when less is left, and then hands the leadership over: the end of a
/// follower disturbs nobody.
pub(super) async fn watch(data: PathBuf, node: Node<TokioRuntime>, replica: Replica<TokioRuntime>) {
    let (mut low, mut refuses) = (false, false);
    loop {
        sleep(WATCH_EVERY).await;
        let Some(free) = look(&data).await else { continue };
        let refused_below = if refuses { WRITE_ROOM_BYTES + WRITE_ROOM_AGAIN_BYTES } else { WRITE_ROOM_BYTES };
        if refuses != (free < refused_below) {
            refuses = !refuses;
            replica.set_disk_low(refuses);
            if refuses {
                tracing::warn!(
                    free_mib = free / MIB,
                    "little room is left on the disk: the leader takes no writes while too few nodes have room"
                );
            } else {
                tracing::info!(free_mib = free / MIB, "there is room again on the disk");
            }
        }
        if !low && free < START_ROOM_BYTES {
            low = true;
            let warning = format!(
                "only {} MiB are free on the file system of {}: this node stops when it is full. Make room",
                free / MIB,
                data.display()
            );
            tracing::error!("{warning}");
            node.warn(Concern::Disk, Some(warning));
            replica.transfer_leadership().await;
        } else if low && free >= ROOM_AGAIN * START_ROOM_BYTES {
            low = false;
            tracing::info!(free_mib = free / MIB, "there is room again on the disk");
            node.warn(Concern::Disk, None);
        }
    }
}

async fn look(data: &Path) -> Option<u64> {
    let path = data.to_owned();
    match spawn_blocking(move || free_bytes(&path)).await {
        Ok(Ok(free)) => Some(free),
        // What cannot be looked at is not guessed: a write that fails says it all.
        Ok(Err(error)) => {
            tracing::debug!(%error, "the room on the disk is not known");
            None
        }
        Err(error) => {
            tracing::debug!(%error, "the room on the disk is not known");
            None
        }
    }
}
