//! The idempotency key of a write, with a hash of the request: the same key with another request is refused.

use crate::api::CallError;
use fairhold_state::command::{Rejection, WriteKey};
use fairhold_types::GrantId;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The version byte of the bytes that are hashed. They are never stored.
const FINGERPRINT_FORMAT: u8 = 1;

/// The key of a call with the fingerprint of its request; `None` if the caller sent no key.
pub(crate) fn write_key(key: Option<GrantId>, request: &impl Serialize) -> Result<Option<WriteKey>, CallError> {
    key.map(|key| Ok(WriteKey { key, fingerprint: fingerprint(request)? })).transpose()
}

/// Tells requests with the same key apart: the first half of a hash over the whole request.
pub(crate) fn fingerprint(request: &impl Serialize) -> Result<[u8; 16], CallError> {
    let bytes = fairhold_codec::encode(FINGERPRINT_FORMAT, request)
        .map_err(|error| Rejection::Unsupported { what: format!("a write of this size ({error})") })?;
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(&bytes)[..16]);
    Ok(fingerprint)
}
