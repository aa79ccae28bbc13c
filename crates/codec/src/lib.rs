//! Encodes values for the log, frames and snapshots. The only crate that names bincode.
//!
//! ```text
//! version (1 byte) │ value (bincode 2, variable-length integers) │ CRC-32 of all preceding bytes (4 bytes, little endian)
//! ```
//!
//! A length inside the bytes is never trusted: a wrong checksum, another version or trailing bytes are an error, and no
//! input causes a panic. Input up to 1 MiB can request at most 16 MiB of memory, and longer input 1 GiB, of which only
//! the filled pages are ever touched. Everything that can be encoded can be decoded. Values must not need a
//! self-describing format: no `untagged`, `flatten` or `skip_serializing_if`.

use bincode::{
    config::{Configuration, Limit, LittleEndian, Varint},
    enc::write::Writer,
};
use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of an encoded value, in bytes.
pub const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that the envelope adds: the version and the checksum.
const ENVELOPE_BYTES: usize = 1 + 4;

/// Decoding is charged for the width of each number, but the bytes hold its shortest form: a 128-bit number of one
/// byte, the worst case, is charged 16 bytes. A limit below this multiple would reject values that were encoded.
const CHARGE_MAX: usize = 16;

/// Input up to this size has a lower limit, so that a few hostile bytes cannot request much memory.
const SHORT_BYTES_MAX: usize = 1024 * 1024;

type Limited<const BYTES: usize> = Configuration<LittleEndian, Varint, Limit<BYTES>>;

const ENCODED: Limited<BYTES_MAX> = bincode::config::standard().with_limit::<BYTES_MAX>();
const SHORT: Limited<{ SHORT_BYTES_MAX * CHARGE_MAX }> = bincode::config::standard().with_limit();
const LONG: Limited<{ BYTES_MAX * CHARGE_MAX }> = bincode::config::standard().with_limit();

/// Why a value cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The value is larger than `BYTES_MAX`.
    #[error("the value has {length} bytes, more than {BYTES_MAX}")]
    TooLarge {
        /// Its size.
        length: usize,
    },
    /// The value does not fit the format.
    #[error("the value does not fit the format")]
    Format(#[source] bincode::error::EncodeError),
}

/// Why bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the envelope needs.
    #[error("truncated: only {length} bytes")]
    Truncated {
        /// The number of bytes.
        length: usize,
    },
    /// More bytes than `BYTES_MAX`.
    #[error("{length} bytes, more than {BYTES_MAX}")]
    TooLarge {
        /// The number of bytes.
        length: usize,
    },
    /// The bytes are not the ones that were encoded.
    #[error("wrong checksum: {found:08x} instead of {expected:08x}")]
    Checksum {
        /// The recorded checksum.
        expected: u32,
        /// The actual checksum.
        found: u32,
    },
    /// Encoded by another version of Fairhold.
    #[error("the format version is {found}, but this program supports {expected}")]
    Version {
        /// The version that this program supports.
        expected: u8,
        /// The version of the bytes.
        found: u8,
    },
    /// The bytes are intact, but hold no such value.
    #[error("the bytes cannot be decoded")]
    Format(#[source] bincode::error::DecodeError),
    /// More bytes follow the value.
    #[error("{count} bytes too many after the value")]
    TrailingBytes {
        /// Their number.
        count: usize,
    },
}

/// Appends each piece of an encoded value. bincode's writer for `std::io::Write` also counts the bytes, and loops over
/// writes that take only a part.
struct AppendTo<'a>(&'a mut Vec<u8>);

impl Writer for AppendTo<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Encodes a value in its envelope.
pub fn encode<T: Serialize>(version: u8, value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(version);
    bincode::serde::encode_into_writer(value, AppendTo(&mut bytes), ENCODED).map_err(EncodeError::Format)?;
    let length = bytes.len() + ENVELOPE_BYTES - 1;
    if length > BYTES_MAX {
        return Err(EncodeError::TooLarge { length });
    }
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Verifies the checksum of an envelope, and nothing else.
pub fn verify(bytes: &[u8]) -> Result<(), DecodeError> {
    covered(bytes).map(|_| ())
}

/// Decodes a value from its envelope, which must end with it.
pub fn decode<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let length = bytes.len();
    let (found_version, body) = covered(bytes)?;
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

/// The version and the encoded value of an envelope whose checksum is right.
fn covered(bytes: &[u8]) -> Result<(&u8, &[u8]), DecodeError> {
    let length = bytes.len();
    if length > BYTES_MAX {
        return Err(DecodeError::TooLarge { length });
    }
    let Some((covered, checksum)) = bytes.split_last_chunk::<4>() else {
        return Err(DecodeError::Truncated { length });
    };
    let Some(parts) = covered.split_first() else {
        return Err(DecodeError::Truncated { length });
    };
    let expected = u32::from_le_bytes(*checksum);
    let found = crc32fast::hash(covered);
    if expected == found { Ok(parts) } else { Err(DecodeError::Checksum { expected, found }) }
}

/// The checksum of bytes outside an envelope, such as a file's.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The checksum of bytes that arrive in pieces.
#[derive(Debug, Clone, Default)]
pub struct RunningChecksum(crc32fast::Hasher);

impl RunningChecksum {
    /// Adds the next piece.
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
    fn an_encoded_value_is_decoded() {
        let value = (42_u64, "printer".to_owned(), vec![1_u8, 2, 3]);
        assert_eq!(decode::<(u64, String, Vec<u8>)>(1, &encode(1, &value).unwrap()).unwrap(), value);
    }

    #[test]
    fn an_envelope_is_verified_without_its_value() {
        let bytes = encode(1, &7_u64).unwrap();
        verify(&bytes).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            assert!(matches!(verify(&changed), Err(DecodeError::Checksum { .. })), "byte {at}");
            assert!(verify(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    /// Decoding once had the same limit as encoding, so a log could contain an entry that no node could decode.
    #[test]
    fn everything_that_can_be_encoded_can_be_decoded() {
        fn assert_both_ways<T: Serialize + DeserializeOwned + PartialEq>(value: &T) {
            let bytes = encode(1, value).unwrap();
            assert!(decode::<T>(1, &bytes).unwrap() == *value, "{} bytes", bytes.len());
        }
        for length in [1_000, SHORT_BYTES_MAX - 64, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 64] {
            // One-byte numbers, one-byte strings and empty options: decoding charges most for these.
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
    fn every_flipped_bit_is_detected() {
        let bytes = encode(1, &("printer", 42_u64)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = decode::<(String, u64)>(1, &flipped).unwrap_err();
            assert!(matches!(error, DecodeError::Checksum { .. }), "bit {bit}: {error}");
        }
    }

    #[test]
    fn every_truncation_is_detected() {
        let bytes = encode(1, &("printer", 42_u64)).unwrap();
        for length in 0..bytes.len() {
            assert!(decode::<(String, u64)>(1, &bytes[..length]).is_err(), "{length} bytes were decoded");
        }
    }

    #[test]
    fn a_trailing_byte_is_refused() {
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
