//! The port between nodes against wrong certificates, in both directions.

use crate::{
    authority_for_tests::{TestAuthority, TestPair, Wanted, prod, write},
    careless_for_tests::{Careless, careless_client, careless_server, certified},
    fault::{FaultReason, TlsFault},
    live_pair::LivePair,
    pair::PairUse,
    peer::PeerTls,
    tls_config::{PEER_PROTOCOL, provider},
};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::{AlertDescription, ClientConfig, Error, sign::SingleCertAndKey};
use std::{io, sync::Arc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The alert that a side got, if it got one.
pub(crate) fn alert(error: &io::Error) -> Option<AlertDescription> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let Error::AlertReceived(alert) = error else { panic!("{error}") };
    Some(*alert)
}

/// Node 1, which has a right certificate, and dials and accepts with the product's code.
fn node_1(authority: &TestAuthority) -> PeerTls {
    let directory = tempfile::tempdir().unwrap();
    let wanted = Wanted { hosts: vec!["n1"], uris: vec!["fairhold://prod/node/1"], ..Wanted::node_2() };
    let files = write(directory.path(), &authority.issue(&wanted), authority.cert());
    let pair_use = PairUse::Peers { cluster: prod(), node: Some(1), host: None };
    PeerTls::new(LivePair::load(files, pair_use).unwrap(), prod())
}

/// What both sides say if the other side dials node 1 with this certificate. A byte of the dialler must not arrive.
async fn dials_node_1(node: &PeerTls, pair: Option<&TestPair>) -> (Result<(), TlsFault>, Option<AlertDescription>) {
    let (ours, theirs) = duplex(1 << 16);
    let dialler = async {
        let connector = TlsConnector::from(careless_client(pair, PEER_PROTOCOL));
        let mut stream = connector.connect("n1".try_into().unwrap(), theirs).await?;
        stream.write_all(b"x").await?;
        let mut answer = [0];
        stream.read_exact(&mut answer).await
    };
    let acceptor = async {
        let (mut stream, certificate) = node.accept(ours).await?;
        certificate.check_node(2)?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        stream.write_all(&byte).await.unwrap();
        stream.flush().await.unwrap();
        Ok(())
    };
    let (dialled, accepted) = tokio::join!(dialler, acceptor);
    (accepted, dialled.err().as_ref().and_then(alert))
}

/// The same if node 1 dials the other side as node 2, by the host `n2`.
async fn is_dialled_by_node_1(node: &PeerTls, pair: &TestPair) -> (Result<(), TlsFault>, Option<AlertDescription>) {
    let (ours, theirs) = duplex(1 << 16);
    let acceptor = async {
        let mut stream = TlsAcceptor::from(careless_server(pair, PEER_PROTOCOL)).accept(theirs).await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        stream.write_all(&byte).await?;
        stream.flush().await
    };
    let dialler = async {
        let (mut stream, certificate) = node.connect(ours, "n2", Some(2)).await?;
        certificate.check_node(2)?;
        stream.write_all(b"x").await.unwrap();
        stream.flush().await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        Ok(())
    };
    let (accepted, dialled) = tokio::join!(acceptor, dialler);
    (dialled, accepted.err().as_ref().and_then(alert))
}

/// A wrong certificate, and what must be said when it dials and when it is dialled.
struct Case {
    name: &'static str,
    pair: TestPair,
    dials: (FaultReason, Option<AlertDescription>),
    is_dialled: (FaultReason, Option<AlertDescription>),
}

fn same(name: &'static str, pair: TestPair, reason: FaultReason, alert: AlertDescription) -> Case {
    Case { name, pair, dials: (reason, Some(alert)), is_dialled: (reason, Some(alert)) }
}

fn wrong_in_the_same_way_in_both_directions(authority: &TestAuthority) -> Vec<Case> {
    use AlertDescription as Alert;
    use FaultReason as Reason;
    let user = Wanted { purposes: Wanted::node_2().purposes, hosts: vec!["n2"], ..Wanted::client("fairhold://prod/user/ci") };
    let other_cluster = Wanted { uris: vec!["fairhold://test/node/2"], ..Wanted::node_2() };
    let malformed = Wanted { uris: vec!["fairhold://prod/node/02"], ..Wanted::node_2() };
    let another = TestAuthority::named("another").issue(&Wanted::node_2());
    let same_name = TestAuthority::new().issue(&Wanted::node_2());
    let issue = |wanted: Wanted| authority.issue(&wanted);
    let short_key = issue(Wanted { has_weak_key: true, ..Wanted::node_2() });
    let six = issue(Wanted { intermediates: 5, ..Wanted::node_2() });
    vec![
        same("expired", issue(Wanted { days: (-9, -1), ..Wanted::node_2() }), Reason::Expired, Alert::CertificateExpired),
        same("not yet valid", issue(Wanted { days: (2, 9), ..Wanted::node_2() }), Reason::NotYetValid, Alert::CertificateExpired),
        same("another authority", another, Reason::UnknownAuthority, Alert::UnknownCA),
        same("another authority with the same name", same_name, Reason::UnknownAuthority, Alert::UnknownCA),
        same("another cluster", issue(other_cluster), Reason::OtherCluster, Alert::AccessDenied),
        same("a malformed URI", issue(malformed), Reason::NoIdentity, Alert::AccessDenied),
        same("a client's at this port", issue(user), Reason::NoIdentity, Alert::AccessDenied),
        same("RSA with 1024 bits", short_key, Reason::WeakKey, Alert::CertificateUnknown),
        same("six certificates", six, Reason::ChainTooLong, Alert::CertificateUnknown),
    ]
}

