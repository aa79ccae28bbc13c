//! Takes snapshots when they are due or requested, and purges the log behind them.

use crate::{
    base::error::{NotProposed, ProposeError, UnknownReason},
    core::Core,
    machine::shared::Newest,
};
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// How long a snapshot that was asked for may not be there before it is asked for again, and how long after a look a purge that
/// had to wait is tried again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Asks for a snapshot whenever enough was applied since the last: as many commands as are configured, or as the state
/// has items, whichever is more; or as many bytes of the log. A command with many operations or a large value counts for as many,
/// and so does what it removes. So the log stays bounded, and a large state costs at most about one item written for each that is
/// changed, and two bytes for each byte of the log.
pub(crate) async fn take_snapshots<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut snapshots = core.shared.newest();
    loop {
        // What the log holds behind the snapshot of a start is applied again, and counts towards the next one.
        let newest = *snapshots.borrow_and_update();
        if core.progressed(|now| core.schedule.is_due(&newest, now)).await.is_none() {
            return;
        }
        if let Err(error) = core.raft.trigger().snapshot().await {
            tracing::debug!(%error, "raft stops, no snapshot is taken");
            return;
        }
        // Nothing comes of it where one is being built already, or where the disk has no room for it.
        if let Ok(Err(_)) = RT::timeout(ASK_AGAIN_AFTER, snapshots.changed()).await {
            return;
        }
    }
}

/// Has the log purged behind each new snapshot as far as it is too large; openraft purges what are too many entries. While a
/// snapshot is on its way to another node, as much more stays as that snapshot is large, because that node goes on from there:
/// where more is written in that time, the node would not catch up anyway. A disk that is nearly full keeps no more for others.
pub(crate) async fn purge_log<RT: AsyncRuntime>(core: Arc<Core<RT>>) {
    let mut newest = core.shared.newest();
    loop {
        let Newest { index, bytes, .. } = *newest.borrow_and_update();
        let waits = core.sending.is_going_on() && !core.disk_room.is_low();
        let kept_besides = if waits { bytes } else { 0 };
        let excess = index.and_then(|index| core.shared.log_bytes().take_excess(index, kept_besides));
        if let Some(through) = excess {
            // It purges nothing of which it does not know yet that a snapshot covers it.
            let known = core.until_in_all(|metrics| (metrics.snapshot.map(|id| id.index) >= index).then_some(()));
            if known.await.is_none() || core.raft.trigger().purge_log(through).await.is_err() {
                return;
            }
        }
        tokio::select! {
            biased;
            changed = newest.changed() => if changed.is_err() { return },
            () = RT::sleep(ASK_AGAIN_AFTER), if waits => {}
            () = core.stopped() => return,
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
