//! Why a handshake failed: the reason, for counters, and a sentence that names the certificate.

use crate::certificate::{Certificate, RSA_BITS_MIN};
use fairhold_types::{NodeId, time::WallMillis};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};
use std::{io, sync::Arc};

/// The most certificates of a chain, without the authority that this node knows.
pub const CHAIN_MAX: usize = 5;

/// The reason of a failed handshake, as counters name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultReason {
    /// The certificate has expired.
    Expired,
    /// The certificate does not count yet.
    NotYetValid,
    /// No known authority has issued it.
    UnknownAuthority,
    /// It does not name the host that was dialled.
    OtherHost,
    /// It is not for this purpose: a server's is not a client's.
    WrongPurpose,
    /// It names no node or user of Fairhold.
    NoIdentity,
    /// It names a node of another cluster.
    OtherCluster,
    /// It names another node.
    OtherNode,
    /// Its key is too short, or of a kind that does not count.
    WeakKey,
    /// The chain has too many certificates.
    ChainTooLong,
    /// The certificate, or its signature, is damaged or not genuine.
    Damaged,
    /// The other side has shown no certificate.
    NoCertificate,
    /// The other side has refused this side's certificate.
    RefusedByPeer,
    /// What came is not TLS.
    NotTls,
    /// The two sides have no version or algorithm of TLS in common.
    Incompatible,
    /// The connection ended before the handshake was done.
    ConnectionLost,
    /// The connection has no TLS, and another one of the same process had.
    Downgrade,
}

impl FaultReason {
    /// All reasons.
    pub const ALL: [FaultReason; 17] = [
        FaultReason::Expired,
        FaultReason::NotYetValid,
        FaultReason::UnknownAuthority,
        FaultReason::OtherHost,
        FaultReason::WrongPurpose,
        FaultReason::NoIdentity,
        FaultReason::OtherCluster,
        FaultReason::OtherNode,
        FaultReason::WeakKey,
        FaultReason::ChainTooLong,
        FaultReason::Damaged,
        FaultReason::NoCertificate,
        FaultReason::RefusedByPeer,
        FaultReason::NotTls,
        FaultReason::Incompatible,
        FaultReason::ConnectionLost,
        FaultReason::Downgrade,
    ];

    /// The value of a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FaultReason::Expired => "expired",
            FaultReason::NotYetValid => "not_yet_valid",
            FaultReason::UnknownAuthority => "unknown_authority",
            FaultReason::OtherHost => "other_host",
            FaultReason::WrongPurpose => "wrong_purpose",
            FaultReason::NoIdentity => "no_identity",
            FaultReason::OtherCluster => "other_cluster",
            FaultReason::OtherNode => "other_node",
            FaultReason::WeakKey => "weak_key",
            FaultReason::ChainTooLong => "chain_too_long",
            FaultReason::Damaged => "damaged",
            FaultReason::NoCertificate => "no_certificate",
            FaultReason::RefusedByPeer => "refused_by_peer",
            FaultReason::NotTls => "not_tls",
            FaultReason::Incompatible => "incompatible",
            FaultReason::ConnectionLost => "connection_lost",
            FaultReason::Downgrade => "downgrade",
        }
    }
}

/// A failed handshake: what is wrong, and with whose certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsFault {
    /// The reason.
    pub reason: FaultReason,
    /// A sentence for the log.
    message: String,
}

impl TlsFault {
    pub(crate) fn new(reason: FaultReason, message: impl Into<String>) -> TlsFault {
        TlsFault { reason, message: message.into() }
    }

