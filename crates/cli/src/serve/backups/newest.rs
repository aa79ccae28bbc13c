//! What the alarms see of the scheduled backups: how old the newest one is, and why the last attempt failed.
//!
//! An age grows with the monotonic clock, so the alarm neither appears nor hides when somebody sets the wall clock.
//! Only the time in the name of a file that was there at the start is compared with the wall clock, once.

use crate::config::backup::BackupConfig;
use fairhold_health::alarms::readings::BackupReading;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The newest scheduled backup of a node. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct NewestBackup {
    dir: String,
    every: Duration,
    seen: Arc<Mutex<SeenBackups>>,
}

#[derive(Debug, Default)]
struct SeenBackups {
    began_at: Option<Instant>,
    /// The age of the newest one at that moment. It may be older than any `Instant` of this machine.
    newest: Option<(Duration, Instant)>,
    fault: Option<String>,
}

impl NewestBackup {
    pub(super) fn new(config: &BackupConfig) -> NewestBackup {
        NewestBackup { dir: config.dir.display().to_string(), every: config.every, seen: Arc::default() }
    }

    /// The schedule begins: the cluster has formed.
    pub(super) fn begin(&self, now: Instant) {
        self.seen.lock().began_at = Some(now);
    }

    /// The newest file in the folder was so old at that moment.
    pub(super) fn found(&self, age: Duration, at: Instant) {
        self.seen.lock().newest = Some((age, at));
    }

    /// A backup is complete. It has the state of when it was started.
    pub(super) fn made(&self, started_at: Instant) {
        let mut seen = self.seen.lock();
        seen.newest = Some((Duration::ZERO, started_at));
        seen.fault = None;
    }

    /// An attempt has failed, or makes no progress.
    pub(super) fn failed(&self, reason: &str) {
        self.seen.lock().fault = Some(reason.to_owned());
    }

    /// What the alarms see now; nothing before the schedule begins. It reads no file.
    pub(crate) fn reading(&self, now: Instant) -> Option<BackupReading> {
        let seen = self.seen.lock();
        let grown = |(age, at): (Duration, Instant)| age.saturating_add(now.saturating_duration_since(at));
        Some(BackupReading {
            dir: self.dir.clone(),
            every: self.every,
            age: seen.newest.map(grown),
            running: now.saturating_duration_since(seen.began_at?),
            fault: seen.fault.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_backup_grows_old_until_the_next_one_is_made() {
        let newest = NewestBackup::new(&BackupConfig { dir: PathBuf::from("/backups"), every: HOUR, keep: 3 });
        let start = Instant::now();
        assert_eq!(newest.reading(start), None, "the cluster has not formed");
        newest.begin(start);
        let reading = |age, running, fault: Option<&str>| {
            let fault = fault.map(str::to_owned);
            Some(BackupReading { dir: "/backups".to_owned(), every: HOUR, age, running, fault })
        };
        assert_eq!(newest.reading(start + HOUR), reading(None, HOUR, None));
        // Longer ago than the machine runs.
        newest.found(100_000 * HOUR, start);
        assert_eq!(newest.reading(start + HOUR), reading(Some(100_001 * HOUR), HOUR, None));
        newest.failed("full");
        newest.failed("still full");
        assert_eq!(newest.clone().reading(start + HOUR), reading(Some(100_001 * HOUR), HOUR, Some("still full")));
        newest.made(start + 2 * HOUR);
        assert_eq!(newest.reading(start + 3 * HOUR), reading(Some(HOUR), 3 * HOUR, None));
        newest.failed("full again");
        assert_eq!(newest.reading(start + 5 * HOUR), reading(Some(3 * HOUR), 5 * HOUR, Some("full again")));
    }
}
