//! The files that `fairhold cert` writes, and what it refuses.

use super::*;
use crate::args::{Args, Command};
use clap::Parser as _;
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt as _};

const DAY: u64 = 86_400_000;

/// Runs a command line in a folder: `DIR` stands for it.
fn cert(folder: &Path, line: &str) -> Result<String, CertError> {
    let folder = folder.to_string_lossy();
    let words = format!("fairhold cert {line}").split(' ').map(|word| word.replace("DIR", &folder)).collect::<Vec<_>>();
    let Command::Cert(args) = Args::try_parse_from(&words).unwrap().command else { panic!("not cert: {line}") };
    run(&args.command)
}

fn show(file: &Path, json: bool, now: WallMillis) -> Result<String, CertError> {
    Ok(show::text(file, &certificates(file)?, json, now))
}

fn shown(file: &Path) -> Value {
    serde_json::from_str(&show(file, true, now()).unwrap()).unwrap()
}

/// How long a certificate is valid, in days.
fn days_of(file: &Path) -> u64 {
    let certificate = first(file).unwrap();
    (certificate.not_after.0 - certificate.not_before.0) / DAY
}

#[test]
fn each_command_writes_its_files_and_keys_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    cert(folder.path(), "ca --name prod --out DIR/ca").unwrap();
    cert(folder.path(), "node --ca DIR/ca --id 1 --host n1,10.0.0.1 --host n1.example.com --out DIR/one").unwrap();
    cert(folder.path(), "node --ca DIR/ca --host n1 --days 7 --out DIR/any").unwrap();
    cert(folder.path(), "client --ca DIR/ca --user ci --out DIR/ci").unwrap();
    for (name, key, holder, days) in [
        ("ca/ca.crt", "ca/ca.key", "fairhold://prod/ca", 3_650),
        ("one/node-1.crt", "one/node-1.key", "fairhold://prod/node/1", 825),
        ("any/node.crt", "any/node.key", "fairhold://prod/node/*", 7),
        ("ci/client-ci.crt", "ci/client-ci.key", "fairhold://prod/user/ci", 90),
    ] {
        assert_eq!(fs::metadata(at(key)).unwrap().permissions().mode() & 0o777, 0o600, "{key}");
        assert_eq!((first(&at(name)).unwrap().holder().as_str(), days_of(&at(name))), (holder, days), "{name}");
    }
    assert_eq!(first(&at("one/node-1.crt")).unwrap().hosts(), ["n1", "10.0.0.1", "n1.example.com"]);
    for copy in ["one/ca.crt", "any/ca.crt", "ci/ca.crt"] {
        assert_eq!(fs::read(at(copy)).unwrap(), fs::read(at("ca/ca.crt")).unwrap(), "{copy}");
    }
}

#[test]
fn nothing_is_overwritten_and_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "ca --name prod --out DIR/ca",
        "node --ca DIR/ca --id 1 --host n1 --out DIR/out",
        "client --ca DIR/ca --user ci --out DIR/out",
    ];
    for line in lines {
        cert(folder.path(), line).unwrap();
    }
    let files = ["ca/ca.crt", "ca/ca.key", "out/node-1.crt", "out/node-1.key", "out/client-ci.crt", "out/client-ci.key"];
    let contents = || files.map(|name| fs::read(folder.path().join(name)).unwrap());
    let before = contents();
    for line in lines {
        let error = cert(folder.path(), line).unwrap_err();
        assert_eq!(error.exit_code(), exit::FAILURE);
        assert!(error.to_string().contains("exists, and is not overwritten: choose another"), "{error}");
    }
    assert_eq!(contents(), before);
}

#[test]
fn a_renewal_keeps_the_key_and_uses_the_usual_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    cert(folder.path(), "ca --name prod --out DIR/ca --days 10").unwrap();
    cert(folder.path(), "node --ca DIR/ca --id 1 --host n1 --days 1 --out DIR").unwrap();
    cert(folder.path(), "client --ca DIR/ca --user ci --days 1 --out DIR").unwrap();
    let (key, before) = (fs::read(at("node-1.key")).unwrap(), fs::read(at("node-1.crt")).unwrap());
    for (file, days) in [("node-1.crt", 825), ("client-ci.crt", 90), ("ca/ca.crt", 3_650)] {
        cert(folder.path(), &format!("renew --ca DIR/ca DIR/{file}")).unwrap();
        assert_eq!(days_of(&at(file)), days, "{file}");
    }
    assert_eq!(fs::read(at("node-1.key")).unwrap(), key);
    assert_ne!(fs::read(at("node-1.crt")).unwrap(), before);
    cert(folder.path(), "renew --ca DIR/ca DIR/node-1.crt --days 5 --out DIR/new.crt").unwrap();
    assert_eq!((days_of(&at("new.crt")), days_of(&at("node-1.crt"))), (5, 825));
    let error = cert(folder.path(), "renew --ca DIR/ca DIR/node-1.crt --out DIR/new.crt").unwrap_err();
    assert!(error.to_string().contains("new.crt exists, and is not overwritten"), "{error}");
}

