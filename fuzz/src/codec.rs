//! The codec, and the values that it encodes: log commands, answers, snapshots.

use fairhold_codec::{checksum, decode, encode};
use fairhold_state::{
    State,
    command::{Answer, Command, LOG_FORMAT},
    snapshot::SNAPSHOT_FORMAT,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Decodes the bytes as they are, which fails at the envelope, and then in a valid envelope, so that they reach the
/// values.
pub fn run(bytes: &[u8]) {
    read::<Command>(LOG_FORMAT, bytes);
    read::<Command>(LOG_FORMAT, &sealed(LOG_FORMAT, bytes));
    read::<Answer>(LOG_FORMAT, &sealed(LOG_FORMAT, bytes));
    let block = sealed(SNAPSHOT_FORMAT, bytes);
    if let Ok(state) = State::from_snapshot_blocks([bytes, block.as_slice()].into_iter().skip(1)) {
        let again: Vec<Vec<u8>> = state.snapshot_blocks().collect();
        let again = State::from_snapshot_blocks(again.iter().map(Vec::as_slice)).expect("what was read can be written and read");
        assert_eq!(again.digest(), state.digest());
    }
}

/// The bytes in an envelope of that version.
#[must_use]
pub fn sealed(version: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.push(version);
    bytes.extend_from_slice(body);
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(version: u8, bytes: &[u8]) {
    if let Ok(value) = decode::<T>(version, bytes) {
        let again = encode(version, &value).expect("what was read can be written");
        assert_eq!(decode::<T>(version, &again).expect("what was written can be read"), value);
    }
}
