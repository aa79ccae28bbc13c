//! Verifies the files that RocksDB writes as a sequence of records: the write-ahead logs (`NNNNNN.log`) and the
//! `MANIFEST`.
//!
//! RocksDB's own reader is not enough. In every mode that can start after a crash (`log_reader.cc`, 11.8):
//!
//! - a length that points past the end of the file counts as a torn tail, even if all later records of the block are
//!   there: one flipped bit in a length drops acknowledged writes silently, in a write-ahead log or the `MANIFEST`;
//! - a record type that a flipped bit turned into a recycled one ends the reading silently, or never ends it;
//! - a torn tail is tolerated in every file, not only in the newest.
//!
//! So the files are read here first, the incomplete tail of the newest log is cut here, and RocksDB opens in its
//! strictest mode.
//!
//! ```text
//! file   = blocks of 32 KiB
//! record = masked CRC-32C of type and payload (4) │ length of the payload (2) │ type (1) │ payload      all little endian
//! ```
//!
//! A record never crosses a block: a longer value is split into a first, middle and last records. Fewer than seven
//! bytes at a block's end are zeros.
//!
//! **An incomplete tail** is a record whose end is missing, or zeros from a record's boundary to the end of the file.
//! It is what a crash leaves of an unacknowledged write.
//!
//! **Detected**: any damage to a complete record, including its length (the checksum does not cover the length, so the
//! present bytes are tried at every length: a match proves that the record is complete); records in a wrong order;
//! anything after a zeroed part; an incomplete tail anywhere but in the newest log.
//!
//! **Not detected**: a tail cut by anything other than a crash looks like one that was not written, and so do a last
//! record whose length and checksum are both damaged, and last records overwritten with zeros. **Refused although a
//! crash can cause it**: a power loss that wrote a later page of the last write but not an earlier one. It looks like
//! damage, and starting could lose a vote.

use crate::durable;
use std::{fs::OpenOptions, io, path::Path};

const BLOCK_BYTES: usize = 32 * 1024;
const HEADER_BYTES: usize = 7;

const ZERO: u8 = 0;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// The content of an undamaged record file.
#[derive(Debug, PartialEq, Eq)]
pub struct Scan {
    /// The number of complete records. A record in several parts counts once.
    pub records: u64,
    /// Where the last complete record ends.
    pub end: usize,
    /// Whether an incomplete tail follows.
    pub torn: bool,
}

/// The damage in a record file, and the byte at which it begins.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The bytes of a record have changed.
    #[error("the record at byte {0} has a wrong checksum")]
    Checksum(usize),
    /// The length of a record is wrong.
    #[error("the record at byte {0} has a wrong length")]
    Length(usize),
    /// RocksDB does not write this record type here.
    #[error("the record at byte {0} has the unknown type {1}")]
    Type(usize, u8),
    /// A part of a record is in the wrong order.
    #[error("the record at byte {0} is out of place")]
    Order(usize),
    /// A part of the file was never written, or is lost.
    #[error("zeros at byte {0}, and data after them")]
    Hole(usize),
    /// A file other than the newest has an incomplete tail.
    #[error("it ends in the middle of a record at byte {0}, and later files follow")]
    TornBeforeOthers(usize),
}

/// Verifies all record files in RocksDB's directory, and cuts an incomplete tail of the newest write-ahead log.
pub(crate) fn verify_directory(directory: &Path) -> io::Result<()> {
    verify_manifest(directory)?;
    let mut logs = Vec::new();
    for name in durable::names(directory)? {
        let number = name.strip_suffix(".log").and_then(|number| number.parse::<u64>().ok());
        logs.extend(number.map(|number| (number, directory.join(&name))));
    }
    logs.sort();
    let mut newest = true;
    for (_, path) in logs.iter().rev() {
        let bytes = std::fs::read(path).map_err(|error| durable::with_path(path, error))?;
        let scan = scan(&bytes).map_err(|damage| durable::damaged(path, damage))?;
        if scan.torn && !newest {
            return Err(durable::damaged(path, Damage::TornBeforeOthers(scan.end)));
        }
        if scan.torn {
            cut(path, scan.end, bytes.len())?;
        }
        // A log without complete records does not count: RocksDB had only just created it.
        newest &= scan.records == 0;
    }
    Ok(())
}

fn verify_manifest(directory: &Path) -> io::Result<()> {
    let current = directory.join("CURRENT");
    // Without it, RocksDB has not written to the directory yet. The caller knows whether that is an error.
    let Some(name) = durable::read(&current)? else { return Ok(()) };
    let name = String::from_utf8_lossy(&name);
    let number = name.strip_suffix('\n').and_then(|name| name.strip_prefix("MANIFEST-"));
    let Some(number) = number.filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) else {
        return Err(durable::damaged(&current, format_args!("it names no manifest: {name:?}")));
    };
    let path = directory.join(format!("MANIFEST-{number}"));
    let bytes =
        std::fs::read(&path).map_err(|error| durable::damaged(&current, format_args!("it names {}: {error}", path.display())))?;
    // An incomplete tail may stay: RocksDB acts on a change only when its record is synced, and starts a new manifest
    // anyway.
    let scan = scan(&bytes).map_err(|damage| durable::damaged(&path, damage))?;
    if scan.records == 0 {
        return Err(durable::damaged(&path, "it is empty"));
    }
    Ok(())
}

fn cut(path: &Path, end: usize, length: usize) -> io::Result<()> {
    let bytes = length - end;
    tracing::warn!(file = %path.display(), bytes, "cut off the incomplete end that a crash left in the log");
    let file = OpenOptions::new().write(true).open(path).map_err(|error| durable::with_path(path, error))?;
    // Lossless: a usize of this platform is at most 64 bits.
    file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(|error| durable::with_path(path, error))
}

