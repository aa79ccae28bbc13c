//! `fairhold lock` with obstacles: a supervisor that does not run, a process that it may not stop, a command that
//! cannot start, a silent node.

use crate::{
    client::{Call, Client, new_key},
    escapes::{escape, succeeds, supervisor_of},
    harness::{Cluster, LONG, SHORT, eventually, pass_time, program, report, run_exclusive, run_parallel, signal_pid},
    lock_command::{assert_code, fairhold, is_alive, numbers},
    queue::wait_for_contenders,
    trial,
    without::{NAMESPACES, USERS},
};
use fairhold_types::time::WallMillis;
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::watch,
};

const SOON: Duration = Duration::from_secs(20);

async fn break_lock(cluster: &Cluster, lock: &str) {
    cluster.client(1).send(&Call::delete(&format!("/v1/locks/{lock}/holders")).key(&new_key())).await.expect_status(204);
}

#[test]
fn a_process_in_its_own_group_receives_the_forwarded_signals() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        for (number, signal) in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().enumerate() {
            let file = folder.path().join(number.to_string());
            // The second one runs behind a shell that also waits for it.
            for (turn, script) in ["exec timeout 600 sh -c", "timeout 600 sh -c"].into_iter().enumerate() {
                let file = file.with_extension(turn.to_string());
                let inner = format!("trap \"exit 9\" TERM INT HUP; echo $$ > {}; while :; do sleep 0.1; done", file.display());
                let script = format!("{script} '{inner}'");
                let child = fairhold(&cluster.nodes[0].url, &["reel", "--", "sh", "-c", &script]).spawn().expect("it starts");
                let pids = numbers(&file, 1).await;
                signal_pid(child.id().expect("it runs"), signal);
                let begun = Instant::now();
                child.wait_with_output().await.expect("it ends");
                assert!(!is_alive(pids[0]), "{signal:?} did not reach it");
                assert!(begun.elapsed() < SOON / 4, "{signal:?}: {:?}", begun.elapsed());
            }
        }
    });
}

#[test]
fn a_command_that_ignores_signals_is_killed_half_a_second_after_a_break_by_default() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pids");
        let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", file.display());
        let arguments = ["winch", "--ttl", "60s", "--", "sh", "-c", &script];
        let child = fairhold(&cluster.nodes[0].url, &arguments).spawn().expect("it starts");
        let pids = numbers(&file, 1).await;
        break_lock(&cluster, "winch").await;
        let broken = Instant::now();
        let output = child.wait_with_output().await.expect("it ends");
        let after = broken.elapsed();
        assert!(!is_alive(pids[0]));
        assert_code(&output, 79, "an administrator took it away");
        report(&format!("after a break a command that ignores signals was gone after {after:.2?}"));
        assert!(after < Duration::from_secs(4), "{after:?}");
    });
}

/// Forwards bytes to a node until it is cut; after that, connections stay open, but no bytes pass.
async fn proxy(at: String, to: String, cut: watch::Receiver<bool>) {
    let listener = TcpListener::bind(at.trim_start_matches("http://")).await.expect("the port is free");
    let to: Arc<str> = to.into();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, mut cut) = (Arc::clone(&to), cut.clone());
            tokio::spawn(async move {
                let Ok(mut node) = TcpStream::connect(&*to).await else { return };
                tokio::select! {
                    biased;
                    _ = async { cut.wait_for(|cut| *cut).await.is_ok() } => std::future::pending::<()>().await,
                    passed = tokio::io::copy_bidirectional(&mut client, &mut node) => drop(passed),
                }
            });
        }
    });
}

/// Cuts `fairhold lock` off while its supervisor is stopped; returns how many seconds before the next hold its command
/// was gone. The command works in the given way: as a single process, or as a chain of processes.
async fn cut_off_without_a_supervisor(ttl: &str, work: &str) -> f64 {
    let mut cluster = Cluster::plan();
    let (cut, is_cut) = watch::channel(false);
    let mut direct = Vec::new();
    for node in &mut cluster.nodes {
        let address = node.listen_elsewhere();
        proxy(node.url.clone(), address.clone(), is_cut.clone()).await;
        direct.push(format!("http://{address}"));
        node.start();
    }
    cluster.ready().await;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let worker = escape().display().to_string();
    let mut command = program();
    command.args(["lock", "-e", &cluster.nodes[0].url, "sluice", "--ttl", ttl, "--", &worker, work]).arg(&log);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("it starts");
    let last = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let (whole, _) = text.rsplit_once('\n')?;
        whole.lines().last()?.split_once(' ')?.1.parse::<f64>().ok()
    };
    eventually("it works", SOON, || async { last().map(drop) }).await;
    signal_pid(supervisor_of(child.id().expect("it runs")), Signal::STOP);
    cut.send(true).expect("the proxies run");
    let next = Client::new(direct).send(&Call::post("/v1/locks/sluice?wait=60s&ttl=60s")).await.expect_status(200);
    let since = WallMillis::from_rfc3339(next.string("held_since")).expect("a time").0;
    let status = child.wait().await.expect("it ends");
    assert_eq!(status.code(), Some(79));
    Duration::from_millis(since).as_secs_f64() - last().expect("it worked")
}

