//! When snapshots are taken: after so much work, and when somebody asks for one.

use crate::{
    core::Core,
    error::{NotProposed, ProposeError, UnknownReason},
    machine::Progress,
};
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::sync::Arc;

/// Asks for a snapshot whenever enough was applied since the last: as many commands as are configured, or as that snapshot had
/// items, whichever is more. A command with many operations or a large value counts for as many. So the log stays bounded, and a
/// large state costs at most about one item written for each that is changed.
pub(crate) async fn take_snapshots<RT: AsyncRuntime>(core: Arc<Core<RT>>, every: u64, loaded: Progress) {
    let mut last = loaded;
    loop {
        let enough = every.max(last.items);
        if core.progressed(|progress| progress.work - last.work >= enough).await.is_none() {
            return;
        }
        last = *core.shared.progress().borrow_watched();
        if let Err(error) = core.raft.trigger().snapshot().await {
            tracing::debug!(%error, "raft stops, no snapshot is taken");
            return;
        }
    }
}

/// Takes a snapshot of what is applied here now, unless there is one, and waits until it is stored. Where one is being written
/// already that covers less, another follows it. Past the deadline it is written all the same.
pub(crate) async fn take_snapshot<RT: AsyncRuntime>(core: &Core<RT>, deadline: RT::Instant) -> Result<u64, ProposeError> {
    let Some(wanted) = core.shared.progress().borrow_watched().applied else {
        return Err(NotProposed::NoLeader.into());
    };
    let mut known = core.look(|metrics| metrics.snapshot.map(|id| id.index));
    while known < Some(wanted) {
        core.raft.trigger().snapshot().await.map_err(|_| NotProposed::ShuttingDown)?;
        let newer = core.until_in_all(|metrics| {
            let index = metrics.snapshot.map(|id| id.index);
            (index > known).then_some(index)
        });
        known = match RT::timeout_at(deadline, newer).await {
            Ok(Some(index)) => index,
            Ok(None) => return Err(NotProposed::ShuttingDown.into()),
            Err(_) => return Err(UnknownReason::Deadline.into()),
        };
    }
    Ok(known.unwrap_or(wanted))
}
