//! TLS: which servers the client trusts, and the certificate that it shows. Without the feature `tls`, every connection is
//! plain.

use crate::error::Error;
use std::path::PathBuf;

/// The files that the program names.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    /// The authorities that issue the servers' certificates.
    pub(crate) ca: Option<PathBuf>,
    /// The client's own certificate, and its key.
    pub(crate) pair: Option<(PathBuf, PathBuf)>,
}

/// What a failure of TLS means, by a part of the text of its cause, and what to do. No text has a colon: commands show what
/// follows the last one.
const CAUSES: [(&str, &str); 16] = [
    ("UnknownIssuer", UNKNOWN_AUTHORITY),
    // An authority that was made a second time has the name of the first and another key.
    ("certificate: BadSignature", UNKNOWN_AUTHORITY),
    ("not valid for name", OTHER_HOST),
    ("NotValidForName", OTHER_HOST),
    ("certificate expired", "the certificate of the server has expired; renew it, and compare the clocks of both machines"),
    ("certificate not valid yet", "the certificate of the server is not valid yet; compare the clocks of both machines"),
    ("does not allow extended key usage", "the certificate of the server is for another purpose; issue one for a server"),
    ("CaUsedAsEndEntity", "the certificate of the server is that of an authority; issue one for the server"),
    (
        "EndEntityUsedAsCa",
        "the certificate of the server is signed by one that is not an authority's; issue a new one from the authority",
    ),
    ("InvalidContentType", "the server does not speak TLS at this port; use an http:// URL"),
    ("CertificateRequired", "the server requires a client certificate; pass one with its key (--cert, --key)"),
    ("alert: UnknownCA", "the server does not know the authority of the client's certificate; pass another one (--cert, --key)"),
    ("alert: CertificateExpired", "the server says that the client's certificate has expired; renew it"),
    ("alert: CertificateUnknown", REFUSED),
    ("alert: BadCertificate", REFUSED),
    ("alert: UnsupportedCertificate", REFUSED),
];

const REFUSED: &str = "the server has refused the client's certificate; pass another one (--cert, --key)";
const UNKNOWN_AUTHORITY: &str = "the certificate of the server is from an unknown authority; pass the file of that authority \
                                 (--cacert ca.crt, or `ca_certificate` of the client)";
const OTHER_HOST: &str = "the certificate of the server does not name this host; use a URL with a name that it has";

/// What to do about an error of a connection whose cause has this text; `None` if it does not come from TLS.
#[must_use]
pub fn advice(cause: &str) -> Option<&'static str> {
    CAUSES.iter().find(|(part, _)| cause.contains(part)).map(|(_, advice)| *advice)
}

#[cfg(feature = "tls")]
pub(crate) use with_tls::TlsSettings;
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::TlsSettings;

#[cfg(feature = "tls")]
mod with_tls {
    use super::{Error, TlsFiles};
    use reqwest::{Certificate, ClientBuilder, Identity};
    use std::{fmt, fs, path::Path};

    /// What the connections use.
    #[derive(Clone)]
    pub(crate) struct TlsSettings {
        /// Only these authorities; `None` means those of the operating system.
        authorities: Option<Vec<Certificate>>,
        identity: Option<Identity>,
    }

    impl TlsSettings {
        /// Reads the files. `is_needed` says whether the program names a server with TLS: only then it is worth the time to read
        /// the authorities of the operating system.
        pub(crate) fn load(files: &TlsFiles, is_needed: bool) -> Result<TlsSettings, Error> {
            let authorities = match &files.ca {
                Some(path) => Some(authorities(path)?),
                None if is_needed => None,
                None => Some(Vec::new()),
            };
            let identity = files.pair.as_ref().map(|(cert, key)| identity(cert, key)).transpose()?;
            Ok(TlsSettings { authorities, identity })
        }

        /// Adds them to the settings of a pool of connections.
        pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
            let builder = match &self.authorities {
                Some(authorities) => builder.tls_certs_only(authorities.iter().cloned()),
                None => builder,
            };
            match &self.identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            }
        }
    }

    impl fmt::Debug for TlsSettings {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("TlsSettings").field("has_certificate", &self.identity.is_some()).finish_non_exhaustive()
        }
    }

    fn authorities(path: &Path) -> Result<Vec<Certificate>, Error> {
        let unusable = || Error::Invalid(format!("{} has no certificate: pass the PEM file of the authority", path.display()));
        let authorities = Certificate::from_pem_bundle(&read(path)?).map_err(|_| unusable())?;
        if authorities.is_empty() { Err(unusable()) } else { Ok(authorities) }
    }

    fn identity(cert: &Path, key: &Path) -> Result<Identity, Error> {
        let mut pem = read(cert)?;
        pem.push(b'\n');
        pem.extend(read(key)?);
        Identity::from_pem(&pem).map_err(|error| {
            let (cert, key) = (cert.display(), key.display());
            Error::Invalid(format!("{cert} and {key} are not a certificate and its key: {}", innermost(&error)))
        })
    }

    fn innermost(error: &reqwest::Error) -> String {
        let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
        causes.last().map_or_else(|| error.to_string(), ToString::to_string)
    }

    fn read(path: &Path) -> Result<Vec<u8>, Error> {
        fs::read(path).map_err(|error| Error::Invalid(format!("{} cannot be read: {error}", path.display())))
    }
}

#[cfg(not(feature = "tls"))]
mod without_tls {
    use super::{Error, TlsFiles};

    /// Nothing: every connection is plain.
    #[derive(Debug, Clone)]
    pub(crate) struct TlsSettings;

    impl TlsSettings {
        pub(crate) fn load(files: &TlsFiles, is_needed: bool) -> Result<TlsSettings, Error> {
            if is_needed || files.ca.is_some() || files.pair.is_some() {
                return Err(Error::Invalid("this program was built without the feature tls of fairhold-client".to_owned()));
            }
            Ok(TlsSettings)
        }

        pub(crate) fn apply(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
            builder
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_tls_says_what_to_do() {
        let unknown = advice("invalid peer certificate: UnknownIssuer").unwrap();
        assert!(unknown.contains("--cacert"), "{unknown}");
        let other = advice("invalid peer certificate: certificate not valid for name \"n2\"; certificate is only valid for n1");
        assert!(other.unwrap().contains("does not name this host"));
        assert!(advice("received fatal alert: UnknownCA").unwrap().contains("--cert"));
        assert_eq!(advice("connection refused"), None);
    }
}