#[test]
fn a_command_with_a_stopped_supervisor_is_killed_before_the_lease_ends() {
    run_exclusive(LONG * 2, async {
        let alone = trial::size(&["1s", "3s"][..], &["1s", "1500ms", "2s", "3s", "5s", "10s", "20s", "25s"]);
        // A stopped supervisor reaps no processes: the longer a chain of processes runs, the more zombies must be
        // searched.
        let chains = trial::size(&["8s"][..], &["3s", "8s", "16s", "25s"]);
        // A command that forks as fast as it can fills the machine's process table within a few seconds.
        let fast = trial::size(&["1s"][..], &["1s", "1s", "3s", "3s", "3s"]);
        let runs = [(alone, "work"), (chains, "hopper"), (fast, "runaway")];
        for (ttl, work) in runs.into_iter().flat_map(|(ttls, work)| ttls.iter().map(move |ttl| (*ttl, work))) {
            let ahead = cut_off_without_a_supervisor(ttl, work).await;
            report(&format!("ttl {ttl}, {work}, cut off, supervisor stopped: gone {ahead:.3} s before the next hold"));
            assert!(ahead > 0.0, "ttl {ttl}, {work}: it worked {:.3} s while the next holder held the lock", -ahead);
        }
    });
}

/// Runs `fairhold lock` with a command whose argument has this length.
async fn with_argument(url: &str, lock: &str, bytes: usize) -> Output {
    // The arguments of an exec may take a quarter of the stack.
    let mut command = Command::new("prlimit");
    command.args([
        "--stack=2097152:2097152",
        env!("CARGO_BIN_EXE_fairhold"),
        "lock",
        "-e",
        url,
        lock,
        "--ttl",
        "60s",
        "--",
        "true",
    ]);
    let pieces = bytes / 65_536;
    command.args(vec!["x".repeat(65_535); pieces]).arg("x".repeat(bytes % 65_536)).stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.expect("prlimit runs")
}

#[test]
fn the_lock_of_a_command_that_cannot_be_started_is_released_at_once() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let url = &cluster.nodes[0].url;
        // With the longest command with which `fairhold lock` itself can be started, it cannot start one more process.
        let (mut fits, mut does_not) = (0, 1 << 20);
        let mut last = None;
        while does_not - fits > 32 {
            let bytes = (fits + does_not) / 2;
            let output = with_argument(url, "stuck", bytes).await;
            if String::from_utf8_lossy(&output.stderr).starts_with("prlimit") {
                does_not = bytes;
            } else {
                (fits, last) = (bytes, Some(output));
            }
        }
        let begun = Instant::now();
        let held = cluster.client(1).acquire("stuck", "wait=50s").await;
        assert!(begun.elapsed() < SOON, "the lock was released only after {:?}", begun.elapsed());
        cluster.client(1).release(&held.id).await;
        assert_code(&last.expect("some argument fits"), 126, "cannot start the command: Argument list too long");
    });
}

#[test]
fn no_lock_is_requested_without_a_usable_proc_file_system() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let url = &cluster.nodes[0].url;
        let run = format!("{} lock -e {url} bare --ttl 60s -- true", env!("CARGO_BIN_EXE_fairhold"));
        // Without /proc, as in a chroot; and with the /proc of another PID namespace, whose numbers mean other
        // processes.
        for (what, script) in [
            (["-rm", "sh", "-c"], format!("mount -t tmpfs none /proc && exec {run}")),
            (["-rpf", "sh", "-c"], format!("exec {run}")),
        ] {
            let probe = succeeds(Command::new("unshare").args([what[0], "true"])).await;
            let Some(()) = NAMESPACES.or_without(probe) else { continue };
            let output = Command::new("unshare").args(what).arg(&script).output().await.expect("unshare runs");
            assert_code(&output, 126, "/proc");
            let shown = cluster.client(0).send(&Call::get("/v1/locks/bare")).await.expect_status(200);
            assert!(shown.json["last_token"].is_null(), "{}", shown.text);
        }
    });
}

