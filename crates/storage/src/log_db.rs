//! RocksDB as a Raft log: keys, options, recovery.
//!
//! ```text
//! 'e' + index, big endian  → an entry                       'm' + name → vote, committed, purged, first, last, format
//! ```
//!
//! `fairhold_codec` seals every value with a checksum, and an entry must have the index of its key. The leader has sealed
//! the commands in an entry before: their bytes are the same on all nodes. There is one column family, so that one
//! write-ahead log and one memtable hold everything, and a flush frees the whole log.
//!
//! **Recovery.** `record_file` verifies every write-ahead log and the manifest and cuts an incomplete tail. Then
//! RocksDB opens in `AbsoluteConsistency` mode, which tolerates nothing. Then the whole log is read: the entries from
//! `first` through `last`, without a hole, each with its checksum. `last` is written together with the entries,
//! so recovery detects a table file that is missing, or older than the rest.

mod failure;

use crate::{
    Entry, LogId, Vote, durable,
    log_tail::{LogPointers, Tail},
    record_file,
};
use failure::{damaged_value, failed};
use fairhold_codec::DecodeError;
use fairhold_raft::encoding::{Encodable, Encode};
use fairhold_types::failpoint;
use openraft::entry::RaftEntry;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, DBRecoveryMode, LogLevel, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{io, ops::Range, path::Path};

/// The version byte of all values in the log store, and of their layout.
pub const LOG_STORE_FORMAT: u8 = 3;

const ENTRY_PREFIX: u8 = b'e';
const VOTE: &[u8] = b"mvote";
const COMMITTED: &[u8] = b"mcommitted";
const PURGED: &[u8] = b"mpurged";
const FIRST: &[u8] = b"mfirst";
const LAST: &[u8] = b"mlast";
const FORMAT: &[u8] = b"mformat";

const MIB: usize = 1024 * 1024;

/// The size of a memtable and of its write-ahead log: about as much as a start replays at most.
const MEMTABLE_BYTES: usize = 16 * MIB;

/// More bytes than all write-ahead logs hold together.
const RECOVERED_BYTES_MAX: usize = 16 * MEMTABLE_BYTES;

/// Makes one write. It is a value, so that a test can make it fail.
pub(crate) type WriteFn = Box<dyn FnMut(&LogDb, LogWrite) -> io::Result<()> + Send>;

/// The open database.
#[derive(Debug)]
pub(crate) struct LogDb {
    db: DB,
}

/// All changes of one write to the database: after a crash, all of them are there or none.
#[derive(Default)]
pub(crate) struct LogWrite {
    changes: WriteBatch,
    /// Whether a caller waits until it is on disk.
    pub(crate) sync: bool,
    /// For a purge: no reader needs entries before this index.
    pub(crate) purged_end: Option<u64>,
}

impl LogDb {
    /// Opens the database. If `exists`, a missing database is an error; otherwise it is created.
    pub(crate) fn open(path: &Path, exists: bool) -> io::Result<LogDb> {
        if exists && !path.join("CURRENT").is_file() {
            return Err(durable::damaged(path, "the log is missing: there is no CURRENT file"));
        }
        failpoint!(StorageLogOpen)?;
        record_file::verify_directory(path)?;
        let log = LogDb { db: DB::open(&options(exists), path).map_err(|error| failed(path, &error))? };
        match (log.get::<u8>(FORMAT)?, exists) {
            (Some(_), _) => {}
            (None, true) => return Err(durable::damaged(path, "the log's format is not recorded")),
            (None, false) => {
                let mut write = LogWrite { sync: true, ..LogWrite::default() };
                write.put_number(FORMAT, &LOG_STORE_FORMAT)?;
                log.write(write)?;
            }
        }
        Ok(log)
    }

    /// Opens an existing database to purge it, if there is too little space to open it otherwise. The content of the
    /// write-ahead log stays there, and the next start writes it to a table.
    pub(crate) fn open_to_purge(path: &Path) -> io::Result<LogDb> {
        record_file::verify_directory(path)?;
        let mut options =
            options(true).get_options_from_string("avoid_flush_during_recovery=true").map_err(|error| failed(path, &error))?;
        // The whole write-ahead log fits. Otherwise RocksDB would write a table for it.
        options.set_write_buffer_size(RECOVERED_BYTES_MAX);
        options.set_disable_auto_compactions(true);
        let db = DB::open(&options, path).map_err(|error| failed(path, &error))?;
        Ok(LogDb { db })
    }

    /// Purges the entries through this one and removes their files, but no others. `false` if they were purged before.
    pub(crate) fn purge_through(&self, through: LogId) -> io::Result<bool> {
        let LogPointers { purged, first, last, .. } = self.pointers()?;
        let is_new = purged.is_none_or(|purged| purged.index < through.index);
        if is_new {
            let mut write = LogWrite::default();
            // Compares by index: later entries may be of an earlier term until a leader replaces them, and the entries that
            // the snapshot replaces may be of a later one.
            let last = last.filter(|last| last.index > through.index).unwrap_or(through);
            write.purge(&(first..through.index + 1), &through, Some(&last))?;
            self.write(write)?;
        }
        self.remove_purged_tables(self.pointers()?.first)?;
        Ok(is_new)
    }