#[test]
fn what_cannot_be_issued_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |line: &str| cert(folder.path(), line).unwrap_err();
    let error = wrong("node --ca DIR/none --host n1");
    assert!(error.to_string().contains("make one with `fairhold cert ca"), "{error}");
    cert(folder.path(), "ca --name prod --out DIR/ca").unwrap();
    for host in ["n1:7171", "http://n1", "n1,", "10.0.0.999"] {
        let error = wrong(&format!("node --ca DIR/ca --host {host} --out DIR/new"));
        assert_eq!(error.exit_code(), exit::USAGE, "{host}");
        assert!(error.to_string().contains("is not a host name or an address"), "{error}");
        assert!(!folder.path().join("new").exists(), "a refused command leaves no files");
    }
    let error = wrong("renew --ca DIR/ca DIR/ca/ca.key");
    assert!(error.to_string().contains("are the certificate and the key exchanged?"), "{error}");
    let error = show(&folder.path().join("absent"), false, now()).unwrap_err();
    assert!(error.to_string().contains("absent cannot be read"), "{error}");
    for line in [
        "ca --name Prod --out x",
        "ca --name prod --out x --days 0",
        "node --ca x --host n1 --id 0",
        "node --ca x --host n1 --days 36501",
        "node --ca x",
        "client --ca x --user a/b",
        "client --ca x --user a:b",
        "show",
    ] {
        let words = format!("fairhold cert {line}");
        assert_eq!(Args::try_parse_from(words.split(' ')).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn a_certificate_is_shown_to_people_and_to_programs() {
    let folder = tempfile::tempdir().unwrap();
    cert(folder.path(), "ca --name prod --out DIR").unwrap();
    cert(folder.path(), "node --ca DIR --id 1 --host n1,10.0.0.1 --out DIR").unwrap();
    let file = folder.path().join("node-1.crt");
    let text = show(&file, false, now()).unwrap();
    for line in [
        "name        fairhold://prod/node/1\n",
        "hosts       n1, 10.0.0.1\n",
        "expires in 824 days\n",
        "for         servers and clients\n",
        "key         ECDSA with 256 bits\n",
        "issuer      CN=Fairhold CA of prod\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let later = |days: u64| show(&file, false, WallMillis(now().0 + days * DAY)).unwrap();
    assert!(later(827).contains("expired 2 days ago: renew it\n"), "{}", later(827));
    assert!(later(824).contains("expires in 23h") && later(825).contains("expired "), "{}{}", later(824), later(825));
    assert!(!later(825).contains("0 days"), "{}", later(825));
    assert!(show(&file, false, WallMillis(0)).unwrap().contains("not valid yet"));
    let json = shown(&file);
    let certificate = &json["certificates"][0];
    assert_eq!(json["certificates"].as_array().unwrap().len(), 1);
    assert_eq!((&certificate["names"][0], &certificate["hosts"][1]), (&"fairhold://prod/node/1".into(), &"10.0.0.1".into()));
    assert_eq!((&certificate["valid"], &certificate["authority"]), (&true.into(), &false.into()));
    // The second certificate of a chain is shown too.
    let both = [fs::read(&file).unwrap(), fs::read(folder.path().join("ca.crt")).unwrap()].concat();
    fs::write(folder.path().join("chain.crt"), both).unwrap();
    assert_eq!(shown(&folder.path().join("chain.crt"))["certificates"][1]["authority"], true);
    let text = show(&folder.path().join("chain.crt"), false, now()).unwrap();
    assert!(text.contains("for         issuing certificates\n"), "{text}");
    assert!(!text.contains("PRIVATE") && !shown(&file).to_string().contains("PRIVATE"));
}

#[test]
fn an_authority_knows_that_its_key_is_open_to_others() {
    let folder = tempfile::tempdir().unwrap();
    cert(folder.path(), "ca --name prod --out DIR/ca").unwrap();
    let (ca, key) = (folder.path().join("ca"), folder.path().join("ca/ca.key"));
    assert_eq!(CaDirectory::open(&ca).unwrap().open_key(), None);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(CaDirectory::open(&ca).unwrap().open_key(), Some(key));
    cert(folder.path(), "node --ca DIR/ca --id 1 --host n1 --out DIR/out").unwrap();
}
