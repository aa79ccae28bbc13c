//! How much room the file system of a data directory has.

use crate::durable;
use std::{io, path::Path};

/// What must be free for a node to start: a start writes again all that the write-ahead log holds, up to four memtables of
/// 16 MiB, and a snapshot has to fit beside the one before it.
pub const START_ROOM_BYTES: u64 = 128 * 1024 * 1024;

/// While less than this is free, a leader takes nothing that writes more: what is under way may still need some of it. A node
/// that meets the end of its disk ends, and all nodes of a cluster fill up together.
pub const WRITE_ROOM_BYTES: u64 = 256 * 1024 * 1024;

/// The bytes that this process may still write to the file system on which a directory is, or will be. Quotas do not show.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let mut there = directory;
    while !there.exists() {
        there = match there.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
    }
    let room = rustix::fs::statvfs(there).map_err(|error| durable::naming(there, error.into()))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_directory_that_is_not_made_yet_is_that_of_its_file_system() {
        let home = tempfile::tempdir().unwrap();
        let free = free_bytes(&home.path().join("a/b/c")).unwrap();
        assert!(free > 0 && free_bytes(Path::new("nowhere/near")).unwrap() > 0);
    }
}
