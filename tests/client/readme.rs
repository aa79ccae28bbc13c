//! The first page, run unchanged: every block of README.md that a reader can paste, in order, against `fairhold dev`.
//! Then the leader is killed, and everything works again.

use crate::harness::{LONG, free_ports, report, run_exclusive};
use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

const README: &str = include_str!("../../README.md");
/// The time limit of a block: a reader's patience.
const FIVE_MINUTES: Duration = Duration::from_secs(300);
const FIRST: &str = "./fairhold demo\n";

/// The text of each block in that language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut parts = page.split("\n```").skip(1).step_by(2);
    let of_language =
        parts.by_ref().filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n').map(|text| format!("{text}\n")));
    of_language.collect()
}

/// Runs a block as a reader does, with the ports of this cluster, and with its program in place of the script.
async fn paste(block: &str, port: u16) -> String {
    let program = env!("CARGO_BIN_EXE_fairhold");
    let mut text = block.replace("./fairhold ", &format!("{program} "));
    for node in 0..3 {
        text = text.replace(&format!("localhost:{}", 7171 + node), &format!("127.0.0.1:{}", port + node));
    }
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &text]).env("FAIRHOLD_ENDPOINT", format!("127.0.0.1:{port}")).env("no_proxy", "*");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("bash runs");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{printed}");
    printed
}

async fn walk(steps: &[String], port: u16) {
    let says: [&[&str]; 4] = [
        &["\"state\":\"held\"", "\"lock\":\"deploy\""],
        &["\"state\":\"held\"", "\"items\":["],
        &["I hold deploy, and my token is ", "this runs on one machine at a time"],
        &["\"path\":\"/deployed\"", "stale_token", "\"status\":412"],
    ];
    assert_eq!(steps.len(), says.len(), "a block was added or removed: {steps:#?}");
    for (step, says) in steps.iter().zip(says) {
        let output = paste(step, port).await;
        assert!(says.iter().all(|text| output.contains(text)), "{step}\nprinted {output}\nbut not all of {says:?}");
        assert!(output.ends_with('\n'), "the output does not end with a newline: {output}");
    }
}

#[test]
fn the_blocks_of_the_readme_work_unchanged_before_and_after_the_leader_is_killed() {
    let all = blocks(README, "sh");
    assert_eq!(all.first().map(String::as_str), Some(FIRST), "the first block starts the cluster");
    let marked = README.matches("\n```").count();
    assert_eq!(marked, all.len() * 2, "a block is not marked as one for the shell");
    assert!(!README.contains("\n$ "), "a block that cannot be pasted");
    assert!(README.lines().count() <= 100, "two screens");
    for link in README.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        assert!(link.starts_with("http") || Path::new("../..").join(link).exists(), "{link} is not there");
    }
    run_exclusive(LONG, async {
        let begun = Instant::now();
        let port = free_ports(&[0, 1, 2, 100, 101, 102]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
        command.args(["dev", "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut dev = command.kill_on_drop(true).spawn().expect("fairhold dev starts");
        let mut lines = BufReader::new(dev.stdout.take().expect("its output")).lines();
        let mut pids = Vec::new();
        loop {
            let line = lines.next_line().await.expect("it can be read").expect("it says when it is ready");
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match words.first().map(String::as_str) {
                Some("ready") => break,
                Some("node") => pids.push((words[4].clone(), words[3].clone())),
                _ => {}
            }
        }
        walk(&all[1..], port).await;
        let members = paste("./fairhold cluster members\n", port).await;
        let leader = members.lines().find(|line| line.contains("\tleader\t")).expect("a leader");
        let pid = pids.iter().find(|(url, _)| leader.contains(url.as_str())).map(|(_, pid)| pid.clone()).expect("its process");
        // A busy machine may run the leader for another moment: then a request that reached it has an unknown outcome.
        paste(&format!("kill -9 {pid}; while kill -0 {pid} 2>&-; do :; done\n"), port).await;
        // At once: the reader does not wait for the new leader.
        let others: Vec<u16> = (0..3).filter(|node| !leader.contains(&format!(":{}\t", port + node))).collect();
        let after =
            paste(&format!("curl -s -X POST 'localhost:{}/v1/locks/after?wait=10s&ttl=1s'\n", 7171 + others[0]), port).await;
        assert!(after.contains("\"state\":\"held\""), "{after}");
        let again = paste(&format!("until curl -sf localhost:{}/readyz; do :; done\n", 7171), port).await;
        assert!(again.contains("ok"), "{again}");
        walk(&all[1..], port).await;
        let took = begun.elapsed();
        report(&format!("the README twice, with a killed leader in between: {took:.1?}"));
        assert!(took < FIVE_MINUTES, "{took:?}");
    });
}
