//! A file with a secret: its content, and whether other users can read it.

use crate::regular_file;
use rustix::process::geteuid;
use std::{
    fs::Metadata,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// The mode bits that let users other than the owner read or write.
const OTHERS: u32 = 0o066;

/// Reads the metadata of a file and its content, at most one byte more than allowed.
pub(super) fn read(path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, Metadata)> {
    let file = regular_file::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, metadata))
}

/// What to do if the file of a key or token, which all nodes share, cannot be read.
pub(super) fn advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return "Let the user of this node own the file: chown";
    }
    "Correct its name, or copy the file from another node of the cluster: scp -p"
}

/// Whether users other than the owner may read or write it.
pub(super) fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & OTHERS != 0
}

/// Whether it belongs to another user, who can change it. Root does not count: root can change every file.
pub(super) fn is_of_another(metadata: &Metadata) -> bool {
    let owner = metadata.uid();
    owner != 0 && owner != geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_file_that_others_can_read_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        fs::write(&file, "0123456789").unwrap();
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true), (0o700, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let metadata = fs::metadata(&file).unwrap();
            assert_eq!((is_open_to_others(&metadata), is_of_another(&metadata)), (open, false), "{mode:o}");
        }
        assert_eq!(read(&file, 4).unwrap().0, b"01234", "the extra byte shows that the file is too long");
    }

    #[test]
    fn a_file_that_cannot_be_read_has_a_next_step() {
        let advice = |kind: io::ErrorKind| advice(&kind.into());
        assert!(advice(io::ErrorKind::NotFound).contains("copy the file from another node"));
        assert!(advice(io::ErrorKind::PermissionDenied).ends_with("chown"));
    }
}
