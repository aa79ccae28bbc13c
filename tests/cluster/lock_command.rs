//! `fairhold lock`: every exit code, waiting, and what happens to the command's whole process group when the lock is
//! lost or when `fairhold lock` is killed.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, SHORT, eventually, free_port, program, report, run_exclusive, run_parallel, signal_pid},
    queue::wait_for_contenders,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Output, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

/// How long an expected stop or message may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Time until the next renewal of a lease of 60 s.
const RENEWAL: Duration = Duration::from_secs(20);

pub(crate) fn fairhold(endpoint: &str, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["lock", "-e", endpoint]).args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(endpoint: &str, arguments: &[&str]) -> Output {
    fairhold(endpoint, arguments).output().await.expect("fairhold lock runs")
}

#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32, printed: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(printed), "{printed:?} is not in {stderr:?}");
}

/// The numbers in a file, once it has this many.
pub(crate) async fn numbers(path: &Path, count: usize) -> Vec<u32> {
    eventually("the command's processes say their numbers", SOON, || async {
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>();
        (text.ends_with('\n') && whole.len() == count).then_some(whole)
    })
    .await
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A shell with two sleeping children that writes their numbers to the file. They ignore SIGTERM.
fn stubborn(file: &Path) -> String {
    format!(
        "trap '' TERM; echo $$ > {0}; sleep 600 & echo $! >> {0}; sleep 600 & echo $! >> {0}; wait; sleep 600",
        file.display()
    )
}

/// Starts `fairhold lock` with such a shell, and waits until it runs.
async fn start_stubborn(url: &str, options: &[&str], lock: &str, file: &Path) -> (Child, Vec<u32>) {
    let script = stubborn(file);
    let arguments = [options, &[lock, "--", "sh", "-c", &script]].concat();
    let child = fairhold(url, &arguments).spawn().expect("fairhold lock starts");
    (child, numbers(file, 3).await)
}

#[test]
fn each_way_to_end_has_its_exit_code() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let url = &cluster.nodes[0].url;
        assert_code(&run(url, &["codes", "--", "true"]).await, 0, "");
        assert_code(&run(url, &["codes", "--", "sh", "-c", "exit 42"]).await, 42, "");
        assert_code(&run(url, &["codes", "--", "sh", "-c", "kill -9 $$"]).await, 137, "");
        assert_code(&run(url, &["codes", "--", "/nowhere/at/all"]).await, 127, "/nowhere/at/all");
        assert_code(&run(url, &["codes", "--", "/etc/passwd"]).await, 126, "/etc/passwd");
        assert_code(&run(url, &["codes"]).await, 2, "CMD");
        assert_code(&run(url, &["one", "two", "-l", "2", "--", "true"]).await, 2, "several locks");
        assert_code(&run(url, &["bad//name", "--", "true"]).await, 2, "name");
        assert_code(&run(url, &["codes", "--ttl", "1ms", "--", "true"]).await, 2, "ttl");
        assert_code(&run(url, &["codes", "-n", "-w", "1s", "--", "true"]).await, 2, "--wait");

        let held = cluster.client(1).acquire("taken", "ttl=60s&owner=somebody").await;
        assert_code(&run(url, &["taken", "-n", "--", "true"]).await, 75, "somebody");
        assert_code(&run(url, &["taken", "-w", "200ms", "--", "true"]).await, 75, "did not become free");
        assert_code(&run(url, &["taken", "-n", "-E", "3", "--", "true"]).await, 3, "");
        let waited = run(url, &["taken", "-w", "1s", "--", "true"]).await;
        assert_code(&waited, 75, "held by somebody");
        cluster.client(1).release(&held.id).await;

        let nobody = format!("http://127.0.0.1:{}", free_port());
        let begun = Instant::now();
        assert_code(&run(&nobody, &["codes", "--timeout", "1s", "--", "true"]).await, 69, "no endpoint answered");
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
        let denying = answering("403 Forbidden", r#"{"code":"denied","detail":"not for you"}"#).await;
        assert_code(&run(&denying, &["codes", "--", "true"]).await, 77, "not for you");
    });
}

/// A server that gives every request this status and this body.
pub(crate) async fn answering(status: &'static str, body: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let head = "fairhold-cluster: 00000000000000000000000000000007\r\nconnection: close";
                if stream.read(&mut request).await.is_ok() {
                    let answer = format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    stream.write_all(answer.as_bytes()).await.ok();
                }
            });
        }
    });
    url
}

