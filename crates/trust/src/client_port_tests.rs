//! The port for clients: which users it sees, and what it refuses.

use crate::{
    authority_for_tests::{TestAuthority, TestPair, Wanted, prod, write},
    careless_for_tests::{careless_client, careless_server},
    client_port::{ClientPortTls, ClientTls, TlsVersion, UserRule},
    fault::{FaultReason, TlsFault},
    live_pair::LivePair,
    pair::{Pair, PairUse},
    peer_tests::alert,
};
use rcgen::ExtendedKeyUsagePurpose as Purpose;
use rustls::AlertDescription;
use std::{fs, path::Path};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A server by the certificate of node 2, with or without an authority for its clients.
fn server(authority: &TestAuthority, users: UserRule, with_clients: bool) -> ClientPortTls {
    let directory = tempfile::tempdir().unwrap();
    let mut files = write(directory.path(), &authority.issue(&Wanted::node_2()), authority.cert());
    files.ca = files.ca.filter(|_| with_clients);
    ClientPortTls::new(LivePair::load(files, PairUse::ClientPort).unwrap(), users, TlsVersion::V1_3)
}

fn client(directory: &Path, authority: &TestAuthority, pair: Option<&TestPair>) -> ClientTls {
    let files = write(directory, pair.unwrap_or(&authority.issue(&Wanted::node_2())), authority.cert());
    ClientTls::load(&directory.join("ca.crt"), pair.map(|_| (files.cert, files.key))).unwrap()
}

/// The user that the server sees, or why it refuses the client.
async fn user(server: &ClientPortTls, client: &ClientTls) -> Result<Option<String>, TlsFault> {
    let (ours, theirs) = duplex(1 << 16);
    let accept = async {
        let (mut stream, seen) = server.accept(ours).await?;
        stream.write_all(b"x").await.unwrap();
        stream.shutdown().await.unwrap();
        Ok(seen.user.map(|user| user.name.to_string()))
    };
    let dial = async {
        let mut stream = client.connect(theirs, "n2").await.unwrap();
        stream.read_exact(&mut [0]).await
    };
    let (accepted, dialled) = tokio::join!(accept, dial);
    assert_eq!(accepted.is_ok(), dialled.is_ok(), "{accepted:?} {dialled:?}");
    accepted
}

#[tokio::test]
async fn a_certificate_names_its_user() {
    let authority = TestAuthority::new();
    let server = server(&authority, UserRule::Uri(prod()), true);
    let directory = tempfile::tempdir().unwrap();
    let both = Wanted { uris: vec!["fairhold://prod/user/a", "fairhold://prod/user/b"], ..Wanted::client("") };
    let cases = [
        (Wanted::client("fairhold://prod/user/ci"), Some("ci")),
        (Wanted::client("fairhold://test/user/ci"), None),
        (Wanted::client("fairhold://prod/user/c:i"), None),
        (both, None),
        (Wanted { uris: vec!["fairhold://test/user/a", "fairhold://prod/user/b"], ..Wanted::client("") }, Some("b")),
        (Wanted::node_2(), None),
    ];
    for (wanted, name) in cases {
        let pair = authority.issue(&wanted);
        let client = client(directory.path(), &authority, Some(&pair));
        assert_eq!(user(&server, &client).await.unwrap().as_deref(), name, "{:?}", wanted.uris);
    }
    let without = client(directory.path(), &authority, None);
    assert_eq!(user(&server, &without).await, Ok(None), "a client may do without, and show a token instead");
}

#[tokio::test]
async fn the_common_name_may_be_the_user() {
    let authority = TestAuthority::new();
    let server = server(&authority, UserRule::CommonName, true);
    let directory = tempfile::tempdir().unwrap();
    let client = client(directory.path(), &authority, Some(&authority.issue(&Wanted::client("fairhold://test/user/other"))));
    assert_eq!(user(&server, &client).await.unwrap().as_deref(), Some("ci"));
}

#[tokio::test]
async fn a_server_without_an_authority_asks_for_no_certificate() {
    let authority = TestAuthority::new();
    let server = server(&authority, UserRule::Uri(prod()), false);
    let directory = tempfile::tempdir().unwrap();
    let client = client(directory.path(), &authority, Some(&authority.issue(&Wanted::client("fairhold://prod/user/ci"))));
    assert_eq!(user(&server, &client).await, Ok(None));
}

/// Certificates that neither side of this port accepts, with the reason and the alert.
fn wrong_certificates(authority: &TestAuthority, right: fn() -> Wanted) -> Vec<(TestPair, FaultReason, AlertDescription)> {
    use AlertDescription as Alert;
    use FaultReason as Reason;
    let issue = |wanted: Wanted| authority.issue(&wanted);
    let other_purpose = if right().hosts.is_empty() { Purpose::ServerAuth } else { Purpose::ClientAuth };
    vec![
        (issue(Wanted { days: (-9, -1), ..right() }), Reason::Expired, Alert::CertificateExpired),
        (issue(Wanted { days: (2, 9), ..right() }), Reason::NotYetValid, Alert::CertificateExpired),
        (TestAuthority::named("another").issue(&right()), Reason::UnknownAuthority, Alert::UnknownCA),
        (TestAuthority::new().issue(&right()), Reason::UnknownAuthority, Alert::UnknownCA),
        (issue(Wanted { purposes: vec![other_purpose], ..right() }), Reason::WrongPurpose, Alert::UnsupportedCertificate),
        (issue(Wanted { has_weak_key: true, ..right() }), Reason::WeakKey, Alert::CertificateUnknown),
        (issue(Wanted { intermediates: 5, ..right() }), Reason::ChainTooLong, Alert::CertificateUnknown),
    ]
}

