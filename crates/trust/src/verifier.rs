//! Which certificates count: the rules of a port, checked during the handshake, so that the other side gets an alert and
//! nothing else. Each connection has a verifier of its own, which remembers what it has seen.

use crate::{
    certificate::{Certificate, KeyKind, RSA_BITS_MIN},
    fault::{CHAIN_MAX, FaultReason, TlsFault},
    name::{CertificateName, ClusterName},
    tls_config::provider,
};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{verify_tls12_signature, verify_tls13_signature},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// The authorities that issue the certificates of the other side.
#[derive(Debug, Clone)]
pub(crate) struct Authorities {
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    /// Fails if there is none.
    pub(crate) fn new(roots: Arc<RootCertStore>) -> Option<Authorities> {
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider()).build().ok()?;
        // Names of authorities as a hint would tell strangers at the port which authorities there are.
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider()).clear_root_hint_subjects().build().ok()?;
        Some(Authorities { servers, clients })
    }
}

/// What a certificate must name, beyond the host that was dialled.
#[derive(Debug, Clone)]
pub(crate) enum NameRule {
    /// A node of this cluster; this one, if its id is known.
    Node { cluster: ClusterName, id: Option<NodeId> },
    /// Nothing.
    Anything,
}

impl NameRule {
    fn check(&self, certificate: &Certificate) -> Result<(), TlsFault> {
        match self {
            NameRule::Node { cluster, id } => check_node(certificate, cluster, *id),
            NameRule::Anything => Ok(()),
        }
    }
}

/// Checks that a certificate names a node of the cluster; this one, if its id is known.
pub(crate) fn check_node(certificate: &Certificate, cluster: &ClusterName, id: Option<NodeId>) -> Result<(), TlsFault> {
    let is_named = certificate.nodes_of(cluster).any(|nodes| id.is_none_or(|id| nodes.include(id)));
    if is_named {
        return Ok(());
    }
    let wanted = id.map_or_else(|| format!("fairhold://{cluster}/node/ID"), |id| format!("fairhold://{cluster}/node/{id}"));
    let names: Vec<CertificateName> = certificate.fairhold_names().collect();
    let named = if names.is_empty() {
        "does not name a node".to_owned()
    } else {
        format!("names {}", names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "))
    };
    let reason = if certificate.nodes_of(cluster).next().is_some() {
        FaultReason::OtherNode
    } else if names.iter().any(|name| name.cluster != *cluster) {
        FaultReason::OtherCluster
    } else {
        FaultReason::NoIdentity
    };
    let holder = certificate.holder();
    Err(TlsFault::new(reason, format!("the certificate of {holder} {named}: as a URI, it needs {wanted} or …/node/*")))
}

/// Verifies the certificate of the other side of one connection.
#[derive(Debug)]
pub(crate) struct Verifier {
    authorities: Authorities,
    rule: NameRule,
    is_mandatory: bool,
    seen: Mutex<Option<Result<Certificate, TlsFault>>>,
}

impl Verifier {
    /// A verifier for a connection on which the other side must have a certificate.
    pub(crate) fn mandatory(authorities: Authorities, rule: NameRule) -> Arc<Verifier> {
        Arc::new(Verifier { authorities, rule, is_mandatory: true, seen: Mutex::default() })
    }

    /// A verifier for a connection on which the other side may have one.
    pub(crate) fn optional(authorities: Authorities, rule: NameRule) -> Arc<Verifier> {
        Arc::new(Verifier { authorities, rule, is_mandatory: false, seen: Mutex::default() })
    }

    /// The certificate that was verified, or why it was refused; `None` if none was shown.
    pub(crate) fn take_seen(&self) -> Option<Result<Certificate, TlsFault>> {
        self.seen.lock().take()
    }

    /// Checks our own rules before those of `webpki`, whose error replaces the certificate.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        verify_chain: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (seen, outcome) = match Certificate::parse(end_entity) {
            Ok(certificate) => self.check(certificate, intermediates.len() + 1, verify_chain),
            Err(error) => {
                let fault = TlsFault::new(FaultReason::Damaged, format!("the certificate of the other side is damaged: {error}"));
                let outcome = fault.to_rustls();
                (Err(fault), Err(outcome))
            }
        };
        *self.seen.lock() = Some(seen);
        outcome
    }

    fn check(
        &self,
        certificate: Certificate,
        chain_length: usize,
        verify_chain: impl FnOnce() -> Result<(), Error>,
    ) -> (Result<Certificate, TlsFault>, Result<(), Error>) {
        let holder = certificate.holder();
        let refused = |fault: TlsFault| {
            let outcome = fault.to_rustls();
            (Err(fault), Err(outcome))
        };
        if chain_length > CHAIN_MAX {
            return refused(TlsFault::chain_too_long(&holder, chain_length));
        }
        if !is_strong(certificate.key) {
            return refused(TlsFault::weak_key(&holder, certificate.key));
        }
        if let Err(error) = verify_chain().map_err(as_unknown_authority) {
            let fault = if let Error::InvalidCertificate(error) = &error {
                TlsFault::of_certificate(error, &certificate)
            } else {
                TlsFault::new(FaultReason::Damaged, format!("the certificate of {holder} is not valid: {error}"))
            };
            return (Err(fault), Err(error));
        }
        match self.rule.check(&certificate) {
            Ok(()) => (Ok(certificate), Ok(())),
            Err(fault) => refused(fault),
        }
    }
}

/// An authority that was made a second time has the name of the first and another key. To webpki this is a bad signature.
fn as_unknown_authority(error: Error) -> Error {
    if error == Error::InvalidCertificate(CertificateError::BadSignature) {
        return Error::InvalidCertificate(CertificateError::UnknownIssuer);
    }
    error
}

/// Whether a key is long enough to count.
fn is_strong(key: KeyKind) -> bool {
    match key {
        KeyKind::Ecdsa(bits) => bits >= 256,
        KeyKind::Ed25519 => true,
        KeyKind::Rsa(bits) => bits >= RSA_BITS_MIN,
        KeyKind::Other => false,
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = || {
            let servers = &self.authorities.servers;
            servers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).map(|_| ())
        };
        self.verify(end_entity, intermediates, chain).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain = || self.authorities.clients.verify_client_cert(end_entity, intermediates, now).map(|_| ());
        self.verify(end_entity, intermediates, chain).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
