//! Files that are replaced, damaged, half written and exchanged while a node runs.

use crate::{
    authority_for_tests::{TestAuthority, TestPair, Wanted, prod, write},
    file_check::FileCheck,
    files::CertificateFiles,
    live_pair::LivePair,
    pair::{Pair, PairUse},
    peer::PeerTls,
};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    sync::Notify,
};

fn as_node_2() -> PairUse {
    PairUse::Peers { cluster: prod(), node: Some(2), host: None }
}

struct Setup {
    directory: TempDir,
    authority: TestAuthority,
    first: TestPair,
    files: CertificateFiles,
}

impl Setup {
    fn new() -> Setup {
        let (directory, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new());
        let first = authority.issue(&Wanted::node_2());
        let files = write(directory.path(), &first, authority.cert());
        Setup { directory, authority, first, files }
    }

    fn load(&self) -> Arc<LivePair> {
        LivePair::load(self.files.clone(), as_node_2()).unwrap()
    }

    fn issue(&self) -> TestPair {
        self.authority.issue(&Wanted::node_2())
    }

    fn replace(&self, pair: &TestPair) {
        write(self.directory.path(), pair, self.authority.cert());
    }
}

fn rejected(check: FileCheck) -> String {
    match check {
        FileCheck::Rejected(error) => error,
        FileCheck::Unchanged | FileCheck::Replaced | FileCheck::StillRejected { .. } => panic!("{check:?}"),
    }
}

#[test]
fn a_new_pair_replaces_the_old_one() {
    let setup = Setup::new();
    let pair = setup.load();
    let before = pair.current().certificate().serial.clone();
    assert_eq!(pair.check(), FileCheck::Unchanged);
    setup.replace(&setup.issue());
    assert_eq!(pair.check(), FileCheck::Replaced);
    assert_ne!(pair.current().certificate().serial, before);
    assert_eq!(pair.check(), FileCheck::Unchanged);
}

