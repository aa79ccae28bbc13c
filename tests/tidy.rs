//! The rules of this repository, as tests: which crates may depend on which, what a file looks like, and what tests may
//! not do.
//!
//! Every rule is a pure function from text to complaints, and a planted violation shows that it can fail.

#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/listing.rs"]
mod listing;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/supply.rs"]
mod supply;

use cycles::cycles;
use names::{check_pairs, known_pairs};
use source::{Source, files_under};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

const FILE_LINES_MAX: usize = 400;
const LINE_CHARS_MAX: usize = 130;

/// The allowed dependencies between the crates. A new crate must be listed here.
const ARROWS: &[(&str, &[&str])] = &[
    ("fairhold-types", &[]),
    ("fairhold-codec", &["fairhold-types"]),
    ("fairhold-metrics", &[]),
    ("fairhold-trace", &["fairhold-metrics", "fairhold-types"]),
    ("fairhold-access", &["fairhold-types"]),
    ("fairhold-health", &["fairhold-types"]),
    ("fairhold-trust", &["fairhold-types"]),
    ("fairhold-state", &["fairhold-access", "fairhold-codec", "fairhold-types"]),
    ("fairhold-backup", &["fairhold-codec", "fairhold-state", "fairhold-types"]),
    ("fairhold-raft", &["fairhold-codec", "fairhold-metrics", "fairhold-state", "fairhold-trace", "fairhold-types"]),
    ("fairhold-storage", &["fairhold-codec", "fairhold-metrics", "fairhold-raft", "fairhold-types"]),
    ("fairhold-peer", &["fairhold-codec", "fairhold-metrics", "fairhold-raft", "fairhold-trust", "fairhold-types"]),
    (
        "fairhold-node",
        &[
            "fairhold-access",
            "fairhold-backup",
            "fairhold-codec",
            "fairhold-health",
            "fairhold-metrics",
            "fairhold-raft",
            "fairhold-state",
            "fairhold-trace",
            "fairhold-types",
        ],
    ),
    // Its listener takes the transport of trust, and names no library of TLS.
    (
        "fairhold-http",
        &[
            "fairhold-access",
            "fairhold-health",
            "fairhold-metrics",
            "fairhold-node",
            "fairhold-raft",
            "fairhold-state",
            "fairhold-trace",
            "fairhold-trust",
            "fairhold-types",
            "fairhold-ui",
        ],
    ),
    ("fairhold-ui", &[]),
    ("fairhold-client", &["fairhold-types"]),
    ("fairhold-jepsen", &[]),
    ("fairhold-mutants", &[]),
    (
        "fairhold-sim",
        &[
            "fairhold-access",
            "fairhold-codec",
            "fairhold-http",
            "fairhold-node",
            "fairhold-raft",
            "fairhold-state",
            "fairhold-types",
        ],
    ),
    (
        "fairhold-cli",
        &[
            "fairhold-access",
            "fairhold-backup",
            "fairhold-client",
            "fairhold-health",
            "fairhold-http",
            "fairhold-metrics",
            "fairhold-node",
            "fairhold-peer",
            "fairhold-raft",
            "fairhold-state",
            "fairhold-storage",
            "fairhold-trace",
            "fairhold-trust",
            "fairhold-types",
        ],
    ),
];

/// Dependencies that only these crates may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("aws-lc-rs", &[]),
    ("axum", &["fairhold-http", "fairhold-sim"]),
    ("bincode", &["fairhold-codec"]),
    ("clap", &["fairhold-cli", "fairhold-jepsen", "fairhold-mutants", "fairhold-sim"]),
    ("hyper", &["fairhold-http"]),
    ("hyper-util", &["fairhold-http"]),
    ("jsonwebtoken", &["fairhold-trust"]),
    ("openraft", &["fairhold-raft", "fairhold-storage", "fairhold-sim"]),
    ("openraft-rt", &["fairhold-raft", "fairhold-node", "fairhold-http", "fairhold-sim"]),
    ("openraft-rt-sim", &["fairhold-sim"]),
    ("openraft-rt-tokio", &["fairhold-storage", "fairhold-cli", "fairhold-sim"]),
    ("prometheus-client", &["fairhold-metrics"]),
    ("rcgen", &["fairhold-trust"]),
    ("reqwest", &["fairhold-cli", "fairhold-client", "fairhold-jepsen"]),
    ("rocksdb", &["fairhold-storage"]),
    ("rustls", &["fairhold-trust"]),
    ("rustls-pki-types", &["fairhold-trust"]),
    ("tokio-rustls", &["fairhold-trust"]),
    ("x509-parser", &["fairhold-trust"]),
];

