//! A certificate with its key, and the authorities of the other side: loaded from files, and tried before anything uses it.

use crate::{
    certificate::{Certificate, ParseCertificateError},
    fault::{FaultReason, TlsFault},
    files::{self, CertificateFiles, FileContents, FileError},
    name::ClusterName,
    tls_config::{self, PEER_PROTOCOL, TlsVersion, provider},
    trial,
    verifier::{Authorities, NameRule, Verifier},
};
use fairhold_types::{NodeId, time::WallMillis};
use rustls::{CertificateError, RootCertStore, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What a pair is for. It decides what the certificate must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairUse {
    /// The port for clients: a host name, and the purpose of a server.
    ClientPort,
    /// Connections between nodes, in both directions.
    Peers {
        /// The cluster that the certificate must name.
        cluster: ClusterName,
        /// The node that it must name, if its id is known.
        node: Option<NodeId>,
        /// The host at which the other nodes dial this one, if it is known.
        host: Option<String>,
    },
    /// A program that calls the port for clients.
    Client,
}

/// Why a pair cannot be used. Each text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A section of a file is not a certificate.
    #[error("{} has a section that is not a certificate: {error}", path.display())]
    NotACertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ParseCertificateError,
    },
    /// The key is of a kind that TLS does not accept here.
    #[error("the key in {} is not accepted: use ECDSA, Ed25519 or RSA with at least 2048 bits", path.display())]
    UnusableKey {
        /// The file.
        path: PathBuf,
    },
    /// The key does not belong to the certificate.
    #[error(
        "the key in {} does not fit the certificate in {}: replace both files together",
        key.display(),
        cert.display()
    )]
    KeyMismatch {
        /// The file with the certificate.
        cert: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// The pair fails in the use that it is for.
    #[error("{} cannot be used: {fault}", cert.display())]
    Unusable {
        /// The file with the certificate.
        cert: PathBuf,
        /// What would fail.
        fault: TlsFault,
    },
    /// The port between nodes needs authorities.
    #[error("connections between nodes need the file of the certificate authority, such as ca.crt")]
    NoAuthority,
}

/// A pair that works.
pub struct Pair {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) authorities: Option<Authorities>,
    certificate: Certificate,
    authority_certificates: Vec<Certificate>,
    is_key_open: bool,
    pub(crate) digest: [u8; 32],
}

impl Pair {
    /// Reads the files, and tries the pair in its use.
    pub fn load(files: &CertificateFiles, pair_use: &PairUse) -> Result<Pair, PairError> {
        let contents = files::read(files)?;
        let pair = Pair::new(files, contents)?;
        let unusable = |fault| PairError::Unusable { cert: files.cert.clone(), fault };
        match pair_use {
            PairUse::ClientPort => pair.check_server().map_err(unusable)?,
            PairUse::Client => pair.check_client().map_err(unusable)?,
            PairUse::Peers { cluster, node, .. } => {
                let Some(authorities) = &pair.authorities else { return Err(PairError::NoAuthority) };
                pair.try_as_peer(authorities, cluster, *node, &pair.first_host().map_err(unusable)?).map_err(unusable)?;
            }
        }
        Ok(pair)
    }

    /// Whether the other nodes accept the certificate at the host where they dial this one.
    pub(crate) fn check_host(&self, pair_use: &PairUse) -> Result<(), TlsFault> {
        match (pair_use, &self.authorities) {
            (PairUse::Peers { cluster, node, host: Some(host) }, Some(authorities)) => {
                self.try_as_peer(authorities, cluster, *node, host)
            }
            (PairUse::Peers { .. } | PairUse::ClientPort | PairUse::Client, _) => Ok(()),
        }
    }

    fn new(files: &CertificateFiles, contents: FileContents) -> Result<Pair, PairError> {
        let certificates = parse_all(&files.cert, &contents.chain)?;
        let no_certificate = || FileError::NoCertificate { path: files.cert.clone(), has_key: false };
        let certificate = certificates.into_iter().next().ok_or_else(no_certificate)?;
        let ca = files.ca.clone().unwrap_or_default();
        let authority_certificates = parse_all(&ca, &contents.authorities)?;
        let signing_key = provider().key_provider.load_private_key(contents.key);
        let signing_key = signing_key.map_err(|_| PairError::UnusableKey { path: files.key.clone() })?;
        let key = CertifiedKey::new(contents.chain, signing_key);
        key.keys_match().map_err(|_| PairError::KeyMismatch { cert: files.cert.clone(), key: files.key.clone() })?;
        Ok(Pair {
            key: Arc::new(key),
            authorities: authorities(&ca, &contents.authorities)?,
            certificate,
            authority_certificates,
            is_key_open: contents.is_key_open,
            digest: contents.digest,
        })
    }

