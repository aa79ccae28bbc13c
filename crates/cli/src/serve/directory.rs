//! The data directory while the node runs: it is bound to the node's cluster, and marked if the node must not use it
//! again.

use super::{error::ServeError, listeners::ended};
use fairhold_raft::{FatalReason, FormationError, Replica, peer::Refusal};
use fairhold_storage::data_dir::{DataDir, mark_lost_entries, mark_removed};
use openraft_rt_tokio::TokioRuntime;
use std::{io, path::Path, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the node checks for the id of its cluster, once it is part of one. Until then the directory is not bound.
const CLUSTER_ID_CHECK_EVERY: Duration = Duration::from_millis(5);

/// Keeps the directory locked, and binds it to its cluster once the cluster has an id.
pub(super) async fn keep(replica: Replica<TokioRuntime>, mut directory: DataDir) -> ServeError {
    // If the cluster cannot form, the program ends for this reason elsewhere.
    drop(replica.formed().await);
    let cluster = loop {
        match replica.read(|state| state.cluster()) {
            Some(cluster) => break cluster,
            None => sleep(CLUSTER_ID_CHECK_EVERY).await,
        }
    };
    let bound = spawn_blocking(move || directory.set_cluster(cluster).map(|()| directory)).await;
    match bound {
        Ok(Ok(directory)) => {
            let never: std::convert::Infallible = std::future::pending().await;
            drop(directory);
            match never {}
        }
        Ok(Err(error)) => error.into(),
        Err(error) => ended(error),
    }
}

/// Marks the directory if the node must not take part with it again.
pub(super) async fn mark(data: &Path, reason: &FatalReason) {
    let mark: fn(&Path, &str) -> io::Result<()> = match reason {
        // A later leader could lack entries that this node had acknowledged.
        FatalReason::LostEntries(_) => mark_lost_entries,
        FatalReason::Removed { .. } => mark_removed,
        FatalReason::Formation(FormationError::Refused { id, refusal: Refusal::Removed { id: removed, .. }, .. })
            if id == removed =>
        {
            mark_removed
        }
        FatalReason::Stopped
        | FatalReason::Formation(_)
        | FatalReason::Inconsistent(_)
        | FatalReason::Unsupported(_)
        | FatalReason::Duplicate { .. }
        | FatalReason::Failed(_) => return,
    };
    let data = data.to_owned();
    let why = reason.to_string();
    match spawn_blocking(move || mark(&data, &why)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "cannot mark the data directory: do not start this node with it again"),
        Err(error) => tracing::error!(%error, "cannot mark the data directory: do not start this node with it again"),
    }
}
