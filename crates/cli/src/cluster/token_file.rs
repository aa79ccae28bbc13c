//! The file that receives a join token. It is checked before the token is created, because the cluster shows a token only
//! once. Only its owner can read it.

use crate::remote::Failure;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Only the owner may read and write it.
const MODE: u32 = 0o600;
/// The beginning of every join token.
const PREFIX: &str = "fhj1.";

/// A new file beside the one that was named, which it replaces when it has the token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    new: PathBuf,
    file: File,
    is_written: bool,
}

impl TokenFile {
    /// Creates the new file. Overwrites nothing but an earlier join token.
    pub(super) fn create(path: &Path) -> Result<TokenFile, Failure> {
        let unusable = |why: String| Failure::Usage(format!("--out {}: {why}", path.display()));
        if !is_free(path).map_err(|error| unusable(error.to_string()))? {
            return Err(unusable("this file exists and is not a join token: choose another name".to_owned()));
        }
        let new = with_suffix(path, ".new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error.to_string())),
            Ok(()) | Err(_) => {}
        }
        let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new);
        let file = opened.map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            unusable(if is_missing { "create its folder first".to_owned() } else { error.to_string() })
        })?;
        Ok(TokenFile { path: path.to_owned(), new, file, is_written: false })
    }

    /// Writes the token, and gives the file its name.
    pub(super) fn write(mut self, token: &str) -> io::Result<()> {
        self.file.write_all(format!("{token}\n").as_bytes())?;
        self.file.sync_all()?;
        fs::rename(&self.new, &self.path)?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        if !self.is_written {
            // It is empty or incomplete. If it cannot be removed, the next call removes it.
            fs::remove_file(&self.new).ok();
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether there is no such file, or it has an earlier token.
fn is_free(path: &Path) -> io::Result<bool> {
    // To open a named pipe would wait for its other end.
    match fs::metadata(path) {
        Ok(entry) if !entry.is_file() => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    }
    let mut first = Vec::new();
    File::open(path)?.take(PREFIX.len() as u64).read_to_end(&mut first)?;
    Ok(first == PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_owner_can_read_a_token_and_only_a_token_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("join.token");
        for token in ["fhj1.one", "fhj1.two"] {
            TokenFile::create(&path).unwrap().write(token).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{token}\n"));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        }
        let other = folder.path().join("peer.key");
        fs::write(&other, "0123").unwrap();
        let refused = TokenFile::create(&other).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().ends_with("is not a join token: choose another name"), "{refused}");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for taken in [folder.path().to_owned(), folder.path().join("no/folder"), pipe] {
            assert_eq!(TokenFile::create(&taken).unwrap_err().code(), 2);
        }
        let nowhere = TokenFile::create(&folder.path().join("no/folder")).unwrap_err().to_string();
        assert!(nowhere.ends_with("no/folder: create its folder first"), "{nowhere}");
    }

    #[test]
    fn a_token_that_is_not_created_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("join.token");
        fs::write(&path, "fhj1.old\n").unwrap();
        drop(TokenFile::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "fhj1.old\n");
    }
}
