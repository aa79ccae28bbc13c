//! The files of an authority and of the certificates that it issues. Keys have the mode 0600, and no file is overwritten,
//! except a certificate that is renewed.

use crate::{
    files::{self, FileError},
    issuer::{Authority, IssueError, IssuedPair, create_authority},
    name::ClusterName,
};
use rustls_pki_types::CertificateDer;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// The certificate of the authority, in its directory and beside every certificate that it issued.
pub const CA_CERT: &str = "ca.crt";

/// The key of the authority. It stays in its directory.
pub const CA_KEY: &str = "ca.key";

/// Everybody may read a certificate.
const CERT_MODE: u32 = 0o644;
/// Only the owner may read a key.
const KEY_MODE: u32 = 0o600;
/// Only the owner may look into the directory of an authority.
const DIRECTORY_MODE: u32 = 0o700;

/// Why the files of an authority cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A file exists.
    #[error("{} exists, and is not overwritten: choose another directory or name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A renewal was interrupted, or another one is running.
    #[error("{} is left from a renewal that did not end: remove it, and renew again", path.display())]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no authority in this directory.
    #[error(
        "{path} has no certificate authority: make one with `fairhold cert ca --name NAME --out {path}`",
        path = path.display()
    )]
    NoAuthority {
        /// The directory.
        path: PathBuf,
    },
    /// Another certificate is where the authority's belongs: of another authority, or from before a renewal.
    #[error("{} differs from the ca.crt of the authority: replace it, or choose another directory", path.display())]
    OtherAuthority {
        /// The file.
        path: PathBuf,
    },
    /// The certificate cannot be issued.
    #[error("{}: {error}", path.display())]
    Issue {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        error: IssueError,
    },
}

/// The directory of an authority.
#[derive(Debug)]
pub struct CaDirectory {
    path: PathBuf,
    authority: Authority,
    is_key_open: bool,
}

impl CaDirectory {
    /// Makes an authority for a cluster, in a directory that has none.
    pub fn create(path: &Path, cluster: &ClusterName, days: u32) -> Result<CaDirectory, CaError> {
        let issue = |error| CaError::Issue { path: path.to_owned(), error };
        let pair = create_authority(cluster, days).map_err(issue)?;
        create_directory(path, DIRECTORY_MODE)?;
        write_new(&[(path.join(CA_KEY), KEY_MODE, pair.key.as_bytes()), (path.join(CA_CERT), CERT_MODE, pair.cert.as_bytes())])?;
        CaDirectory::open(path)
    }

    /// Opens the directory of an authority.
    pub fn open(path: &Path) -> Result<CaDirectory, CaError> {
        let (cert, key) = (path.join(CA_CERT), path.join(CA_KEY));
        if !cert.exists() && !key.exists() {
            return Err(CaError::NoAuthority { path: path.to_owned() });
        }
        let certificate = files::read_certificates(&cert)?.swap_remove(0);
        let authority = Authority::new(certificate, &files::read_key(&key)?);
        let authority = authority.map_err(|error| CaError::Issue { path: path.to_owned(), error })?;
        Ok(CaDirectory { path: path.to_owned(), authority, is_key_open: files::is_open(&key)? })
    }

    /// The key of the authority, if other users can read or write it.
    #[must_use]
    pub fn open_key(&self) -> Option<PathBuf> {
        self.is_key_open.then(|| self.path.join(CA_KEY))
    }

    /// The authority itself.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Writes a pair as `NAME.crt` and `NAME.key`, and the certificate of the authority beside them. Returns the names of
    /// the two files.
    pub fn write_pair(&self, directory: &Path, name: &str, pair: &IssuedPair) -> Result<(PathBuf, PathBuf), CaError> {
        create_directory(directory, DIRECTORY_MODE)?;
        let (cert, key) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        let own = self.path.join(CA_CERT);
        let ca = fs::read(&own).map_err(|error| FileError::Unreadable { path: own.clone(), error })?;
        let ca_copy = directory.join(CA_CERT);
        let mut new = vec![(key.clone(), KEY_MODE, pair.key.as_bytes()), (cert.clone(), CERT_MODE, pair.cert.as_bytes())];
        match fs::read(&ca_copy) {
            Ok(there) if there == ca => {}
            Ok(_) => return Err(CaError::OtherAuthority { path: ca_copy }),
            Err(_) => new.push((ca_copy, CERT_MODE, &ca)),
        }
        write_new(&new)?;
        Ok((cert, key))
    }

    /// Renews the certificate in a file: the same names and key, and a new time. It replaces the file in one step, or
    /// writes to `out` if that is another file.
    pub fn renew(&self, file: &Path, out: Option<&Path>, days: u32) -> Result<CertificateDer<'static>, CaError> {
        let known = files::read_certificates(file)?.swap_remove(0);
        let issue = |error| CaError::Issue { path: file.to_owned(), error };
        let pem = self.authority.renew(&known, days).map_err(issue)?;
        match out {
            Some(out) => write_new(&[(out.to_owned(), CERT_MODE, pem.as_bytes())])?,
            None => replace(file, pem.as_bytes())?,
        }
        Ok(files::read_certificates(out.unwrap_or(file))?.swap_remove(0))
    }
}

fn create_directory(path: &Path, mode: u32) -> Result<(), CaError> {
    let created = DirBuilder::new().recursive(true).mode(mode).create(path);
    created.map_err(|error| CaError::Unwritable { path: path.to_owned(), error })
}

/// Writes all files, or none.
fn write_new(files: &[(PathBuf, u32, &[u8])]) -> Result<(), CaError> {
    for (index, (path, mode, bytes)) in files.iter().enumerate() {
        if let Err(error) = write_one(path, *mode, bytes) {
            for (written, _, _) in &files[..index] {
                // What cannot be removed stays, and is named when the command is repeated.
                fs::remove_file(written).ok();
            }
            return Err(error);
        }
    }
    Ok(())
}

fn write_one(path: &Path, mode: u32, bytes: &[u8]) -> Result<(), CaError> {
    let failed = |error: io::Error| {
        let path = path.to_owned();
        if error.kind() == io::ErrorKind::AlreadyExists { CaError::Exists { path } } else { CaError::Unwritable { path, error } }
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        fs::remove_file(path).ok();
        failed(error)
    })
}

/// Gives a file new content in one step. A symlink stays, and what it points to is replaced.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), CaError> {
    let failed = |error| CaError::Unwritable { path: path.to_owned(), error };
    let target = fs::canonicalize(path).map_err(failed)?;
    let mode = fs::metadata(&target).map_err(failed)?.permissions().mode() & 0o777;
    let mut name = target.clone().into_os_string();
    name.push(".new");
    let new = PathBuf::from(name);
    write_one(&new, mode, bytes).map_err(|error| match error {
        CaError::Exists { path } => CaError::Unfinished { path },
        other @ (CaError::Unfinished { .. }
        | CaError::Unwritable { .. }
        | CaError::File(_)
        | CaError::NoAuthority { .. }
        | CaError::OtherAuthority { .. }
        | CaError::Issue { .. }) => other,
    })?;
    fs::rename(&new, &target).map_err(|error| {
        fs::remove_file(&new).ok();
        failed(error)
    })
}