#[test]
fn the_command_knows_its_lock_and_has_the_input_and_output_of_fairhold() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let script = "cat; echo $FAIRHOLD_LOCK $FAIRHOLD_TOKEN $FAIRHOLD_GRANT; echo told >&2";
        let mut command = fairhold(&cluster.nodes[2].url, &["deep/er", "--", "sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("fairhold lock starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"typed ").await.expect("it reads");
        drop(input);
        let output = child.wait_with_output().await.expect("it ends");
        assert_code(&output, 0, "told");
        let printed = String::from_utf8(output.stdout).expect("text");
        let words: Vec<&str> = printed.split_whitespace().collect();
        assert_eq!((words.len(), &words[..2]), (4, &["typed", "deep/er"][..]), "{printed}");
        let lock = cluster.client(0).send(&Call::get("/v1/locks/deep%2Fer")).await.expect_status(200);
        assert_eq!(lock.json["last_token"].to_string(), words[2]);
        let grant = cluster.client(0).send(&Call::get(&format!("/v1/grants/{}", words[3]))).await;
        assert_eq!((grant.status, grant.string("reason")), (410, "released"));
    });
}

/// Runs another command of the program.
async fn command(endpoint: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.args(arguments).env("FAIRHOLD_ENDPOINT", endpoint).stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.expect("fairhold runs")
}

#[test]
fn several_locks_are_acquired_in_one_step_and_a_semaphore_has_a_limit() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let url = &cluster.nodes[0].url;
        let client = cluster.client(1);
        let held = client.acquire("stock", "ttl=60s&owner=somebody").await;
        assert_code(&run(url, &["orders", "stock", "-n", "--", "true"]).await, 75, "somebody");
        assert_eq!(client.queue_numbers("orders").await, [0_u64; 0], "the free lock was not acquired");
        client.release(&held.id).await;
        let script = "test $FAIRHOLD_LOCK = orders && exec sleep 600";
        let mut both = fairhold(url, &["orders", "stock", "--", "sh", "-c", script]).spawn().expect("fairhold lock starts");
        for lock in ["orders", "stock"] {
            eventually("both are held", SOON, || async { (client.holders(lock).await.len() == 1).then_some(()) }).await;
        }
        assert_eq!(client.holders("orders").await, client.holders("stock").await, "by one grant");
        both.start_kill().expect("it runs");
        both.wait().await.expect("it ends");

        assert_code(&command(url, &["sem", "pool", "--", "true"]).await, 2, "--limit");
        assert_code(&command(url, &["sem", "pool", "--limit", "2", "-p", "2", "--", "true"]).await, 0, "");
        assert_code(&command(url, &["locks", "set", "pool"]).await, 2, "--max-hold");
        assert_code(&command(url, &["locks", "set", "pool", "--limit", "5", "--max-hold", "2h"]).await, 0, "");
        let shown = client.send(&Call::get("/v1/locks/pool")).await.expect_status(200);
        assert_eq!((shown.number("limit"), shown.string("max_hold")), (5, "7200s"), "{}", shown.text);
        assert_code(&command(url, &["locks", "revoke", "pool", "--reason", "an upgrade"]).await, 0, "");
    });
}

#[test]
fn a_broken_lock_stops_the_whole_group_and_the_exit_code_is_79() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["--ttl", "60s", "--kill-after", "1s"];
        let (child, pids) = start_stubborn(&cluster.nodes[0].url, &options, "crane", &folder.path().join("pids")).await;
        let order = Call::delete("/v1/locks/crane/holders?reason=stuck").key(&new_key());
        cluster.client(1).send(&order).await.expect_status(204);
        let broken = Instant::now();
        let output = child.wait_with_output().await.expect("it ends");
        let after = broken.elapsed();
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
        assert_code(&output, 79, "lost");
        report(&format!("after a break, a group of {} processes was gone after {after:.2?}, with --kill-after 1s", pids.len()));
        assert!(after < RENEWAL, "it waited for its renewal: {after:?}");

        // A command that obeys SIGTERM is gone at once.
        let mut polite = fairhold(&cluster.nodes[1].url, &["crane", "--ttl", "60s", "--", "sh", "-c", "sleep 60 & sleep 60"]);
        let polite = polite.spawn().expect("fairhold lock starts");
        wait_for_contenders(&cluster.client(0), "crane", 1).await;
        cluster.client(2).send(&Call::delete("/v1/locks/crane/holders").key(&new_key())).await.expect_status(204);
        let broken = Instant::now();
        assert_code(&polite.wait_with_output().await.expect("it ends"), 79, "lost");
        assert!(broken.elapsed() < RENEWAL, "{:?}", broken.elapsed());
    });
}