    /// The certificate itself.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// When the certificate expires.
    #[must_use]
    pub fn not_after(&self) -> WallMillis {
        self.certificate.not_after
    }

    /// When the first of the authorities expires.
    #[must_use]
    pub fn authority_not_after(&self) -> Option<WallMillis> {
        self.authority_certificates.iter().map(|authority| authority.not_after).min()
    }

    /// Whether every user of this machine can read or write the key.
    #[must_use]
    pub fn is_key_open(&self) -> bool {
        self.is_key_open
    }

    fn check_server(&self) -> Result<(), TlsFault> {
        self.check_time()?;
        if !self.certificate.for_servers {
            return Err(TlsFault::of_certificate(&CertificateError::InvalidPurpose, &self.certificate));
        }
        self.first_host().map(drop)
    }

    fn check_client(&self) -> Result<(), TlsFault> {
        self.check_time()?;
        if self.certificate.for_clients {
            return Ok(());
        }
        Err(TlsFault::of_certificate(&CertificateError::InvalidPurpose, &self.certificate))
    }

    fn check_time(&self) -> Result<(), TlsFault> {
        let unix = |time: WallMillis| UnixTime::since_unix_epoch(Duration::from_millis(time.0));
        let (time, not_before, not_after) =
            (UnixTime::now(), unix(self.certificate.not_before), unix(self.certificate.not_after));
        let error = if time < not_before {
            CertificateError::NotValidYetContext { time, not_before }
        } else if time > not_after {
            CertificateError::ExpiredContext { time, not_after }
        } else {
            return Ok(());
        };
        Err(TlsFault::of_certificate(&error, &self.certificate))
    }

    /// The first host that the certificate names. A wildcard stands for any label.
    fn first_host(&self) -> Result<String, TlsFault> {
        let first = self.certificate.hosts().into_iter().next().map(|host| host.replacen('*', "any", 1));
        let holder = self.certificate.holder();
        let message = || format!("the certificate of {holder} names no host: issue one with `fairhold cert node --host`");
        first.ok_or_else(|| TlsFault::new(FaultReason::OtherHost, message()))
    }

    /// A handshake with itself, with the rules of the port between nodes on both sides.
    fn try_as_peer(
        &self,
        authorities: &Authorities,
        cluster: &ClusterName,
        node: Option<NodeId>,
        host: &str,
    ) -> Result<(), TlsFault> {
        let rule = NameRule::Node { cluster: cluster.clone(), id: node };
        let verifiers = (Verifier::mandatory(authorities.clone(), rule.clone()), Verifier::mandatory(authorities.clone(), rule));
        let failed = |error| TlsFault::of_rustls(&error);
        let client = tls_config::client(Some(self.key.clone()), verifiers.0.clone(), TlsVersion::V1_3, PEER_PROTOCOL);
        let server = tls_config::server(self.key.clone(), verifiers.1.clone(), TlsVersion::V1_3, PEER_PROTOCOL);
        let tried = trial::handshake(client.map_err(failed)?, server.map_err(failed)?, host);
        // A verifier says more than the alert that it caused.
        for verifier in [verifiers.0, verifiers.1] {
            if let Some(Err(fault)) = verifier.take_seen() {
                return Err(fault);
            }
        }
        tried
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate.holder()).finish_non_exhaustive()
    }
}

fn parse_all(path: &Path, chain: &[CertificateDer<'static>]) -> Result<Vec<Certificate>, PairError> {
    let parsed = chain.iter().map(Certificate::parse).collect::<Result<Vec<_>, _>>();
    parsed.map_err(|error| PairError::NotACertificate { path: path.to_owned(), error })
}

pub(crate) fn authorities(path: &Path, certificates: &[CertificateDer<'static>]) -> Result<Option<Authorities>, PairError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| PairError::NotACertificate {
            path: path.to_owned(),
            error: ParseCertificateError(error.to_string()),
        })?;
    }
    Ok(Authorities::new(Arc::new(roots)))
}