fn wrong_in_another_way_in_each_direction(authority: &TestAuthority) -> Vec<Case> {
    use AlertDescription as Alert;
    use FaultReason as Reason;
    let purposes = |purpose| Wanted { purposes: vec![purpose], ..Wanted::node_2() };
    let nameless = |common_name| Wanted { hosts: Vec::new(), uris: Vec::new(), common_name, ..Wanted::node_2() };
    let other_host = Wanted { hosts: vec!["n3"], ..Wanted::node_2() };
    let case = |name, wanted, dials, is_dialled| Case { name, pair: authority.issue(&wanted), dials, is_dialled };
    let (no_identity, other_host_alert) = ((Reason::NoIdentity, Some(Alert::AccessDenied)), Some(Alert::BadCertificate));
    let (refused, fine) = ((Reason::WrongPurpose, Some(Alert::UnsupportedCertificate)), (Reason::WrongPurpose, None));
    // The accepting side learns only after the handshake which node the other side claims to be.
    let (late, at_once) = ((Reason::OtherNode, None), (Reason::OtherNode, Some(Alert::AccessDenied)));
    let node_3 = Wanted { uris: vec!["fairhold://prod/node/3"], ..Wanted::node_2() };
    vec![
        case("no alternative name", nameless("nobody"), no_identity, (Reason::OtherHost, other_host_alert)),
        case("the host is the common name alone", nameless("n2"), no_identity, (Reason::OtherHost, other_host_alert)),
        case("for servers alone", purposes(ExtendedKeyUsagePurpose::ServerAuth), refused, fine),
        case("for clients alone", purposes(ExtendedKeyUsagePurpose::ClientAuth), fine, refused),
        case("another host", other_host, (Reason::OtherHost, None), (Reason::OtherHost, other_host_alert)),
        case("node 3's for node 2", node_3, late, at_once),
    ]
}

/// A certificate for servers alone may be dialled, one for clients alone may dial, and so may one of another host: nobody
/// dials that one.
fn is_fine(case: &str, dials: bool) -> bool {
    matches!((case, dials), ("for servers alone", false) | ("for clients alone" | "another host", true))
}

#[tokio::test]
async fn wrong_certificates_are_refused_in_both_directions() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    let mut wrong = wrong_in_the_same_way_in_both_directions(&authority);
    wrong.extend(wrong_in_another_way_in_each_direction(&authority));
    for case in wrong {
        let name = case.name;
        for (dials, wanted) in [(true, case.dials), (false, case.is_dialled)] {
            let (fault, alert) = match dials {
                true => dials_node_1(&node, Some(&case.pair)).await,
                false => is_dialled_by_node_1(&node, &case.pair).await,
            };
            if is_fine(name, dials) {
                assert_eq!((fault, alert), (Ok(()), None), "{name}, dials: {dials}");
                continue;
            }
            let fault = fault.expect_err(name);
            assert_eq!((fault.reason, alert), wanted, "{name}, dials: {dials}: {fault}");
            let says_whose = ["fairhold://", "CN=node 2", "CN=n2", "CN=nobody"];
            assert!(says_whose.iter().any(|holder| fault.to_string().contains(holder)), "{name}: {fault}");
        }
    }
}

#[tokio::test]
async fn right_certificates_are_accepted_in_both_directions() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    let right = [
        Wanted::node_2(),
        Wanted { uris: vec!["fairhold://prod/node/*"], ..Wanted::node_2() },
        Wanted { uris: vec!["fairhold://old/node/2", "fairhold://prod/node/2"], ..Wanted::node_2() },
        Wanted { uris: vec!["fairhold://prod/node/1", "fairhold://prod/node/2"], ..Wanted::node_2() },
        Wanted { purposes: Vec::new(), ..Wanted::node_2() },
        Wanted { intermediates: 4, ..Wanted::node_2() },
    ];
    for wanted in right {
        let pair = authority.issue(&wanted);
        assert_eq!(dials_node_1(&node, Some(&pair)).await, (Ok(()), None), "{:?}", wanted.uris);
        assert_eq!(is_dialled_by_node_1(&node, &pair).await, (Ok(()), None), "{:?}", wanted.uris);
    }
}

#[tokio::test]
async fn a_dialler_without_a_certificate_is_refused() {
    let node = node_1(&TestAuthority::new());
    let (fault, alert) = dials_node_1(&node, None).await;
    assert_eq!((fault.unwrap_err().reason, alert), (FaultReason::NoCertificate, Some(AlertDescription::CertificateRequired)));
}

