//! Each failpoint fails in a story: by a crash, an error and a delay. Nothing that was acknowledged is lost, and all nodes
//! come to the same state.

use fairhold_types::failpoint::Point;
use std::process::Command;

/// Points that the simulator does not reach: only real files have them.
const ONLY_OF_FILES: usize = 5;

#[test]
fn a_crash_an_error_and_a_delay_at_each_failpoint_lose_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).arg("--each-failpoint").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let held = text.lines().filter(|line| line.contains(" ok in story ")).count();
    assert_eq!(held, (Point::ALL.len() - ONLY_OF_FILES) * 3, "so many held:\n{text}");
}

#[test]
fn a_story_with_failpoints_is_the_same_in_another_process() {
    let simulate = || Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(["--seed", "11"]).output().unwrap().stdout;
    assert_eq!(String::from_utf8(simulate()).unwrap(), String::from_utf8(simulate()).unwrap());
}
