//! TLS at the port for clients: three nodes with certificates, the commands, curl, and certificates that change while a
//! lock is held.

use crate::{
    client::Call,
    commands::output_of,
    harness::{Cluster, LONG, SHORT, eventually, free_port, program, run_parallel, signal_pid},
};
use fairhold_client::{Client, Error};
use fairhold_trust::ca_directory::CaDirectory;
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

/// How long an expected message may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A cluster with TLS. The harness itself uses the plain ports.
pub(crate) struct SecureCluster {
    pub(crate) cluster: Cluster,
    ca: CaDirectory,
    /// `https://` URLs.
    pub(crate) urls: Vec<String>,
}

impl SecureCluster {
    pub(crate) async fn start() -> SecureCluster {
        let mut cluster = Cluster::plan();
        let ca = CaDirectory::create(&cluster.folder().join("ca"), &"prod".parse().expect("a name"), 10).expect("an authority");
        let ports: Vec<u16> = cluster.nodes.iter().map(|_| free_port()).collect();
        let urls: Vec<String> = ports.iter().map(|port| format!("https://127.0.0.1:{port}")).collect();
        let list: Vec<String> =
            cluster.nodes.iter().zip(&urls).map(|(node, url)| format!("{}={url},{}", node.id, node.peer_address)).collect();
        let folder = cluster.folder().to_owned();
        for (node, port) in cluster.nodes.iter_mut().zip(&ports) {
            let (cert, key) = issue(&ca, &folder, &format!("n{}", node.id));
            let text = |path: &Path| path.display().to_string();
            let plain = node.url.trim_start_matches("http://").to_owned();
            node.origin = crate::harness::Origin::Members(list.clone());
            node.flags = ["--cert", &text(&cert), "--key", &text(&key), "--client-ca", &text(&folder.join("ca.crt"))]
                .into_iter()
                .chain(["--listen", &format!("127.0.0.1:{port}"), "--listen-plain", &plain])
                .map(str::to_owned)
                .collect();
            node.start();
        }
        cluster.ready().await;
        SecureCluster { cluster, ca, urls }
    }

    pub(crate) fn ca_file(&self) -> String {
        self.cluster.folder().join("ca.crt").display().to_string()
    }

    /// A command that trusts the authority of the cluster.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments).env("FAIRHOLD_CACERT", self.ca_file()).env("FAIRHOLD_ENDPOINT", self.urls.join(","));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.expect("the program runs")
    }
}

/// A certificate for this machine, as `NAME.crt` and `NAME.key`.
fn issue(ca: &CaDirectory, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let pair = ca.authority().issue_node(&["127.0.0.1".to_owned(), "localhost".to_owned()], None, 5).expect("a certificate");
    ca.write_pair(folder, name, &pair).expect("files")
}

async fn curl(arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS"]).args(arguments).env("no_proxy", "*").kill_on_drop(true);
    command.output().await.expect("curl runs")
}

#[test]
fn commands_and_curl_use_a_cluster_with_tls() {
    run_parallel(SHORT, async {
        let secure = SecureCluster::start().await;
        let locked =
            program().args(["lock", "--cacert", &secure.ca_file(), "-e", &secure.urls[1], "db", "--", "echo", "held"]).output();
        let locked = output_of(&locked.await.expect("the program runs"), 0);
        assert_eq!(locked, "held\n");
        let members = output_of(&secure.run(&["cluster", "members", "-o", "plain"]).await, 0);
        assert!(secure.urls.iter().all(|url| members.contains(url)), "{members}");
        let checked = output_of(&secure.run(&["doctor"]).await, 0);
        assert!(checked.contains("3 of 3 voting nodes answer"), "{checked}");
        assert!(checked.contains("node 1's certificate for clients is valid until"), "{checked}");
        assert!(!checked.contains("--insecure"), "{checked}");

        let (ca, url) = (secure.ca_file(), format!("{}/livez", secure.urls[0]));
        let answer = curl(&["--cacert", &ca, &url]).await;
        assert!(answer.status.success(), "{answer:?}");
        assert_eq!(curl(&[&url]).await.status.code(), Some(60), "the authority is unknown to curl");
        let plain = curl(&[&url.replace("https:", "http:")]).await;
        let told = format!("this port speaks TLS: {}\n", secure.urls[0]);
        assert_eq!(String::from_utf8_lossy(&plain.stdout), told);
    });
}

