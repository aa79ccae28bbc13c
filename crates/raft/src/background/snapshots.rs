//! Takes snapshots when they are due or requested, and purges the log that they cover.

use crate::{
    base::error::{NotProposed, ProposeError, UnknownReason},
    core::Core,
    machine::shared::NewestSnapshot,
};
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// How long to wait for a requested snapshot before requesting it again, and for how long to defer a purge.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Requests a snapshot whenever enough was applied since the last one: the configured number of commands or as many as
/// the state has items, whichever is more, or enough bytes of log. A command with many operations or a large value
/// counts as several, and so does what it removes. This bounds the log, and writing a large state costs at most about
/// one item for each changed item, and two bytes for each byte of log.
pub(crate) async fn take_snapshots<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut snapshots = core.shared.newest.watch();
    loop {
        // After a start, the log after the snapshot is applied again, and counts towards the next snapshot.
        let newest = *snapshots.borrow_and_update();
        if core.progressed(|now| core.schedule.is_due(&newest, now)).await.is_none() {
            return;
        }
        if let Err(error) = core.raft.trigger().snapshot().await {
            tracing::debug!(%error, "Raft is stopping, so it takes no snapshot");
            return;
        }
        // The request has no effect if a snapshot is already being built, or if the disk has no room for it.
        if let Ok(Err(_)) = RT::timeout(RETRY_AFTER, snapshots.changed()).await {
            return;
        }
    }
}

/// Purges the log that each new snapshot covers, by size; openraft purges by number of entries. While a snapshot is
/// being sent to another node, more of the log stays: as many bytes as the snapshot has, because that node continues
/// from there. If more is written in that time, the node could not catch up anyway. A disk that is nearly full keeps no
/// extra log.
pub(crate) async fn purge_log<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut newest = core.shared.newest.watch();
    loop {
        let NewestSnapshot { index, bytes, .. } = *newest.borrow_and_update();
        let keeps_more = core.links.outgoing_snapshots.is_active() && !core.disk_room.low.get();
        let extra = if keeps_more { bytes } else { 0 };
        let excess = index.and_then(|index| core.shared.log_bytes.lock().take_excess(index, extra));
        if let Some(through) = excess {
            // openraft purges nothing until it knows that a snapshot covers it.
            let known = core.until_any_metrics(|metrics| (metrics.snapshot.map(|id| id.index) >= index).then_some(()));
            if known.await.is_none() || core.raft.trigger().purge_log(through).await.is_err() {
                return;
            }
        }
        tokio::select! {
            biased;
            changed = newest.changed() => if changed.is_err() { return },
            () = RT::sleep(RETRY_AFTER), if keeps_more => {}
            () = core.stopped() => return,
        }
    }
}

/// Takes a snapshot of the current local state, unless there is one, and waits until it is stored. If an earlier state
/// is already being written, another snapshot follows. After the deadline the snapshot is still written.
pub(crate) async fn take_snapshot<RT: AsyncRuntime>(core: &Core<RT>, deadline: RT::Instant) -> Result<u64, ProposeError> {
    let Some(wanted) = core.shared.progress.get().applied else {
        return Err(NotProposed::NoLeader.into());
    };
    let mut known = core.with_metrics(|metrics| metrics.snapshot.map(|id| id.index));
    while known < Some(wanted) {
        core.raft.trigger().snapshot().await.map_err(|_| NotProposed::ShuttingDown)?;
        let newer = core.until_any_metrics(|metrics| {
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
