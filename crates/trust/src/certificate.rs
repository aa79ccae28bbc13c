//! What a certificate says: its names, purposes, times and key.

use crate::name::{CertificateName, CertificateRole, ClusterName};
use fairhold_types::{NodeId, time::WallMillis};
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use x509_parser::{
    certificate::X509Certificate,
    error::X509Error,
    extensions::{ExtendedKeyUsage, GeneralName},
    oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519},
    parse_x509_certificate,
    public_key::PublicKey,
    time::ASN1Time,
};

/// The smallest RSA key that counts, in bits.
pub const RSA_BITS_MIN: usize = 2048;

/// The bytes are not an X.509 certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not an X.509 certificate: {0}")]
pub struct ParseCertificateError(pub(crate) String);

/// What a certificate says. Nothing here is proved: the signature is checked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject, such as `CN=node 3`.
    pub subject: String,
    /// The issuer, such as `CN=Fairhold CA of prod`.
    pub issuer: String,
    /// The common name of the subject.
    pub common_name: Option<String>,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The alternative names of the subject.
    pub names: Vec<AlternativeName>,
    /// Whether it may issue other certificates.
    pub is_authority: bool,
    /// Whether it may be that of a server. A certificate without purposes serves all.
    pub for_servers: bool,
    /// Whether it may be that of a client.
    pub for_clients: bool,
    /// When it begins to count.
    pub not_before: WallMillis,
    /// When it expires.
    pub not_after: WallMillis,
    /// The kind of key.
    pub key: KeyKind,
    /// The SHA-256 of the certificate, in hexadecimal.
    pub sha256: String,
}

/// An alternative name of a certificate's subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlternativeName {
    /// A host name, possibly with a wildcard.
    Host(String),
    /// An address.
    Address(IpAddr),
    /// A URI.
    Uri(String),
    /// Another kind of name, which does not count here.
    Other(String),
}

/// The kind of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// An elliptic curve with that many bits.
    Ecdsa(usize),
    /// Ed25519.
    Ed25519,
    /// RSA with that many bits.
    Rsa(usize),
    /// Another kind, which TLS does not accept here.
    Other,
}

impl Certificate {
    /// Reads a certificate from DER.
    pub fn parse(der: &CertificateDer<'_>) -> Result<Certificate, ParseCertificateError> {
        let x509 = parse_der(der)?;
        let damaged = |error: X509Error| ParseCertificateError(error.to_string());
        let purposes = x509.extended_key_usage().map_err(damaged)?.map(|extension| extension.value);
        // Like webpki, this does not take "any purpose" for these two.
        let serves = |what: fn(&ExtendedKeyUsage<'_>) -> bool| purposes.is_none_or(what);
        let names = x509.subject_alternative_name().map_err(damaged)?;
        Ok(Certificate {
            subject: x509.subject().to_string(),
            issuer: x509.issuer().to_string(),
            common_name: x509.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).map(str::to_owned),
            serial: hex(x509.raw_serial()),
            names: names.map(|names| names.value.general_names.iter().map(alternative_name).collect()).unwrap_or_default(),
            is_authority: x509.is_ca(),
            for_servers: serves(|purposes| purposes.server_auth),
            for_clients: serves(|purposes| purposes.client_auth),
            not_before: wall_millis(x509.validity().not_before),
            not_after: wall_millis(x509.validity().not_after),
            key: key_kind(&x509),
            sha256: hex(&Sha256::digest(der)),
        })
    }

    /// The names that Fairhold gave it. A malformed one does not count.
    pub fn fairhold_names(&self) -> impl Iterator<Item = CertificateName> + '_ {
        self.names.iter().filter_map(|name| match name {
            AlternativeName::Uri(uri) => uri.parse().ok(),
            AlternativeName::Host(_) | AlternativeName::Address(_) | AlternativeName::Other(_) => None,
        })
    }

    /// The nodes of this cluster that it names.
    pub fn nodes_of<'a>(&'a self, cluster: &'a ClusterName) -> impl Iterator<Item = CertifiedNodes> + 'a {
        self.fairhold_names().filter(move |name| name.cluster == *cluster).filter_map(|name| match name.role {
            CertificateRole::Node(id) => Some(CertifiedNodes::One(id)),
            CertificateRole::AnyNode => Some(CertifiedNodes::Any),
            CertificateRole::User(_) | CertificateRole::Authority => None,
        })
    }

    /// The hosts that it names, as text that a log can have.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let text = |name: &AlternativeName| match name {
            AlternativeName::Host(host) => Some(fairhold_types::text::terminal_safe(host).into_owned()),
            AlternativeName::Address(address) => Some(address.to_string()),
            AlternativeName::Uri(_) | AlternativeName::Other(_) => None,
        };
        self.names.iter().filter_map(text).collect()
    }

    /// A short text that says whose certificate it is: the name that Fairhold gave it, or its subject.
    #[must_use]
    pub fn holder(&self) -> String {
        let uri = self.fairhold_names().next().map(|name| name.to_string());
        let text = uri.unwrap_or_else(|| self.subject.clone());
        // A stranger chooses this text, and it goes to the log.
        fairhold_types::text::terminal_safe(&text).chars().take(HOLDER_CHARS_MAX).collect()
    }
}

