//! Wrong certificates at the port for clients, in both directions: those of clients at a running node, and those of servers
//! that commands and the Rust client dial. They are made by `fairhold cert`, by openssl, and by an authority without scruples.

use crate::{
    certificates::{cert, openssl},
    client::Call,
    commands::output_of,
    harness::{SHORT, eventually, free_port, run_parallel},
    identities::Guarded,
    strangers::log_line,
};
use fairhold_client::{Client, Error};
use fairhold_trust::authority_for_tests::{TestAuthority, TestPair, Wanted};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(30);
/// The shortest time between two warnings about failed handshakes.
const WARNED_EVERY: Duration = Duration::from_secs(10);
const CI: &str = "fairhold://prod/user/ci";
/// Lets openssl use a key that is too weak.
const WEAK: [&str; 2] = ["-cipher", "DEFAULT@SECLEVEL=0"];

/// A certificate in files.
#[derive(Debug, Clone)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    /// The authorities between it and the known one.
    chain: Option<PathBuf>,
}

impl Files {
    fn named(folder: &Path, name: &str) -> Files {
        Files { cert: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")), chain: None }
    }

    fn write(folder: &Path, name: &str, pair: &TestPair) -> Files {
        let files = Files::named(folder, name);
        let end = "-----END CERTIFICATE-----\n";
        let (leaf, rest) = pair.cert.split_once(end).expect("a certificate");
        fs::write(&files.cert, format!("{leaf}{end}")).expect("a certificate");
        fs::write(&files.key, &pair.key).expect("a key");
        let chain = (!rest.is_empty()).then(|| folder.join(format!("{name}.chain")));
        if let Some(chain) = &chain {
            fs::write(chain, rest).expect("a chain");
        }
        Files { chain, ..files }
    }

    /// The arguments of openssl.
    fn arguments(&self) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let mut arguments = vec!["-cert".to_owned(), text(&self.cert), "-key".to_owned(), text(&self.key)];
        arguments.extend(WEAK.map(str::to_owned));
        if let Some(chain) = &self.chain {
            arguments.extend(["-cert_chain".to_owned(), text(chain)]);
        }
        arguments
    }
}

/// A certificate of openssl with these extensions, by the authority of `fairhold cert`.
async fn by_openssl(folder: &Path, name: &str, key: &str, extensions: &str) -> Files {
    signed(folder, "ca/ca", name, key, extensions).await
}

/// A certificate of openssl with these extensions, signed with this certificate and its key.
async fn signed(folder: &Path, signer: &str, name: &str, key: &str, extensions: &str) -> Files {
    fs::write(folder.join(format!("{name}.ext")), extensions).expect("extensions");
    for line in [
        format!("req -new -newkey {key} -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"),
        format!(
            "x509 -req -in {name}.csr -CA {signer}.crt -CAkey {signer}.key -CAcreateserial -extfile {name}.ext -days 5 \
             -out {name}.crt"
        ),
    ] {
        let (success, said) = openssl(folder, &line).await;
        assert!(success, "openssl {line}: {said}");
    }
    Files::named(folder, name)
}

async fn self_signed(folder: &Path, name: &str, alternative: &str) -> Files {
    let line = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.crt -days 5 \
         -subj /CN={name} -addext subjectAltName={alternative}"
    );
    let (success, said) = openssl(folder, &line).await;
    assert!(success, "openssl {line}: {said}");
    Files::named(folder, name)
}