/// Crates that are pure functions of their input: no runtime, no randomness, no logging.
const PURE: &[&str] = &["fairhold-types", "fairhold-codec", "fairhold-access", "fairhold-health", "fairhold-state"];
const IMPURE_DEPENDENCIES: &[&str] = &["tokio", "tokio-util", "rand", "tracing", "futures-util", "openraft-rt"];

/// The crates that also run under a simulator.
const SIMULATED: &[&str] = &["crates/raft/src/", "crates/node/src/", "crates/http/src/"];

/// Words that names must not use: from the "not" column of docs/glossary.md, except words of external names.
const NOT_WORDS: &[(&str, &str)] = &[
    ("epoch", "term"),
    ("master", "leader"),
    ("lessor", "expiry"),
    ("ticket", "grant"),
    ("subscribe", "watch"),
    ("subscriber", "watcher"),
    ("subscription", "watch"),
];

fn root() -> PathBuf {
    PathBuf::from("../..").canonicalize().expect("the repository is there")
}

fn sources() -> Vec<Source> {
    let root = root();
    let mut paths = files_under(&root.join("crates"), ".rs");
    paths.extend(files_under(&root.join("tests"), ".rs"));
    paths.extend(files_under(&root.join("jepsen"), ".rs"));
    paths.extend(files_under(&root.join("mutants"), ".rs"));
    let sources: Vec<Source> = paths
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("it was found under the root").to_string_lossy().replace('\\', "/");
            Source::new(&name, &fs::read_to_string(path).expect("a source file is UTF-8"))
        })
        .collect();
    assert!(sources.len() > 10, "only {} source files were found: these rules look in the wrong place", sources.len());
    sources
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn assert_rule(rule: impl Fn(&Source) -> Vec<String>) {
    assert_none(&sources().iter().flat_map(rule).collect::<Vec<_>>());
}

/// Asserts that the rule finds exactly one violation in the planted text, at this line.
fn assert_finds(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, line: usize) {
    let complaints = rule(&Source::new(path, text));
    let wanted = format!("{path}:{line}: ");
    assert!(complaints.len() == 1 && complaints[0].starts_with(&wanted), "wanted one at {wanted}got {complaints:?}");
}

fn assert_finds_nothing(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str) {
    assert_none(&rule(&Source::new(path, text)));
}

// Manifests

fn dependencies(manifest: &toml::Table, kind: &str) -> BTreeSet<String> {
    manifest.get(kind).and_then(toml::Value::as_table).map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

fn check_manifest(path: &str, text: &str) -> Vec<String> {
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    let line = |needle: &str| text.lines().position(|line| line.starts_with(needle)).map_or(1, |index| index + 1);
    let name = manifest["package"]["name"].as_str().expect("a package has a name").to_owned();
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{path}:{}: {name} has no place among the arrows of tests/tidy.rs", line("name"))];
    };
    let mut used = dependencies(&manifest, "dependencies");
    used.extend(dependencies(&manifest, "build-dependencies"));
    let mut complaints = Vec::new();
    for dependency in &used {
        let place = format!("{path}:{}: {name} depends on {dependency}", line(dependency));
        let mut complain = |why: String| complaints.push(format!("{place}: {why}"));
        if dependency.starts_with("fairhold-") && !allowed.contains(&dependency.as_str()) {
            complain(format!("it may only depend on {allowed:?}"));
        }
        if let Some((_, only)) = ONLY_IN.iter().find(|(known, only)| known == dependency && !only.contains(&name.as_str())) {
            complain(format!("only {only:?} may depend on it"));
        }
        if PURE.contains(&name.as_str()) && IMPURE_DEPENDENCIES.contains(&dependency.as_str()) {
            complain("it is a function of its input".to_owned());
        }
    }
    for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let table = manifest.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
        for (dependency, _) in table.filter(|(_, value)| value.get("workspace").and_then(toml::Value::as_bool) != Some(true)) {
            complaints.push(format!("{path}:{}: {dependency} must be `workspace = true`", line(dependency)));
        }
    }
    complaints
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let mut manifests = files_under(&root().join("crates"), "Cargo.toml");
    manifests.extend(files_under(&root().join("jepsen"), "Cargo.toml"));
    manifests.extend(files_under(&root().join("mutants"), "Cargo.toml"));
    assert_eq!(manifests.len(), ARROWS.len(), "a crate of the arrows is missing, or there is another crate: {manifests:?}");
    let complaints = manifests.iter().flat_map(|path| {
        let text = fs::read_to_string(path).expect("a manifest can be read");
        check_manifest(&path.strip_prefix(root()).unwrap_or(path).to_string_lossy(), &text)
    });
    assert_none(&complaints.collect::<Vec<_>>());
}

