//! TLS of the port for clients: the server shows its certificate, and a client may show one that names its user.

use crate::{
    accept::accept,
    certificate::Certificate,
    fault::TlsFault,
    files::{self, CertificateFiles},
    live_pair::LivePair,
    name::{CertificateRole, ClusterName, UserName},
    pair::{Pair, PairError, PairUse, authorities},
    peer::server_name,
    stream::TlsStream,
    tls_config::{self, HTTP_PROTOCOL},
    verifier::{Authorities, NameRule, Verifier},
};
use fairhold_types::time::WallMillis;
use rustls::{
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

pub use crate::tls_config::{ParseTlsVersionError, TlsVersion};

/// Bytes that a connection of a client may have encrypted and not yet sent.
pub const UNSENT_BYTES_MAX: usize = 32 * 1024;

/// Where a client's certificate has the name of its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRule {
    /// In a URI: `fairhold://CLUSTER/user/NAME`, of this cluster.
    Uri(ClusterName),
    /// In the common name of its subject.
    CommonName,
    /// Nowhere: a certificate is verified and names no user.
    Nowhere,
}

impl UserRule {
    /// The user that a certificate names. A certificate with two users names none.
    fn user(&self, certificate: &Certificate) -> Option<UserName> {
        let mut users: Vec<UserName> = match self {
            UserRule::Uri(cluster) => {
                let names = certificate.fairhold_names().filter(|name| name.cluster == *cluster);
                let user = |role| match role {
                    CertificateRole::User(user) => Some(user),
                    CertificateRole::Node(_) | CertificateRole::AnyNode | CertificateRole::Authority => None,
                };
                names.filter_map(|name| user(name.role)).collect()
            }
            UserRule::Nowhere => return None,
            UserRule::CommonName => certificate.common_name.iter().filter_map(|name| name.parse().ok()).collect(),
        };
        let user = users.pop()?;
        users.is_empty().then_some(user)
    }
}

/// TLS of the port for clients.
#[derive(Debug, Clone)]
pub struct ClientPortTls {
    pair: Arc<LivePair>,
    users: UserRule,
    oldest: TlsVersion,
}

/// A user that a verified certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedUser {
    /// Its name.
    pub name: UserName,
    /// When the certificate expires. From then on it proves nothing, also if its connection goes on.
    pub not_after: WallMillis,
}

/// What TLS says about a connection of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConnection {
    /// The user that the client's certificate names. `None` if it has no certificate, or one that names no user.
    pub user: Option<CertifiedUser>,
    /// When the first certificate of this connection expires.
    pub not_after: WallMillis,
}

impl ClientPortTls {
    /// TLS with this pair. If the pair has authorities, a client may show a certificate of theirs.
    #[must_use]
    pub fn new(pair: Arc<LivePair>, users: UserRule, oldest: TlsVersion) -> ClientPortTls {
        ClientPortTls { pair, users, oldest }
    }

    /// The certificate of this node, and its files.
    #[must_use]
    pub fn pair(&self) -> &Arc<LivePair> {
        &self.pair
    }

    /// Whether certificates of clients can name a user.
    #[must_use]
    pub fn names_users(&self) -> bool {
        self.users != UserRule::Nowhere
    }

    /// Accepts a connection of a client. The caller limits the time.
    pub async fn accept<S>(&self, socket: S) -> Result<(TlsStream<S>, ClientConnection), TlsFault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let pair = self.pair.current();
        let verifier = pair.authorities.clone().map(|known| Verifier::optional(known, NameRule::Anything));
        let clients: Arc<dyn ClientCertVerifier> = match &verifier {
            Some(verifier) => verifier.clone(),
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let config = tls_config::server(pair.key.clone(), clients, self.oldest, HTTP_PROTOCOL);
        let accepted = accept(config.map_err(|error| TlsFault::of_rustls(&error))?, socket).await;
        let seen = verifier.and_then(|verifier| verifier.take_seen()).transpose()?;
        let mut stream = accepted.map_err(|error| TlsFault::of_handshake(&error))?;
        stream.get_mut().1.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        let not_after = seen.iter().map(|certificate| certificate.not_after).fold(pair.not_after(), WallMillis::min);
        let certified = |certificate: &Certificate| {
            self.users.user(certificate).map(|name| CertifiedUser { name, not_after: certificate.not_after })
        };
        let user = seen.as_ref().and_then(certified);
        Ok((TlsStream::from_accepted(stream), ClientConnection { user, not_after }))
    }
}

/// TLS of a program that calls the port for clients.
#[derive(Clone)]
pub struct ClientTls {
    authorities: Authorities,
    key: Option<Arc<CertifiedKey>>,
}

impl ClientTls {
    /// Reads the authorities that issue the certificates of the servers, and the client's own pair if it has one.
    pub fn load(ca: &Path, pair: Option<(PathBuf, PathBuf)>) -> Result<ClientTls, PairError> {
        let ca = ca.to_owned();
        let known = authorities(&ca, &files::read_certificates(&ca)?)?.ok_or(PairError::NoAuthority)?;
        let load = |(cert, key)| Pair::load(&CertificateFiles { cert, key, ca: None }, &PairUse::Client);
        let pair = pair.map(load).transpose()?;
        Ok(ClientTls { authorities: known, key: pair.map(|pair| pair.key) })
    }

    /// Dials a server, whose certificate must name `host`. The caller limits the time.
    pub async fn connect<S>(&self, socket: S, host: &str) -> Result<TlsStream<S>, TlsFault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let verifier = Verifier::mandatory(self.authorities.clone(), NameRule::Anything);
        let config = tls_config::client(self.key.clone(), verifier.clone(), TlsVersion::V1_2, HTTP_PROTOCOL);
        let connector = TlsConnector::from(config.map_err(|error| TlsFault::of_rustls(&error))?);
        let connected = connector.connect(server_name(host)?, socket).await;
        verifier.take_seen().transpose()?;
        connected.map(TlsStream::from_dialled).map_err(|error| TlsFault::of_handshake(&error))
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").field("has_certificate", &self.key.is_some()).finish_non_exhaustive()
    }
}
