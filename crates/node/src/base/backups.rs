//! What a node knows of its backups: whether one is being read, and how the last ones ended.

use fairhold_metrics::{ByLabel, Counter, Registry, collect};
use fairhold_types::time::WallMillis;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Backups that clients may read from one node at the same time. Each keeps an old state in memory for as long as its
/// reader takes.
const READ_MAX: usize = 1;

/// Who gets a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupKind {
    /// A client reads it.
    Read,
    /// The node makes it by its schedule.
    Scheduled,
}

/// A backup that is complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompleteBackup {
    /// When it was complete.
    pub at: WallMillis,
    /// Its size.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The backups of one node. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Backups {
    slots: Arc<Semaphore>,
    read: Arc<KindFigures>,
    scheduled: Arc<KindFigures>,
}

/// The figures of one kind of backups.
#[derive(Debug, Default)]
struct KindFigures {
    complete: Counter,
    failed: Counter,
    last: Mutex<Option<CompleteBackup>>,
}

impl Backups {
    pub(crate) fn new() -> Backups {
        Backups { slots: Arc::new(Semaphore::new(READ_MAX)), read: Arc::default(), scheduled: Arc::default() }
    }

    /// The slot of a backup that a client reads; `None` if it is taken.
    pub(crate) fn take_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Records the end of a backup; `None` if it is not complete.
    pub(crate) fn record(&self, kind: BackupKind, complete: Option<CompleteBackup>) {
        let figures = self.of(kind);
        match complete {
            Some(complete) => {
                *figures.last.lock() = Some(complete);
                figures.complete.inc();
            }
            None => {
                figures.failed.inc();
            }
        }
    }

    fn of(&self, kind: BackupKind) -> &KindFigures {
        match kind {
            BackupKind::Read => &self.read,
            BackupKind::Scheduled => &self.scheduled,
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let kinds = [("read", Arc::clone(&self.read)), ("scheduled", Arc::clone(&self.scheduled))];
        let counters = |counter: fn(&KindFigures) -> &Counter| {
            ByLabel::new("kind", kinds.each_ref().map(|(label, figures)| (*label, counter(figures).clone())))
        };
        registry.register("backups", "Complete backups of this node", counters(|figures| &figures.complete));
        let help = "Backups of this node that failed, or that their readers left";
        registry.register("backups_failed", help, counters(|figures| &figures.failed));
        collect(registry, move |scrape| {
            let last = kinds.each_ref().map(|(label, figures)| ((*label).to_owned(), *figures.last.lock()));
            let gauge = |value: fn(CompleteBackup) -> f64| last.clone().map(|(label, last)| (label, last.map_or(0.0, value)));
            let help = "When the last complete backup of this node was made, in seconds since 1970; 0: none since its start";
            scrape.gauges("backup_last_time_seconds", help, "kind", gauge(|last| seconds(Duration::from_millis(last.at.0))))?;
            let help = "Size of the last complete backup of this node";
            scrape.gauges("backup_last_bytes", help, "kind", gauge(|last| approximate(last.bytes)))?;
            let help = "Time that the last complete backup of this node took";
            scrape.gauges("backup_last_duration_seconds", help, "kind", gauge(|last| seconds(last.took)))
        });
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Exact up to 2^53.
fn approximate(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_at_a_time_reads_a_backup() {
        let backups = Backups::new();
        let slot = backups.clone().take_slot().unwrap();
        assert!(backups.take_slot().is_none());
        drop(slot);
        assert!(backups.take_slot().is_some());
    }

    #[test]
    fn a_failure_keeps_the_figures_of_the_last_complete_backup() {
        let backups = Backups::new();
        let mut registry = fairhold_metrics::registry();
        backups.register(&mut registry);
        let complete = CompleteBackup { at: WallMillis(1_500), bytes: 4_711, took: Duration::from_millis(250) };
        backups.record(BackupKind::Scheduled, Some(complete));
        backups.record(BackupKind::Scheduled, None);
        backups.record(BackupKind::Read, None);
        let page = fairhold_metrics::text(&registry, fairhold_metrics::Format::Plain).unwrap();
        for line in [
            "fairhold_backups_total{kind=\"read\"} 0",
            "fairhold_backups_total{kind=\"scheduled\"} 1",
            "fairhold_backups_failed_total{kind=\"read\"} 1",
            "fairhold_backups_failed_total{kind=\"scheduled\"} 1",
            "fairhold_backup_last_time_seconds{kind=\"read\"} 0.0",
            "fairhold_backup_last_time_seconds{kind=\"scheduled\"} 1.5",
            "fairhold_backup_last_bytes{kind=\"scheduled\"} 4711.0",
            "fairhold_backup_last_duration_seconds{kind=\"scheduled\"} 0.25",
        ] {
            assert!(page.lines().any(|served| served == line), "{line} is not in\n{page}");
        }
    }
}
