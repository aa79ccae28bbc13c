//! The simulator as a program: a fixed set of seeds holds, and a seed tells the same story in every process.

#![expect(clippy::unwrap_used, reason = "all of it is test code: what fails here fails the test")]

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairhold-sim")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn thirty_seeds_hold() {
    let output = simulate(&["--seeds", "0..30"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.lines().filter(|line| line.contains(" ok trace=")).count() >= 30, "{text}");
    assert!(text.contains("fault crash: ") && text.contains("probe Elected: "), "nothing went wrong in these seeds:\n{text}");
}

#[test]
fn a_seed_tells_the_same_story_in_another_process_and_another_seed_another_one() {
    let (first, second) = (text(&simulate(&["--seed", "7"])), text(&simulate(&["--seed", "7"])));
    assert_eq!(first, second);
    let trace = |text: &str| text.rsplit("trace=").next().map(str::to_owned);
    assert_ne!(trace(&first), trace(&text(&simulate(&["--seed", "8"]))));
}
