//! What may be among the dependencies. `./fairhold supply-chain` checks more, with tools that the tests do not need.

use super::{assert_none, root};
use std::{collections::BTreeSet, fs, process::Command};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn table(text: &str) -> toml::Table {
    text.parse().expect("it is TOML")
}

/// Each dependency comes from one registry, with a checksum. Other packages are our own.
fn check_lock(path: &str, text: &str) -> Vec<String> {
    let lock = table(text);
    let packages = lock["package"].as_array().expect("a lock file has packages");
    let mut registries = BTreeSet::new();
    let mut complaints = Vec::new();
    for package in packages {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str);
        let name = field("name").unwrap_or_default();
        match field("source") {
            None if name.starts_with("fairhold-") => {}
            Some(source) if source.starts_with("registry+") && field("checksum").is_some() => drop(registries.insert(source)),
            source => complaints.push(format!("{path}:1: {name} comes from {source:?}, and not from a registry with a checksum")),
        }
    }
    if registries.len() > 1 {
        complaints.push(format!("{path}:1: there is more than one registry: {registries:?}"));
    }
    complaints
}

/// The crates that deny.toml bans.
fn banned(deny: &str) -> BTreeSet<String> {
    let deny = table(deny);
    let entries = deny["bans"]["deny"].as_array().expect("deny.toml bans crates");
    entries.iter().map(|entry| entry["name"].as_str().expect("a ban has a name").to_owned()).collect()
}

/// No crate of the tree is banned. Cargo.lock also names optional crates that nothing enables, so it cannot tell.
fn check_tree(tree: &str, banned: &BTreeSet<String>) -> Vec<String> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.into_iter().filter(|name| banned.contains(*name)).map(|name| format!("Cargo.lock:1: {name} is banned")).collect()
}

/// Each exception from the advisories says why, and until which day.
fn check_exceptions(deny: &str) -> Vec<String> {
    let deny = table(deny);
    let exceptions = deny["advisories"]["ignore"].as_array().expect("deny.toml has a list of exceptions");
    let has_end = |reason: &str| {
        let day = reason.rsplit_once("until ").map(|(_, day)| day.split('-').map(str::len).collect::<Vec<_>>());
        day.is_some_and(|day| day == [4, 2, 2])
    };
    let endless = exceptions.iter().filter(|entry| !entry.get("reason").and_then(toml::Value::as_str).is_some_and(has_end));
    endless.map(|entry| format!("deny.toml:1: no reason that ends with \"until YYYY-MM-DD\": {entry}")).collect()
}

#[test]
fn every_dependency_comes_from_one_registry() {
    for path in ["Cargo.lock", "bench/Cargo.lock"] {
        assert_none(&check_lock(path, &read(path)));
    }
}

#[test]
fn a_dependency_from_elsewhere_is_found() {
    let package = |name: &str, more: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{more}\n");
    let registry = package("a", "source = \"registry+one\"\nchecksum = \"0\"") + &package("fairhold-a", "");
    assert_eq!(check_lock("Cargo.lock", &registry), Vec::<String>::new());
    for bad in ["", "source = \"git+one\"", "source = \"registry+one\"", "source = \"registry+two\"\nchecksum = \"0\""] {
        assert_eq!(check_lock("Cargo.lock", &(registry.clone() + &package("b", bad))).len(), 1, "{bad}");
    }
}

#[test]
fn no_dependency_is_banned() {
    let banned = banned(&read("deny.toml"));
    assert!(banned.contains("ring") && banned.contains("openssl"), "{banned:?}");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--workspace", "-e", "normal,build,dev", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&tree.stdout);
    assert!(tree.status.success() && text.contains("rustls v"), "{}", String::from_utf8_lossy(&tree.stderr));
    assert_none(&check_tree(&text, &banned));
    assert_eq!(check_tree("rustls v0.23.46\nring v0.17.14\nring-like v1.0.0\n", &banned).len(), 1);
}

#[test]
fn every_exception_from_an_advisory_has_a_reason_and_an_end() {
    assert_none(&check_exceptions(&read("deny.toml")));
    let exception = |entry: &str| check_exceptions(&format!("[advisories]\nignore = [{entry}]\n")).len();
    assert_eq!(exception("{ id = \"A\", reason = \"it is not used, until 2027-01-31\" }"), 0);
    assert_eq!([exception("\"A\""), exception("{ id = \"A\", reason = \"it is not used\" }")], [1, 1]);
}