#[test]
fn the_command_may_continue_after_the_loss_of_its_lock_on_request() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let (begun, go_on) = (folder.path().join("begun"), folder.path().join("go-on"));
        let script = format!("echo $$ > {}; cat {} > /dev/null; exit 5", begun.display(), go_on.display());
        let made = Command::new("mkfifo").arg(&go_on).status().await.expect("mkfifo runs");
        assert!(made.success());
        let arguments = ["--ttl", "1s", "--on-lost", "ignore", "hoist", "--", "sh", "-c", &script];
        let mut child = fairhold(&cluster.nodes[0].url, &arguments).spawn().expect("fairhold lock starts");
        numbers(&begun, 1).await;
        cluster.client(1).send(&Call::delete("/v1/locks/hoist/holders").key(&new_key())).await.expect_status(204);
        let mut printed = String::new();
        BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut printed).await.expect("it reports that");
        assert!(printed.contains("lost"), "{printed:?}");
        fs::write(&go_on, "").expect("the command reads");
        assert_eq!(child.wait().await.expect("it ends").code(), Some(5));
    });
}

#[test]
fn the_group_dies_with_a_killed_fairhold_lock_and_the_lock_is_free_within_its_ttl() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["--ttl", "3s", "--kill-after", "500ms"];
        let (mut child, pids) = start_stubborn(&cluster.nodes[0].url, &options, "press", &folder.path().join("pids")).await;
        child.start_kill().expect("it can be killed");
        let killed = child.wait().await.expect("it ends");
        assert_eq!(killed.signal(), Some(Signal::KILL.as_raw()));
        cluster.client(1).acquire("press", "wait=60s").await;
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "the next holder holds, but {pids:?} are not all gone");
    });
}

#[test]
fn the_group_dies_with_a_killed_supervisor_and_the_lock_is_released() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let (child, pids) = start_stubborn(&cluster.nodes[0].url, &[], "anvil", &folder.path().join("pids")).await;
        let stat = fs::read_to_string(format!("/proc/{}/stat", pids[0])).expect("the command runs");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("its name").1.split_whitespace().collect();
        let supervisor = fields[1].parse().expect("its parent's number");
        assert_ne!(Some(supervisor), child.id());
        signal_pid(supervisor, Signal::KILL);
        assert_code(&child.wait_with_output().await.expect("it ends"), 137, "");
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
        wait_for_contenders(&cluster.client(1), "anvil", 0).await;
    });
}

#[test]
fn the_group_of_a_paused_fairhold_lock_is_stopped_before_the_next_grant() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["--ttl", "3s", "--kill-after", "500ms"];
        let (child, pids) = start_stubborn(&cluster.nodes[0].url, &options, "mill", &folder.path().join("pids")).await;
        let number = child.id().expect("it runs");
        signal_pid(number, Signal::STOP);
        cluster.client(1).acquire("mill", "wait=60s").await;
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "the next holder holds, but {pids:?} are not all gone");
        signal_pid(number, Signal::CONT);
        assert_code(&child.wait_with_output().await.expect("it ends"), 79, "lost");
    });
}

#[test]
fn background_processes_of_the_command_end_with_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pids");
        let script = format!("sleep 600 > /dev/null 2>&1 & echo $! > {}; exit 3", file.display());
        let output = run(&cluster.nodes[0].url, &["forge", "--", "sh", "-c", &script]).await;
        let pids = numbers(&file, 1).await;
        assert_code(&output, 3, "");
        assert!(!is_alive(pids[0]), "it is still there");
    });
}

