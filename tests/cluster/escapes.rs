//! Ways in which a process leaves the process group, session, user or parents of the command of `fairhold lock`. None
//! of these processes still works when the next holder has the lock: neither after the command has ended, nor after
//! `fairhold lock` or its supervisor is killed.

use crate::{
    client::Call,
    harness::{Cluster, LONG, eventually, pass_time, report, run_exclusive, signal_pid},
    trial,
    without::{NAMESPACES, Need, TOOLS, USERS, compile},
};
use fairhold_types::time::WallMillis;
use futures_util::future::join_all;
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
    time::Duration,
};
use tokio::process::{Child, Command};

/// How long an expected event may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// How long the test looks for a process that works in parallel with the next holder: many times the pause between two
/// lines of a worker.
const LOOK_FOR: Duration = Duration::from_millis(200);
/// How many ways are tried at once.
const AT_ONCE: usize = 4;

/// The helper program, for ways that a shell lacks.
pub(crate) fn escape() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("escape-{}", std::process::id()));
        compile("../../tests/cluster/escape.c", &target, &["-pthread"]);
        target
    })
}

/// A way, as a shell script: `$E` is the helper program, and a surviving process writes to the file `$L`.
struct Way {
    name: &'static str,
    script: &'static str,
    /// A shell command that fails if the way does not exist on this machine.
    needs: &'static str,
    /// Whether it is part of every test run; the others are in the long form only.
    always: bool,
}

const fn way(name: &'static str, script: &'static str) -> Way {
    Way { name, script, needs: "true", always: false }
}

const fn needing(needs: &'static str, name: &'static str, script: &'static str) -> Way {
    Way { name, script, needs, always: false }
}

const fn always(way: Way) -> Way {
    Way { always: true, ..way }
}

const WAYS: &[Way] = &[
    way("a child that ignores signals", "$E work $L"),
    way("nohup", "nohup $E work $L"),
    needing("bash -c true", "disown", "bash -c '$E work $L & disown; exit 0'"),
    needing("bash -c true", "its own job (set -m)", "bash -c 'set -m; $E work $L & wait'"),
    needing("bash -c true", "process substitution", "bash -c 'exec > >($E work $L); sleep 600'"),
    way("two subshells, both gone", "( ( $E work $L & ) & )"),
    way("a pipeline", "$E work $L | cat | cat"),
    way("an empty environment", "env -i $E work $L"),
    way("a shell that restarts it", "trap '' TERM HUP INT; while :; do timeout 1 $E polite $L; done"),
    way("xargs, four at a time", "yes $L | head -n 4 | xargs -P 4 -n 1 $E work"),
    always(way("timeout", "timeout 600 $E work $L")),
    way("timeout --foreground", "timeout --foreground 600 $E work $L"),
    always(way("setsid", "setsid $E work $L")),
    way("setsid --fork", "setsid --fork $E work $L"),
    way("nice", "nice -n 19 $E work $L"),
    needing("script -qc true /dev/null", "its own terminal (script)", "script -qc \"$E work $L\" /dev/null"),
    needing(
        "command -v start-stop-daemon",
        "start-stop-daemon",
        "start-stop-daemon --start --background --make-pidfile --pidfile $L.pid --startas $E -- work $L",
    ),
    needing("command -v tmux", "a server that starts it (tmux)", "tmux -S $L.tmux -f /dev/null new-session -d \"$E work $L\""),
    needing("strace true", "a tracer (strace -f)", "strace -f -o /dev/null $E work $L"),
    needing("command -v perl", "perl", "perl -MPOSIX -e 'fork and exit; POSIX::setsid(); exec $ENV{E}, \"work\", $ENV{L}'"),
    needing(
        "command -v python3",
        "python, a new session",
        "python3 -c 'import os,subprocess as s; s.Popen([os.environ[\"E\"],\"work\",os.environ[\"L\"]],start_new_session=True)'",
    ),
    always(way("a daemon, by two forks", "$E daemon $L")),
    way("next to a child in its own session", "$E session $L"),
    always(way("its own group", "$E group $L")),
    always(way("a process that stops itself", "$E stopped $L")),
    always(way("a new process each millisecond", "$E hopper $L")),
    way("a new process as fast as possible", "$E runaway $L"),
    way("two processes that restart each other", "$E phoenix $L"),
    always(way("a swarm", "$E swarm $L")),
    way("vfork, and the parent waits", "$E vfork $L"),
    always(way("its first thread has ended", "$E threads $L")),
    way("a sibling (CLONE_PARENT)", "$E sibling $L"),
    way("a clone without an exit signal", "$E silent-clone $L"),
    always(way("an ancestor that adopts its orphans", "$E subreaper $L")),
    way("without a parent-death signal", "$E no-death-signal $L"),
    way("traced", "$E traced $L"),
    way("traced, and stopped by that", "$E traced-stop $L"),
    way("children that are never reaped", "$E zombies $L"),
    way("a name that looks like another state", "$E name $L"),
    way("it kills its parent", "$E kills-parent $L"),
    always(way("it leaves its group and kills it, with the supervisor", "$E kills-group $L")),
    needing("unshare -r true", "a user namespace", "unshare -r $E work $L"),
    needing("unshare -rpf true", "a PID namespace", "unshare -rpf $E session $L"),
    needing("unshare -rpf --mount-proc true", "a PID namespace with its own /proc", "unshare -rpf --mount-proc $E work $L"),
    needing("unshare -rmn true", "a mount and a network namespace", "unshare -rmn $E session $L"),
    needing("chroot / true", "chroot", "chroot / $E work $L"),
    needing("nsenter -t $$ -m true", "its own mount namespace, entered again (nsenter)", "nsenter -t $$ -m $E work $L"),
    needing(
        "unshare -n true && nsenter -t $$ -n true",
        "the network namespace of another (nsenter)",
        "unshare -n sleep 600 & sleep 0.2; nsenter -t $! -n $E session $L",
    ),
    needing(
        "setpriv --reuid 65534 true",
        "another user, started by root",
        "touch $L; chmod 666 $L; setpriv --reuid 65534 $E session $L",
    ),
    needing("su nobody -s /bin/sh -c true", "su", "touch $L; chmod 666 $L; su nobody -s /bin/sh -c \"$E work $L\""),
    needing("systemd-run --user --scope true", "a scope of systemd", "systemd-run --user --scope $E work $L"),
];

