//! The settings of rustls: its one provider of cryptography, and what every connection has in common.

use rustls::{
    ClientConfig, ServerConfig, SupportedProtocolVersion,
    client::{Resumption, danger::ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    server::{NoServerSessionStorage, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{
    str::FromStr,
    sync::{Arc, LazyLock},
};

/// The protocol between nodes, as ALPN names it.
pub(crate) const PEER_PROTOCOL: &[u8] = b"fairhold-peer";

/// The protocol of the port for clients, as ALPN names it.
pub(crate) const HTTP_PROTOCOL: &[u8] = b"http/1.1";

/// The oldest version of TLS that a port accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 and newer, for old clients.
    V1_2,
    /// TLS 1.3.
    #[default]
    V1_3,
}

/// Not a version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1.2 or 1.3")]
pub struct ParseTlsVersionError;

impl FromStr for TlsVersion {
    type Err = ParseTlsVersionError;

    fn from_str(text: &str) -> Result<TlsVersion, ParseTlsVersionError> {
        [TlsVersion::V1_2, TlsVersion::V1_3].into_iter().find(|version| version.as_str() == text).ok_or(ParseTlsVersionError)
    }
}

impl TlsVersion {
    /// The version as people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TlsVersion::V1_2 => "1.2",
            TlsVersion::V1_3 => "1.3",
        }
    }

    fn accepted(self) -> &'static [&'static SupportedProtocolVersion] {
        static NEW: [&SupportedProtocolVersion; 1] = [&TLS13];
        static NEW_AND_OLD: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            TlsVersion::V1_2 => &NEW_AND_OLD,
            TlsVersion::V1_3 => &NEW,
        }
    }
}

/// The cryptography of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// The settings of an accepting side.
///
/// No tickets and no session storage: a resumed session would not verify the certificates again.
pub(crate) fn server(
    key: Arc<CertifiedKey>,
    verifier: Arc<dyn ClientCertVerifier>,
    oldest: TlsVersion,
    protocol: &[u8],
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(oldest.accepted())?;
    let resolver = Arc::new(SingleCertAndKey::from(key));
    let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// The settings of a dialling side.
pub(crate) fn client(
    key: Option<Arc<CertifiedKey>>,
    verifier: Arc<dyn ServerCertVerifier>,
    oldest: TlsVersion,
    protocol: &[u8],
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(oldest.accepted())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match key {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}