    /// The fault of a certificate that this side refused.
    #[expect(clippy::wildcard_enum_match_arm, reason = "rustls adds variants in minor versions")]
    pub(crate) fn of_certificate(error: &CertificateError, certificate: &Certificate) -> TlsFault {
        let whose = format!("the certificate of {}", certificate.holder());
        let time = |time: rustls_pki_types::UnixTime| WallMillis(time.as_secs().saturating_mul(1_000)).to_rfc3339();
        let (reason, message) = match error {
            CertificateError::ExpiredContext { not_after, .. } => {
                (FaultReason::Expired, format!("{whose} expired at {}: renew it", time(*not_after)))
            }
            CertificateError::Expired => (FaultReason::Expired, format!("{whose} has expired: renew it")),
            CertificateError::NotValidYetContext { not_before, .. } => (
                FaultReason::NotYetValid,
                format!("{whose} is not valid before {}: compare the clocks of both machines", time(*not_before)),
            ),
            CertificateError::NotValidYet => (FaultReason::NotYetValid, format!("{whose} is not valid yet")),
            CertificateError::UnknownIssuer => (
                FaultReason::UnknownAuthority,
                format!("{whose} is not from a certificate authority that this side knows: both sides need the same ca.crt"),
            ),
            CertificateError::NotValidForNameContext { expected, .. } => {
                let hosts = certificate.hosts();
                let hosts = if hosts.is_empty() { "no host at all".to_owned() } else { hosts.join(", ") };
                (FaultReason::OtherHost, format!("{whose} is for {hosts}, and not for {}", expected.to_str()))
            }
            CertificateError::NotValidForName => {
                (FaultReason::OtherHost, format!("{whose} does not name the host that was dialled"))
            }
            CertificateError::InvalidPurposeContext { required, .. } => {
                (FaultReason::WrongPurpose, format!("{whose} has an extended key usage without {required}"))
            }
            CertificateError::InvalidPurpose => {
                (FaultReason::WrongPurpose, format!("{whose} has an extended key usage for another purpose"))
            }
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                (FaultReason::WeakKey, format!("{whose} is signed with an algorithm or a key that is not accepted"))
            }
            other => (FaultReason::Damaged, format!("{whose} is not valid: {other}")),
        };
        TlsFault::new(reason, message)
    }

    /// The fault of a connection in plain text from a process that had TLS before.
    #[must_use]
    pub fn downgrade(node: NodeId) -> TlsFault {
        let message = format!(
            "node {node} had a connection with TLS, and now there is one in plain text with the same process: either a \
             connection broke, or somebody on the path keeps the nodes from using TLS"
        );
        TlsFault::new(FaultReason::Downgrade, message)
    }

    pub(crate) fn weak_key(holder: &str, key: impl std::fmt::Display) -> TlsFault {
        let needed = format!("at least ECDSA with 256 bits, Ed25519 or RSA with {RSA_BITS_MIN} bits is needed");
        TlsFault::new(FaultReason::WeakKey, format!("the certificate of {holder} has a key of {key}: {needed}"))
    }

    pub(crate) fn chain_too_long(holder: &str, certificates: usize) -> TlsFault {
        let message = format!("the chain of {holder} has {certificates} certificates, more than {CHAIN_MAX}");
        TlsFault::new(FaultReason::ChainTooLong, message)
    }

    /// The error that makes rustls send the fitting alert for a fault of our own rules.
    pub(crate) fn to_rustls(&self) -> Error {
        let error = match self.reason {
            FaultReason::NoIdentity | FaultReason::OtherCluster | FaultReason::OtherNode => {
                CertificateError::ApplicationVerificationFailure
            }
            FaultReason::Damaged => CertificateError::BadEncoding,
            FaultReason::Expired
            | FaultReason::NotYetValid
            | FaultReason::UnknownAuthority
            | FaultReason::OtherHost
            | FaultReason::WrongPurpose
            | FaultReason::WeakKey
            | FaultReason::ChainTooLong
            | FaultReason::NoCertificate
            | FaultReason::RefusedByPeer
            | FaultReason::NotTls
            | FaultReason::Incompatible
            | FaultReason::ConnectionLost
            | FaultReason::Downgrade => CertificateError::Other(rustls::OtherError(Arc::new(self.clone()))),
        };
        Error::InvalidCertificate(error)
    }

    /// The fault of a handshake that failed without a fault of the certificate that this side has verified.
    pub(crate) fn of_handshake(error: &io::Error) -> TlsFault {
        match tls_error(error) {
            Some(error) => TlsFault::of_rustls(error),
            None => TlsFault::new(FaultReason::ConnectionLost, format!("the connection ended during the TLS handshake: {error}")),
        }
    }

    /// What an error of an established connection says about TLS; `None` if it is not from TLS.
    ///
    /// With TLS 1.3 a dialler learns only here that the other side has refused its certificate.
    #[must_use]
    pub fn of_connection(error: &io::Error) -> Option<TlsFault> {
        tls_error(error).map(TlsFault::of_rustls)
    }

    /// The fault that an error of rustls tells.
    #[expect(clippy::wildcard_enum_match_arm, reason = "rustls adds variants in minor versions")]
    pub(crate) fn of_rustls(error: &Error) -> TlsFault {
        let (reason, message) = match error {
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::NoCertificatesPresented
            | Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
                (FaultReason::NoCertificate, "the other side has shown no certificate".to_owned())
            }
            Error::InvalidCertificate(error) => {
                (FaultReason::Damaged, format!("the certificate of the other side, or its signature, is not valid: {error}"))
            }
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion | InvalidMessage::MessageTooLarge,
            ) => (FaultReason::NotTls, "what came is not TLS: does the other side use TLS?".to_owned()),
            Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme) | Error::PeerIncompatible(_) => {
                (FaultReason::Incompatible, format!("the two sides have no TLS version or algorithm in common: {error}"))
            }
            Error::NoApplicationProtocol => {
                (FaultReason::Incompatible, "the other side expects another protocol at this port".to_owned())
            }
            other => (FaultReason::Damaged, format!("the TLS handshake failed: {other}")),
        };
        TlsFault::new(reason, message)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls adds variants in minor versions")]
fn of_alert(alert: AlertDescription) -> (FaultReason, String) {
    let why = match alert {
        AlertDescription::CertificateExpired => "it has expired or is not valid yet, by the clock of the other side",
        AlertDescription::UnknownCA => "the other side does not know its certificate authority",
        AlertDescription::BadCertificate => "it does not name this host, or is damaged",
        AlertDescription::UnsupportedCertificate => "it has an extended key usage for another purpose",
        AlertDescription::AccessDenied => "it does not name a node of that cluster with this id",
        AlertDescription::CertificateUnknown => "its key is too weak, or its chain too long",
        AlertDescription::CertificateRequired => "there is none",
        AlertDescription::DecryptError => "its signature is wrong",
        other => return (FaultReason::Incompatible, format!("the other side ended the TLS handshake: {other:?}")),
    };
    (FaultReason::RefusedByPeer, format!("the other side refused this side's certificate: {why}"))
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|source| source.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_its_own_label() {
        let labels: BTreeSet<&str> = FaultReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(labels.len(), FaultReason::ALL.len());
    }
}
