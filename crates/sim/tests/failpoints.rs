//! Each failpoint fails in a scenario: by a crash, an error and a delay. Nothing acknowledged is lost, and all nodes
//! reach the same state.

use fairhold_types::failpoint::Point;
use std::process::Command;

/// Failpoints of real files, which the simulator does not have.
const ONLY_OF_FILES: usize = 5;

#[test]
fn a_crash_an_error_and_a_delay_at_each_failpoint_lose_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).arg("--each-failpoint").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let held = text.lines().filter(|line| line.contains(" ok in scenario ")).count();
    assert_eq!(held, (Point::ALL.len() - ONLY_OF_FILES) * 3, "scenarios that held:\n{text}");
}

#[test]
fn a_seed_with_failpoints_gives_the_same_run_in_another_process() {
    let simulate = || Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(["--seed", "11"]).output().unwrap().stdout;
    assert_eq!(String::from_utf8(simulate()).unwrap(), String::from_utf8(simulate()).unwrap());
}