#[test]
fn a_wrong_arrow_is_found() {
    let check = |name: &str, dependency: &str| {
        let text = format!("[package]\nname = \"{name}\"\n[dependencies]\nserde.workspace = true\n{dependency}\n");
        let complaints = check_manifest("Cargo.toml", &text);
        assert!(complaints.iter().all(|complaint| complaint.starts_with("Cargo.toml:")), "{complaints:?}");
        complaints.len()
    };
    assert_eq!(check("fairhold-raft", "fairhold-state.workspace = true"), 0);
    assert_eq!(check("fairhold-state", "fairhold-raft.workspace = true"), 1);
    assert_eq!(check("fairhold-node", "rocksdb.workspace = true"), 1);
    assert_eq!(check("fairhold-node", "openraft.workspace = true"), 1);
    assert_eq!(check("fairhold-node", "axum.workspace = true"), 1);
    assert_eq!(check("fairhold-storage", "bincode.workspace = true"), 1);
    assert_eq!(check("fairhold-state", "tokio.workspace = true"), 1);
    assert_eq!(check("fairhold-http", "bytes = \"1\""), 1);
    assert_eq!(check("fairhold-client", "fairhold-types.workspace = true"), 0);
    assert_eq!(check("fairhold-client", "fairhold-state.workspace = true"), 1);
    assert_eq!(check("fairhold-stranger", ""), 1);
}

/// Crates on which the client must not depend, directly or indirectly: a user of the client compiles no server.
const NOT_IN_CLIENT: &[&str] = &["rocksdb", "librocksdb-sys", "openraft", "openraft-rt", "axum", "bincode"];

fn check_client_tree(tree: &str) -> Vec<String> {
    let crates = tree.lines().filter_map(|line| line.split_whitespace().next());
    let servers = |name: &&str| {
        NOT_IN_CLIENT.contains(name) || (name.starts_with("fairhold-") && !["fairhold-client", "fairhold-types"].contains(name))
    };
    crates.filter(servers).map(|name| format!("fairhold-client pulls in {name}")).collect()
}

#[test]
fn the_client_pulls_in_no_server_crates() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--all-features", "-e", "normal", "--prefix", "none", "-p", "fairhold-client"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&tree.stdout);
    assert!(tree.status.success() && text.contains("fairhold-types"), "{}", String::from_utf8_lossy(&tree.stderr));
    assert_none(&check_client_tree(&text));
}

#[test]
fn a_server_in_the_client_is_found() {
    assert_eq!(check_client_tree("fairhold-client v0.1.0\nfairhold-types v0.1.0\nreqwest v0.13.5\n"), Vec::<String>::new());
    assert_eq!(check_client_tree("fairhold-client v0.1.0\nfairhold-state v0.1.0\nlibrocksdb-sys v1\n").len(), 2);
}

/// Each dependency of the workspace has a row with its version, and each row has a dependency.
fn check_documented(manifest: &str, page: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    let known = manifest["workspace"]["dependencies"].as_table().expect("the workspace has dependencies");
    let rows: Vec<(usize, &str)> = page.lines().enumerate().filter(|(_, line)| line.starts_with("| `")).collect();
    let mut complaints = Vec::new();
    for (name, value) in known.iter().filter(|(_, value)| value.get("path").is_none()) {
        let version = value.as_str().or_else(|| value.get("version").and_then(toml::Value::as_str)).unwrap_or_default();
        if !rows.iter().any(|(_, row)| row.starts_with(&format!("| `{name}` | {version} | "))) {
            complaints.push(format!("docs/internals/decisions/dependencies.md:1: no row \"| `{name}` | {version} | why |\""));
        }
    }
    for (index, row) in rows {
        let name = row.split('`').nth(1).unwrap_or_default();
        if !known.contains_key(name) {
            complaints.push(format!(
                "docs/internals/decisions/dependencies.md:{}: {name} is no dependency of the workspace",
                index + 1
            ));
        }
    }
    complaints
}

