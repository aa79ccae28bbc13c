//! The idempotency key of a write, with a hash of what was asked: the same key with another request is refused.

use crate::api::CallError;
use fairhold_state::command::{Rejection, WriteKey};
use fairhold_types::GrantId;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The version byte of the bytes under a write's fingerprint, which are never stored.
const FINGERPRINT_FORMAT: u8 = 1;

/// The key of a call, with what was asked; none where the caller gave none.
pub(crate) fn write_key(key: Option<GrantId>, asked: &impl Serialize) -> Result<Option<WriteKey>, CallError> {
    key.map(|key| Ok(WriteKey { key, fingerprint: fingerprint(asked)? })).transpose()
}

/// What tells one write from another, for its key: the first half of a hash over all that was asked.
pub(crate) fn fingerprint(asked: &impl Serialize) -> Result<[u8; 16], CallError> {
    let bytes = fairhold_codec::encode(FINGERPRINT_FORMAT, asked)
        .map_err(|error| Rejection::Unsupported { what: format!("a write of this size ({error})") })?;
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(&bytes)[..16]);
    Ok(fingerprint)
}