    fn pointers(&self) -> io::Result<LogPointers> {
        Ok(LogPointers {
            vote: self.get_encoded(VOTE)?,
            committed: self.get_encoded::<Option<LogId>>(COMMITTED)?.flatten(),
            purged: self.get_encoded(PURGED)?,
            first: self.get(FIRST)?.unwrap_or(0),
            last: self.get_encoded::<Option<LogId>>(LAST)?.flatten(),
        })
    }

    /// Reads and verifies everything, and keeps the newest entries in memory.
    pub(crate) fn recover(&self) -> io::Result<Tail> {
        failpoint!(StorageLogRecover)?;
        let pointers = self.pointers()?;
        let fits = |purged: &LogId| pointers.first == purged.index + 1 && pointers.last.as_ref() >= Some(purged);
        if !pointers.purged.as_ref().is_none_or(fits) {
            return Err(durable::damaged(self.db.path(), "the purged and the remaining entries do not match"));
        }
        let entries = pointers.first..pointers.next_index();
        let (last, mut newest) = (pointers.last, pointers.purged);
        let mut tail = Tail::new(pointers);
        self.entries(entries.clone()).for_each(|entry, _| {
            newest = Some(entry.log_id());
            tail.add_recovered(entry);
            true
        })?;
        if newest != last {
            return Err(durable::damaged(self.db.path(), format_args!("the last entry must be {last:?}, but is {newest:?}")));
        }
        if !self.entries(entries.end..u64::MAX).is_empty()? {
            return Err(durable::damaged(self.db.path(), format_args!("there are entries after {last:?}, the last one")));
        }
        Ok(tail)
    }

    /// A consistent view of the entries at these indexes, whatever is written meanwhile.
    pub(crate) fn entries(&self, range: Range<u64>) -> Entries<'_> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(entry_key(range.end));
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek(entry_key(range.start));
        Entries { iterator, range, path: self.db.path() }
    }

    /// Writes all changes, and syncs them if they must be durable.
    pub(crate) fn write(&self, write: LogWrite) -> io::Result<()> {
        let mut options = WriteOptions::default();
        // Without a sync, the kernel has the write: it survives the process, not a power loss. Only a write with
        // nothing but `committed` is made this way.
        options.set_sync(write.sync);
        self.db.write_opt(write.changes, &options).map_err(|error| failed(self.db.path(), &error))
    }

    /// Removes the table files that have only purged entries. The range deletion hides the entries, and compaction
    /// would free them later. Older versions that reappear below them are before `first`, and never read.
    pub(crate) fn remove_purged_tables(&self, end: u64) -> io::Result<()> {
        failpoint!(StoragePurgeFiles)?;
        let last = entry_key(end.saturating_sub(1));
        self.db.delete_file_in_range(entry_key(0), last).map_err(|error| failed(self.db.path(), &error))
    }

    fn get<T: DeserializeOwned>(&self, key: &[u8]) -> io::Result<Option<T>> {
        let Some(value) = self.db.get_pinned(key).map_err(|error| failed(self.db.path(), &error))? else { return Ok(None) };
        let value = unseal(&value).map_err(|error| damaged_value(self.db.path(), key, &error))?;
        Ok(Some(value))
    }

    fn get_encoded<T: Encode>(&self, key: &[u8]) -> io::Result<Option<T>> {
        Ok(self.get(key)?.map(|Encodable(value)| value))
    }
}

/// A consistent view of entries on disk.
pub(crate) struct Entries<'a> {
    iterator: DBRawIterator<'a>,
    range: Range<u64>,
    path: &'a Path,
}

impl Entries<'_> {
    /// The entries with their bytes, up to about this many bytes, but at least one. All of them must exist.
    pub(crate) fn read(self, bytes_max: usize) -> io::Result<(Vec<Entry>, usize)> {
        let mut entries = Vec::new();
        let mut total = 0;
        self.for_each(|entry, bytes| {
            if total > 0 && total + bytes > bytes_max {
                return false;
            }
            total += bytes;
            entries.push(entry);
            true
        })?;
        Ok((entries, total))
    }

    /// Passes entries in order to `take` until it declines.
    fn for_each(mut self, mut take: impl FnMut(Entry, usize) -> bool) -> io::Result<()> {
        for index in self.range.clone() {
            let value = match self.iterator.item() {
                Some((key, value)) if key == entry_key(index) => value,
                Some(_) | None => {
                    self.iterator.status().map_err(|error| failed(self.path, &error))?;
                    return Err(durable::damaged(self.path, format_args!("entry {index} is missing")));
                }
            };
            let Encodable(entry): Encodable<Entry> =
                unseal(value).map_err(|error| durable::damaged(self.path, format_args!("entry {index}: {error}")))?;
            if entry.index() != index {
                let found = entry.index();
                return Err(durable::damaged(self.path, format_args!("entry {index} has index {found}")));
            }
            if !take(entry, value.len()) {
                return Ok(());
            }
            self.iterator.next();
        }
        Ok(())
    }

    fn is_empty(&self) -> io::Result<bool> {
        self.iterator.status().map_err(|error| failed(self.path, &error))?;
        Ok(!self.iterator.valid())
    }
}