#[test]
fn every_dependency_has_a_reason() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it can be read");
    assert_none(&check_documented(&read("Cargo.toml"), &read("docs/internals/decisions/dependencies.md")));
}

#[test]
fn an_unexplained_dependency_is_found() {
    let manifest = "[workspace.dependencies]\nfairhold-x = { path = \"x\" }\nserde = \"1\"\naxum = { version = \"0.8\" }\n";
    assert_eq!(check_documented(manifest, "| `serde` | 1 | a |\n| `axum` | 0.8 | b |\n"), Vec::<String>::new());
    assert_eq!(check_documented(manifest, "| `serde` | 2 | a |\n| `axum` | 0.8 | b |\n").len(), 1);
    assert_eq!(check_documented(manifest, "| `serde` | 1 | a |\n| `axum` | 0.8 | b |\n| `gone` | 1 | c |\n").len(), 1);
}

/// A crate's clippy.toml replaces the root's, so it must repeat every line of it.
fn check_lint_settings(root: &str, path: &str, text: &str) -> Vec<String> {
    let settings = root.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let missing = settings.filter(|setting| !text.lines().any(|line| line == *setting));
    missing.map(|setting| format!("{path}:1: it replaces the root's clippy.toml and must repeat `{setting}`")).collect()
}

#[test]
fn lint_settings_of_crates_repeat_the_root_settings() {
    let read = |path: &PathBuf| fs::read_to_string(path).expect("it can be read");
    let common = read(&root().join("clippy.toml"));
    let paths = files_under(&root().join("crates"), "clippy.toml");
    assert!(paths.len() >= 4, "state, raft, node and http have settings of their own: {paths:?}");
    let complaints = paths.iter().flat_map(|path| check_lint_settings(&common, &path.to_string_lossy(), &read(path)));
    assert_none(&complaints.collect::<Vec<_>>());
    assert_eq!(check_lint_settings("# c\na = 1\nb = 2\n", "x", "a = 1\nb = 3\n").len(), 1);
}

/// A program without the feature has no failpoints: otherwise a user of the environment could make it fail.
#[test]
fn the_program_has_failpoints_only_with_their_feature() {
    let program = fs::read(env!("CARGO_BIN_EXE_fairhold")).expect("the program was built");
    let has = |text: &str| program.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("FAIRHOLD_LISTEN"), "the search does not find a text that the program contains");
    for text in ["FAIRHOLD_FAILPOINTS", "storage.log.write", "raft.apply.begin", "node.expiry.prove"] {
        assert_eq!(has(text), cfg!(feature = "failpoints"), "{text}");
    }
}

// File layout

fn is_crate_source(source: &Source) -> bool {
    ["crates/", "jepsen/", "mutants/"].iter().any(|folder| source.path.starts_with(folder)) && source.path.contains("/src/")
}

fn check_file_shape(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let path = &source.path;
    if !source.text.starts_with("//!") {
        complaints.push(format!("{path}:1: the file must open with `//!` and say what it is"));
    }
    let lines = source.product_lines();
    if is_crate_source(source) && lines > FILE_LINES_MAX {
        complaints.push(format!("{path}:{FILE_LINES_MAX}: {lines} lines without tests, {FILE_LINES_MAX} are the most"));
    }
    for (index, line) in source.text.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            complaints.push(format!("{path}:{}: {chars} characters, {LINE_CHARS_MAX} are the most", index + 1));
        }
    }
    if path.split(['/', '.']).any(|part| ["utils", "util", "helpers", "helper", "common", "misc"].contains(&part)) {
        complaints.push(format!("{path}:1: name the concept; this name says nothing"));
    }
    complaints
}

#[test]
fn files_describe_themselves_and_stay_short() {
    assert_rule(check_file_shape);
}

