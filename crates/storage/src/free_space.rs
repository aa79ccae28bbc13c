//! The free space of a data directory's file system.

use crate::durable;
use std::{io, path::Path};

/// The free space that a node needs to start. A start rewrites the content of the write-ahead log, up to four memtables
/// of 16 MiB, and a snapshot must fit next to the previous one.
pub const START_ROOM_BYTES: u64 = 128 * 1024 * 1024;

/// Below this much free space, a leader refuses writes that need more space: writes in progress may still use some. A
/// node whose disk is full ends, and the disks of all nodes in a cluster fill up together.
pub const WRITE_ROOM_BYTES: u64 = 256 * 1024 * 1024;

/// The bytes that this process may still write to the file system of a directory, which need not exist yet. Quotas do
/// not count.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let mut there = directory;
    while !there.exists() {
        there = durable::parent_of(there);
    }
    Ok(of(there)?.0)
}

/// The bytes that this process may still write to the file system of an existing directory, and its total size.
pub fn of(directory: &Path) -> io::Result<(u64, u64)> {
    let system = rustix::fs::statvfs(directory).map_err(|error| durable::with_path(directory, error.into()))?;
    Ok((system.f_bavail.saturating_mul(system.f_frsize), system.f_blocks.saturating_mul(system.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_has_the_free_space_of_its_file_system() {
        let home = tempfile::tempdir().unwrap();
        let free = free_bytes(&home.path().join("a/b/c")).unwrap();
        assert!(free > 0 && free_bytes(Path::new("nowhere/near")).unwrap() > 0);
    }
}