#[test]
fn a_signal_reaches_the_command_and_its_exit_code_comes_back() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        for (signal, code) in [(Signal::INT, 11), (Signal::TERM, 12), (Signal::HUP, 13)] {
            let file = folder.path().join(code.to_string());
            let traps = "trap 'exit 11' INT; trap 'exit 12' TERM; trap 'exit 13' HUP";
            let script = format!("{traps}; echo $$ > {}; while :; do sleep 0.1; done", file.display());
            let child = fairhold(&cluster.nodes[0].url, &["loom", "--", "sh", "-c", &script]).spawn().expect("it starts");
            numbers(&file, 1).await;
            signal_pid(child.id().expect("it runs"), signal);
            assert_code(&child.wait_with_output().await.expect("it ends"), code, "");
        }
    });
}

#[test]
fn an_unlimited_wait_keeps_the_place_and_a_signal_ends_it() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let held = client.acquire("gate", "ttl=60s").await;
        let first = fairhold(&cluster.nodes[1].url, &["gate", "--", "echo", "first"]).spawn().expect("it starts");
        wait_for_contenders(&client, "gate", 2).await;
        let second = fairhold(&cluster.nodes[2].url, &["gate", "--", "echo", "second"]).spawn().expect("it starts");
        wait_for_contenders(&client, "gate", 3).await;
        signal_pid(second.id().expect("it runs"), Signal::TERM);
        assert_code(&second.wait_with_output().await.expect("it ends"), 143, "");
        wait_for_contenders(&client, "gate", 2).await;
        client.release(&held.id).await;
        let first = first.wait_with_output().await.expect("it ends");
        assert_eq!((first.status.code(), first.stdout.as_slice()), (Some(0), b"first\n".as_slice()));
    });
}

#[test]
fn a_wait_ends_with_69_only_after_no_endpoint_answered_for_the_timeout() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        cluster.client(0).acquire("pier", "ttl=10m").await;
        let all = cluster.nodes.iter().map(|node| node.url.as_str()).collect::<Vec<_>>().join(",");
        let waits = fairhold(&all, &["pier", "--timeout", "3s", "--", "true"]).spawn().expect("it starts");
        wait_for_contenders(&cluster.client(0), "pier", 2).await;
        // A cluster without its leader still answers, and so does one without a majority.
        let leader = cluster.leader().await;
        let others = cluster.followers().await;
        cluster.nodes[leader].kill().await;
        cluster.nodes[others[0]].kill().await;
        crate::harness::pass_time(Duration::from_secs(4)).await;
        cluster.nodes[others[1]].kill().await;
        let gone = Instant::now();
        let output = waits.wait_with_output().await.expect("it ends");
        assert_code(&output, 69, "no endpoint answered within 3s");
        assert!((Duration::from_secs(2)..SOON).contains(&gone.elapsed()), "after {:?}", gone.elapsed());
    });
}

#[test]
fn fifty_copies_that_count_under_one_lock_end_with_fifty() {
    run_exclusive(LONG, async {
        const COPIES: usize = 50;
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let (counter, script) = (folder.path().join("counter"), folder.path().join("increment"));
        fs::write(&counter, "0").expect("a file");
        let text = format!("#!/bin/sh\nread n < {0}\necho $((n + 1)) > {0}\n", counter.display());
        fs::write(&script, text).expect("a file");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it may be run");
        let command = script.to_str().expect("a path of text");
        let copies = (0..COPIES).map(|number| {
            let url = &cluster.nodes[number % cluster.nodes.len()].url;
            fairhold(url, &["counter", "--ttl", "60s", "--timeout", "60s", "--", command]).spawn().expect("it starts")
        });
        let copies: Vec<Child> = copies.collect();
        for copy in copies {
            assert_code(&copy.wait_with_output().await.expect("it ends"), 0, "");
        }
        assert_eq!(fs::read_to_string(&counter).expect("a file").trim(), COPIES.to_string());
    });
}

/// A regression test: the grace period of the command depended on the ttl, so a short `--max-hold` left no time to
/// work.
#[test]
fn a_command_can_work_for_most_of_its_max_hold_and_is_then_stopped_with_a_message() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let script = "sleep 1.2; echo worked; sleep 60";
        let output = run(&cluster.nodes[0].url, &["brief", "--max-hold", "3s", "--", "sh", "-c", script]).await;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "worked\n");
        assert_code(&output, 79, "the lock brief reaches its --max-hold of 3s: stopping the command");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("renewed"), "{output:?}");
    });
}