#[test]
fn a_file_out_of_shape_is_found() {
    let fine = "//! A page.\n";
    assert_finds_nothing(check_file_shape, "crates/x/src/a.rs", &format!("{fine}{}", "\n".repeat(399)));
    assert_finds(check_file_shape, "crates/x/src/a.rs", &format!("{fine}{}", "\n".repeat(400)), 400);
    assert_finds(check_file_shape, "crates/x/src/a.rs", "fn a() {}\n", 1);
    assert_finds(check_file_shape, "crates/x/src/a.rs", &format!("{fine}// {}\n", "é".repeat(128)), 2);
    assert_finds(check_file_shape, "crates/x/src/utils.rs", fine, 1);
    assert_finds(check_file_shape, "crates/x/tests/common/mod.rs", fine, 1);
}

// Forbidden code

/// An unbiased `select!` polls in random order, so two runs of one seed differ.
fn check_biased_select(source: &Source) -> Vec<String> {
    if !SIMULATED.iter().any(|prefix| source.path.starts_with(prefix)) {
        return Vec::new();
    }
    let unbiased = source.find("select!").into_iter().filter(|offset| {
        let body = source.code[offset + "select!".len()..].trim_start();
        !body.strip_prefix(['{', '(', '[']).is_some_and(|inside| inside.trim_start().starts_with("biased;"))
    });
    unbiased.map(|offset| format!("{}: select! must begin with `biased;`", source.at(offset))).collect()
}

#[test]
fn every_select_is_biased() {
    assert_rule(check_biased_select);
}

#[test]
fn an_unbiased_select_is_found() {
    let rule = check_biased_select;
    let select = |body: &str| format!("//! x\n// select! {{ a }}\nfn f() {{\n    select! {{\n{body}\n    }}\n}}\n");
    assert_finds_nothing(rule, "crates/node/src/a.rs", &select("biased; // why\n x = y => z,"));
    assert_finds_nothing(rule, "crates/peer/src/a.rs", &select("x = y => z,"));
    assert_finds(rule, "crates/node/src/a.rs", &select("x = y => z,"), 4);
    assert_finds(rule, "crates/http/src/a.rs", &select("// biased;\n x = y => z,"), 4);
}

/// The clocks, tasks and hash maps that clippy.toml forbids may be allowed at two named places only.
fn check_exceptions(source: &Source) -> Vec<String> {
    let places = [
        "crates/http/src/server/listener.rs",
        "crates/raft/src/base/config.rs",
        "crates/raft/src/base/join_token.rs",
        "crates/raft/src/base/wall_clock.rs",
    ];
    let guarded = source.path.starts_with("crates/state/src/") || SIMULATED.iter().any(|prefix| source.path.starts_with(prefix));
    if !guarded || places.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let tests = source.test_ranges();
    let lints = ["clippy::disallowed_methods", "clippy::disallowed_types"].into_iter().flat_map(|lint| source.find(lint));
    let in_product = lints.filter(|offset| !tests.iter().any(|range| range.contains(offset)));
    in_product.map(|offset| format!("{}: only {places:?} may allow what clippy.toml forbids", source.at(offset))).collect()
}

#[test]
fn forbidden_calls_are_allowed_only_at_named_places() {
    assert_rule(check_exceptions);
}

#[test]
fn a_forbidden_call_allowed_elsewhere_is_found() {
    let text = "//! x\n#[expect(clippy::disallowed_methods, reason = \"why not\")]\nfn f() {}\n";
    assert_finds(check_exceptions, "crates/raft/src/a.rs", text, 2);
    assert_finds_nothing(check_exceptions, "crates/http/src/server/listener.rs", text);
    assert_finds_nothing(check_exceptions, "crates/storage/src/a.rs", text);
}

/// No code is a stub, and no test waits by sleeping.
fn check_no_stubs_and_sleeps(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for banned in ["#[ignore", "todo!(", "unimplemented!("] {
        complaints.extend(source.find(banned).into_iter().map(|offset| format!("{}: no `{banned}`", source.at(offset))));
    }
    let tests = source.test_ranges();
    let in_test = |offset: &usize| tests.iter().any(|range| range.contains(offset));
    for banned in ["thread::sleep", "time::sleep"] {
        let sleeps = source.find(banned).into_iter().filter(in_test);
        complaints.extend(sleeps.map(|offset| format!("{}: a test waits for an event, not by `{banned}`", source.at(offset))));
    }
    for group in ["thread::{", "time::{"] {
        let imports = source.find(group).into_iter().filter(in_test);
        let sleeps =
            imports.filter(|offset| source.code[*offset..].split('}').next().is_some_and(|names| names.contains("sleep")));
        complaints.extend(sleeps.map(|offset| format!("{}: a test waits for an event, not by sleeping", source.at(offset))));
    }
    complaints
}

