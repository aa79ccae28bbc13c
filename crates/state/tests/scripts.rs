//! The rules of the machine as text: each script in `testscripts/` shows one rule by commands and their results.
//!
//! A script is lists of commands, `---`, and their output; `scripts/language.rs` describes the commands. After each
//! command the state is checked, written as a snapshot and read again. `UPDATE_GOLDENFILES=1 cargo test -p
//! fairhold-state --test scripts` writes the output into the scripts: read the difference before you keep it.

#[path = "scripts/access.rs"]
mod access;
#[path = "scripts/audit.rs"]
mod audit;
#[path = "scripts/language.rs"]
mod language;
#[path = "scripts/members.rs"]
mod members;
#[path = "scripts/names.rs"]
mod names;
#[path = "scripts/printer.rs"]
mod printer;
#[path = "scripts/show.rs"]
mod show;
#[path = "scripts/tenants.rs"]
mod tenants;
#[path = "scripts/writes.rs"]
mod writes;

use language::Machine;
use std::{fs, path::Path};

/// Runs all scripts of a folder, each from an empty state.
fn run_all(folder: &str) {
    let folder = Path::new("testscripts").join(folder).canonicalize().expect("the folder of scripts is there");
    let mut scripts: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of scripts is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "{} has no scripts", folder.display());
    for script in scripts {
        let text = fs::read_to_string(&script).expect("a script is UTF-8");
        assert!(text.starts_with("# "), "{} does not begin with its rule", script.display());
        if let Err(error) = goldenscript::run(&mut Machine::new(), &script) {
            panic!("{}: {error}", script.display());
        }
    }
}

#[test]
fn session_scripts() {
    run_all("session");
}

#[test]
fn keys_scripts() {
    run_all("keys");
}

#[test]
fn pieces_scripts() {
    run_all("pieces");
}

#[test]
fn lock_scripts() {
    run_all("lock");
}

#[test]
fn multi_lock_scripts() {
    run_all("multi_lock");
}

#[test]
fn deadlock_scripts() {
    run_all("deadlock");
}

#[test]
fn holds_scripts() {
    run_all("holds");
}

#[test]
fn administration_scripts() {
    run_all("administration");
}

#[test]
fn scripts_of_bugs_in_other_systems() {
    run_all("other_systems");
}

#[test]
fn grant_scripts() {
    run_all("grant");
}

#[test]
fn memory_scripts() {
    run_all("memory");
}

#[test]
fn history_scripts() {
    run_all("history");
}

#[test]
fn election_scripts() {
    run_all("election");
}

#[test]
fn tree_scripts() {
    run_all("tree");
}

#[test]
fn membership_scripts() {
    run_all("membership");
}

#[test]
fn access_scripts() {
    run_all("access");
}

#[test]
fn audit_scripts() {
    run_all("audit");
}

#[test]
fn tenants_scripts() {
    run_all("tenants");
}

#[test]
fn snapshot_scripts() {
    run_all("snapshot");
}

#[test]
fn an_unknown_script_command_is_an_error() {
    for script in ["fly\n---\n", "open s1 colour=red\n---\n", "open s1 timeout=soon\n---\n", "acquire printer s1 id=Q\n---\n"] {
        assert!(goldenscript::generate(&mut Machine::new(), script).is_err(), "{script} was taken");
    }
}
