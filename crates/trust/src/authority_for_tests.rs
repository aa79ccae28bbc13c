//! Certificates for tests, right and wrong ones, which product code cannot make.

#![allow(clippy::unwrap_used, reason = "only tests use it")]
#![allow(missing_debug_implementations, reason = "the authority has a key")]

use crate::{files::CertificateFiles, issuer::DAY, name::ClusterName};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    SubjectPublicKeyInfo, date_time_ymd,
};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The public half of an RSA key with 1024 bits.
const RSA_1024: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC5Rx936VXeVs0WfYhM87Ws4htB\n\
tYMwI82sBIS07u0M1MsaRKaTsvgxroaD+2kSruzAN4ob4ejqK/YLVUuPLT4QrElZ\n\
aOf7nvKJKCqUecq1Ns4BqqQBP3Uj6x4LhVtwCe8E3IS1ZSBIutXQuA0mUr89PHhJ\n\
z27dNRMguozf4lWkcQIDAQAB\n\
-----END PUBLIC KEY-----\n";

/// A certificate authority without scruples.
pub struct TestAuthority {
    cert: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate that is in order, with changes.
pub struct Wanted {
    /// From and until, in days from now.
    pub days: (i64, i64),
    /// If given, it expires so many seconds from now instead, and has begun before.
    pub seconds_left: Option<u64>,
    /// Names and addresses.
    pub hosts: Vec<&'static str>,
    /// The names that Fairhold gives.
    pub uris: Vec<&'static str>,
    /// The extended key usage; none at all if it is empty.
    pub purposes: Vec<ExtendedKeyUsagePurpose>,
    /// The common name of the subject.
    pub common_name: &'static str,
    /// The number of authorities between it and the known one.
    pub intermediates: usize,
    /// Whether its key is RSA with 1024 bits.
    pub has_weak_key: bool,
}

impl Wanted {
    /// The certificate of node 2 of the cluster `prod` on this machine.
    pub fn node_2() -> Wanted {
        Wanted {
            days: (-1, 30),
            seconds_left: None,
            hosts: vec!["n2", "127.0.0.1"],
            uris: vec!["fairhold://prod/node/2"],
            purposes: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            common_name: "node 2",
            intermediates: 0,
            has_weak_key: false,
        }
    }

    /// The same with the purpose of a server alone.
    pub fn for_servers_alone() -> Wanted {
        Wanted { purposes: vec![ExtendedKeyUsagePurpose::ServerAuth], ..Wanted::node_2() }
    }

    /// The same with the purpose of a client alone.
    pub fn for_clients_alone() -> Wanted {
        Wanted { purposes: vec![ExtendedKeyUsagePurpose::ClientAuth], ..Wanted::node_2() }
    }

    /// The certificate of a user's program.
    pub fn client(uri: &'static str) -> Wanted {
        let purposes = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Wanted { hosts: Vec::new(), uris: vec![uri], purposes, common_name: "ci", ..Wanted::node_2() }
    }
}

/// The cluster of the tests.
pub fn prod() -> ClusterName {
    "prod".parse().unwrap()
}

/// A chain and its key, as PEM.
#[derive(Clone)]
pub struct TestPair {
    /// The certificate, and those that lead to its authority.
    pub cert: String,
    /// The private key.
    pub key: String,
}

impl Default for TestAuthority {
    fn default() -> Self {
        TestAuthority::new()
    }
}

impl TestAuthority {
    /// An authority.
    pub fn new() -> TestAuthority {
        TestAuthority::named("an authority")
    }

    /// An authority with this name.
    pub fn named(common_name: &str) -> TestAuthority {
        let key = KeyPair::generate().unwrap();
        let mut params = params(common_name, (-10, 100));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let cert = params.self_signed(&key).unwrap().pem();
        TestAuthority { cert, issuer: Issuer::new(params, key) }
    }

    /// The certificate of the authority, as PEM.
    pub fn cert(&self) -> &str {
        &self.cert
    }

    /// Issues a certificate with a new key.
    pub fn issue(&self, wanted: &Wanted) -> TestPair {
        let mut chain = Vec::new();
        let mut last: Option<Issuer<'static, KeyPair>> = None;
        for number in 0..wanted.intermediates {
            let key = KeyPair::generate().unwrap();
            let mut params = params(&format!("an intermediate authority {number}"), (-10, 100));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            chain.push(params.signed_by(&key, last.as_ref().unwrap_or(&self.issuer)).unwrap().pem());
            last = Some(Issuer::new(params, key));
        }
        let issuer = last.as_ref().unwrap_or(&self.issuer);
        let mut params = params(wanted.common_name, wanted.days);
        if let Some(seconds) = wanted.seconds_left {
            let began = DAY * u32::try_from(wanted.days.0.unsigned_abs()).unwrap();
            params.not_after = params.not_before + began + Duration::from_secs(seconds);
        }
        let uris = wanted.uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names = CertificateParams::new(wanted.hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())
            .unwrap()
            .subject_alt_names;
        params.subject_alt_names.extend(uris);
        params.extended_key_usages = wanted.purposes.clone();
        let key = KeyPair::generate().unwrap();
        let leaf = if wanted.has_weak_key {
            params.signed_by(&SubjectPublicKeyInfo::from_pem(RSA_1024).unwrap(), issuer).unwrap()
        } else {
            params.signed_by(&key, issuer).unwrap()
        };
        chain.push(leaf.pem());
        chain.reverse();
        TestPair { cert: chain.concat(), key: key.serialize_pem() }
    }
}

fn params(common_name: &str, days: (i64, i64)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = |days: i64| {
        let distance = DAY * u32::try_from(days.unsigned_abs()).unwrap();
        if days < 0 { now - distance } else { now + distance }
    };
    (params.not_before, params.not_after) = (at(days.0), at(days.1));
    params
}

/// Writes a pair and the certificate of an authority.
pub fn write(directory: &Path, pair: &TestPair, ca: &str) -> CertificateFiles {
    let files = CertificateFiles {
        cert: directory.join("node.crt"),
        key: directory.join("node.key"),
        ca: Some(directory.join("ca.crt")),
    };
    fs::write(&files.cert, &pair.cert).unwrap();
    fs::write(&files.key, &pair.key).unwrap();
    fs::write(directory.join("ca.crt"), ca).unwrap();
    files
}
