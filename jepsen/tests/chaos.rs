//! Short runs of the chaos harness: real processes, with and without faults, judged by all checkers. They need root,
//! network namespaces, and the program `fairhold` next to the harness. The unit tests of the checkers are next to the
//! checkers.

#[path = "chaos/harness.rs"]
mod harness;

use harness::{has_baseline, is_not_here, start};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
};

/// How long a run with faults takes.
const SECONDS: &str = "6";
/// The workloads of the run without faults: together they give each checker something to judge.
const WORKLOADS: &str = concat!(
    "fenced-mutex,rw-lock,semaphore,fair-order,election,session-expiry,",
    "registers,watches,convert,txn,batch,administer,access-change"
);

/// Makes a run with these clients and faults, which must be valid. Returns the report; `None` if no run is possible
/// here.
fn holds(name: &str, arguments: &[&str]) -> Option<String> {
    let mut run = start(name, arguments)?;
    let ended = run.wait();
    if is_not_here(&ended) {
        fs::remove_dir_all(&run.folder).expect("the folder of the run can be removed");
        return None;
    }
    let (folder, said, report) = (run.folder.display(), &ended.said, &ended.report);
    assert_eq!(ended.code, Some(0), "{name}: see {folder}\n{said}\n{report}");
    assert!(report.contains("verdict: VALID"), "{report}");
    assert_eq!(run.leftovers(), Vec::<String>::new(), "{name} left something behind\n{said}");
    for name in ["history.ndjson", "history.edn", "report.txt", "report.html"] {
        let length = run.folder.join(name).metadata().unwrap_or_else(|error| panic!("{name}: {error}")).len();
        assert!(length > 0, "{name} is empty");
    }
    fs::remove_dir_all(&run.folder).expect("the folder of the run can be removed");
    Some(ended.report)
}

/// Few clients under one fault.
fn holds_under(workload: &str, nemesis: &str) {
    let name = format!("{workload}-{nemesis}");
    holds(&name, &["--workload", workload, "--nemesis", nemesis, "--seconds", SECONDS, "--clients", "4"]);
}

#[test]
fn without_faults_nothing_is_broken_and_every_checker_sees_something() {
    let arguments =
        ["--secure", "--workload", WORKLOADS, "--nemesis", "none", "--seconds", "20", "--clients", "3", "--seed", "7"];
    let Some(report) = holds("all", &arguments) else { return };
    let checks: Vec<&str> = report.lines().filter(|line| line.contains(" checked: ")).collect();
    assert!(checks.len() >= 18, "a checker is missing\n{report}");
    for check in checks {
        assert!(check.starts_with("holds "), "{check}\n{report}");
    }
}

#[test]
fn the_leftovers_of_a_killed_harness_are_found_and_removed() {
    let arguments = ["--workload", "mutex", "--nemesis", "transfer-leader", "--seconds", "60"];
    let Some(mut run) = start("killed", &arguments) else { return };
    let mut said = String::new();
    let stderr = run.child.stderr.take().expect("nobody has taken it");
    for line in BufReader::new(stderr).lines() {
        said.push_str(&line.expect("a pipe can be read"));
        if said.contains("transfer-leader") || said.contains("not covered here") {
            break;
        }
    }
    // If no run is possible, the other tests report it.
    if said.contains("not covered here") {
        fs::remove_dir_all(&run.folder).expect("the folder of the run can be removed");
        return;
    }
    let pid = i32::try_from(run.child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
    kill_process(pid, Signal::KILL).expect("it runs");
    run.child.wait().expect("it is a child of this process");
    let left = run.leftovers();
    assert!(left.iter().any(|one| one.starts_with("namespace ")), "{left:?}\n{said}");
    run.clean();
    assert_eq!(run.leftovers(), Vec::<String>::new());
    fs::remove_dir_all(&run.folder).expect("the folder of the run can be removed");
}

#[test]
fn a_fence_holds_when_the_leader_is_killed() {
    holds_under("fenced-mutex", "kill-leader");
}

#[test]
fn registers_are_linearizable_when_the_leader_is_cut_off() {
    holds_under("registers", "cut-leader");
}

#[test]
fn readers_and_permits_exclude_each_other_when_all_nodes_are_killed() {
    holds_under("rw-lock,semaphore", "kill-all");
}

#[test]
fn sessions_live_for_their_ttl_when_the_leader_is_paused() {
    holds_under("session-expiry", "pause-leader");
}

#[test]
fn watches_show_everything_and_elections_have_one_leader_when_packets_are_lost() {
    holds_under("watches,election", "loss");
}

#[test]
fn upgraded_grants_exclude_and_transactions_are_atomic_when_the_leader_is_killed() {
    holds_under("convert,txn", "kill-leader");
}

#[test]
fn batches_and_administrators_take_effect_once_and_in_order_when_the_leader_is_cut_off() {
    holds_under("batch,administer", "cut-leader");
}

#[test]
fn a_fence_holds_while_members_come_and_go_and_the_leader_is_killed() {
    holds_under("fenced-mutex", "add-remove,kill-leader");
}

#[test]
fn registers_are_linearizable_and_watches_complete_when_a_node_that_lost_its_data_is_replaced() {
    holds_under("registers,watches", "replace-wiped");
}

#[test]
fn lost_rights_are_lost_at_once_with_tls_while_certificates_change_and_the_leader_is_killed() {
    let workloads = ["--secure", "--workload", "access-change,fenced-mutex"];
    let faults = ["--nemesis", "kill-leader,rotate-certs", "--seconds", "20", "--clients", "3", "--seed", "11"];
    holds("secure", &[&workloads[..], &faults].concat());
}

#[test]
fn locks_and_sessions_survive_an_upgrade_there_and_back_and_its_end() {
    if has_baseline() {
        holds_under("fenced-mutex,session-expiry,txn", "roll-upgrade,roll-downgrade");
    }
}
