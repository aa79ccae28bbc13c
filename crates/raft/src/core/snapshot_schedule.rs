//! When a snapshot is due: after enough work, or after enough bytes of log.

use crate::{
    base::config::ReplicaConfig,
    machine::shared::{NewestSnapshot, Progress},
};
use fairhold_state::snapshot::ITEM_WEIGHT;

/// Size in bytes above which a command must wait for the next snapshot earlier than others.
const SMALL_BYTES: usize = 1_024;

/// The minimum work and log bytes between two snapshots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    every: u64,
    every_bytes: u64,
}

impl Schedule {
    pub(crate) fn of(config: &ReplicaConfig) -> Schedule {
        Schedule { every: config.snapshot_every, every_bytes: config.snapshot_every_bytes }
    }

    /// Whether enough was applied since the newest snapshot. A state that has shrunk costs less to write than that
    /// snapshot did.
    pub(crate) fn is_due(self, newest: &NewestSnapshot, now: &Progress) -> bool {
        let then = &newest.made_at;
        let enough = self.every.saturating_mul(ITEM_WEIGHT).max(then.weight.min(now.weight));
        now.work - then.work >= enough || now.log_bytes - then.log_bytes >= self.enough_bytes(newest)
    }

    /// Half a snapshot, so that the disk holds at most three states: the newest snapshot, the next one while it is
    /// written, and twice this amount of log, because writes continue meanwhile.
    fn enough_bytes(self, newest: &NewestSnapshot) -> u64 {
        self.every_bytes.max(newest.bytes / 2)
    }

    /// Which commands the log after the newest snapshot still has room for.
    pub(crate) fn log_room(self, newest: &NewestSnapshot, now: &Progress) -> LogRoom {
        let enough = self.enough_bytes(newest);
        let since = now.log_bytes - newest.made_at.log_bytes;
        if since >= 2 * enough {
            LogRoom::Nothing
        } else if 2 * since >= 3 * enough {
            LogRoom::Small
        } else {
            LogRoom::All
        }
    }
}

/// Which commands the log has room for while a snapshot is written. If the log grows faster than snapshots free it,
/// large commands are refused first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRoom {
    All,
    Small,
    Nothing,
}

impl LogRoom {
    /// Whether a command of this size can go into the log before the next snapshot.
    pub(crate) fn accepts(self, bytes: usize) -> bool {
        match self {
            LogRoom::All => true,
            LogRoom::Small => bytes <= SMALL_BYTES,
            LogRoom::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule { every: 10, every_bytes: 1_000 };

    fn progress(items: u64, work: u64, log_bytes: u64) -> Progress {
        Progress { weight: items * ITEM_WEIGHT, work: work * ITEM_WEIGHT, log_bytes, ..Progress::default() }
    }

    fn snapshot(bytes: u64, made_at: Progress) -> NewestSnapshot {
        NewestSnapshot { index: Some(7), bytes, made_at }
    }

    #[test]
    fn a_snapshot_is_due_after_as_many_commands_as_the_state_has_items() {
        let last = snapshot(0, progress(100, 50, 0));
        assert!(!SCHEDULE.is_due(&last, &progress(150, 149, 0)));
        assert!(SCHEDULE.is_due(&last, &progress(150, 150, 0)));
        assert!(!SCHEDULE.is_due(&NewestSnapshot::default(), &progress(5, 9, 0)));
        assert!(SCHEDULE.is_due(&NewestSnapshot::default(), &progress(5, 10, 0)));
    }

    #[test]
    fn a_state_that_has_shrunk_is_due_earlier() {
        assert!(SCHEDULE.is_due(&snapshot(0, progress(100_000, 0, 0)), &progress(10, 10, 0)));
    }

    #[test]
    fn a_snapshot_is_due_after_half_its_size_of_log() {
        let last = progress(0, 0, 500);
        assert!(!SCHEDULE.is_due(&snapshot(0, last), &progress(0, 9, 1_499)));
        assert!(SCHEDULE.is_due(&snapshot(0, last), &progress(0, 9, 1_500)));
        assert!(!SCHEDULE.is_due(&snapshot(4_000, last), &progress(0, 9, 2_499)));
        assert!(SCHEDULE.is_due(&snapshot(4_000, last), &progress(0, 9, 2_500)));
    }

    #[test]
    fn a_log_that_outgrows_its_snapshots_refuses_large_commands_first() {
        let last = progress(0, 0, 500);
        let room = |bytes, log_bytes| SCHEDULE.log_room(&snapshot(bytes, last), &progress(0, 0, log_bytes));
        assert_eq!([1_999, 2_000, 2_499, 2_500].map(|log| room(0, log)), {
            [LogRoom::All, LogRoom::Small, LogRoom::Small, LogRoom::Nothing]
        });
        assert!(LogRoom::Small.accepts(SMALL_BYTES) && !LogRoom::Small.accepts(SMALL_BYTES + 1));
        assert!(LogRoom::All.accepts(usize::MAX) && !LogRoom::Nothing.accepts(0));
        assert_eq!([3_499, 3_500, 4_500].map(|log| room(4_000, log)), [LogRoom::All, LogRoom::Small, LogRoom::Nothing]);
    }
}