#[test]
fn files_that_do_not_work_change_nothing_and_name_what_is_wrong() {
    let setup = Setup::new();
    let pair = setup.load();
    let before = pair.current().certificate().sha256.clone();
    let other = setup.issue();
    let issue = |wanted: Wanted| setup.authority.issue(&wanted);
    let with = |cert: &str, key: &str| TestPair { cert: cert.to_owned(), key: key.to_owned() };
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let cases = [
        ("the new certificate with the old key", with(&other.cert, &setup.first.key), "node.key does not fit the certificate in"),
        ("the old certificate with the new key", with(&setup.first.cert, &other.key), "node.key does not fit the certificate in"),
        ("half a certificate", with(&half(&other.cert), &other.key), "node.crt is damaged or incomplete"),
        ("half a key", with(&other.cert, &half(&other.key)), "node.key is damaged or incomplete"),
        ("an empty certificate", with("", &other.key), "node.crt has no certificate"),
        ("an empty key", with(&other.cert, ""), "node.key has no private key"),
        ("both exchanged", with(&other.key, &other.cert), "are the certificate and the key exchanged?"),
        ("two keys", with(&other.cert, &format!("{}{}", other.key, setup.first.key)), "node.key has 2 private keys"),
        ("an encrypted key", with(&other.cert, ENCRYPTED), "decrypt it with `openssl pkey"),
        ("no base64", with("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", &other.key), "node.crt is damaged"),
        (
            "no certificate",
            with("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &other.key),
            "not a certificate",
        ),
        ("expired", issue(Wanted { days: (-9, -1), ..Wanted::node_2() }), "expired at"),
        ("not yet valid", issue(Wanted { days: (1, 9), ..Wanted::node_2() }), "is not valid before"),
        ("another authority", TestAuthority::named("another").issue(&Wanted::node_2()), "not from a certificate authority"),
        (
            "another node",
            issue(Wanted { uris: vec!["fairhold://prod/node/3"], ..Wanted::node_2() }),
            "needs fairhold://prod/node/2",
        ),
        ("another cluster", issue(Wanted { uris: vec!["fairhold://test/node/2"], ..Wanted::node_2() }), "fairhold://test/node/2"),
        ("no host", issue(Wanted { hosts: Vec::new(), ..Wanted::node_2() }), "names no host"),
        (
            "a client's",
            issue(Wanted { hosts: vec!["n2"], ..Wanted::client("fairhold://prod/user/ci") }),
            "without server authentication",
        ),
        (
            "a missing intermediate",
            with(&leaf(&issue(Wanted { intermediates: 1, ..Wanted::node_2() })), &other.key),
            "does not fit",
        ),
    ];
    for (name, files, says) in cases {
        setup.replace(&files);
        let error = rejected(pair.check());
        assert!(error.contains(says) && error.contains("node."), "{name}: {error}");
        assert!(!error.contains("PRIVATE KEY-----\n"), "{name}: {error}");
        assert_eq!(pair.rejection(), Some(error.clone()), "{name}");
        assert_eq!(pair.check(), FileCheck::StillRejected { error, checks: 2 }, "{name}");
        assert_eq!(pair.current().certificate().sha256, before, "{name}");
        assert!(Pair::load(&setup.files, &as_node_2()).is_err(), "{name}: a start refuses it too");
        setup.replace(&setup.first);
        assert_eq!((pair.check(), pair.rejection()), (FileCheck::Unchanged, None), "{name}");
    }
    setup.replace(&other);
    assert_eq!(pair.check(), FileCheck::Replaced);
}

/// The head of a key with a passphrase.
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";

/// The first certificate of a chain.
#[test]
fn a_certificate_for_another_host_replaces_none_with_which_the_others_can_dial_this_node() {
    let setup = Setup::new();
    let at = |host: &str| PairUse::Peers { cluster: prod(), node: Some(2), host: Some(host.to_owned()) };
    let pair = LivePair::load(setup.files.clone(), at("127.0.0.1")).unwrap();
    let elsewhere = || setup.authority.issue(&Wanted { hosts: vec!["n2.example.org"], ..Wanted::node_2() });
    setup.replace(&elsewhere());
    let error = rejected(pair.check());
    assert!(error.contains("127.0.0.1") && pair.is_for_its_host(), "{error}");
    setup.replace(&setup.issue());
    assert_eq!((pair.check(), pair.is_for_its_host()), (FileCheck::Replaced, true));

    // If the first certificate is for another host too, the new one makes nothing worse.
    let moved = LivePair::load(setup.files.clone(), at("n9.example.org")).unwrap();
    assert!(!moved.is_for_its_host());
    setup.replace(&elsewhere());
    assert_eq!(moved.check(), FileCheck::Replaced);
}

fn leaf(pair: &TestPair) -> String {
    let end = pair.cert.find("-----END").unwrap();
    format!("{}-----END CERTIFICATE-----\n", &pair.cert[..end])
}

#[test]
fn missing_intermediates_are_found() {
    let setup = Setup::new();
    let pair = setup.load();
    let wanted = setup.authority.issue(&Wanted { intermediates: 1, ..Wanted::node_2() });
    setup.replace(&TestPair { cert: leaf(&wanted), key: wanted.key.clone() });
    assert!(rejected(pair.check()).contains("not from a certificate authority that this side knows"));
    setup.replace(&wanted);
    assert_eq!(pair.check(), FileCheck::Replaced);
}

#[test]
fn a_file_that_is_gone_or_is_not_a_file_changes_nothing() {
    let setup = Setup::new();
    let pair = setup.load();
    let ca = setup.files.ca.clone().unwrap();
    fs::remove_file(&setup.files.cert).unwrap();
    assert!(rejected(pair.check()).contains("node.crt cannot be read: No such file"));
    fs::create_dir(&setup.files.cert).unwrap();
    assert!(rejected(pair.check()).contains("node.crt is not a file"));
    fs::remove_dir(&setup.files.cert).unwrap();
    fs::write(&setup.files.cert, vec![b'x'; 1024 * 1024 + 1]).unwrap();
    assert!(rejected(pair.check()).contains("is that the right file?"));
    setup.replace(&setup.first);
    fs::write(&ca, "").unwrap();
    assert!(rejected(pair.check()).contains("ca.crt has no certificate"));
    fs::remove_file(&ca).unwrap();
    assert!(rejected(pair.check()).contains("ca.crt cannot be read"));
    setup.replace(&setup.first);
    assert_eq!(pair.check(), FileCheck::Unchanged);
}

#[test]
fn a_symlink_that_moves_is_noticed() {
    let setup = Setup::new();
    let (versions, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let version = |name: &str, pair: &TestPair| {
        fs::create_dir(versions.path().join(name)).unwrap();
        write(&versions.path().join(name), pair, setup.authority.cert());
    };
    version("1", &setup.first);
    version("2", &setup.issue());
    // As Kubernetes mounts a secret: the files are symlinks into `..data`, which is a symlink that is replaced.
    let data = mounted.path().join("..data");
    std::os::unix::fs::symlink(versions.path().join("1"), &data).unwrap();
    for name in ["node.crt", "node.key", "ca.crt"] {
        std::os::unix::fs::symlink(Path::new("..data").join(name), mounted.path().join(name)).unwrap();
    }
    let at = |name: &str| mounted.path().join(name);
    let files = CertificateFiles { cert: at("node.crt"), key: at("node.key"), ca: Some(at("ca.crt")) };
    let pair = LivePair::load(files, as_node_2()).unwrap();
    let next = mounted.path().join("..data_new");
    std::os::unix::fs::symlink(versions.path().join("2"), &next).unwrap();
    fs::rename(&next, &data).unwrap();
    assert_eq!(pair.check(), FileCheck::Replaced);
}

#[test]
fn a_new_authority_counts_together_with_the_old_one() {
    let setup = Setup::new();
    let pair = setup.load();
    let next = TestAuthority::named("the next authority");
    let both = format!("{}{}", setup.authority.cert(), next.cert());
    write(setup.directory.path(), &setup.first, &both);
    assert_eq!(pair.check(), FileCheck::Replaced, "first all nodes know both");
    write(setup.directory.path(), &next.issue(&Wanted::node_2()), &both);
    assert_eq!(pair.check(), FileCheck::Replaced, "then all get new certificates");
    write(setup.directory.path(), &setup.first, next.cert());
    assert!(rejected(pair.check()).contains("not from a certificate authority"));
}

#[test]
fn a_key_that_everybody_can_read_counts_and_is_told() {
    let setup = Setup::new();
    for (mode, open) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
        fs::set_permissions(&setup.files.key, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Pair::load(&setup.files, &as_node_2()).unwrap().is_key_open(), open, "{mode:o}");
    }
}

#[test]
fn a_pair_shows_no_key() {
    let setup = Setup::new();
    let pair = setup.load();
    let shown = format!("{pair:?} {:?}", pair.current());
    assert!(shown.contains("fairhold://prod/node/2") && shown.len() < 600, "{shown}");
    let days = |days: u64| days * 86_400_000;
    let until = pair.current().not_after();
    let authority = pair.current().authority_not_after().unwrap();
    assert_eq!((authority.0 - until.0) / days(1), 70);
}

#[tokio::test]
async fn open_connections_stay_and_new_ones_use_the_new_pair() {
    let setup = Setup::new();
    let node = PeerTls::new(setup.load(), prod());
    let connect = async || {
        let (ours, theirs) = duplex(1 << 16);
        let (accepted, dialled) = tokio::join!(node.accept(ours), node.connect(theirs, "n2", Some(2)));
        (accepted.unwrap().0, dialled.unwrap())
    };
    let (mut old_accepted, (mut old_dialled, first)) = connect().await;
    setup.replace(&setup.authority.issue(&Wanted { days: (-1, 60), ..Wanted::node_2() }));
    assert_eq!(node.pair().check(), FileCheck::Replaced);
    let (_, (_, second)) = connect().await;
    assert!(second.not_after() > first.not_after());
    old_dialled.write_all(b"still here").await.unwrap();
    old_dialled.flush().await.unwrap();
    let mut bytes = [0; 10];
    old_accepted.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"still here");
}

#[tokio::test]
async fn a_watcher_follows_the_files_by_itself_and_when_asked() {
    for (interval, is_asked) in [(Duration::from_millis(1), false), (Duration::from_secs(3_600), true)] {
        let setup = Setup::new();
        let pair = setup.load();
        let reload = Arc::new(Notify::new());
        let mut watcher = tokio::spawn(pair.clone().watch_every(interval, reload.clone()));
        let serial = || pair.current().certificate().serial.clone();
        let before = serial();
        setup.replace(&setup.issue());
        if is_asked {
            reload.notify_one();
        }
        let changed = async {
            while serial() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            ended = &mut watcher => panic!("the watcher ended: {ended:?}"),
            () = changed => {}
        }
        watcher.abort();
    }
}
