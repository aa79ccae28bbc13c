//! The constants of the format.

use sha2::{Digest as _, Sha256};

/// The first bytes of a backup. The last ones are the same in reverse.
pub const MAGIC: &[u8; 15] = b"FAIRHOLD-BACKUP";

/// The version of the file around header and blocks.
pub const BACKUP_FORMAT: u8 = 1;

/// The media type of a backup over HTTP.
pub const MEDIA_TYPE: &str = "application/vnd.fairhold.backup";

/// The version byte of an encoded header.
pub(crate) const HEADER_FORMAT: u8 = 1;

/// The largest header, in bytes. It has the addresses of the members.
pub(crate) const HEADER_BYTES_MAX: usize = 64 * 1024;

/// The largest block, in bytes: of 512 KiB and the last item in it. What a block holds needs much more memory than its bytes, so
/// the limit of the codec would be too high.
pub(crate) const BLOCK_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The length that stands where another block would begin, after the last one.
pub(crate) const NO_BLOCK: [u8; 4] = [0; 4];

/// The last bytes of a backup.
pub(crate) fn reversed_magic() -> [u8; MAGIC.len()] {
    let mut reversed = *MAGIC;
    reversed.reverse();
    reversed
}

/// The bytes and the hash of all that was written or read so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    hasher: Sha256,
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
}

impl Progress {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn sha256(&self) -> [u8; 32] {
        self.hasher.clone().finalize().into()
    }
}
