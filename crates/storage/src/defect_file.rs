//! The file `DEFECTS`: the commands at which the state machine panicked (`fairhold_raft::defect`). Without panics, it
//! does not exist.

use crate::durable;
use fairhold_raft::defect::{Defect, DefectStore};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The version byte of the `DEFECTS` file.
pub const DEFECTS_FORMAT: u8 = 1;

const DEFECTS: &str = "DEFECTS";

/// The file, and how the process restarts.
#[derive(Debug)]
pub struct DefectFile {
    path: PathBuf,
    restart_process: fn() -> io::Error,
}

impl DefectFile {
    /// The file of a data directory. `restart_process` returns only if it cannot restart the process.
    #[must_use]
    pub fn new(directory: &Path, restart_process: fn() -> io::Error) -> DefectFile {
        DefectFile { path: directory.join(DEFECTS), restart_process }
    }
}

impl DefectStore for DefectFile {
    fn load(&self) -> io::Result<Vec<Defect>> {
        let Some(bytes) = durable::read(&self.path)? else { return Ok(Vec::new()) };
        fairhold_codec::decode(DEFECTS_FORMAT, &bytes).map_err(|error| durable::damaged(&self.path, error))
    }

    fn save(&self, defects: &[Defect]) -> io::Result<()> {
        let bytes = fairhold_codec::encode(DEFECTS_FORMAT, &defects).map_err(io::Error::other)?;
        durable::write(&self.path, &[&bytes])
    }

    fn restart_process(&self) -> io::Error {
        (self.restart_process)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defect(index: u64) -> Defect {
        Defect {
            index,
            position: 3,
            panics: 2,
            passed: false,
            checked: true,
            kind: "Acquire".to_owned(),
            fingerprint: 7,
            message: "index out of bounds".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn saved_defects_load_unchanged_and_damage_is_reported_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let store = DefectFile::new(directory.path(), || io::Error::other("no"));
        assert_eq!(store.load().unwrap(), []);
        store.save(&[defect(1), defect(2)]).unwrap();
        assert_eq!(store.load().unwrap(), [defect(1), defect(2)]);

        let path = directory.path().join(DEFECTS);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = store.load().unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidData && error.to_string().contains("DEFECTS is damaged"), "{error}");
    }
}
