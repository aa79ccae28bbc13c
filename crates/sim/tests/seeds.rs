//! The simulator as a program: a fixed set of seeds passes, and a seed gives the same run in every process.

#![expect(clippy::unwrap_used, reason = "all of it is test code: what fails here fails the test")]

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The faults and paths that the seeds of the short form must cover.
const COVERED: [&str; 47] = [
    "fault crash",
    "fault disk full",
    "probe Elected",
    "probe SessionExpired",
    "probe NotDone",
    "probe WatchBroken",
    "probe Downgraded",
    "probe Upgraded",
    "probe UpgradedAtOnce",
    "probe UpgradeRefused",
    "probe Retimed",
    "probe BatchWithOneIdTwice",
    "probe MultiLockHeld",
    "probe QueuedWithoutRequest",
    "probe HeldAfterQueued",
    "probe Proclaimed",
    "probe Transacted",
    "probe TransactedElse",
    "probe LimitSet",
    "probe HoldBounded",
    "probe WaitersBounded",
    "probe Broke",
    "probe Revoked",
    "probe SessionEnded",
    "probe GrantBroken",
    "probe LimitMismatch",
    "probe Echo",
    "probe EchoOfSettled",
    "fault disk destroyed",
    "fault crash during a change of the voters",
    "probe Admitted",
    "probe JoinRepeated",
    "probe TokenRefused",
    "probe Promoted",
    "probe LearnerJoined",
    "probe Replaced",
    "probe Removed",
    "probe LeaderRemoved",
    "probe RemovalRefused",
    "probe RemovedNodeTold",
    "probe JointEnded",
    "probe RightTaken",
    "probe RightDenied",
    "probe TokenUnknown",
    "probe QuotaExceeded",
    "probe WatchDenied",
    "probe AccessSwitched",
];

/// The long form also requires that every kind of fault took effect and every rare path was taken.
#[test]
fn a_fixed_set_of_seeds_passes() {
    let long = std::env::var_os("FAIRHOLD_TRIAL").is_some_and(|form| form == "long");
    let (arguments, seeds): (&[&str], _) =
        if long { (&["--seeds", "0..1000", "--complete"], 1_000) } else { (&["--seeds", "0..240"], 240) };
    let output = simulate(arguments);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.lines().filter(|line| line.contains(" ok trace=")).count() >= seeds, "{text}");
    for met in COVERED.map(|met| format!("{met}: ")) {
        assert!(text.contains(&met) && !text.contains(&format!("{met}0\n")), "not covered by these seeds: {met}\n{text}");
    }
}

#[test]
fn a_seed_gives_the_same_run_in_another_process_and_another_seed_another_run() {
    let (first, second) = (text(&simulate(&["--seed", "7"])), text(&simulate(&["--seed", "7"])));
    assert_eq!(first, second);
    let trace = |text: &str| text.rsplit("trace=").next().map(str::to_owned);
    assert_ne!(trace(&first), trace(&text(&simulate(&["--seed", "8"]))));
}