/// The longest text of `Certificate::holder`.
const HOLDER_CHARS_MAX: usize = 200;

/// The nodes that a certificate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertifiedNodes {
    /// The node with this id.
    One(NodeId),
    /// Any node of the cluster.
    Any,
}

impl CertifiedNodes {
    /// Whether this node is among them.
    #[must_use]
    pub fn include(self, id: NodeId) -> bool {
        match self {
            CertifiedNodes::One(named) => named == id,
            CertifiedNodes::Any => true,
        }
    }
}

impl fmt::Display for AlternativeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlternativeName::Host(text) | AlternativeName::Uri(text) | AlternativeName::Other(text) => f.write_str(text),
            AlternativeName::Address(address) => write!(f, "{address}"),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Ecdsa(bits) => write!(f, "ECDSA with {bits} bits"),
            KeyKind::Ed25519 => f.write_str("Ed25519"),
            KeyKind::Rsa(bits) => write!(f, "RSA with {bits} bits"),
            KeyKind::Other => f.write_str("a kind of key that is not supported"),
        }
    }
}

/// The certificate as x509-parser sees it.
pub(crate) fn parse_der<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, ParseCertificateError> {
    match parse_x509_certificate(der) {
        Ok(([], x509)) => Ok(x509),
        Ok(_) => Err(ParseCertificateError("it has trailing bytes".to_owned())),
        Err(error) => Err(ParseCertificateError(error.to_string())),
    }
}

fn alternative_name(name: &GeneralName<'_>) -> AlternativeName {
    match name {
        GeneralName::DNSName(host) => AlternativeName::Host((*host).to_owned()),
        GeneralName::URI(uri) => AlternativeName::Uri((*uri).to_owned()),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(four), _) => AlternativeName::Address(Ipv4Addr::from(four).into()),
            (_, Ok(sixteen)) => AlternativeName::Address(Ipv6Addr::from(sixteen).into()),
            (Err(_), Err(_)) => AlternativeName::Other(format!("an address of {} bytes", bytes.len())),
        },
        GeneralName::OtherName(..)
        | GeneralName::RFC822Name(_)
        | GeneralName::X400Address(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EDIPartyName(_)
        | GeneralName::RegisteredID(_)
        | GeneralName::Invalid(..) => AlternativeName::Other(name.to_string()),
    }
}

fn key_kind(x509: &X509Certificate<'_>) -> KeyKind {
    let key = x509.public_key();
    let algorithm = &key.algorithm.algorithm;
    let bits = match key.parsed() {
        Ok(PublicKey::EC(point)) => point.key_size(),
        Ok(PublicKey::RSA(rsa)) => rsa_bits(rsa.modulus),
        Ok(PublicKey::DSA(_) | PublicKey::GostR3410(_) | PublicKey::GostR3410_2012(_) | PublicKey::Unknown(_)) | Err(_) => 0,
    };
    if *algorithm == OID_PKCS1_RSAENCRYPTION {
        KeyKind::Rsa(bits)
    } else if *algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
        KeyKind::Ecdsa(bits)
    } else if *algorithm == OID_SIG_ED25519 {
        KeyKind::Ed25519
    } else {
        KeyKind::Other
    }
}

fn rsa_bits(modulus: &[u8]) -> usize {
    let start = modulus.iter().position(|byte| *byte != 0).unwrap_or(modulus.len());
    let significant = &modulus[start..];
    significant.first().map_or(0, |first| significant.len() * 8 - first.leading_zeros() as usize)
}

/// Times before 1970 become 1970: such a certificate has long expired.
fn wall_millis(time: ASN1Time) -> WallMillis {
    WallMillis(u64::try_from(time.timestamp()).unwrap_or(0).saturating_mul(1_000))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}