/// What `GET /v1/access/whoami` is answered to a client with this certificate, and everything that openssl says.
async fn shown_by(guarded: &Guarded, files: &Files) -> (Option<u16>, String) {
    let mut command = Command::new("openssl");
    let ca = guarded.file("ca.crt").display().to_string();
    command.args(["s_client", "-connect", &guarded.address, "-CAfile", &ca, "-alpn", "http/1.1", "-ign_eof"]);
    command.args(files.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("openssl runs");
    let mut input = child.stdin.take().expect("its input");
    let request = "GET /v1/access/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    // A refused client may be gone before it has read this.
    input.write_all(request.as_bytes()).await.ok();
    let Output { stdout, stderr, .. } = timeout(SOON, child.wait_with_output()).await.expect("it ends").expect("it runs");
    drop(input);
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    let status = said.split("HTTP/1.1 ").nth(1).and_then(|rest| rest[..3].parse().ok());
    (status, said)
}

/// How many handshakes failed for this reason.
async fn failed(guarded: &Guarded, reason: &str) -> u64 {
    let metrics = guarded.cluster.client(0).send(&Call::get("/metrics")).await.expect_status(200);
    let series = format!("fairhold_http_tls_handshakes_total{{result=\"{reason}\"}} ");
    let count = metrics.text.lines().find_map(|line| line.strip_prefix(&series));
    count.map_or(0, |count| count.parse().expect("a number"))
}

/// The leader's term, and the revision: what no stranger may change.
async fn standing(guarded: &Guarded) -> (u64, u64) {
    let cluster = guarded.admin(Call::get("/v1/cluster")).await.expect_status(200);
    (cluster.number("term"), cluster.revision())
}

/// Certificates of clients that a node refuses: the reason, the number of the alert, and what the log says of whose it is.
async fn refused_of_clients(guarded: &Guarded) -> Vec<(&'static str, Files, &'static str, u8, &'static str)> {
    let folder = guarded.cluster.folder();
    let ours = &guarded.other_authority;
    let right = || Wanted::client(CI);
    let write = |name: &str, pair: TestPair| Files::write(folder, name, &pair);
    for line in ["ca --name prod --out stranger", "client --ca stranger --user ci --out stranger-ci"] {
        let (code, said) = cert(folder, line).await;
        assert_eq!(code, 0, "{line}: {said}");
    }
    let servers = Wanted { purposes: Wanted::for_servers_alone().purposes, ..right() };
    let of_client = format!("subjectAltName=URI:{CI}\nextendedKeyUsage=clientAuth\n");
    let weak = by_openssl(folder, "weak", "rsa:1024", &of_client).await;
    let by_itself = self_signed(folder, "itself", &format!("URI:{CI}")).await;
    vec![
        ("expired", write("expired", ours.issue(&Wanted { days: (-9, -1), ..right() })), "expired", 45, CI),
        ("not yet valid", write("early", ours.issue(&Wanted { days: (2, 9), ..right() })), "not_yet_valid", 45, CI),
        ("another authority", Files::named(&folder.join("stranger-ci"), "client-ci"), "unknown_authority", 48, CI),
        ("the same name", write("same", TestAuthority::new().issue(&right())), "unknown_authority", 48, CI),
        ("for servers", write("servers", ours.issue(&servers)), "wrong_purpose", 43, CI),
        ("RSA with 1024 bits", weak, "weak_key", 46, CI),
        ("six certificates", write("six", ours.issue(&Wanted { intermediates: 5, ..right() })), "chain_too_long", 46, CI),
        ("signed by itself", by_itself, "damaged", 46, CI),
    ]
}

#[test]
fn wrong_certificates_of_clients_are_refused_counted_and_logged_and_change_nothing() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start_with(&["--log", "info,fairhold_http=debug"]).await;
        // The node's own report of its capacity makes a revision.
        log_line(&guarded.cluster.nodes[0], 0, &["reported how large a state this node can hold"]).await;
        let before = standing(&guarded).await;
        let begun = Instant::now();
        let wrong = refused_of_clients(&guarded).await;
        for (what, files, reason, alert, whose) in &wrong {
            let counted = failed(&guarded, reason).await;
            let logged = guarded.cluster.nodes[0].log_text().len();
            let (status, said) = shown_by(&guarded, files).await;
            assert_eq!(status, None, "{what} is refused: {said}");
            assert!(said.contains(&format!("SSL alert number {alert}")), "{what}: {said}");
            eventually("it is counted", SOON, || async { (failed(&guarded, reason).await == counted + 1).then_some(()) }).await;
            let lines = eventually("it is logged", SOON, || async {
                let log = guarded.cluster.nodes[0].log_text();
                let lines = log[logged..].lines().filter(|line| line.contains("a TLS handshake failed: "));
                Some(lines.map(str::to_owned).collect::<Vec<_>>()).filter(|lines| !lines.is_empty())
            })
            .await;
            assert!(lines.len() == 1 && lines[0].contains(whose), "{what}: {lines:?}");
        }
        let log = guarded.cluster.nodes[0].log_text();
        let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("a TLS handshake failed")).count();
        let at_most = 1 + usize::try_from(begun.elapsed().as_secs() / WARNED_EVERY.as_secs()).expect("a small number");
        assert!((1..=at_most).contains(&warned), "{warned} warnings in {:?}: {log}", begun.elapsed());
        assert_eq!(standing(&guarded).await, before, "the term and the revision");
    });
}

