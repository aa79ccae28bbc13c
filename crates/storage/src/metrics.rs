//! The metrics of a node's storage: sync latency, bytes written, free space.

use crate::free_space;
use fairhold_metrics::{Counter, Histogram, LATENCY_SECONDS, Registry, collect};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The metrics of the log writer. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct StorageMetrics {
    /// Writes with a sync.
    sync: Histogram,
    batches: Counter,
    bytes: Counter,
}

impl Default for StorageMetrics {
    fn default() -> Self {
        StorageMetrics { sync: Histogram::of_seconds(LATENCY_SECONDS), batches: Counter::default(), bytes: Counter::default() }
    }
}

impl StorageMetrics {
    /// Records a write, and how long it took if it was synced to the disk.
    pub(crate) fn record(&self, bytes: usize, synced_within: Option<Duration>) {
        self.batches.inc();
        self.bytes.inc_by(bytes as u64);
        synced_within.into_iter().for_each(|took| self.sync.observe(took));
    }

    /// How long the syncs took.
    pub(crate) fn sync_times(&self) -> Histogram {
        self.sync.clone()
    }

    /// Registers the metrics, and the sizes of these directories, which are read at a scrape.
    pub(crate) fn register(&self, registry: &mut Registry, log: PathBuf, snapshots: PathBuf) {
        let help = "Time to write a batch of the log and sync it to the disk";
        registry.register("storage_sync_seconds", help, self.sync.clone());
        registry.register("storage_batches", "Batches written to the log", self.batches.clone());
        registry.register("storage_appended_bytes", "Bytes written to the log", self.bytes.clone());
        collect(registry, move |scrape| {
            scrape.gauge("storage_log_bytes", "Size of the log's files", directory_bytes(&log))?;
            scrape.gauge("storage_snapshot_bytes", "Size of the snapshots' files", directory_bytes(&snapshots))?;
            match free_space::of(&log) {
                Ok((free, total)) => {
                    scrape.gauge("storage_free_bytes", "Free space of the data directory's file system", free)?;
                    scrape.gauge("storage_total_bytes", "Size of the data directory's file system", total)
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the free space of the file system");
                    Ok(())
                }
            }
        });
    }
}

/// Bytes of the files in a directory. A file that disappears meanwhile does not count.
fn directory_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_metrics::{Format, registry, text};

    #[test]
    fn written_bytes_and_free_space_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), [0; 300]).unwrap();
        fs::write(folder.path().join("b"), [0; 42]).unwrap();
        let (metrics, mut registry) = (StorageMetrics::default(), registry());
        metrics.register(&mut registry, folder.path().to_owned(), folder.path().join("missing"));
        metrics.record(100, Some(Duration::from_millis(3)));
        metrics.record(10, None);
        let served = text(&registry, Format::Plain).unwrap();
        for line in [
            "fairhold_storage_sync_seconds_count 1",
            "fairhold_storage_sync_seconds_bucket{le=\"0.005\"} 1",
            "fairhold_storage_batches_total 2",
            "fairhold_storage_appended_bytes_total 110",
            "fairhold_storage_log_bytes 342",
            "fairhold_storage_snapshot_bytes 0",
        ] {
            assert!(served.lines().any(|served| served == line), "{line} is not in\n{served}");
        }
        let free = served.lines().find_map(|line| line.strip_prefix("fairhold_storage_free_bytes ")).unwrap();
        assert!(free.parse::<u64>().unwrap() > 0, "{served}");
    }
}
