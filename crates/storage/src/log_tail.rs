//! The newest part of the log, in memory: readable from the moment it is appended, written to disk a little later.

use crate::{Entry, LogId, Vote};
use openraft::{EntryPayload, entry::RaftEntry};
use std::{collections::VecDeque, io, ops::Range};

/// If the entries take more bytes of memory than this, those on disk leave it.
pub(crate) const TAIL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The bounds of the current log and its newest entries, on disk or not. Only openraft's core changes it, and the writer
/// thread reports the written changes.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) state: LogPointers,
    entries: VecDeque<TailEntry>,
    bytes: usize,
    /// The number of the last change that was handed to the writer.
    change: u64,
    /// The number of the last change that the writer has finished.
    written: u64,
    /// The error that ended the store. Every later request gets a copy of it.
    failure: Option<io::Error>,
}

/// The values in the store besides the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogPointers {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    /// The index of the first entry, if any: the one after `purged`, or the first appended one if nothing was purged.
    pub(crate) first: u64,
    /// The last entry, or the last purged one if there is none.
    pub(crate) last: Option<LogId>,
}

/// Entries that left memory. Freeing many small allocations takes long, so a thread that others wait for must not do
/// it.
#[derive(Debug, Default)]
pub(crate) struct EvictedEntries(Vec<TailEntry>);

#[derive(Debug)]
struct TailEntry {
    entry: Entry,
    bytes: usize,
    change: u64,
}

/// The result of a read: first the entries that are only on disk, then those in memory.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) on_disk: Range<u64>,
    pub(crate) in_memory: Vec<Entry>,
    pub(crate) in_memory_bytes: usize,
}

impl LogPointers {
    /// The index of the next entry.
    pub(crate) fn next_index(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.index + 1)
    }
}

impl Tail {
    pub(crate) fn new(state: LogPointers) -> Tail {
        Tail { state, ..Tail::default() }
    }

    /// The error, if the store has failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(copy_of(failure)))
    }

    /// The first failure stays. Later ones are its consequences.
    pub(crate) fn fail(&mut self, error: &io::Error) {
        self.failure.get_or_insert_with(|| copy_of(error));
    }

    /// Appends entries. Returns the number of this change.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> io::Result<u64> {
        self.check()?;
        let mut next = self.state.next_index();
        if let Some(entry) = entries.first()
            && self.state.last.is_none()
        {
            next = entry.index();
            self.state.first = next;
        }
        let fits = entries.iter().zip(next..).all(|(entry, index)| entry.index() == index);
        if !fits {
            return Err(invalid(format_args!("the next entry of the log must have index {next}")));
        }
        self.change += 1;
        for entry in entries {
            self.state.last = Some(entry.log_id());
            self.keep(entry, self.change);
        }
        Ok(self.change)
    }

    /// Removes the entries after this one. Returns their indexes.
    pub(crate) fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<(u64, Range<u64>)> {
        self.check()?;
        if last.as_ref() < self.state.purged.as_ref() {
            return Err(invalid("purged entries cannot be truncated"));
        }
        // Raft never removes a committed entry. If a leader wants that, this node has applied something that the leader has
        // not: it must not go on as if both had the same state. openraft seldom gets here: it compares no terms up to the
        // committed index.
        if let Some(committed) = self.state.committed.filter(|committed| last.map(|last| last.index) < Some(committed.index)) {
            return Err(invalid(format_args!(
                "the leader has other entries than this node after entry {}, but here they are committed through entry {}: \
                 the states of the two differ. Keep a copy of this data directory, find out which of the two is right \
                 (docs/guides/when-things-are-lost.md), and replace the other node",
                last.map_or(0, |last| last.index),
                committed.index
            )));
        }
        let removed = last.as_ref().map_or(0, |last| last.index + 1)..self.state.next_index();
        while let Some(newest) = self.entries.pop_back_if(|newest| newest.entry.index() >= removed.start) {
            self.bytes -= newest.bytes;
        }
        if !removed.is_empty() {
            self.state.last = last;
        }
        self.change += 1;
        Ok((self.change, removed))
    }

    /// Removes the entries through this one. Returns their indexes, or an empty range if they were already purged.
    pub(crate) fn purge(&mut self, through: LogId) -> io::Result<(Range<u64>, EvictedEntries)> {
        self.check()?;
        if self.state.purged.as_ref().is_some_and(|purged| through.index <= purged.index) {
            return Ok((0..0, EvictedEntries::default()));
        }
        let removed = self.state.first..through.index + 1;
        let count = self.entries.partition_point(|entry| entry.entry.index() < removed.end);
        let evicted = EvictedEntries(self.entries.drain(..count).collect());
        self.bytes -= evicted.0.iter().map(|entry| entry.bytes).sum::<usize>();
        if self.state.next_index() <= through.index {
            self.state.last = Some(through);
        }
        self.state.first = removed.end;
        self.state.purged = Some(through);
        Ok((removed, evicted))
    }

    /// Records that the changes through this number are on disk: their entries may leave memory.
    pub(crate) fn mark_written(&mut self, change: u64) {
        self.written = self.written.max(change);
        while self.bytes > TAIL_BYTES_MAX
            && let Some(oldest) = self.entries.pop_front_if(|oldest| oldest.change <= self.written)
        {
            self.bytes -= oldest.bytes;
        }
    }

    /// Adds an entry that was on disk when the store was opened.
    pub(crate) fn add_recovered(&mut self, entry: Entry) {
        self.keep(entry, 0);
        self.mark_written(0);
    }

    fn keep(&mut self, entry: Entry, change: u64) {
        let batch = if let EntryPayload::Normal(batch) = &entry.payload { batch.memory() } else { 0 };
        let bytes = size_of::<TailEntry>() + batch;
        self.bytes += bytes;
        self.entries.push_back(TailEntry { entry, bytes, change });
    }

    /// Reads the entries at these indexes: those in memory up to about this many bytes, but at least one.
    pub(crate) fn view(&self, range: Range<u64>, bytes_max: usize) -> View {
        let start = range.start.max(self.state.first);
        let end = range.end.min(self.state.next_index());
        let in_memory_from = self.entries.front().map_or(self.state.next_index(), |oldest| oldest.entry.index());
        let on_disk = start..end.min(in_memory_from);
        let skipped = usize::try_from(start.saturating_sub(in_memory_from)).unwrap_or(usize::MAX);
        let mut view = View { on_disk, in_memory: Vec::new(), in_memory_bytes: 0 };
        for kept in self.entries.iter().skip(skipped).take_while(|kept| kept.entry.index() < end) {
            if !view.in_memory.is_empty() && view.in_memory_bytes.saturating_add(kept.bytes) > bytes_max {
                break;
            }
            view.in_memory_bytes += kept.bytes;
            view.in_memory.push(kept.entry.clone());
        }
        view
    }
}

/// An error of the same kind with the same text.
pub(crate) fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

pub(crate) fn invalid(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_string())
}