/// What ends the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The command's first process ends, and leaves the rest behind.
    Ends,
    LockIsKilled,
    SupervisorIsKilled,
}

impl Way {
    /// Whether it kills the supervisor itself. If `fairhold lock` is killed too, nothing can stop it, as documented.
    fn kills(&self) -> bool {
        self.script.contains("kills-")
    }

    /// What the machine lacks if the way does not exist.
    fn need(&self) -> Need {
        match self.needs.split(' ').next() {
            Some("unshare" | "nsenter") => NAMESPACES,
            Some("setpriv" | "su" | "chroot") => USERS,
            Some(_) | None => TOOLS,
        }
    }

    /// The ends with which it is combined.
    fn ends(&self) -> &'static [Then] {
        match self.kills() {
            true => &[Then::Ends, Then::SupervisorIsKilled],
            false => &[Then::Ends, Then::LockIsKilled, Then::SupervisorIsKilled],
        }
    }
}

/// For each whole line: the first word, and the time.
fn lines(log: &Path) -> Vec<(String, f64)> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let pair = |line: &str| line.split_once(' ').map(|(pid, time)| (pid.to_owned(), time.parse().expect("a time")));
    whole.lines().filter_map(pair).collect()
}

/// The supervisor of a `fairhold lock`: its only child.
pub(crate) fn supervisor_of(lock: u32) -> u32 {
    let entries = fs::read_dir("/proc").expect("processes").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parent == Some(lock)
    };
    entries.into_iter().find(is_child).expect("a supervisor")
}

fn start(url: &str, lock: &str, way: &Way, program: &Path, log: &Path, then: Then) -> Child {
    let rest = if then == Then::Ends { "exit 7" } else { "sleep 600" };
    let script = format!("{{ {}; }} & until test -s $L; do sleep 0.01; done; {rest}", way.script);
    let mut command = crate::harness::program();
    command.args(["lock", "-e", url, lock, "--ttl", "2s", "--kill-after", "200ms", "--", "sh", "-c", &script]);
    command.env("E", program).env("L", log).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.kill_on_drop(true).spawn().expect("fairhold lock starts")
}