#[test]
fn a_load_measures_a_cluster_with_tls() {
    run_parallel(SHORT, async {
        let secure = SecureCluster::start().await;
        let load = ["bench", "lock", "--clients", "2", "--seconds", "1", "--output", "json"];
        let measured = secure.run(&load).await;
        let line = String::from_utf8_lossy(&measured.stdout).into_owned();
        let figures: serde_json::Value =
            serde_json::from_str(line.trim()).unwrap_or_else(|error| panic!("{error}: {measured:?}"));
        assert!(figures["done"].as_u64() > Some(0) && figures["failed"] == 0, "{figures}");

        let mut without_authority = secure.command(&load);
        without_authority.env_remove("FAIRHOLD_CACERT");
        let refused = without_authority.output().await.expect("the program runs");
        assert!(!refused.status.success(), "{refused:?}");
    });
}

#[test]
fn a_command_says_what_to_do_about_tls() {
    run_parallel(SHORT, async {
        let secure = SecureCluster::start().await;
        let ls = |url: &str, ca: &str, more: &[&str]| {
            let mut command = program();
            command.args(["locks", "ls", "--timeout", "1s", "-e", url]).args(more).env("FAIRHOLD_CACERT", ca);
            async move { command.output().await.expect("the program runs") }
        };
        let folder = secure.cluster.folder();
        let other = CaDirectory::create(&folder.join("other"), &"prod".parse().expect("a name"), 10).expect("an authority");
        let other_ca = folder.join("other/ca.crt").display().to_string();
        let unknown = output_of(&ls(&secure.urls[0], &other_ca, &[]).await, 69);
        assert!(unknown.contains("from an unknown authority; pass the file of that authority (--cacert"), "{unknown}");
        let plain = output_of(&ls(&secure.urls[0].replace("https:", "http:"), &secure.ca_file(), &[]).await, 69);
        assert!(plain.contains("this port speaks TLS; use an https:// URL"), "{plain}");
        let secure_at_plain = secure.cluster.nodes[0].url.replace("http:", "https:");
        let not_tls = output_of(&ls(&secure_at_plain, &secure.ca_file(), &[]).await, 69);
        assert!(not_tls.contains("does not speak TLS at this port"), "{not_tls}");
        let absent = output_of(&ls(&secure.urls[0], "/nowhere/ca.crt", &[]).await, 2);
        assert!(absent.contains("/nowhere/ca.crt cannot be read"), "{absent}");

        let stranger = other.authority().issue_client(&"ci".parse().expect("a name"), 5).expect("a certificate");
        let (cert, key) = other.write_pair(&folder.join("other"), "stranger", &stranger).expect("files");
        let (cert, key) = (cert.display().to_string(), key.display().to_string());
        let refused = output_of(&ls(&secure.urls[0], &secure.ca_file(), &["--cert", &cert, "--key", &key]).await, 69);
        assert!(refused.contains("does not know the authority of the client's certificate"), "{refused}");
        let half = output_of(&ls(&secure.urls[0], &secure.ca_file(), &["--cert", &cert]).await, 2);
        assert!(half.contains("--cert is given without --key"), "{half}");
    });
}

#[test]
fn the_rust_client_uses_tls() {
    run_parallel(SHORT, async {
        let secure = SecureCluster::start().await;
        let ci = secure.ca.authority().issue_client(&"ci".parse().expect("a name"), 5).expect("a certificate");
        let (cert, key) = secure.ca.write_pair(secure.cluster.folder(), "ci", &ci).expect("files");
        let builder = || Client::builder().endpoint(&secure.urls[0]).timeout(Duration::from_secs(2));
        let client = builder().ca_certificate(secure.ca_file()).client_certificate(&cert, &key).build().expect("a client");
        let guard = client.lock("db").await.expect("the lock");
        guard.release().await.expect("a release");
        eventually("the client learns all members", SOON, || async {
            let known = client.endpoints();
            secure.urls.iter().all(|url| known.contains(url)).then_some(())
        })
        .await;

        let other = CaDirectory::create(&secure.cluster.folder().join("other"), &"prod".parse().expect("a name"), 10);
        drop(other.expect("an authority"));
        let stranger = builder().ca_certificate(secure.cluster.folder().join("other/ca.crt")).build().expect("a client");
        let error = stranger.nodes().put("/x", "1").await.expect_err("an unknown authority");
        assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("--cacert"), "{error}");
        for (built, says) in [
            (builder().ca_certificate("/nowhere/ca.crt").build(), "/nowhere/ca.crt cannot be read"),
            (builder().ca_certificate(&key).build(), "has no certificate"),
            (builder().client_certificate(&key, &key).build(), "are not a certificate and its key"),
        ] {
            let error = built.expect_err("an unusable file");
            assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(says), "{error}");
        }
    });
}

