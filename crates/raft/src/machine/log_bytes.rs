//! Counts the bytes of the log, so that the log kept although a snapshot covers it is bounded in bytes too.
//!
//! An entry holds anything from one small command to hundreds of large values: a thousand entries take a few kilobytes
//! or more than a gigabyte. openraft's own policy counts only entries.

use std::collections::VecDeque;

/// Entries of this many bytes share a mark. Purging is accurate to about this.
const MARK_BYTES: u64 = 1024 * 1024;

/// The bytes of the log entries, counted as they are applied.
#[derive(Debug)]
pub(crate) struct LogBytes {
    /// Bytes of the log kept although a snapshot covers it.
    kept: u64,
    /// Bytes of all entries through the last applied one, counted from the start of the process.
    total: u64,
    /// Oldest first. Both fields grow from mark to mark.
    marks: VecDeque<Mark>,
}

/// The log through entry `index` has `total` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    index: u64,
    total: u64,
}

impl LogBytes {
    /// Starts counting after a start with a snapshot. The size of the log that the snapshot covers is unknown: it
    /// counts as full, so that the next snapshot frees it.
    pub(crate) fn begin(snapshot: Option<u64>, kept: u64) -> LogBytes {
        let marks = snapshot.map(|index| Mark { index, total: MARK_BYTES.min(kept) });
        LogBytes { kept, total: kept, marks: marks.into_iter().collect() }
    }

    /// Counts the next entry.
    pub(crate) fn add(&mut self, index: u64, bytes: u64) {
        self.total += bytes;
        let marked = self.marks.back().map_or(0, |mark| mark.total);
        if self.total - marked.min(self.total) >= MARK_BYTES {
            self.marks.push_back(Mark { index, total: self.total });
        }
    }

    /// Bytes of all entries so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The last entry to purge when a snapshot covers the log through `snapshot`, and `extra` bytes more than usual
    /// stay. Each entry is returned once.
    pub(crate) fn take_excess(&mut self, snapshot: u64, extra: u64) -> Option<u64> {
        let covered = self.marks.partition_point(|mark| mark.index <= snapshot);
        let end = self.marks.get(covered.checked_sub(1)?)?.total;
        let excess = self.marks.partition_point(|mark| mark.total + self.kept + extra <= end).min(covered);
        self.marks.drain(..excess).next_back().map(|mark| mark.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn large_entries_that_a_snapshot_covers_are_purged_and_small_ones_stay() {
        let mut bytes = LogBytes::begin(None, 8 * MIB);
        (1..=100).for_each(|index| bytes.add(index, MIB));
        assert_eq!(bytes.total(), 108 * MIB);
        assert_eq!(bytes.take_excess(50, 0), Some(42), "eight covered entries of a MiB stay");
        assert_eq!(bytes.take_excess(50, 0), None, "it was returned already");
        assert_eq!(bytes.take_excess(100, 30 * MIB), Some(62), "thirty more stay while a node receives a snapshot");
        assert_eq!(bytes.take_excess(100, 0), Some(92), "and are purged once it has the snapshot");

        let mut bytes = LogBytes::begin(None, 8 * MIB);
        (1..=10_000).for_each(|index| bytes.add(index, 500));
        assert_eq!(bytes.take_excess(10_000, 0), None, "all of it may stay");
    }

    #[test]
    fn the_log_that_the_first_snapshot_covers_is_purged_with_the_next_one() {
        let mut bytes = LogBytes::begin(Some(70), 8 * MIB);
        bytes.add(71, 100);
        assert_eq!(bytes.take_excess(71, 0), None, "a hundred bytes purge nothing that other nodes may need");
        bytes.add(72, MIB);
        assert_eq!(bytes.take_excess(72, 0), Some(70));
        assert_eq!(bytes.take_excess(72, 0), None);
    }

    #[test]
    fn entries_without_a_snapshot_are_kept() {
        let mut bytes = LogBytes::begin(None, MIB);
        (1..=100).for_each(|index| bytes.add(index, MIB));
        assert_eq!(bytes.take_excess(0, 0), None);
        assert_eq!(bytes.take_excess(1, 0), None);
        assert_eq!(bytes.take_excess(3, 0), Some(2));
    }

    #[test]
    fn small_entries_share_a_mark() {
        let mut bytes = LogBytes::begin(None, 64 * MIB);
        (1..=100_000).for_each(|index| bytes.add(index, 1_000));
        assert!(bytes.marks.len() < 100, "{} marks", bytes.marks.len());
    }
}