#[test]
fn tests_do_not_sleep_and_code_has_no_stubs() {
    assert_rule(check_no_stubs_and_sleeps);
}

#[test]
fn a_sleep_and_a_stub_are_found() {
    let rule = check_no_stubs_and_sleeps;
    let product = "//! x\nfn f() { std::thread::sleep(d); }\n";
    assert_finds_nothing(rule, "crates/x/src/a.rs", product);
    let with_test = format!("{product}#[cfg(test)]\nmod tests {{\n    fn f() {{ std::thread::sleep(d); }}\n}}\n");
    assert_finds(rule, "crates/x/src/a.rs", &with_test, 5);
    assert_finds(rule, "crates/x/tests/a.rs", "//! x\nfn f() { tokio::time::sleep(d).await; }\n", 2);
    assert_finds(rule, "tests/a.rs", "//! x\nuse tokio::time::{Duration, sleep};\n", 2);
    assert_finds(rule, "tests/a.rs", "//! x\n#[test]\n#[ignore = \"later\"]\nfn f() {}\n", 3);
    assert_finds(rule, "crates/x/src/a.rs", "//! x\nfn f() { todo!() }\n", 2);
    assert_finds(rule, "crates/x/src/a.rs", "//! x\nfn f() { unimplemented!(\"later\") }\n", 2);
    assert_finds_nothing(rule, "tests/a.rs", "//! todo!()\nfn f() { panic!(\"no thread::sleep, no #[ignore\") }\n");
}

/// A test that cannot run on a machine must not pass silently: tests/cluster/without.rs names each requirement.
fn check_no_silent_skips(source: &Source) -> Vec<String> {
    let skips = source.find("return report(").into_iter();
    skips.map(|offset| format!("{}: a skipped test reports it by `Need::or_without`", source.at(offset))).collect()
}

#[test]
fn no_test_is_skipped_silently() {
    assert_rule(check_no_silent_skips);
}

#[test]
fn a_silently_skipped_test_is_found() {
    let text = "//! x\nfn f() {\n    let Ok(mount) = mount() else { return report(\"not here\") };\n}\n";
    assert_finds(check_no_silent_skips, "tests/cluster/a.rs", text, 3);
    assert_finds_nothing(check_no_silent_skips, "tests/cluster/a.rs", "//! x\nfn f() { report(\"so fast\"); }\n");
}

/// The words of a name, in lower case: `SessionNumber` and `session_number` both have two.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            spaced.push('_');
        }
        spaced.push(c.to_ascii_lowercase());
        before = c;
    }
    spaced.split('_').map(str::to_owned).collect()
}

fn check_public_names(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        let Some(declaration) = line.trim_start().strip_prefix("pub ") else { continue };
        let keywords = ["async", "const", "unsafe", "fn", "struct", "enum", "trait", "type", "static", "mod"];
        let mut tokens = declaration.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|token| !token.is_empty());
        let name = tokens.find(|token| !keywords.contains(token)).unwrap_or_default();
        for (word, instead) in NOT_WORDS.iter().filter(|(word, _)| words(name).iter().any(|part| part == word)) {
            complaints.push(format!("{}:{}: `{name}` says {word}: the word here is {instead}", source.path, index + 1));
        }
    }
    complaints
}

#[test]
fn public_names_use_the_words_of_the_glossary() {
    assert_rule(check_public_names);
}

#[test]
fn a_word_outside_the_glossary_is_found() {
    let rule = check_public_names;
    assert_finds(rule, "crates/x/src/a.rs", "//! x\npub struct LockTicket;\n", 2);
    assert_finds(rule, "crates/x/src/a.rs", "//! x\npub async fn subscribe(&self) {}\n", 2);
    assert_finds(rule, "crates/x/src/a.rs", "//! x\nstruct A {\n    pub epoch: u64,\n}\n", 3);
    assert_finds(rule, "crates/x/src/a.rs", "//! x\npub const MASTER_ID: u64 = 1;\n", 2);
    let fine = "//! epoch\npub fn remaster(ticketing: u64) {} // ticket\nlet r = tx.subscribe();\n";
    assert_finds_nothing(rule, "crates/x/src/a.rs", fine);
}

