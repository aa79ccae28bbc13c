//! TLS of the port for clients: which files, and which options go together.

use super::error::ConfigError;
use fairhold_trust::{client_port::TlsVersion, files::CertificateFiles, name::ClusterName};
use std::path::PathBuf;

/// TLS of the port for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientTlsConfig {
    /// The certificate of this node, its key, and the authorities of the clients' certificates.
    pub(crate) files: CertificateFiles,
    /// The oldest version of TLS that clients may use.
    pub(crate) oldest: TlsVersion,
    /// The cluster whose users count; none: the one that the certificate of this node names.
    pub(crate) cluster: Option<ClusterName>,
    /// The second address for clients, without TLS.
    pub(crate) listen_plain: Option<String>,
}

/// What the flags, the environment or the file say.
#[derive(Debug, Default)]
pub(super) struct ClientTlsInput {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) tls_min: Option<TlsVersion>,
    pub(super) cluster: Option<ClusterName>,
    pub(super) listen_plain: Option<String>,
}

impl ClientTlsInput {
    /// Checks that the options go together. `None` without a certificate.
    pub(super) fn resolve(self) -> Result<Option<ClientTlsConfig>, ConfigError> {
        let needs_cert = [
            ("client-ca", self.client_ca.is_some()),
            ("tls-min", self.tls_min.is_some()),
            ("listen-plain", self.listen_plain.is_some()),
        ];
        match (self.cert, self.key) {
            (Some(cert), Some(key)) => {
                let files = CertificateFiles { cert, key, ca: self.client_ca };
                let oldest = self.tls_min.unwrap_or_default();
                Ok(Some(ClientTlsConfig { files, oldest, cluster: self.cluster, listen_plain: self.listen_plain }))
            }
            (Some(_), None) => Err(ConfigError::CertOrKey { given: "cert", missing: "key" }),
            (None, Some(_)) => Err(ConfigError::CertOrKey { given: "key", missing: "cert" }),
            (None, None) => match needs_cert.into_iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => Err(ConfigError::NeedsCert { name }),
                None => Ok(None),
            },
        }
    }
}
