//! Where the nodes of `dev` keep their data.

use super::DevError;
use fairhold_types::NodeId;
use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The directory above the nodes' own.
#[derive(Debug)]
pub(super) struct Data {
    path: PathBuf,
    temporary: bool,
}

impl Data {
    /// Makes it: the one that is named, else a new temporary one that only this user can read.
    pub(super) fn prepare(named: Option<&Path>) -> Result<Data, DevError> {
        let (path, made) = match named {
            Some(path) => (path.to_owned(), fs::create_dir_all(path)),
            None => {
                let path = std::env::temp_dir().join(format!("fairhold-dev-{:016x}", rand::random::<u64>()));
                let made = DirBuilder::new().mode(0o700).create(&path);
                (path, made)
            }
        };
        made.map_err(|error| DevError::Data { path: path.display().to_string(), error })?;
        Ok(Data { path, temporary: named.is_none() })
    }

    /// Which it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes away at the end.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Where a node's log lines go while the live view has the terminal.
    pub(super) fn log_file(&self, node: NodeId) -> PathBuf {
        self.path.join(format!("node-{node}.log"))
    }

    /// Removes it, once all nodes have ended.
    pub(super) fn remove_if_temporary(&self) {
        if self.temporary
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("dev: {} was not removed: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_directory_goes_away_and_a_named_one_stays() {
        let temporary = Data::prepare(None).unwrap();
        fs::write(temporary.log_file(1), "x").unwrap();
        temporary.remove_if_temporary();
        assert!(!temporary.path().exists());

        let directory = tempfile::tempdir().unwrap();
        let named = Data::prepare(Some(&directory.path().join("a/b"))).unwrap();
        named.remove_if_temporary();
        assert!(!named.is_temporary() && named.path().is_dir());
    }

    #[test]
    fn a_directory_that_cannot_be_is_named() {
        let error = Data::prepare(Some(Path::new("/dev/null/x"))).unwrap_err();
        assert!(error.to_string().contains("/dev/null/x cannot be used"), "{error}");
    }
}