#[test]
fn certificates_change_while_a_lock_is_held() {
    run_parallel(LONG, async {
        let secure = SecureCluster::start().await;
        let mut holding = secure.command(&["lock", "db", "--ttl", "5s", "--", "sh", "-c", "echo held; cat; echo released"]);
        let mut holder = holding.stdin(Stdio::piped()).spawn().expect("fairhold lock starts");
        let mut said = BufReader::new(holder.stdout.take().expect("its output")).lines();
        assert_eq!(said.next_line().await.expect("a line").as_deref(), Some("held"));

        let folder = secure.cluster.folder();
        for node in &secure.cluster.nodes {
            let (old, new) = (format!("n{}", node.id), format!("new{}", node.id));
            let (cert, key) = issue(&secure.ca, folder, &new);
            // One file at a time, as most tools do it. A pair that does not fit changes nothing.
            fs::rename(cert, folder.join(format!("{old}.crt"))).expect("a new certificate");
            fs::rename(key, folder.join(format!("{old}.key"))).expect("a new key");
            eventually("the node uses its new certificate", SOON, || async {
                node.log_text().contains("new connections use the new certificate").then_some(())
            })
            .await;
            // A SIGHUP reads the files again, and does not end the node.
            signal_pid(node.pid(), Signal::HUP);
            eventually("the node has received the signal", SOON, || async {
                node.log_text().contains("SIGHUP: reading the certificates and keys again").then_some(())
            })
            .await;
        }
        let shown = output_of(&secure.run(&["locks", "show", "db", "-o", "json"]).await, 0);
        assert!(shown.contains("\"holders\""), "{shown}");
        drop(holder.stdin.take());
        assert_eq!(said.next_line().await.expect("a line").as_deref(), Some("released"));
        let ended = holder.wait_with_output().await.expect("it ends");
        assert!(ended.status.success(), "{ended:?}");
    });
}

#[test]
fn one_certificate_serves_clients_and_nodes_and_plain_text_beyond_loopback_is_told() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::plan();
        let folder = cluster.folder().to_owned();
        let ca = CaDirectory::create(&folder.join("ca"), &"prod".parse().expect("a name"), 10).expect("an authority");
        for node in &mut cluster.nodes {
            let (cert, key) = issue(&ca, &folder, &format!("n{}", node.id));
            let text = |path: &Path| path.display().to_string();
            let plain = node.url.trim_start_matches("http://127.0.0.1:").to_owned();
            let files =
                ["--cert", &text(&cert), "--key", &text(&key), "--peer-ca", &text(&folder.join("ca.crt"))].map(str::to_owned);
            let ports =
                ["--listen", &format!("127.0.0.1:{}", free_port()), "--listen-plain", &format!("0.0.0.0:{plain}"), "--insecure"]
                    .map(str::to_owned);
            node.flags = files.into_iter().chain(ports).chain(["--cluster-name", "prod"].map(str::to_owned)).collect();
            node.peer_key_file = None;
            node.start();
        }
        cluster.ready().await;
        let answer = cluster.client(0).send_to(0, &Call::get("/v1/cluster")).await.expect("it answers").expect_status(200);
        assert!(answer.text.contains("\"insecure\":[\"plain_clients\"]"), "{}", answer.text);
        let metrics = cluster.client(0).send_to(0, &Call::get("/metrics")).await.expect("it answers").expect_status(200);
        let ends = |port: &str| {
            let series = format!("fairhold_certificate_not_after_seconds{{port=\"{port}\"}} ");
            metrics.text.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
        };
        assert!(ends("clients").is_some_and(|end| end != "0") && ends("clients") == ends("nodes"), "{}", metrics.text);
        let checked = program().args(["doctor", "-e", &cluster.nodes[0].url]).output().await.expect("the program runs");
        let checked = output_of(&checked, 0);
        assert!(checked.contains("node 1 runs with --insecure: clients use plain text"), "{checked}");
        assert!(cluster.nodes[0].log_text().contains("--insecure: anyone on the network of the clients can read and alter"));
    });
}

#[test]
fn a_node_with_a_wrong_certificate_does_not_start() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let ca = CaDirectory::create(&folder.path().join("ca"), &"prod".parse().expect("a name"), 10).expect("an authority");
        let (cert, _) = issue(&ca, folder.path(), "a");
        let (_, key) = issue(&ca, folder.path(), "b");
        let mut command = program();
        command.args(["serve", "--id", "1", "--member", "1=https://127.0.0.1:1,127.0.0.1:2"]);
        command.arg("--data").arg(folder.path().join("data")).arg("--cert").arg(cert).arg("--key").arg(key);
        let output = command.stdin(Stdio::null()).output().await.expect("the program runs");
        let text = output_of(&output, 2);
        assert!(text.contains("does not fit the certificate"), "{text}");
    });
}
