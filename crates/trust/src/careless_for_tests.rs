//! Sides of TLS that accept every certificate and show any, for tests.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use crate::{
    authority_for_tests::TestPair,
    stream::TlsStream,
    tls_config::{self, PEER_PROTOCOL, TlsVersion, provider},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _};
use std::{io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A side that accepts every certificate and shows the one of the test.
#[derive(Debug)]
pub(crate) struct Careless;

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Careless {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) fn certified(pair: &TestPair) -> Arc<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(pair.cert.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    Arc::new(CertifiedKey::new(chain, provider().key_provider.load_private_key(key).unwrap()))
}

pub(crate) fn careless_server(pair: &TestPair, protocol: &[u8]) -> Arc<ServerConfig> {
    tls_config::server(certified(pair), Arc::new(Careless), TlsVersion::V1_2, protocol).unwrap()
}

pub(crate) fn careless_client(pair: Option<&TestPair>, protocol: &[u8]) -> Arc<ClientConfig> {
    tls_config::client(pair.map(certified), Arc::new(Careless), TlsVersion::V1_2, protocol).unwrap()
}

/// Dials a node's port with this certificate, or with none, and accepts that of the node.
pub async fn connect_carelessly<S: AsyncRead + AsyncWrite + Unpin>(
    pair: Option<&TestPair>,
    socket: S,
) -> io::Result<TlsStream<S>> {
    let connector = TlsConnector::from(careless_client(pair, PEER_PROTOCOL));
    connector.connect("n1".try_into().unwrap(), socket).await.map(TlsStream::from_dialled)
}

/// Accepts a node's connection with this certificate, and accepts that of the node.
pub async fn accept_carelessly<S: AsyncRead + AsyncWrite + Unpin>(pair: &TestPair, socket: S) -> io::Result<TlsStream<S>> {
    TlsAcceptor::from(careless_server(pair, PEER_PROTOCOL)).accept(socket).await.map(TlsStream::from_accepted)
}
