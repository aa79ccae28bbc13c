//! The only place that names bincode: how a value becomes bytes in the log, in a frame and in a snapshot.
//!
//! ```text
//! version (1 byte) │ value (bincode 2, variable-length integers) │ CRC-32 of all before it (4 bytes, little endian)
//! ```
//!
//! A length inside the bytes is never believed: a wrong checksum, another version or a byte too many is an error, and no input
//! makes it panic. Input up to 1 MiB can ask for at most 16 MiB of memory, and longer input for 1 GiB, of which only the pages
//! that it fills are ever touched. Whatever can be encoded can be decoded. The values must not need a self-describing format:
//! no `untagged`, `flatten` or `skip_serializing_if`.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Serialize, de::DeserializeOwned};

/// The largest value that is read or written, in bytes.
pub const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that the envelope adds: the version and the checksum.
const ENVELOPE_BYTES: usize = 1 + 4;

/// Decoding is charged for the width of each number, and the bytes have its shortest form: 16 bytes are charged for a 128-bit
/// number of one byte, which is the worst case. A limit below this multiple would refuse values that were encoded.
const CHARGE_MAX: usize = 16;

/// Shorter input has a limit of its own, so that a few hostile bytes cannot ask for much memory.
const SHORT_BYTES_MAX: usize = 1024 * 1024;

type Limited<const BYTES: usize> = Configuration<LittleEndian, Varint, Limit<BYTES>>;

const ENCODED: Limited<BYTES_MAX> = bincode::config::standard().with_limit::<BYTES_MAX>();
const SHORT: Limited<{ SHORT_BYTES_MAX * CHARGE_MAX }> = bincode::config::standard().with_limit();
const LONG: Limited<{ BYTES_MAX * CHARGE_MAX }> = bincode::config::standard().with_limit();

/// Why a value could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The value is larger than `BYTES_MAX`.
    #[error("the value has {length} bytes, more than {BYTES_MAX}")]
    TooLarge {
        /// How many it has.
        length: usize,
    },
    /// The value cannot be written in this format.
    #[error("the value does not fit the format")]
    Format(#[source] bincode::error::EncodeError),
}

/// Why bytes are no value.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the envelope alone needs.
    #[error("truncated: only {length} bytes")]
    Truncated {
        /// How many there are.
        length: usize,
    },
    /// More bytes than `BYTES_MAX`.
    #[error("{length} bytes, more than {BYTES_MAX}")]
    TooLarge {
        /// How many there are.
        length: usize,
    },
    /// The bytes are not what was written.
    #[error("wrong checksum: {found:08x} instead of {expected:08x}")]
    Checksum {
        /// What the bytes say.
        expected: u32,
        /// What the bytes have.
        found: u32,
    },
    /// Written by another version of Fairhold.
    #[error("the format version is {found}, but this program supports {expected}")]
    Version {
        /// What this program knows.
        expected: u8,
        /// What the bytes say.
        found: u8,
    },
    /// Intact bytes that are no such value.
    #[error("the bytes cannot be decoded")]
    Format(#[source] bincode::error::DecodeError),
    /// A value, and then more.
    #[error("{count} bytes too many after the value")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
}

/// Writes a value in its envelope.
pub fn encode<T: Serialize>(version: u8, value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(version);
    bincode::serde::encode_into_std_write(value, &mut bytes, ENCODED).map_err(EncodeError::Format)?;
    let length = bytes.len() + ENVELOPE_BYTES - 1;
    if length > BYTES_MAX {
        return Err(EncodeError::TooLarge { length });
    }
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Reads a value from its envelope, all of it and nothing more.
pub fn decode<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let length = bytes.len();
    if length > BYTES_MAX {
        return Err(DecodeError::TooLarge { length });
    }
    let Some((covered, checksum)) = bytes.split_last_chunk::<4>() else {
        return Err(DecodeError::Truncated { length });
    };
    let Some((found_version, body)) = covered.split_first() else {
        return Err(DecodeError::Truncated { length });
    };
    let (expected, found) = (u32::from_le_bytes(*checksum), crc32fast::hash(covered));
    if expected != found {
        return Err(DecodeError::Checksum { expected, found });
    }
    if *found_version != version {
        return Err(DecodeError::Version { expected: version, found: *found_version });
    }
    let decoded = if length <= SHORT_BYTES_MAX {
        bincode::serde::decode_from_slice(body, SHORT)
    } else {
        bincode::serde::decode_from_slice(body, LONG)
    };
    let (value, read) = decoded.map_err(DecodeError::Format)?;
    if read != body.len() {
        return Err(DecodeError::TrailingBytes { count: body.len() - read });
    }
    Ok(value)
}

/// The checksum of bytes that are not in an envelope: a file's.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The checksum of bytes that come in pieces.
#[derive(Debug, Clone, Default)]
pub struct RunningChecksum(crc32fast::Hasher);

impl RunningChecksum {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend_from_slice(body);
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let value = (42_u64, "printer".to_owned(), vec![1_u8, 2, 3]);
        assert_eq!(decode::<(u64, String, Vec<u8>)>(1, &encode(1, &value).unwrap()).unwrap(), value);
    }

    /// The limit of decoding was once that of encoding, so a log could have an entry that nobody could read.
    #[test]
    fn whatever_can_be_encoded_can_be_decoded() {
        fn assert_both_ways<T: Serialize + DeserializeOwned + PartialEq>(value: &T) {
            let bytes = encode(1, value).unwrap();
            assert!(decode::<T>(1, &bytes).unwrap() == *value, "{} bytes", bytes.len());
        }
        for length in [1_000, SHORT_BYTES_MAX - 64, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 64] {
            // Numbers of one byte, texts of one byte, and options without a value: what decoding charges most for.
            assert_both_ways(&vec![1_u128; length]);
            assert_both_ways(&vec![1_u64; length]);
            assert_both_ways(&vec![None::<u8>; length]);
            assert_both_ways(&vec!["a".to_owned(); length / 2]);
            assert_both_ways(&vec![1_u8; length]);
        }
        assert_both_ways(&"a".repeat(BYTES_MAX - 64));
        assert!(matches!(encode(1, &vec![1_u8; BYTES_MAX]), Err(EncodeError::TooLarge { .. })));
    }

    #[test]
    fn another_version_is_refused() {
        let error = decode::<u64>(2, &encode(1, &7_u64).unwrap()).unwrap_err();
        assert!(matches!(error, DecodeError::Version { expected: 2, found: 1 }), "{error}");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = encode(1, &("printer", 42_u64)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = decode::<(String, u64)>(1, &flipped).unwrap_err();
            assert!(matches!(error, DecodeError::Checksum { .. }), "bit {bit}: {error}");
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = encode(1, &("printer", 42_u64)).unwrap();
        for length in 0..bytes.len() {
            assert!(decode::<(String, u64)>(1, &bytes[..length]).is_err(), "{length} bytes were taken");
        }
    }

    #[test]
    fn a_byte_too_many_is_refused() {
        let error = decode::<u8>(1, &sealed(&[7, 7])).unwrap_err();
        assert!(matches!(error, DecodeError::TrailingBytes { count: 1 }), "{error}");
    }

    #[test]
    fn a_giant_length_is_refused_without_allocating() {
        // 253 announces a 64-bit length, here of nearly 2^64 bytes.
        let bomb = sealed(&[253, 255, 255, 255, 255, 255, 255, 255, 127]);
        for error in [decode::<String>(1, &bomb).unwrap_err(), decode::<Vec<u64>>(1, &bomb).unwrap_err()] {
            assert!(matches!(error, DecodeError::Format(_)), "{error}");
        }
    }
}