#[test]
fn no_public_type_name_has_two_meanings() {
    let known = fs::read_to_string(root().join("tests/tidy/names.txt")).expect("the list is there");
    assert_none(&check_pairs(&sources(), &known_pairs(&known)));
}

#[test]
fn the_listing_of_all_texts_for_people_reads_as_plain_english() {
    let document = fs::read_to_string(root().join("proto/openapi.json")).expect("the description of the API is there");
    let parts = [listing::api_texts(&document), listing::help_lines(), listing::log_lines(&sources())];
    let mut complaints = Vec::new();
    for part in parts {
        assert!(part.len() > 50, "only {} texts were found: {part:?}", part.len());
        for text in part {
            println!("{}: {}", text.origin, text.text);
            complaints.extend(listing::check_text(&text.text).map(|why| format!("{}: {why}: {}", text.origin, text.text)));
        }
    }
    assert_none(&complaints);
}

// Cycles

/// `tests/tidy/cycles.txt`: the files that still import each other in cycles, a line for each crate.
fn known_cycles(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let split = |line: &str| {
        let (name, files) = line.split_once(": ").expect("a crate and its files");
        (name.to_owned(), files.split(' ').map(str::to_owned).collect())
    };
    lines.map(split).collect()
}

fn check_cycles(sources: &[Source], known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let none = BTreeSet::new();
    let found = cycles(sources);
    let mut complaints = Vec::new();
    for (name, cycles) in &found {
        let known = known.get(name).unwrap_or(&none);
        let files: BTreeSet<String> = cycles.iter().flatten().cloned().collect();
        for cycle in cycles.iter().filter(|cycle| cycle.iter().any(|file| !known.contains(file))) {
            complaints.push(format!("{name}: these files import each other in a cycle: {}", cycle.join(" ")));
        }
        for file in known.difference(&files) {
            complaints.push(format!("{name}: {file} is no longer in a cycle: remove it from tests/tidy/cycles.txt"));
        }
    }
    complaints
}

#[test]
fn no_further_files_import_each_other_in_cycles() {
    let known = fs::read_to_string(root().join("tests/tidy/cycles.txt")).expect("the list is there");
    let sources = sources();
    if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|how| how == "write") {
        let head: String = known.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let lines = cycles(&sources).into_iter().filter(|(_, cycles)| !cycles.is_empty()).map(|(name, cycles)| {
            let files: BTreeSet<String> = cycles.into_iter().flatten().collect();
            format!("{name}: {}\n", files.into_iter().collect::<Vec<_>>().join(" "))
        });
        fs::write(root().join("tests/tidy/cycles.txt"), head + &lines.collect::<String>()).expect("the list can be written");
        return;
    }
    assert_none(&check_cycles(&sources, &known_cycles(&known)));
}

#[test]
fn a_cycle_is_found_through_imports_paths_and_re_exports() {
    let file = |name: &str, text: &str| Source::new(&format!("crates/x/src/{name}.rs"), text);
    let lib = file("lib", "mod a;\nmod b;\npub use b::Bee;\n");
    let check =
        |a: &str, b: &str, known: &str| check_cycles(&[lib.clone(), file("a", a), file("b", b)], &known_cycles(known)).len();
    let back = "use crate::a::{self, Ay};\n";
    assert_eq!(check("use crate::b::Bee;\n", "struct Bee;\n", ""), 0);
    assert_eq!(check("use crate::b::Bee;\n", back, ""), 1, "by an import");
    assert_eq!(check("use crate::Bee;\n", back, ""), 1, "by a name that the root passes on");
    assert_eq!(check("fn f() { crate::b::f() }\n", "use super::a::Ay;\n", ""), 1, "by a path");
    assert_eq!(check("use crate::b::Bee;\n", "#[cfg(test)]\nmod tests { use crate::a::Ay; }\n", ""), 0, "tests do not count");
    assert_eq!(check("use crate::b::Bee;\n", back, "x: a b\n"), 0, "it is known");
    assert_eq!(check("use crate::b::Bee;\n", "struct Bee;\n", "x: a\n"), 1, "a list that is too long");
}

// Pages

#[path = "tidy/pages.rs"]
mod pages;
