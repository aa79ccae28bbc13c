//! `fairhold cert` makes certificates that openssl accepts, for the purposes that they name and no others.

use crate::harness::{SHORT, program, run_parallel};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
};
use tokio::process::Command;

/// Runs a command in a folder.
async fn run(mut command: Command, folder: &Path) -> Output {
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    command
        .output()
        .await
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}. `./fairhold test` installs openssl"))
}

/// Runs `fairhold cert`, and returns its exit code and everything that it printed.
pub(crate) async fn cert(folder: &Path, line: &str) -> (i32, String) {
    let mut command = program();
    command.arg("cert").args(line.split(' '));
    let output = run(command, folder).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an exit code"), String::from_utf8(text).expect("UTF-8"))
}

/// Runs openssl, and returns whether it succeeded and everything that it printed.
pub(crate) async fn openssl(folder: &Path, line: &str) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.args(line.split(' '));
    let output = run(command, folder).await;
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A folder with the authority of `prod`, a node's pair and a client's.
async fn issued() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for line in [
        "ca --name prod --out ca",
        "node --ca ca --id 1 --host n1,10.0.0.1,*.db.example.com --out one",
        "client --ca ca --user ci --out ci",
    ] {
        let (code, text) = cert(folder.path(), line).await;
        assert_eq!(code, 0, "{line}: {text}");
    }
    folder
}

#[test]
fn openssl_accepts_the_certificates_for_their_purposes_alone() {
    run_parallel(SHORT, async {
        let folder = issued().await;
        for (line, is_accepted) in [
            ("verify -x509_strict -CAfile ca/ca.crt ca/ca.crt", true),
            ("verify -x509_strict -CAfile ca/ca.crt -purpose sslserver one/node-1.crt", true),
            ("verify -x509_strict -CAfile ca/ca.crt -purpose sslclient one/node-1.crt", true),
            ("verify -x509_strict -CAfile ca/ca.crt -verify_hostname n1 one/node-1.crt", true),
            ("verify -x509_strict -CAfile ca/ca.crt -verify_hostname a.db.example.com one/node-1.crt", true),
            ("verify -x509_strict -CAfile ca/ca.crt -verify_ip 10.0.0.1 one/node-1.crt", true),
            ("verify -CAfile ca/ca.crt -verify_hostname n2 one/node-1.crt", false),
            ("verify -CAfile ca/ca.crt -verify_ip 10.0.0.2 one/node-1.crt", false),
            ("verify -x509_strict -CAfile ca/ca.crt -purpose sslclient ci/client-ci.crt", true),
            ("verify -CAfile ca/ca.crt -purpose sslserver ci/client-ci.crt", false),
            // A certificate that is no authority's issues nothing.
            ("verify -partial_chain -CAfile one/node-1.crt ci/client-ci.crt", false),
        ] {
            let (success, text) = openssl(folder.path(), line).await;
            assert_eq!(success, is_accepted, "openssl {line}: {text}");
        }
    });
}

#[test]
fn openssl_reads_the_names_that_were_given() {
    run_parallel(SHORT, async {
        let folder = issued().await;
        let (_, text) = openssl(folder.path(), "x509 -noout -text -in one/node-1.crt").await;
        for part in [
            "Issuer: CN = Fairhold CA of prod",
            "Subject: CN = node 1",
            "ASN1 OID: prime256v1",
            "DNS:n1",
            "IP Address:10.0.0.1",
            "DNS:*.db.example.com",
            "URI:fairhold://prod/node/1",
            "TLS Web Server Authentication",
            "TLS Web Client Authentication",
            "CA:FALSE",
            "Digital Signature",
        ] {
            // Newer versions of openssl write `CN=node 1`.
            assert!(text.contains(part) || text.contains(&part.replace(" = ", "=")), "{part}: {text}");
        }
        let (_, text) = openssl(folder.path(), "x509 -noout -text -in ca/ca.crt").await;
        for part in ["CA:TRUE", "Certificate Sign", "URI:fairhold://prod/ca"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("Name Constraints"), "a certificate with a URI would not verify: {text}");
        let (_, shown) = cert(folder.path(), "show one/node-1.crt --json").await;
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let (_, serial) = openssl(folder.path(), "x509 -noout -serial -in one/node-1.crt").await;
        let own = shown["certificates"][0]["serial"].as_str().expect("a serial number");
        assert_eq!(serial.trim().strip_prefix("serial=").map(str::to_lowercase).as_deref(), Some(own));
    });
}

#[test]
fn a_second_run_changes_no_file_and_a_renewal_only_the_certificate() {
    run_parallel(SHORT, async {
        let folder = issued().await;
        let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
        let files = ["ca/ca.key", "ca/ca.crt", "one/node-1.key", "one/node-1.crt", "ci/client-ci.key", "ci/client-ci.crt"];
        let before = files.map(read);
        for (line, named) in [
            ("ca --name other --out ca", "ca/ca.key"),
            ("node --ca ca --id 1 --host n9 --out one", "one/node-1.key"),
            ("client --ca ca --user ci --out ci", "ci/client-ci.key"),
        ] {
            let (code, text) = cert(folder.path(), line).await;
            assert_eq!(
                (code, text),
                (1, format!("fairhold: {named} exists, and is not overwritten: choose another directory or name\n"))
            );
        }
        assert_eq!(files.map(read), before);
        for key in ["ca/ca.key", "one/node-1.key", "ci/client-ci.key"] {
            let mode = fs::metadata(folder.path().join(key)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
        let (code, text) = cert(folder.path(), "renew --ca ca one/node-1.crt --days 30").await;
        assert_eq!(code, 0, "{text}");
        assert_ne!(read("one/node-1.crt"), before[3]);
        assert_eq!(read("one/node-1.key"), before[2]);
        let (success, text) = openssl(folder.path(), "verify -x509_strict -CAfile ca/ca.crt one/node-1.crt").await;
        assert!(success, "{text}");
        let (_, of_key) = openssl(folder.path(), "pkey -in one/node-1.key -pubout").await;
        let (_, of_cert) = openssl(folder.path(), "x509 -in one/node-1.crt -noout -pubkey").await;
        assert_eq!(of_key, of_cert);
    });
}