#[tokio::test]
async fn a_dialler_learns_at_the_first_read_that_it_was_refused() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    // The dialler knows the authority of node 1, but node 1 does not know that of the dialler.
    let directory = tempfile::tempdir().unwrap();
    let other = TestAuthority::new();
    let both = format!("{}{}", authority.cert(), other.cert());
    let files = write(directory.path(), &other.issue(&Wanted::node_2()), &both);
    let pair = LivePair::load(files, PairUse::Peers { cluster: prod(), node: Some(2), host: None }).unwrap();
    let dialler = PeerTls::new(pair, prod());
    let (ours, theirs) = duplex(1 << 16);
    let dial = async {
        let (mut stream, certificate) = dialler.connect(theirs, "n1", Some(1)).await.unwrap();
        assert_eq!(certificate.holder(), "fairhold://prod/node/1");
        let error = stream.read_exact(&mut [0]).await.unwrap_err();
        TlsFault::of_connection(&error).unwrap()
    };
    let (accepted, told) = tokio::join!(node.accept(ours), dial);
    assert_eq!(accepted.unwrap_err().reason, FaultReason::UnknownAuthority);
    assert_eq!(told.reason, FaultReason::RefusedByPeer);
    assert!(told.to_string().contains("does not know its certificate authority"), "{told}");
}

#[tokio::test]
async fn the_port_has_tls_1_3_alone_and_a_key_exchange_that_quanta_do_not_break() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    let pair = authority.issue(&Wanted::node_2());
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS12]).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Careless));
    let mut old = builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified(&pair))));
    old.alpn_protocols = vec![PEER_PROTOCOL.to_vec()];
    let (ours, theirs) = duplex(1 << 16);
    let connector = TlsConnector::from(Arc::new(old));
    let (accepted, dialled) = tokio::join!(node.accept(ours), connector.connect("n1".try_into().unwrap(), theirs));
    assert_eq!(accepted.unwrap_err().reason, FaultReason::Incompatible);
    assert_eq!(alert(&dialled.unwrap_err()), Some(AlertDescription::ProtocolVersion));

    let other = node_1(&authority);
    let (ours, theirs) = duplex(1 << 16);
    let (accepted, dialled) = tokio::join!(node.accept(ours), other.connect(theirs, "n1", Some(1)));
    assert_eq!(accepted.unwrap().0.description(), "TLSv1_3 with X25519MLKEM768");
    assert_eq!(dialled.unwrap().1.holder(), "fairhold://prod/node/1");
}

#[tokio::test]
async fn another_protocol_or_none_at_all_is_not_between_nodes() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    let pair = authority.issue(&Wanted::node_2());
    for protocol in [&b"http/1.1"[..], b""] {
        let mut config = (*careless_server(&pair, protocol)).clone();
        config.alpn_protocols.retain(|name| !name.is_empty());
        let (ours, theirs) = duplex(1 << 16);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (accepted, dialled) = tokio::join!(acceptor.accept(theirs), node.connect(ours, "n2", Some(2)));
        assert_eq!(dialled.unwrap_err().reason, FaultReason::Incompatible, "{protocol:?}: {:?}", accepted.err());
    }
}

#[tokio::test]
async fn what_is_not_tls_is_named() {
    let node = node_1(&TestAuthority::new());
    let first = [
        (&b"FAIRHOLD\x04\x00aaaaaaaaaaaaaaaaaaaaaaaa"[..], FaultReason::NotTls),
        (b"GET / HTTP/1.1\r\n\r\n", FaultReason::NotTls),
        (b"\x16\x03\x01", FaultReason::ConnectionLost),
        (b"", FaultReason::ConnectionLost),
    ];
    for (bytes, reason) in first {
        let (ours, mut theirs) = duplex(1 << 16);
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        let fault = node.accept(ours).await.unwrap_err();
        assert_eq!(fault.reason, reason, "{bytes:?}: {fault}");
    }
}

#[tokio::test]
async fn hosts_are_names_and_addresses() {
    let authority = TestAuthority::new();
    let node = node_1(&authority);
    for (hosts, host, is_accepted) in [
        (vec!["10.0.0.2"], "10.0.0.2", true),
        (vec!["10.0.0.2"], "10.0.0.3", false),
        (vec!["fd00::2"], "[fd00::2]", true),
        (vec!["*.db.example.com"], "n2.db.example.com", true),
        (vec!["*.db.example.com"], "db.example.com", false),
        (vec!["N2.example.com"], "n2.EXAMPLE.com", true),
    ] {
        let pair = authority.issue(&Wanted { hosts, ..Wanted::node_2() });
        let (ours, theirs) = duplex(1 << 16);
        let acceptor = TlsAcceptor::from(careless_server(&pair, PEER_PROTOCOL));
        let (_accepted, dialled) = tokio::join!(acceptor.accept(theirs), node.connect(ours, host, Some(2)));
        assert_eq!(dialled.is_ok(), is_accepted, "{host}");
    }
    let (ours, _theirs) = duplex(1 << 16);
    assert!(
        node.connect(ours, "not a host", None).await.unwrap_err().to_string().contains("is not the name or address of a host")
    );
}