/// Tries one way; returns how many seconds before the end of the hold the last line was written.
async fn go(cluster: &Cluster, number: usize, way: &Way, program: &Path, folder: &Path, then: Then) -> f64 {
    let lock = format!("escape-{number}-{then:?}");
    let log = folder.join(format!("{lock}.log"));
    let mut child = start(&cluster.nodes[number % 3].url, &lock, way, program, &log, then);
    let what = format!("{} begins to work", way.name);
    let log_of = &log;
    eventually(&what, SOON, || {
        let is_over = child.try_wait().expect("a child can be asked").is_some();
        async move { (is_over || !lines(log_of).is_empty()).then_some(()) }
    })
    .await;
    let pid = child.id();
    match (then, pid) {
        (Then::LockIsKilled, Some(_)) => child.start_kill().expect("it runs"),
        (Then::SupervisorIsKilled, Some(pid)) if !way.kills() => signal_pid(supervisor_of(pid), Signal::KILL),
        (Then::Ends | Then::SupervisorIsKilled | Then::LockIsKilled, _) => {}
    }
    let call = Call::post(&format!("/v1/locks/{lock}?wait=60s&ttl=60s"));
    cluster.client(number).send(&call).await.expect_status(200);
    let history = cluster.client(number).send(&Call::get(&format!("/v1/locks/{lock}/history"))).await.expect_status(200);
    // Not the time of the next hold: it may be the time at which another node received the request, a moment earlier.
    let ended = history.json["items"][1]["to"].as_str().expect("the end of the hold before");
    let since = WallMillis::from_rfc3339(ended).expect("a time").0;
    pass_time(LOOK_FOR).await;
    let Some((last_by, last)) = lines(&log).pop() else {
        assert!(way.kills(), "{} never worked", way.name);
        return f64::INFINITY;
    };
    let ahead = Duration::from_millis(since).as_secs_f64() - last;
    // In whole milliseconds, rounded down.
    assert!(ahead > -0.001, "{} ({then:?}): {last_by} worked {:.3} s while the next holder held the lock", way.name, -ahead);
    let output = child.wait_with_output().await.expect("it ends");
    if then == Then::Ends && !way.kills() {
        assert_eq!(output.status.code(), Some(7), "{}: {}", way.name, String::from_utf8_lossy(&output.stderr));
    }
    ahead
}

/// The folder of the logs, writable for other users, with a copy of the program for all of them.
fn folder(program: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("fairhold-escapes-").tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let program_for_all = folder.path().join("escape");
    fs::copy(program, &program_for_all).expect("a copy");
    (folder, program_for_all)
}

/// Whether a command succeeds here; if not, the failure.
pub(crate) async fn succeeds(command: &mut Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let succeeded = command.status().await.is_ok_and(|status| status.success());
    if succeeded { Ok(()) } else { Err(format!("{:?} fails", command.as_std())) }
}

async fn exists(way: &Way) -> Result<(), String> {
    let why = |error: String| format!("{}: {error}", way.name);
    succeeds(Command::new("sh").args(["-c", way.needs])).await.map_err(why)
}

#[test]
fn no_process_of_a_command_works_while_the_next_holder_has_the_lock_however_it_escaped() {
    let everything = trial::size(false, true);
    run_exclusive(LONG * 3, async {
        let cluster = Cluster::start().await;
        let (folder, program_for_all) = folder(escape());
        let mut ways = Vec::new();
        for (number, way) in WAYS.iter().enumerate().filter(|(_, way)| way.always || everything) {
            ways.extend(way.need().or_without(exists(way).await).map(|()| (number, way)));
        }
        let mut runs = 0;
        for some in ways.chunks(AT_ONCE) {
            for then in [Then::Ends, Then::LockIsKilled, Then::SupervisorIsKilled] {
                let some: Vec<_> = some.iter().filter(|(_, way)| way.ends().contains(&then)).collect();
                let going = some.iter().map(|(number, way)| go(&cluster, *number, way, &program_for_all, folder.path(), then));
                for ((_, way), ahead) in some.iter().zip(join_all(going).await) {
                    runs += 1;
                    report(&format!("{:<50} {then:?}: gone {ahead:.3} s before the hold ended", way.name));
                }
            }
        }
        report(&format!("{} ways, {runs} runs: no process worked while the next holder held the lock", ways.len()));
        assert_eq!(runs, ways.iter().map(|(_, way)| way.ends().len()).sum::<usize>());
    });
}

