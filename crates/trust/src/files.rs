//! The PEM files of a certificate, its key and its authorities: what is in them, and what is wrong with them.

use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject, SectionKind},
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// The largest file, in bytes: the authorities of a whole operating system fit.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The mode bits that let users other than the owner and its group read or write.
const OTHERS: u32 = 0o006;

/// Where a certificate, its key and the authorities of the other side are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and after it those that lead to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that issue the certificates of the other side.
    pub ca: Option<PathBuf>,
}

/// Why a file cannot be used. Each text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// It is a directory or a device.
    #[error("{} is not a file: pass the file itself", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// It is too large.
    #[error("{} has more than {FILE_BYTES_MAX} bytes: is that the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A section is cut off or garbled.
    #[error("{} is damaged or incomplete ({fault}): copy it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with the PEM text.
        fault: pem::Error,
    },
    /// It has no certificate.
    #[error("{} has no certificate: it needs a section -----BEGIN CERTIFICATE-----{}", path.display(), hint(*has_key))]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// Whether it has a key instead.
        has_key: bool,
    },
    /// It has no private key.
    #[error("{} has no private key: it needs a section -----BEGIN PRIVATE KEY-----", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key is encrypted.
    #[error(
        "{path} is encrypted with a passphrase: decrypt it with `openssl pkey -in {path} -out NEW`, and protect it by its mode \
         (chmod 600)",
        path = path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// It has more than one key.
    #[error("{} has {keys} private keys: keep the one that fits the certificate", path.display())]
    SeveralKeys {
        /// The file.
        path: PathBuf,
        /// Their number.
        keys: usize,
    },
}

fn hint(has_key: bool) -> &'static str {
    if has_key { ". It has a private key: are the certificate and the key exchanged?" } else { "" }
}

/// The content of the files.
pub(crate) struct FileContents {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    /// Whether users other than the owner and its group can read or write the key.
    pub(crate) is_key_open: bool,
    /// The SHA-256 of all files.
    pub(crate) digest: [u8; 32],
}

/// Reads the files.
pub(crate) fn read(files: &CertificateFiles) -> Result<FileContents, FileError> {
    let cert = read_file(&files.cert)?;
    let key = read_file(&files.key)?;
    let ca = files.ca.as_deref().map(read_file).transpose()?;
    let mut digest = Sha256::new();
    for bytes in [Some(&cert), Some(&key), ca.as_ref()].into_iter().flatten() {
        // With the lengths, no other division into files has the same digest.
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
    let authorities = match (&files.ca, &ca) {
        (Some(path), Some(bytes)) => certificates(path, bytes)?,
        (Some(_) | None, _) => Vec::new(),
    };
    Ok(FileContents {
        chain: certificates(&files.cert, &cert)?,
        key: private_key(&files.key, &key)?,
        authorities,
        is_key_open: is_open(&files.key)?,
        digest: digest.finalize().into(),
    })
}

/// A certificate as bytes.
pub type DerCertificate = CertificateDer<'static>;

/// Reads all certificates of a file. There is at least one.
pub fn read_certificates(path: &Path) -> Result<Vec<DerCertificate>, FileError> {
    certificates(path, &read_file(path)?)
}

/// Reads the only private key of a file.
pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    private_key(path, &read_file(path)?)
}

pub(crate) fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let unreadable = |error| FileError::Unreadable { path: path.to_owned(), error };
    // Opening a FIFO would wait for its other end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(FileError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Whether users other than the owner and its group can read or write a file.
pub(crate) fn is_open(path: &Path) -> Result<bool, FileError> {
    let metadata = fs::metadata(path).map_err(|error| FileError::Unreadable { path: path.to_owned(), error })?;
    Ok(metadata.permissions().mode() & OTHERS != 0)
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|fault| FileError::Damaged { path: path.to_owned(), fault })?;
    if found.is_empty() {
        let has_key = PrivateKeyDer::from_pem_slice(bytes).is_ok();
        return Err(FileError::NoCertificate { path: path.to_owned(), has_key });
    }
    Ok(found)
}

fn private_key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, FileError> {
    if bytes.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
        return Err(FileError::EncryptedKey { path: path.to_owned() });
    }
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes) {
        let (kind, der) = section.map_err(|fault| FileError::Damaged { path: path.to_owned(), fault })?;
        keys.extend(PrivateKeyDer::from_pem(kind, der));
    }
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), others) => Err(FileError::SeveralKeys { path: path.to_owned(), keys: others + 1 }),
        (None, _) => Err(FileError::NoKey { path: path.to_owned() }),
    }
}

/// The head of an encrypted key, in PKCS #8 and in OpenSSL's older form.
const ENCRYPTED: &[u8] = b"ENCRYPTED";