#[test]
fn certificates_without_a_user_of_this_cluster_and_of_a_disabled_user_may_do_nothing() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start_with(&[]).await;
        let folder = guarded.cluster.folder();
        for line in [
            "node --ca ca --id 7 --host 127.0.0.1 --out of-node",
            "client --ca ca --user other --out of-other",
            "client --ca ca --user ci --out of-ci",
        ] {
            let (code, said) = cert(folder, line).await;
            assert_eq!(code, 0, "{line}: {said}");
        }
        let of = |directory: &str, name: &str| Files::named(&folder.join(directory), name);
        let ec = "ec -pkeyopt ec_paramgen_curve:P-256";
        let nameless = by_openssl(folder, "nameless", ec, "extendedKeyUsage=clientAuth\n").await;
        // Its common name is that of a user.
        let ci = by_openssl(folder, "ci", ec, "subjectAltName=DNS:ci\nextendedKeyUsage=clientAuth\n").await;
        let elsewhere = "subjectAltName=URI:fairhold://test/user/ci\nextendedKeyUsage=clientAuth\n";
        let elsewhere = by_openssl(folder, "elsewhere", ec, elsewhere).await;
        let before = standing(&guarded).await;
        for (what, files, missing) in [
            ("no alternative name", nameless, "missing"),
            ("a common name alone", ci, "missing"),
            ("another cluster", elsewhere, "missing"),
            ("a node's", of("of-node", "node-7"), "missing"),
        ] {
            let (status, said) = shown_by(&guarded, &files).await;
            assert_eq!(status, Some(401), "{what}: {said}");
            assert!(said.contains(&format!("\"credential\":\"{missing}\"")), "{what}: {said}");
        }
        assert_eq!(standing(&guarded).await, before, "the term and the revision");
        let right = of("of-ci", "client-ci");
        assert_eq!(shown_by(&guarded, &right).await.0, Some(200), "the right one is accepted");
        let disable = Call::put("/v1/access/users/ci", "").json(&json!({ "disabled": true }));
        guarded.admin(disable).await.expect_status(200);
        let (status, said) = shown_by(&guarded, &right).await;
        assert_eq!(status, Some(401), "{said}");
        assert!(said.contains("\"credential\":\"revoked\""), "{said}");
        let (status, said) = shown_by(&guarded, &of("of-other", "client-other")).await;
        assert_eq!(status, Some(200), "another user is not disabled: {said}");
    });
}

/// A server that shows this certificate.
async fn serve(files: &Files, folder: &Path) -> (Child, String) {
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new("openssl");
    command.args(["s_server", "-accept", &address, "-www", "-quiet"]).args(files.arguments()).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().expect("openssl runs");
    eventually("openssl listens", SOON, || async { TcpStream::connect(&address).await.ok().map(drop) }).await;
    (child, format!("https://{address}"))
}