impl LogWrite {
    /// About how many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.changes.size_in_bytes()
    }

    pub(crate) fn put_entries(&mut self, entries: &[(u64, Vec<u8>)]) {
        self.sync = true;
        for (index, sealed) in entries {
            self.changes.put(entry_key(*index), sealed);
        }
    }

    pub(crate) fn delete_entries(&mut self, removed: &Range<u64>) {
        self.sync = true;
        if !removed.is_empty() {
            self.changes.delete_range(entry_key(removed.start), entry_key(removed.end));
        }
    }

    /// Removes these entries. `purged` is the last of them. `last` is the last entry of the log after the purge.
    pub(crate) fn purge(&mut self, removed: &Range<u64>, purged: &LogId, last: Option<&LogId>) -> io::Result<()> {
        self.delete_entries(removed);
        self.purged_end = Some(removed.end);
        self.put_bounds(removed.end, last)?;
        self.put(PURGED, purged)
    }

    /// Records the first and last index of the log.
    pub(crate) fn put_bounds(&mut self, first: u64, last: Option<&LogId>) -> io::Result<()> {
        self.put_number(FIRST, &first)?;
        self.put_last(last)
    }

    pub(crate) fn put_last(&mut self, last: Option<&LogId>) -> io::Result<()> {
        self.put(LAST, &last.copied())
    }

    pub(crate) fn put_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.sync = true;
        self.put(VOTE, vote)
    }

    /// Alone, this needs no sync: it only bounds how far the state machine applies right after a start. An older value
    /// is also safe, because the leader sends the newer one. It never names a missing entry: it is written with the
    /// entry or after it in the same log, which can lose only its tail.
    pub(crate) fn put_committed(&mut self, committed: Option<&LogId>) -> io::Result<()> {
        self.put(COMMITTED, &committed.copied())
    }

    fn put<T: Encode>(&mut self, key: &[u8], value: &T) -> io::Result<()> {
        self.changes.put(key, seal(value)?);
        Ok(())
    }

    fn put_number<T: Serialize>(&mut self, key: &[u8], number: &T) -> io::Result<()> {
        self.changes.put(key, encode(number)?);
        Ok(())
    }
}

/// The bytes of a value in the log store.
pub(crate) fn seal<T: Encode>(value: &T) -> io::Result<Vec<u8>> {
    encode(&Encodable(value))
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    fairhold_codec::encode(LOG_STORE_FORMAT, value).map_err(io::Error::other)
}

fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    fairhold_codec::decode(LOG_STORE_FORMAT, bytes)
}

fn entry_key(index: u64) -> [u8; 9] {
    let mut key = [ENTRY_PREFIX; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

fn options(exists: bool) -> Options {
    let mut tables = BlockBasedOptions::default();
    // The newest entries are in memory already. The cache serves a lagging follower.
    tables.set_block_cache(&Cache::new_lru_cache(8 * MIB));

    let mut options = Options::default();
    // A lost log must not be mistaken for a new one.
    options.create_if_missing(!exists);
    // `record_file` has cut an incomplete tail: anything else is damage. Point-in-time recovery would drop acknowledged
    // writes.
    options.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    options.set_paranoid_checks(true);
    // RocksDB detects a write-ahead log that is missing, or shorter than when it was closed.
    options.set_track_and_verify_wals_in_manifest(true);
    // In a reused log, old records after the new ones would look like damage.
    options.set_recycle_log_file_num(0);
    // Every write reaches the kernel immediately, and survives the end of the process even without a sync.
    options.set_manual_wal_flush(false);

    // Entries are written once, read rarely and soon purged. A small memtable means a short recovery; a few of them
    // mean that a flush does not stop the writer.
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_max_write_buffer_number(4);
    options.set_max_total_wal_size(4 * MEMTABLE_BYTES as u64);
    // Commands are small, and clients may compress their values: compression would cost the writer more than it saves.
    options.set_compression_type(DBCompressionType::None);
    // Indexes only grow, so tables of one size move down without being rewritten, and a purge drops them whole.
    options.set_level_zero_file_num_compaction_trigger(4);
    options.set_target_file_size_base(MEMTABLE_BYTES as u64);
    options.set_max_bytes_for_level_base(8 * MEMTABLE_BYTES as u64);
    options.set_max_background_jobs(2);
    // A table is synced while it is written: one sync at its end would delay those of the write-ahead log.
    options.set_bytes_per_sync(MIB as u64);

    options.set_block_based_table_factory(&tables);
    // The log has a few dozen tables; sockets need descriptors more.
    options.set_max_open_files(128);
    // RocksDB's own info log and manifest, which would otherwise grow without bound.
    options.set_log_level(LogLevel::Warn);
    options.set_max_log_file_size(MIB);
    options.set_keep_log_file_num(2);
    options.set_stats_dump_period_sec(0);
    options.set_max_manifest_file_size(4 * MIB);
    options
}
