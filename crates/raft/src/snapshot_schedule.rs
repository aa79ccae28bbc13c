//! When snapshots are taken: after so much work, after so many bytes of the log, and when somebody asks for one. And what goes
//! of the log behind them.

use crate::{
    config::ReplicaConfig,
    core::Core,
    error::{NotProposed, ProposeError, UnknownReason},
    shared::{Newest, Progress},
};
use fairhold_state::snapshot::ITEM_WEIGHT;
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use std::{sync::Arc, time::Duration};

/// How long a snapshot that was asked for may not be there before it is asked for again, and how long after a look a purge that
/// had to wait is tried again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// A command of more bytes waits for the next snapshot before others do.
const SMALL_BYTES: usize = 1_024;

/// How much is enough for a snapshot, at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    every: u64,
    every_bytes: u64,
}

impl Schedule {
    pub(crate) fn of(config: &ReplicaConfig) -> Schedule {
        Schedule { every: config.snapshot_every, every_bytes: config.snapshot_every_bytes }
    }

    /// Whether enough was applied since the newest snapshot was made. A state that has shrunk costs less to write than that did.
    fn is_due(self, newest: &Newest, now: &Progress) -> bool {
        let then = &newest.made_at;
        let enough = self.every.saturating_mul(ITEM_WEIGHT).max(then.weight.min(now.weight));
        now.work - then.work >= enough || now.log_bytes - then.log_bytes >= self.enough_bytes(newest)
    }

    /// Half a snapshot, so that the disk holds no more than three states: the newest snapshot, the next one while it is written,
    /// and twice this of the log, because writes go on meanwhile.
    fn enough_bytes(self, newest: &Newest) -> u64 {
        self.every_bytes.max(newest.bytes / 2)
    }

    /// What the log behind the newest snapshot still has room for.
    fn log_room(self, newest: &Newest, now: &Progress) -> LogRoom {
        let (enough, behind) = (self.enough_bytes(newest), now.log_bytes - newest.made_at.log_bytes);
        if behind >= 2 * enough {
            LogRoom::Nothing
        } else if 2 * behind >= 3 * enough {
            LogRoom::Small
        } else {
            LogRoom::All
        }
    }
}

/// Which commands the log has room for while a snapshot is written: if the log grows faster than snapshots free it, large
/// commands wait first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRoom {
    All,
    Small,
    Nothing,
}

impl LogRoom {
    /// What the log has room for now.
    pub(crate) fn of<RT: AsyncRuntime>(core: &Core<RT>) -> LogRoom {
        core.schedule.log_room(&core.shared.newest_now(), &core.shared.now())
    }

    /// Whether a command of this size can go into the log before the next snapshot.
    pub(crate) fn takes(self, bytes: usize) -> bool {
        match self {
            LogRoom::All => true,
            LogRoom::Small => bytes <= SMALL_BYTES,
            LogRoom::Nothing => false,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule { every: 10, every_bytes: 1_000 };

    fn progress(items: u64, work: u64, log_bytes: u64) -> Progress {
        Progress { weight: items * ITEM_WEIGHT, work: work * ITEM_WEIGHT, log_bytes, ..Progress::default() }
    }

    fn snapshot(bytes: u64, made_at: Progress) -> Newest {
        Newest { index: Some(7), bytes, made_at }
    }

    #[test]
    fn a_snapshot_is_due_after_as_many_commands_as_the_state_has_items() {
        let last = snapshot(0, progress(100, 50, 0));
        assert!(!SCHEDULE.is_due(&last, &progress(150, 149, 0)));
        assert!(SCHEDULE.is_due(&last, &progress(150, 150, 0)));
        assert!(!SCHEDULE.is_due(&Newest::default(), &progress(5, 9, 0)));
        assert!(SCHEDULE.is_due(&Newest::default(), &progress(5, 10, 0)));
    }

    #[test]
    fn a_state_that_has_shrunk_does_not_wait_for_as_much_as_it_once_was() {
        assert!(SCHEDULE.is_due(&snapshot(0, progress(100_000, 0, 0)), &progress(10, 10, 0)));
    }

    #[test]
    fn a_snapshot_is_due_after_half_as_many_bytes_of_the_log_as_it_has() {
        let last = progress(0, 0, 500);
        assert!(!SCHEDULE.is_due(&snapshot(0, last), &progress(0, 9, 1_499)));
        assert!(SCHEDULE.is_due(&snapshot(0, last), &progress(0, 9, 1_500)));
        assert!(!SCHEDULE.is_due(&snapshot(4_000, last), &progress(0, 9, 2_499)));
        assert!(SCHEDULE.is_due(&snapshot(4_000, last), &progress(0, 9, 2_500)));
    }

    #[test]
    fn a_log_that_grows_faster_than_snapshots_takes_small_commands_longer_than_large_ones() {
        let last = progress(0, 0, 500);
        let room = |bytes, log_bytes| SCHEDULE.log_room(&snapshot(bytes, last), &progress(0, 0, log_bytes));
        assert_eq!([1_999, 2_000, 2_499, 2_500].map(|log| room(0, log)), {
            [LogRoom::All, LogRoom::Small, LogRoom::Small, LogRoom::Nothing]
        });
        assert!(LogRoom::Small.takes(SMALL_BYTES) && !LogRoom::Small.takes(SMALL_BYTES + 1));
        assert!(LogRoom::All.takes(usize::MAX) && !LogRoom::Nothing.takes(0));
        assert_eq!([3_499, 3_500, 4_500].map(|log| room(4_000, log)), [LogRoom::All, LogRoom::Small, LogRoom::Nothing]);
    }
}