/// Certificates of servers that no client accepts, and what it says. A client limits no chain.
async fn refused_of_servers(folder: &Path, ours: &TestAuthority) -> Vec<(&'static str, Files, &'static str)> {
    let right = || Wanted { hosts: vec!["127.0.0.1"], uris: vec!["fairhold://prod/node/1"], ..Wanted::node_2() };
    let write = |name: &str, wanted: Wanted| Files::write(folder, name, &ours.issue(&wanted));
    let clients = Wanted { purposes: Wanted::for_clients_alone().purposes, ..right() };
    let nameless = |common_name| Wanted { hosts: Vec::new(), uris: Vec::new(), common_name, ..right() };
    let other_host = Wanted { hosts: vec!["n2"], ..right() };
    let of_server = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";
    for line in [
        "ca --name prod --out stranger",
        "node --ca stranger --host 127.0.0.1 --out of-stranger",
        "node --ca ca --host 127.0.0.1 --out of-ours",
    ] {
        let (code, said) = cert(folder, line).await;
        assert_eq!(code, 0, "{line}: {said}");
    }
    let ec = "ec -pkeyopt ec_paramgen_curve:P-256";
    let by_a_node = Files {
        chain: Some(folder.join("of-ours/node.crt")),
        ..signed(folder, "of-ours/node", "s-by-node", ec, of_server).await
    };
    vec![
        ("expired", write("s-expired", Wanted { days: (-9, -1), ..right() }), "has expired"),
        ("not yet valid", write("s-early", Wanted { days: (2, 9), ..right() }), "is not valid yet"),
        ("another authority", Files::named(&folder.join("of-stranger"), "node"), "unknown authority"),
        ("the same name", Files::write(folder, "s-same", &TestAuthority::new().issue(&right())), "unknown authority"),
        ("for clients", write("s-clients", clients), "for another purpose"),
        ("no name", write("s-nameless", nameless("nobody")), "does not name this host"),
        ("a common name alone", write("s-common", nameless("127.0.0.1")), "does not name this host"),
        ("another host", write("s-host", other_host), "does not name this host"),
        ("a user's", write("s-user", Wanted::client(CI)), "for another purpose"),
        ("RSA with 1024 bits", by_openssl(folder, "s-weak", "rsa:1024", of_server).await, "the certificate of the server"),
        ("signed by itself", self_signed(folder, "s-itself", "IP:127.0.0.1").await, "the certificate of the server"),
        ("signed by a node", by_a_node, "the certificate of the server"),
    ]
}

#[test]
fn wrong_certificates_of_servers_are_refused_by_commands_and_the_rust_client() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, ours) = (folder.path(), TestAuthority::new());
        let (code, said) = cert(folder, "ca --name prod --out ca").await;
        assert_eq!(code, 0, "{said}");
        let known = fs::read_to_string(folder.join("ca/ca.crt")).expect("an authority") + ours.cert();
        let ca = folder.join("known.crt");
        fs::write(&ca, known).expect("the known authorities");
        let ca = ca.display().to_string();
        let asked = async |url: &str| {
            let mut command = crate::harness::program();
            command.args(["locks", "ls", "--timeout", "1s", "-e", url, "--cacert", &ca]).kill_on_drop(true);
            command.output().await.expect("the program runs")
        };
        for (what, files, says) in refused_of_servers(folder, &ours).await {
            let (_server, url) = serve(&files, folder).await;
            let refused = output_of(&asked(&url).await, 69);
            assert!(refused.contains(says), "{what}: {refused}");
            let client = Client::builder().endpoint(&url).ca_certificate(&ca).timeout(Duration::from_secs(1)).build();
            let error = client.expect("a client").nodes().put("/x", "1").await.expect_err(what);
            assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains(says), "{what}: {error}");
        }
        // The right certificate is accepted: what answers is no node, which the command says.
        let right = Wanted { hosts: vec!["127.0.0.1"], ..Wanted::node_2() };
        let (_server, url) = serve(&Files::write(folder, "s-right", &ours.issue(&right)), folder).await;
        let accepted = output_of(&asked(&url).await, 69);
        assert!(accepted.contains("not a node of this cluster"), "{accepted}");
    });
}