/// Reads all records of a file.
pub fn scan(bytes: &[u8]) -> Result<Scan, Damage> {
    let mut scan = Scan { records: 0, end: 0, torn: false };
    let mut in_parts = false;
    let mut at = 0;
    while at < bytes.len() {
        let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        if block_end - at < HEADER_BYTES {
            let trailer = &bytes[at..block_end.min(bytes.len())];
            if trailer.iter().any(|byte| *byte != 0) {
                return Err(Damage::Hole(at));
            }
            at += trailer.len();
            continue;
        }
        let Some((kind, end)) = record(bytes, at, block_end)? else { return Ok(Scan { torn: true, ..scan }) };
        if !matches!(kind, FULL | FIRST | MIDDLE | LAST) {
            return Err(Damage::Type(at, kind));
        }
        if matches!(kind, FULL | FIRST) == in_parts {
            return Err(Damage::Order(at));
        }
        in_parts = matches!(kind, FIRST | MIDDLE);
        at = end;
        if !in_parts {
            scan.records += 1;
            scan.end = end;
        }
    }
    scan.torn = scan.end < at;
    Ok(scan)
}

/// The type of the record at a position, and where it ends. `None` if it is incomplete.
fn record(bytes: &[u8], at: usize, block_end: usize) -> Result<Option<(u8, usize)>, Damage> {
    let rest = &bytes[at..];
    let Some((header, payload)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    if header.iter().all(|byte| *byte == ZERO) {
        return if payload.iter().all(|byte| *byte == ZERO) { Ok(None) } else { Err(Damage::Hole(at)) };
    }
    let expected = u32::from_le_bytes([c0, c1, c2, c3]);
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    let end = at + HEADER_BYTES + length;
    if end > block_end {
        return Err(Damage::Length(at));
    }
    let mut checksum = Crc32c::new();
    checksum.update(kind);
    let Some(payload) = payload.get(..length) else {
        return if is_whole_at_another_length(checksum, payload, expected) { Err(Damage::Length(at)) } else { Ok(None) };
    };
    payload.iter().for_each(|byte| checksum.update(*byte));
    if checksum.masked() == expected { Ok(Some((kind, end))) } else { Err(Damage::Checksum(at)) }
}

fn is_whole_at_another_length(mut checksum: Crc32c, present: &[u8], expected: u32) -> bool {
    checksum.masked() == expected
        || present.iter().any(|byte| {
            checksum.update(*byte);
            checksum.masked() == expected
        })
}

/// CRC-32C (Castagnoli), as in RocksDB's files.
#[derive(Clone, Copy)]
struct Crc32c(u32);

impl Crc32c {
    const TABLE: [u32; 256] = Self::table();

    fn new() -> Crc32c {
        Crc32c(u32::MAX)
    }

    fn update(&mut self, byte: u8) {
        let [low, ..] = self.0.to_le_bytes();
        self.0 = Self::TABLE[usize::from(low ^ byte)] ^ (self.0 >> 8);
    }

    /// The checksum as RocksDB stores it: rotated and offset, because a CRC of data that contains CRCs is unreliable.
    fn masked(self) -> u32 {
        (!self.0).rotate_right(15).wrapping_add(0xa282_ead8)
    }

    const fn table() -> [u32; 256] {
        let mut table = [0; 256];
        let mut index: u32 = 0;
        while index < 256 {
            let mut value = index;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[index as usize] = value;
            index += 1;
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut checksum = Crc32c::new();
        std::iter::once(&kind).chain(payload).for_each(|byte| checksum.update(*byte));
        let mut bytes = checksum.masked().to_le_bytes().to_vec();
        bytes.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_le_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn three_records() -> Vec<u8> {
        [write(FULL, b"one"), write(FULL, b"the second"), write(FULL, b"and a third one")].concat()
    }

    #[test]
    fn the_checksum_is_the_castagnoli_one() {
        let mut checksum = Crc32c::new();
        b"123456789".iter().for_each(|byte| checksum.update(*byte));
        assert_eq!(!checksum.0, 0xe306_9283);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let bytes = three_records();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(scan(&flipped).is_err(), "bit {bit} was not detected: {:?}", scan(&flipped));
        }
    }

    #[test]
    fn every_truncation_leaves_the_complete_records() {
        let bytes = three_records();
        let ends = [0, 10, 27, 49];
        for length in 0..=bytes.len() {
            let records = ends.iter().rposition(|end| *end <= length).unwrap();
            let expected = Scan { records: u64::try_from(records).unwrap(), end: ends[records], torn: ends[records] < length };
            assert_eq!(scan(&bytes[..length]), Ok(expected), "cut at {length}");
        }
    }

    #[test]
    fn a_zeroed_tail_is_incomplete_but_a_zeroed_middle_is_damage() {
        let mut bytes = three_records();
        bytes.extend_from_slice(&[0; 100]);
        assert_eq!(scan(&bytes), Ok(Scan { records: 3, end: 49, torn: true }));
        bytes.extend_from_slice(&write(FULL, b"later"));
        assert_eq!(scan(&bytes), Err(Damage::Hole(49)));
    }

    #[test]
    fn a_record_in_parts_counts_once_when_it_is_complete() {
        let parts = [write(FIRST, b"a"), write(MIDDLE, b"b"), write(LAST, b"c")];
        assert_eq!(scan(&parts.concat()), Ok(Scan { records: 1, end: 24, torn: false }));
        assert_eq!(scan(&parts[..2].concat()), Ok(Scan { records: 0, end: 0, torn: true }));
        assert_eq!(scan(&parts[1..].concat()), Err(Damage::Order(0)));
    }
}
