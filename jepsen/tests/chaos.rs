//! Short runs of the chaos harness itself: real processes under real faults, judged by all checkers. They need root and network
//! namespaces; where those are lacking they say so. The checkers have tests of their own beside them, which need nothing.

use std::{
    io::Write,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError},
};

/// The exit code of a harness that cannot make any run on this machine.
const NOT_HERE: i32 = 3;
const SECONDS: &str = "6";

/// One run at a time: two cores are just enough for one.
static TURN: Mutex<()> = Mutex::new(());

fn tell(line: &str) {
    writeln!(std::io::stderr().lock(), "{line}").expect("standard error can be written");
}

/// A run with these clients and faults is valid: nothing was broken, and the faults were done.
fn holds(workload: &str, nemesis: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let harness = PathBuf::from(env!("CARGO_BIN_EXE_fairhold-jepsen"));
    if !harness.with_file_name("fairhold").is_file() {
        return tell("not covered here: there is no program `fairhold` beside the harness; build the whole workspace first");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{workload}-{}", std::process::id()));
    let mut run = Command::new(&harness);
    run.args(["--workload", workload, "--nemesis", nemesis, "--seconds", SECONDS, "--clients", "4", "--out"]).arg(&folder);
    let output = run.output().expect("the harness can be started");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(NOT_HERE) {
        return tell(&said);
    }
    assert!(output.status.success(), "{workload} under {nemesis}: see {}\n{said}\n{text}", folder.display());
    assert!(text.contains("verdict: VALID"), "{text}");
    for name in ["history.ndjson", "history.edn", "report.txt", "report.html"] {
        let length = folder.join(name).metadata().unwrap_or_else(|error| panic!("{name}: {error}")).len();
        assert!(length > 0, "{name} is empty");
    }
    std::fs::remove_dir_all(&folder).expect("the folder of the run can be removed");
}

#[test]
fn a_fence_holds_when_the_leader_is_killed() {
    holds("fenced-mutex", "kill-leader");
}

#[test]
fn registers_are_linearizable_when_the_leader_is_cut_off() {
    holds("registers", "cut-leader");
}

#[test]
fn readers_and_permits_exclude_each_other_when_all_nodes_are_killed() {
    holds("rw-lock,semaphore", "kill-all");
}

#[test]
fn sessions_live_as_long_as_they_were_told_when_the_leader_is_paused() {
    holds("session-expiry", "pause-leader");
}

#[test]
fn watches_tell_everything_and_elections_have_one_leader_when_packets_are_lost() {
    holds("watches,election", "loss");
}

#[test]
fn upgraded_grants_exclude_and_transactions_are_atomic_when_the_leader_is_killed() {
    holds("convert,txn", "kill-leader");
}

#[test]
fn batches_and_administrators_take_effect_once_and_in_order_when_the_leader_is_cut_off() {
    holds("batch,administer", "cut-leader");
}