#[test]
fn a_waiter_keeps_its_place_when_its_only_named_endpoint_is_silent() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let held = client.acquire("quay", "ttl=10m").await;
        let arguments = ["quay", "--timeout", "2s", "--", "true"];
        let waits = fairhold(&cluster.nodes[2].url, &arguments).spawn().expect("it starts");
        wait_for_contenders(&client, "quay", 2).await;
        cluster.nodes[2].signal(Signal::STOP);
        // More than twice its timeout.
        pass_time(Duration::from_secs(5)).await;
        assert_eq!(client.queue_numbers("quay").await.len(), 2, "it still has its place");
        client.release(&held.id).await;
        let output = waits.wait_with_output().await.expect("it ends");
        cluster.nodes[2].signal(Signal::CONT);
        assert_code(&output, 0, "");
    });
}

/// The lines of its standard error.
fn stderr_lines(child: &mut Child) -> tokio::io::Lines<BufReader<tokio::process::ChildStderr>> {
    BufReader::new(child.stderr.take().expect("a pipe")).lines()
}

async fn until_line(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStderr>>, wanted: &str) -> String {
    let found = async {
        loop {
            match lines.next_line().await.expect("it can be read") {
                Some(line) if line.contains(wanted) => return line,
                Some(_) => {}
                None => panic!("it ended without printing {wanted:?}"),
            }
        }
    };
    tokio::time::timeout(SOON, found).await.unwrap_or_else(|_| panic!("it does not print {wanted:?}"))
}

/// The program for another user, and a program that becomes root, as `sudo` does; or why that is impossible here.
fn for_another_user(folder: &Path) -> Result<Command, String> {
    if !rustix::process::getuid().is_root() {
        return Err("only root can make a program that becomes root".to_owned());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let (program, becomes_root) = (folder.join("fairhold"), folder.join("becomes-root"));
    fs::copy(env!("CARGO_BIN_EXE_fairhold"), &program).expect("a copy");
    fs::copy(escape(), &becomes_root).expect("a copy");
    fs::set_permissions(&becomes_root, fs::Permissions::from_mode(0o4755)).expect("it is ours");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program).arg("lock");
    command.env("E", becomes_root).env("L", folder.join("log")).current_dir(folder);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// Waits for the process of the other user, and returns its id.
async fn root_process(folder: &Path) -> u32 {
    eventually("it works as root", SOON, || async {
        let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
        text.lines().next()?.split_once(' ')?.0.parse().ok()
    })
    .await
}

#[test]
fn the_lock_is_kept_for_a_process_of_another_user_and_its_loss_has_an_exit_code() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for is_broken in [false, true] {
            let folder = tempfile::Builder::new().prefix("fairhold-root-").tempdir_in("/tmp").expect("a folder");
            let Some(mut command) = USERS.or_without(for_another_user(folder.path())) else { return };
            let script = "$E root $L & until test -s $L; do sleep 0.01; done; exit 3";
            let arguments =
                ["-e", &cluster.nodes[0].url, "dock", "--ttl", "1s", "--kill-after", "100ms", "--", "sh", "-c", script];
            let mut child = command.args(arguments).spawn().expect("it starts");
            let mut lines = stderr_lines(&mut child);
            let left = root_process(folder.path()).await;
            let line = until_line(&mut lines, "until it has ended").await;
            assert!(line.contains(&format!("process {left} ")) && line.contains("of root"), "{line}");
            let next = tokio::spawn({
                let client = cluster.client(1);
                async move { client.acquire("dock", "wait=60s").await }
            });
            wait_for_contenders(&client, "dock", 2).await;
            // Three times the lease.
            pass_time(Duration::from_secs(3)).await;
            assert!(is_alive(left) && !next.is_finished(), "the lock is kept for it");
            if is_broken {
                break_lock(&cluster, "dock").await;
                until_line(&mut lines, "keeps running without the lock").await;
                assert_eq!(child.wait().await.expect("it ends").code(), Some(80));
                assert!(is_alive(left));
                signal_pid(left, Signal::KILL);
            } else {
                signal_pid(left, Signal::KILL);
                assert_eq!(child.wait().await.expect("it ends").code(), Some(3));
            }
            let held = next.await.expect("no panic");
            client.release(&held.id).await;
        }
    });
}
