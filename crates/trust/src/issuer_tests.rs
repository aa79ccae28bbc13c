//! Certificates that `fairhold cert` makes: what they say, that they work, and what is refused.

use crate::{
    authority_for_tests::prod,
    ca_directory::{CaDirectory, CaError},
    certificate::{Certificate, KeyKind},
    client_port::{ClientPortTls, ClientTls, TlsVersion, UserRule},
    files::{CertificateFiles, read_certificates},
    issuer::{Authority, IssueError, create_authority},
    live_pair::LivePair,
    pair::{Pair, PairUse},
    peer::PeerTls,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

fn hosts(list: &[&str]) -> Vec<String> {
    list.iter().map(|host| (*host).to_owned()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn certificate(path: &Path) -> Certificate {
    Certificate::parse(&read_certificates(path).unwrap()[0]).unwrap()
}

fn days(certificate: &Certificate) -> u64 {
    (certificate.not_after.0 - certificate.not_before.0) / 86_400_000
}

/// A directory with the authority of `prod`, and one for what it issues.
fn setup() -> (tempfile::TempDir, tempfile::TempDir, CaDirectory) {
    let (ca, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = CaDirectory::create(ca.path(), &prod(), 3_650).unwrap();
    (ca, out, directory)
}

fn pair_files(out: &Path, name: &str) -> CertificateFiles {
    let at = |suffix: &str| out.join(format!("{name}.{suffix}"));
    CertificateFiles { cert: at("crt"), key: at("key"), ca: Some(out.join("ca.crt")) }
}

#[tokio::test]
async fn a_cluster_and_its_client_work_with_certificates_made_here() {
    let (_ca, out, directory) = setup();
    let node = directory.authority().issue_node(&hosts(&["n1", "10.0.0.1"]), Some(1), 825).unwrap();
    directory.write_pair(out.path(), "node-1", &node).unwrap();
    let client = directory.authority().issue_client(&"ci".parse().unwrap(), 90).unwrap();
    directory.write_pair(out.path(), "ci", &client).unwrap();

    let files = pair_files(out.path(), "node-1");
    let pair_use = PairUse::Peers { cluster: prod(), node: Some(1), host: None };
    let peers = PeerTls::new(LivePair::load(files.clone(), pair_use).unwrap(), prod());
    let (ours, theirs) = duplex(1 << 16);
    let (accepted, dialled) = tokio::join!(peers.accept(ours), peers.connect(theirs, "10.0.0.1", Some(1)));
    assert!(accepted.unwrap().1.check_node(2).is_err());
    dialled.unwrap();

    let port = LivePair::load(files, PairUse::ClientPort).unwrap();
    let port = ClientPortTls::new(port, UserRule::Uri(prod()), TlsVersion::V1_3);
    let own = pair_files(out.path(), "ci");
    let client = ClientTls::load(&out.path().join("ca.crt"), Some((own.cert, own.key))).unwrap();
    let (ours, theirs) = duplex(1 << 16);
    let accept = async {
        let (mut stream, seen) = port.accept(ours).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.shutdown().await.unwrap();
        seen.user.unwrap().name.to_string()
    };
    let dial = async { client.connect(theirs, "n1").await.unwrap().read_exact(&mut [0]).await.unwrap() };
    assert_eq!(tokio::join!(accept, dial).0, "ci");
}

#[test]
fn certificates_say_what_was_asked_for() {
    let (ca, out, directory) = setup();
    let authority = certificate(&ca.path().join("ca.crt"));
    assert_eq!(authority.subject, "CN=Fairhold CA of prod");
    assert_eq!((authority.is_authority, days(&authority), authority.key), (true, 3_650, KeyKind::Ecdsa(256)));
    assert_eq!(authority.names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fairhold://prod/ca"]);

    let node = directory.authority().issue_node(&hosts(&["n1", "*.db.example.com", "10.0.0.1", "fd00::1"]), None, 825).unwrap();
    let (cert, key) = directory.write_pair(&out.path().join("new"), "node", &node).unwrap();
    let issued = certificate(&cert);
    let names: Vec<String> = issued.names.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["n1", "*.db.example.com", "10.0.0.1", "fd00::1", "fairhold://prod/node/*"]);
    assert_eq!((issued.is_authority, issued.for_servers, issued.for_clients, days(&issued)), (false, true, true, 825));
    assert_eq!((mode(&key), mode(&cert) & 0o600, mode(&ca.path().join("ca.key"))), (0o600, 0o600, 0o600));
    assert_eq!(fs::read(out.path().join("new/ca.crt")).unwrap(), fs::read(ca.path().join("ca.crt")).unwrap());

    let client = directory.authority().issue_client(&"ci".parse().unwrap(), 90).unwrap();
    let client = Certificate::parse(&CertificateDer::from_pem_slice(client.cert.as_bytes()).unwrap()).unwrap();
    assert_eq!((client.for_servers, client.for_clients, days(&client)), (false, true, 90));
    assert_eq!(client.holder(), "fairhold://prod/user/ci");
    assert_ne!(client.serial, issued.serial);
}

#[test]
fn nothing_is_overwritten() {
    let (ca, out, directory) = setup();
    let before = fs::read(ca.path().join("ca.key")).unwrap();
    let error = CaDirectory::create(ca.path(), &prod(), 10).unwrap_err();
    assert!(matches!(&error, CaError::Exists { path } if path.ends_with("ca.key")), "{error}");
    assert_eq!(fs::read(ca.path().join("ca.key")).unwrap(), before);

    let node = directory.authority().issue_node(&hosts(&["n1"]), Some(1), 825).unwrap();
    fs::write(out.path().join("node-1.crt"), "mine").unwrap();
    let error = directory.write_pair(out.path(), "node-1", &node).unwrap_err();
    assert!(error.to_string().contains("node-1.crt exists, and is not overwritten"), "{error}");
    assert!(!out.path().join("node-1.key").exists(), "all files or none");
    assert!(!out.path().join("ca.crt").exists(), "all files or none");
    fs::write(out.path().join("ca.crt"), "another").unwrap();
    let error = directory.write_pair(out.path(), "node-2", &node).unwrap_err();
    assert!(error.to_string().contains("differs from the ca.crt of the authority"), "{error}");
    assert!(!out.path().join("node-2.key").exists());
}

#[test]
fn a_certificate_is_renewed_with_its_names_and_its_key() {
    let (ca, out, directory) = setup();
    let node = directory.authority().issue_node(&hosts(&["n1", "10.0.0.1"]), Some(1), 10).unwrap();
    let (cert, _) = directory.write_pair(out.path(), "node-1", &node).unwrap();
    let before = certificate(&cert);
    directory.renew(&cert, None, 825).unwrap();
    let after = certificate(&cert);
    assert_eq!((after.names.clone(), after.subject.clone(), days(&after)), (before.names, before.subject, 825));
    assert_ne!(after.serial, before.serial);
    let pair_use = PairUse::Peers { cluster: prod(), node: Some(1), host: None };
    Pair::load(&pair_files(out.path(), "node-1"), &pair_use).unwrap();

    // The authority itself: what it issued before is still good.
    directory.renew(&ca.path().join("ca.crt"), Some(&out.path().join("new-ca.crt")), 7_300).unwrap();
    let files = CertificateFiles { ca: Some(out.path().join("new-ca.crt")), ..pair_files(out.path(), "node-1") };
    Pair::load(&files, &pair_use).unwrap();
    assert_eq!(days(&certificate(&out.path().join("new-ca.crt"))), 7_300);
    let error = directory.renew(&cert, Some(&out.path().join("new-ca.crt")), 825).unwrap_err();
    assert!(matches!(error, CaError::Exists { .. }), "{error}");
}

#[test]
fn an_interrupted_renewal_is_named_and_changes_nothing() {
    let (_ca, out, directory) = setup();
    let node = directory.authority().issue_node(&hosts(&["n1"]), Some(1), 10).unwrap();
    let (cert, _) = directory.write_pair(out.path(), "node-1", &node).unwrap();
    fs::write(out.path().join("node-1.crt.new"), "half of a certi").unwrap();
    let error = directory.renew(&cert, None, 825).unwrap_err().to_string();
    assert!(error.contains("node-1.crt.new is left from a renewal that did not end: remove it"), "{error}");
    assert_eq!(fs::read_to_string(&cert).unwrap(), node.cert);
    fs::remove_file(out.path().join("node-1.crt.new")).unwrap();
    directory.renew(&cert, None, 825).unwrap();
    assert_eq!(days(&certificate(&cert)), 825);
}

#[test]
fn a_renewal_needs_the_same_authority() {
    let (_ca, out, directory) = setup();
    let (_other_ca, _, other) = setup();
    let node = other.authority().issue_node(&hosts(&["n1"]), Some(1), 10).unwrap();
    let (cert, _) = other.write_pair(out.path(), "node-1", &node).unwrap();
    let before = fs::read(&cert).unwrap();
    let error = directory.renew(&cert, None, 825).unwrap_err().to_string();
    assert!(error.contains("fairhold://prod/node/1 is not from this authority"), "{error}");
    assert_eq!(fs::read(&cert).unwrap(), before);
}

#[test]
fn wrong_requests_are_refused() {
    let (_ca, _out, directory) = setup();
    let authority = directory.authority();
    for host in ["", "n1:7171", "http://n1", "n 1", "n_1/", "*", "*.*.x", "10.0.0.999", "-n1", &"x".repeat(300)] {
        let error = authority.issue_node(&hosts(&[host]), None, 1).unwrap_err();
        assert!(matches!(error, IssueError::Host(_)), "{host}: {error}");
    }
    assert!(matches!(authority.issue_node(&[], None, 1), Err(IssueError::NoHost)));
    for days in [0, 36_501, u32::MAX] {
        assert!(matches!(authority.issue_node(&hosts(&["n1"]), None, days), Err(IssueError::Days)));
    }
}

#[test]
fn a_directory_without_an_authority_of_fairhold_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = CaDirectory::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("fairhold cert ca --name NAME --out"), "{error}");

    // A key of another authority, and a certificate that is not one of an authority.
    let (first, second) = (create_authority(&prod(), 10).unwrap(), create_authority(&prod(), 10).unwrap());
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = |pem: &str| PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    assert!(matches!(Authority::new(der(&first.cert), &key(&second.key)), Err(IssueError::KeyMismatch)));
    let leaf = Authority::new(der(&first.cert), &key(&first.key)).unwrap().issue_client(&"ci".parse().unwrap(), 1).unwrap();
    assert!(matches!(Authority::new(der(&leaf.cert), &key(&leaf.key)), Err(IssueError::ForeignAuthority)));
    assert!(!format!("{leaf:?}").contains("PRIVATE"));
}