/// Unrelated processes. To read about all of them takes many times as long as the life of a process that forks and
/// ends.
const CROWD: &str = "4000";

#[test]
fn processes_that_keep_forking_are_stopped_even_among_thousands_of_others() {
    run_exclusive(LONG, async {
        let cluster = Cluster::start().await;
        let (folder, program) = folder(escape());
        let there = folder.path().join("crowd");
        let mut command = Command::new(&program);
        command.arg("crowd").arg(&there).arg(CROWD).stdin(Stdio::piped()).kill_on_drop(true);
        let mut crowd = command.spawn().expect("a crowd");
        eventually("the crowd is there", SOON, || async { (!lines(&there).is_empty()).then_some(()) }).await;
        let mut number = 0;
        for way in WAYS.iter().filter(|way| way.script.contains("hopper") || way.script.contains("runaway")) {
            for then in way.ends() {
                number += 1;
                let ahead = go(&cluster, number, way, &program, folder.path(), *then).await;
                report(&format!("{:<50} {then:?}: gone {ahead:.3} s before the hold ended", way.name));
            }
        }
        assert_eq!(number, 6);
        drop(crowd.stdin.take());
        assert!(crowd.wait().await.expect("it ends").success());
    });
}

/// As with `nsenter` and some container runtimes: the process group is outside of the namespace, and has no number in
/// it.
#[test]
fn the_exit_code_is_kept_in_a_pid_namespace_with_its_process_group_outside() {
    const ENTER: [&str; 2] = ["-rpf", "--mount-proc"];
    run_exclusive(LONG, async {
        let probe = succeeds(Command::new("unshare").args(ENTER).arg("true")).await;
        let Some(()) = NAMESPACES.or_without(probe) else { return };
        let cluster = Cluster::start().await;
        let mut command = Command::new("unshare");
        command.args(ENTER).arg(env!("CARGO_BIN_EXE_fairhold"));
        command.args(["lock", "-e", &cluster.nodes[0].url, "inside", "--ttl", "5s", "--kill-after", "100ms", "--"]);
        command.args(["sh", "-c", "trap '' TERM; sleep 600 & exit 7"]).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.expect("unshare");
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

/// With few process numbers, an orphan soon gets the number of the command after it has ended. The orphan's exit code
/// is not that of the command.
#[test]
fn the_exit_code_is_kept_if_an_orphan_reuses_the_process_number() {
    const ENTER: [&str; 2] = ["-rpf", "--mount-proc"];
    /// Older kernels have one maximum for the whole machine, which a namespace cannot set.
    const OWN_MAXIMUM_SINCE: (u32, u32) = (6, 14);
    const FEW: &str = "echo 400 > /proc/sys/kernel/pid_max && echo 320 > /proc/sys/kernel/ns_last_pid";
    run_exclusive(LONG, async {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut version = kernel.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or_default());
        let version = (version.next().expect("a version"), version.next().unwrap_or_default());
        if version < OWN_MAXIMUM_SINCE {
            report(&format!("Linux {kernel} has no PID namespace with few numbers; it needs Linux 6.14"));
            return;
        }
        let probe = succeeds(Command::new("unshare").args(ENTER).args(["sh", "-c", FEW])).await;
        let Some(()) = NAMESPACES.or_without(probe) else { return };
        let worker = escape().display().to_string();
        let cluster = Cluster::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log").display().to_string();
        let script = format!("{worker} hopper {log} & until test -s {log}; do :; done; exit 7");
        let run = format!("{FEW}; exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(ENTER).args(["sh", "-c", &run, "sh", env!("CARGO_BIN_EXE_fairhold"), "lock", "-e", &cluster.nodes[0].url]);
        command.args(["few", "--ttl", "10s", "--kill-after", "3s", "--", "sh", "-c", &script]);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("unshare");
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