#[tokio::test]
async fn wrong_certificates_of_clients_are_refused() {
    let authority = TestAuthority::new();
    let server = server(&authority, UserRule::Uri(prod()), true);
    for (pair, reason, wanted_alert) in wrong_certificates(&authority, || Wanted::client("fairhold://prod/user/ci")) {
        let (ours, theirs) = duplex(1 << 16);
        let dial = async {
            let connector = TlsConnector::from(careless_client(Some(&pair), b"http/1.1"));
            connector.connect("n2".try_into().unwrap(), theirs).await.unwrap().read_exact(&mut [0]).await.unwrap_err()
        };
        let (accepted, dialled) = tokio::join!(server.accept(ours), dial);
        let fault = accepted.unwrap_err();
        assert_eq!((fault.reason, alert(&dialled)), (reason, Some(wanted_alert)), "{fault}");
        assert!(fault.to_string().contains("fairhold://prod/user/ci"), "{fault}");
    }
}

#[tokio::test]
async fn wrong_certificates_of_servers_are_refused() {
    let authority = TestAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    let client = client(directory.path(), &authority, None);
    let mut wrong = wrong_certificates(&authority, Wanted::node_2);
    let nameless = |common_name| Wanted { hosts: Vec::new(), common_name, ..Wanted::node_2() };
    for wanted in [nameless("nobody"), nameless("n2"), Wanted { hosts: vec!["n3"], ..Wanted::node_2() }] {
        wrong.push((authority.issue(&wanted), FaultReason::OtherHost, AlertDescription::BadCertificate));
    }
    for (pair, reason, wanted_alert) in wrong {
        let (ours, theirs) = duplex(1 << 16);
        let acceptor = TlsAcceptor::from(careless_server(&pair, b"http/1.1"));
        let (accepted, dialled) = tokio::join!(acceptor.accept(theirs), client.connect(ours, "n2"));
        let fault = dialled.unwrap_err();
        assert_eq!((fault.reason, alert(&accepted.unwrap_err())), (reason, Some(wanted_alert)), "{fault}");
    }
}

#[tokio::test]
async fn a_client_refuses_another_host_and_another_authority() {
    let authority = TestAuthority::new();
    let server = server(&authority, UserRule::Uri(prod()), false);
    let directory = tempfile::tempdir().unwrap();
    let (right, wrong) = (client(directory.path(), &authority, None), TestAuthority::named("another"));
    let stranger = tempfile::tempdir().unwrap();
    let other = client(stranger.path(), &wrong, None);
    for (client, host, reason) in [(&right, "n3", FaultReason::OtherHost), (&other, "n2", FaultReason::UnknownAuthority)] {
        let (ours, theirs) = duplex(1 << 16);
        let (accepted, dialled) = tokio::join!(server.accept(ours), client.connect(theirs, host));
        assert_eq!(dialled.unwrap_err().reason, reason);
        assert_eq!(accepted.unwrap_err().reason, FaultReason::RefusedByPeer);
    }
}

#[tokio::test]
async fn plain_http_at_this_port_is_not_tls() {
    let server = server(&TestAuthority::new(), UserRule::Uri(prod()), true);
    let (ours, mut theirs) = duplex(1 << 16);
    theirs.write_all(b"GET /v1/locks HTTP/1.1\r\nHost: n2\r\n\r\n").await.unwrap();
    assert_eq!(server.accept(ours).await.unwrap_err().reason, FaultReason::NotTls);
}

#[test]
fn a_pair_of_the_port_has_a_host_and_is_for_servers() {
    let (authority, directory) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let cases = [
        (Wanted { hosts: Vec::new(), ..Wanted::node_2() }, "names no host"),
        (Wanted { purposes: vec![Purpose::ClientAuth], ..Wanted::node_2() }, "another purpose"),
        (Wanted { days: (-9, -1), ..Wanted::node_2() }, "expired at"),
        (Wanted { days: (2, 9), ..Wanted::node_2() }, "not valid before"),
    ];
    for (wanted, says) in cases {
        let files = write(directory.path(), &authority.issue(&wanted), authority.cert());
        let error = Pair::load(&files, &PairUse::ClientPort).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("node.crt"), "{error}");
    }
    let files = write(directory.path(), &authority.issue(&Wanted { uris: Vec::new(), ..Wanted::node_2() }), authority.cert());
    fs::remove_file(directory.path().join("ca.crt")).unwrap();
    let files = crate::files::CertificateFiles { ca: None, ..files };
    assert!(Pair::load(&files, &PairUse::ClientPort).is_ok(), "a certificate of a public authority has no URI");
}
