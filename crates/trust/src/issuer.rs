//! An authority that issues certificates, offline: ECDSA P-256, and names that nothing constrains. (webpki refuses every
//! certificate with a URI below an authority with a constraint on URIs.)

use crate::{
    certificate::{AlternativeName, Certificate, ParseCertificateError, parse_der},
    name::{CertificateName, CertificateRole, ClusterName, UserName},
};
use fairhold_types::NodeId;
use rand::RngExt as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, SanType, SerialNumber, SubjectPublicKeyInfo, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::{
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use zeroize::Zeroizing;

/// A day.
pub const DAY: Duration = Duration::from_secs(86_400);

/// How long an authority counts, if nothing else is said.
pub const AUTHORITY_DAYS: u32 = 3_650;

/// How long a node's certificate counts, if nothing else is said.
pub const NODE_DAYS: u32 = 825;

/// How long a client's certificate counts, if nothing else is said.
pub const CLIENT_DAYS: u32 = 90;

/// The longest time for which a certificate counts, in days.
pub const DAYS_MAX: u32 = 36_500;

/// A certificate counts from this long before it is issued: the clocks of two machines differ.
const BEFORE: Duration = Duration::from_secs(3_600);

/// Why a certificate cannot be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A host has characters that no host has.
    #[error("`{0}` is not a host name or an address: pass names like n1 or *.db.example.com, and addresses like 10.0.0.1")]
    Host(String),
    /// There is no host.
    #[error("a node needs at least one host: pass the names and addresses by which the other nodes and clients dial it")]
    NoHost,
    /// A number of days is out of range.
    #[error("a certificate is valid for 1 to {DAYS_MAX} days")]
    Days,
    /// The authority is not one of Fairhold's.
    #[error("this certificate authority was not made by `fairhold cert ca`: it does not name a cluster as fairhold://NAME/ca")]
    ForeignAuthority,
    /// The key does not belong to the authority.
    #[error("the key does not fit the certificate of the authority")]
    KeyMismatch,
    /// The certificate is of another authority.
    #[error("the certificate of {0} is not from this authority")]
    NotIssuedHere(String),
    /// A certificate cannot be read.
    #[error(transparent)]
    Damaged(#[from] ParseCertificateError),
    /// The cryptography failed.
    #[error("the certificate cannot be made: {0}")]
    Failed(#[from] rcgen::Error),
}

/// A certificate and its key, as PEM.
pub struct IssuedPair {
    /// The certificate.
    pub cert: String,
    /// The private key.
    pub key: Zeroizing<String>,
}

impl std::fmt::Debug for IssuedPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedPair").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// Makes an authority for a cluster.
pub fn create_authority(cluster: &ClusterName, days: u32) -> Result<IssuedPair, IssueError> {
    let key = KeyPair::generate()?;
    let cert = authority_params(cluster, days)?.self_signed(&key)?.pem();
    Ok(IssuedPair { cert, key: Zeroizing::new(key.serialize_pem()) })
}

/// An authority with its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    cluster: ClusterName,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// An authority that `create_authority` made.
    pub fn new(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'_>) -> Result<Authority, IssueError> {
        let is_authority = |name: &CertificateName| name.role == CertificateRole::Authority;
        let parsed = Certificate::parse(&certificate)?;
        let name = parsed.fairhold_names().find(is_authority).filter(|_| parsed.is_authority);
        let cluster = name.ok_or(IssueError::ForeignAuthority)?.cluster;
        let key = KeyPair::try_from(key)?;
        if parse_der(&certificate)?.public_key().raw != key.subject_public_key_info() {
            return Err(IssueError::KeyMismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Authority { certificate, cluster, issuer })
    }

    /// The cluster whose certificates it issues.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Issues the certificate of a node, for its clients and for the other nodes. Without an id, any node may use it.
    pub fn issue_node(&self, hosts: &[String], id: Option<NodeId>, days: u32) -> Result<IssuedPair, IssueError> {
        if hosts.is_empty() {
            return Err(IssueError::NoHost);
        }
        let role = id.map_or(CertificateRole::AnyNode, CertificateRole::Node);
        let common_name = id.map_or_else(|| "any node".to_owned(), |id| format!("node {id}"));
        let mut params = leaf_params(&common_name, days)?;
        for host in hosts {
            params.subject_alt_names.push(host_name(host)?);
        }
        params.subject_alt_names.push(self.uri(role)?);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// Issues the certificate of a user's programs.
    pub fn issue_client(&self, user: &UserName, days: u32) -> Result<IssuedPair, IssueError> {
        let mut params = leaf_params(user.as_str(), days)?;
        params.subject_alt_names.push(self.uri(CertificateRole::User(user.clone()))?);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    /// Issues a certificate again, as PEM: the same names and the same key, so the key need not be here, and a new time. The
    /// authority renews its own certificate in the same way.
    pub fn renew(&self, certificate: &CertificateDer<'_>, days: u32) -> Result<String, IssueError> {
        let x509 = parse_der(certificate)?;
        let known = Certificate::parse(certificate)?;
        let authority = parse_der(&self.certificate)?;
        if x509.verify_signature(Some(authority.public_key())).is_err() {
            return Err(IssueError::NotIssuedHere(known.holder()));
        }
        if x509.public_key().raw == authority.public_key().raw {
            return Ok(authority_params(&self.cluster, days)?.self_signed(self.issuer.key())?.pem());
        }
        let mut params = leaf_params(known.common_name.as_deref().unwrap_or_default(), days)?;
        params.subject_alt_names = known.names.iter().map(renewed_name).collect::<Result<_, _>>()?;
        let purposes =
            [(known.for_servers, ExtendedKeyUsagePurpose::ServerAuth), (known.for_clients, ExtendedKeyUsagePurpose::ClientAuth)];
        params.extended_key_usages = purposes.into_iter().filter(|(has, _)| *has).map(|(_, purpose)| purpose).collect();
        let key = SubjectPublicKeyInfo::from_der(x509.public_key().raw)?;
        Ok(params.signed_by(&key, &self.issuer)?.pem())
    }

    fn issue(&self, params: &CertificateParams) -> Result<IssuedPair, IssueError> {
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?.pem();
        Ok(IssuedPair { cert, key: Zeroizing::new(key.serialize_pem()) })
    }

    fn uri(&self, role: CertificateRole) -> Result<SanType, IssueError> {
        Ok(SanType::URI(CertificateName { cluster: self.cluster.clone(), role }.to_string().try_into()?))
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

fn authority_params(cluster: &ClusterName, days: u32) -> Result<CertificateParams, IssueError> {
    let mut params = params(&format!("Fairhold CA of {cluster}"), days)?;
    let name = CertificateName { cluster: cluster.clone(), role: CertificateRole::Authority };
    params.subject_alt_names.push(SanType::URI(name.to_string().try_into()?));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn leaf_params(common_name: &str, days: u32) -> Result<CertificateParams, IssueError> {
    let mut params = params(common_name, days)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(common_name: &str, days: u32) -> Result<CertificateParams, IssueError> {
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(IssueError::Days);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + now + DAY * days;
    // 159 random bits: unique, positive, and not from the key, which a renewed certificate keeps.
    let mut serial: [u8; 20] = rand::rng().random();
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn host_name(host: &str) -> Result<SanType, IssueError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let bare = host.strip_prefix("*.").unwrap_or(host);
    let is_name = rustls_pki_types::DnsName::try_from(bare).is_ok();
    match host.to_owned().try_into() {
        Ok(name) if is_name => Ok(SanType::DnsName(name)),
        Ok(_) | Err(_) => Err(IssueError::Host(host.to_owned())),
    }
}

fn renewed_name(name: &AlternativeName) -> Result<SanType, IssueError> {
    match name {
        AlternativeName::Host(host) => Ok(SanType::DnsName(host.clone().try_into()?)),
        AlternativeName::Address(address) => Ok(SanType::IpAddress(*address)),
        AlternativeName::Uri(uri) => Ok(SanType::URI(uri.clone().try_into()?)),
        AlternativeName::Other(name) => Err(IssueError::Host(name.clone())),
    }
}
