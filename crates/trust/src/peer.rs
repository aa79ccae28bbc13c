//! TLS between nodes: 1.3 alone, and both sides show a certificate of the same authority that names a node of the cluster.

use crate::{
    accept::accept,
    certificate::Certificate,
    fault::{FaultReason, TlsFault},
    live_pair::LivePair,
    name::ClusterName,
    pair::Pair,
    stream::TlsStream,
    tls_config::{self, PEER_PROTOCOL, TlsVersion},
    verifier::{NameRule, Verifier, check_node},
};
use fairhold_types::{NodeId, time::WallMillis};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// The first byte of a TLS connection: a handshake record. Fairhold's own preamble begins with `F`.
pub const TLS_FIRST_BYTE: u8 = 22;

/// The first byte of a TLS alert, with which a port that requires TLS answers plain text.
pub const TLS_ALERT_BYTE: u8 = 21;

/// TLS of the port between nodes.
#[derive(Debug, Clone)]
pub struct PeerTls {
    pair: Arc<LivePair>,
    cluster: ClusterName,
}

/// What the certificate of the other node says.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    certificate: Certificate,
    cluster: ClusterName,
    own_not_after: WallMillis,
}

impl PeerCertificate {
    /// Checks that it names this node. The accepting side learns the id only after the handshake.
    pub fn check_node(&self, id: NodeId) -> Result<(), TlsFault> {
        check_node(&self.certificate, &self.cluster, Some(id))
    }

    /// When the first of the two certificates of this connection expires.
    #[must_use]
    pub fn not_after(&self) -> WallMillis {
        self.certificate.not_after.min(self.own_not_after)
    }

    /// Whose certificate it is.
    #[must_use]
    pub fn holder(&self) -> String {
        self.certificate.holder()
    }
}

impl PeerTls {
    /// TLS with this pair, in this cluster.
    #[must_use]
    pub fn new(pair: Arc<LivePair>, cluster: ClusterName) -> PeerTls {
        PeerTls { pair, cluster }
    }

    /// The certificate of this node, and its files.
    #[must_use]
    pub fn pair(&self) -> &Arc<LivePair> {
        &self.pair
    }

    /// Accepts a connection of another node. The caller limits the time.
    pub async fn accept<S>(&self, socket: S) -> Result<(TlsStream<S>, PeerCertificate), TlsFault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let pair = self.pair.current();
        let verifier = self.verifier(&pair, None)?;
        let config = tls_config::server(pair.key.clone(), verifier.clone(), TlsVersion::V1_3, PEER_PROTOCOL);
        let accepted = accept(config.map_err(|error| TlsFault::of_rustls(&error))?, socket).await;
        let certificate = self.certificate(&verifier, &pair, accepted.as_ref().err())?;
        let stream = accepted.map_err(|error| TlsFault::of_handshake(&error))?;
        expect_peer_protocol(stream.get_ref().1.alpn_protocol())?;
        Ok((TlsStream::from_accepted(stream), certificate))
    }

    /// Dials a node. Its certificate must name `host`, and the node if its id is known. The caller limits the time.
    ///
    /// The other side refuses this node's certificate only after this: the first read fails then, and
    /// `TlsFault::of_connection` says why.
    pub async fn connect<S>(
        &self,
        socket: S,
        host: &str,
        node: Option<NodeId>,
    ) -> Result<(TlsStream<S>, PeerCertificate), TlsFault>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let pair = self.pair.current();
        let verifier = self.verifier(&pair, node)?;
        let config = tls_config::client(Some(pair.key.clone()), verifier.clone(), TlsVersion::V1_3, PEER_PROTOCOL);
        let connector = TlsConnector::from(config.map_err(|error| TlsFault::of_rustls(&error))?);
        let connected = connector.connect(server_name(host)?, socket).await;
        let certificate = self.certificate(&verifier, &pair, connected.as_ref().err())?;
        let stream = connected.map_err(|error| TlsFault::of_handshake(&error))?;
        expect_peer_protocol(stream.get_ref().1.alpn_protocol())?;
        Ok((TlsStream::from_dialled(stream), certificate))
    }

    fn verifier(&self, pair: &Pair, id: Option<NodeId>) -> Result<Arc<Verifier>, TlsFault> {
        let no_authority = || TlsFault::new(FaultReason::UnknownAuthority, "this node knows no certificate authority");
        let authorities = pair.authorities.clone().ok_or_else(no_authority)?;
        Ok(Verifier::mandatory(authorities, NameRule::Node { cluster: self.cluster.clone(), id }))
    }

    /// The certificate that the verifier has accepted. Its fault says more than the error of the handshake.
    fn certificate(&self, verifier: &Verifier, pair: &Pair, error: Option<&std::io::Error>) -> Result<PeerCertificate, TlsFault> {
        match (verifier.take_seen(), error) {
            (Some(Err(fault)), _) => Err(fault),
            (_, Some(error)) => Err(TlsFault::of_handshake(error)),
            (Some(Ok(certificate)), None) => {
                Ok(PeerCertificate { certificate, cluster: self.cluster.clone(), own_not_after: pair.not_after() })
            }
            (None, None) => Err(TlsFault::new(FaultReason::NoCertificate, "the other side has shown no certificate")),
        }
    }
}

/// The name of a host as TLS wants it. Brackets of an IPv6 address are allowed.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsFault> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let not_a_host = |_| TlsFault::new(FaultReason::OtherHost, format!("{host} is not the name or address of a host"));
    ServerName::try_from(bare.to_owned()).map_err(not_a_host)
}

/// Without the protocol's name, a relay could lead a node to another port that has a certificate of the same authority.
fn expect_peer_protocol(protocol: Option<&[u8]>) -> Result<(), TlsFault> {
    if protocol == Some(PEER_PROTOCOL) {
        return Ok(());
    }
    Err(TlsFault::new(FaultReason::Incompatible, "the other side does not speak the protocol between nodes"))
}
