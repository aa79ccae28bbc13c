//! The files that a start reads: RocksDB's record files, which are verified before RocksDB reads them, and snapshot
//! files.
//!
//! A file is refused, or is intact up to the reported end. That prefix is intact on its own, and a crash may leave each
//! of its prefixes. One flipped bit in any record but the last is damage. An accepted snapshot file is the only file of
//! its image.

use bytes::Bytes;
use fairhold_storage::{
    record_file::{Scan, scan},
    snapshot_files,
};

/// The type of a record in one part.
const FULL: u8 = 1;
/// The maximum size of a file: all records are in one block of RocksDB.
const FILE_BYTES_MAX: usize = 30_000;

/// Reads the bytes as they are, and then as the content of a file of valid records.
pub fn run(bytes: &[u8]) {
    any(bytes);
    written(bytes);
    snapshot(bytes);
}

fn any(bytes: &[u8]) {
    let Ok(found) = scan(bytes) else { return };
    assert!(found.end <= bytes.len());
    assert_eq!(scan(&bytes[..found.end]), Ok(Scan { torn: false, ..found }), "what is whole is whole by itself");
}

/// The first byte of each record is its length; the last two bytes choose a bit.
fn written(bytes: &[u8]) {
    let Some((mut rest, [high, low])) = bytes.split_last_chunk() else { return };
    let (mut file, mut starts) = (Vec::new(), Vec::new());
    while let Some((length, payload)) = rest.split_first() {
        let (payload, others) = payload.split_at(payload.len().min(usize::from(*length)));
        if file.len() + payload.len() > FILE_BYTES_MAX {
            break;
        }
        starts.push(file.len());
        file.extend_from_slice(&record(payload));
        rest = others;
    }
    let whole = Scan { records: starts.len() as u64, end: file.len(), torn: false };
    assert_eq!(scan(&file), Ok(whole));
    let chosen = usize::from(u16::from_be_bytes([*high, *low]));
    let left = scan(&file[..chosen % (file.len() + 1)]).expect("a crash may leave any first part");
    assert!(left.records <= starts.len() as u64);
    if let [.., last] = starts.as_slice()
        && *last > 0
    {
        let at = chosen % last;
        file[at] ^= 1 << (chosen % 8);
        assert!(scan(&file).is_err(), "a flipped bit in byte {at} of {} is not noticed", file.len());
    }
}

fn record(payload: &[u8]) -> Vec<u8> {
    let checksum = crc32c([FULL].iter().chain(payload));
    let masked = checksum.rotate_right(15).wrapping_add(0xA282_EAD8);
    let length = u16::try_from(payload.len()).expect("no longer than a byte says");
    [masked.to_le_bytes().as_slice(), &length.to_le_bytes(), &[FULL], payload].concat()
}

/// Castagnoli's polynomial, bit by bit.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    !bytes.fold(u32::MAX, |checksum, byte| {
        let step = |value: u32, _| if value & 1 == 1 { value >> 1 ^ 0x82F6_3B78 } else { value >> 1 };
        (0..8).fold(checksum ^ u32::from(*byte), step)
    })
}

/// Reads the bytes as they are, and sealed, so that they reach the blocks.
fn snapshot(bytes: &[u8]) {
    let checksum = fairhold_codec::checksum(bytes);
    let sealed = [bytes, &checksum.to_le_bytes()].concat();
    for file in [bytes.to_vec(), sealed].map(Bytes::from) {
        if let Ok(image) = snapshot_files::parse(&file) {
            let again = snapshot_files::bytes_of(&image).expect("what was read can be written");
            assert!(again == file, "one image has one file");
        }
    }
}
