//! The example on the first page of the client's documentation, against a `fairhold dev`.

use crate::{
    client::Client,
    harness::{SHORT, free_ports, run_exclusive},
};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

#[path = "../../crates/client/examples/front_page.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod example;

const READY_WITHIN: Duration = Duration::from_secs(60);
const DOCUMENTED: &str = include_str!("../../crates/client/src/lib.rs");
const RUN: &str = include_str!("../../crates/client/examples/front_page.rs");
const URL: &str = "http://127.0.0.1:7171";

/// The first example of the page, without the lines that only make it compile.
fn documented() -> Vec<&'static str> {
    let lines = DOCUMENTED.lines().map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default());
    let code = lines.skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| !line.starts_with("```"));
    code.filter(|line| !line.starts_with("# ")).collect()
}

#[test]
fn the_example_of_the_front_page_has_eight_lines_and_runs_against_fairhold_dev() {
    let page = documented();
    assert_eq!(page.len(), 7, "seven lines, plus the imports: {page:#?}");
    let run = page.join("\n").replace(&format!("{URL:?}"), "url");
    assert!(RUN.contains(&run), "the documented example differs from the one that runs:\n{run}");
    run_exclusive(SHORT, async {
        let port = free_ports(&[0, 1, 2, 100, 101, 102]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
        command.args(["dev", "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut dev = command.kill_on_drop(true).spawn().expect("fairhold dev starts");
        let mut lines = BufReader::new(dev.stdout.take().expect("its output")).lines();
        let ready = async {
            loop {
                let line = lines.next_line().await.expect("it can be read").expect("it says when it is ready");
                if line.starts_with("ready ") {
                    return;
                }
            }
        };
        tokio::time::timeout(READY_WITHIN, ready).await.expect("it is ready");
        let url = format!("http://127.0.0.1:{port}");
        example::example(&url).await.expect("it runs");
        let client = Client::new((0..3).map(|index| format!("http://127.0.0.1:{}", port + index)).collect());
        let lock = client.send(&crate::client::Call::get("/v1/locks/deploy")).await.expect_status(200);
        assert!(lock.json["last_token"].as_u64().is_some_and(|token| token > 0), "it was held: {lock:?}");
        assert_eq!(client.holders("deploy").await, [0_u64; 0], "and released");
    });
}
