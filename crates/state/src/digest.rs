//! A digest of the whole state, to compare nodes.

use crate::State;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A digest under construction. It takes one part of the state at a time, so that the caller can let other tasks run in
/// between.
pub struct Digest<'a> {
    parts: Box<dyn Iterator<Item = Vec<u8>> + Send + 'a>,
    hasher: Sha256,
}

impl fmt::Debug for Digest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

impl Digest<'_> {
    /// Adds the next part. Returns whether the digest is complete.
    pub fn add_part(&mut self) -> bool {
        let part = self.parts.next();
        part.iter().for_each(|part| self.hasher.update(part));
        part.is_none()
    }

    /// The first 128 bits of SHA-256 over all parts, in hex.
    #[must_use]
    pub fn finish(self) -> String {
        self.hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl State {
    /// A digest over the snapshot. Equal states have equal digests. It walks the whole state.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = self.digest_in_parts();
        while !digest.add_part() {}
        digest.finish()
    }

    /// The digest, to be computed part by part.
    #[must_use]
    pub fn digest_in_parts(&self) -> Digest<'_> {
        Digest { parts: Box::new(self.snapshot_blocks()), hasher: Sha256::new() }
    }
}
