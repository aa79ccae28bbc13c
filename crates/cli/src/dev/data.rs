//! The data directory of `dev`.

use super::error::DevError;
use fairhold_types::NodeId;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The file with the nodes' peer key.
const KEY_FILE: &str = "peer.key";

/// The parent of the nodes' data directories.
#[derive(Debug)]
pub(super) struct Data {
    path: PathBuf,
    temporary: bool,
}

impl Data {
    /// Creates the given directory, or a temporary one that only this user can read.
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed at the end.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// The file for a node's log lines while the live view uses the terminal.
    pub(super) fn log_file(&self, node: NodeId) -> PathBuf {
        self.path.join(format!("node-{node}.log"))
    }

    /// The file with the key that the nodes share: generated if there is none, and kept.
    pub(super) fn peer_key_file(&self) -> Result<PathBuf, DevError> {
        let file = self.path.join(KEY_FILE);
        if !file.exists() {
            write_secret(&file, &random_hex()).map_err(|error| DevError::Data { path: file.display().to_string(), error })?;
        }
        Ok(file)
    }

    /// Removes it, once all nodes have ended.
    pub(super) fn remove_if_temporary(&self) {
        if self.temporary
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("dev: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// 32 random bytes, as hexadecimal digits.
pub(super) fn random_hex() -> String {
    rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a secret as a line. Only this user can ever read the file, and it appears only when it is complete.
pub(super) fn write_secret(file: &Path, secret: &str) -> io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    let mut opened = File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    opened.write_all(format!("{secret}\n").as_bytes())?;
    opened.sync_all()?;
    fs::rename(unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_key_is_generated_once_and_only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let data = Data::prepare(Some(directory.path())).unwrap();
        let file = data.peer_key_file().unwrap();
        let key = fs::read_to_string(&file).unwrap();
        assert_eq!((key.len(), fs::metadata(&file).unwrap().permissions().mode() & 0o777), (65, 0o600));
        assert_eq!(fs::read_to_string(data.peer_key_file().unwrap()).unwrap(), key, "kept over restarts");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_directory_is_removed_and_a_given_one_stays() {
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
    fn a_directory_that_cannot_be_created_is_named() {
        let error = Data::prepare(Some(Path::new("/dev/null/x"))).unwrap_err();
        assert!(error.to_string().contains("/dev/null/x cannot be used"), "{error}");
    }
}
