//! Runs the harness as a process with a timeout, and checks that it leaves nothing behind on this machine.

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// The exit code of a harness that cannot run on this machine.
const NOT_HERE: i32 = 3;
/// The timeout of a run. Its own waits are shorter.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// This variable lists what a machine lacks, separated by commas: `networks` if root cannot create network namespaces,
/// `baselines` if the programs of older cluster versions cannot be built.
const WITHOUT: &str = "FAIRHOLD_WITHOUT";

/// Only one run at a time: two cores are just enough for one.
static TURN: Mutex<()> = Mutex::new(());

/// Prints a line even if the output of tests is captured.
pub(crate) fn tell(line: &str) {
    writeln!(std::io::stderr().lock(), "{line}").expect("standard error can be written");
}

/// A harness that runs, or has ended. Dropping it removes its leftovers.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) child: Child,
    pub(crate) folder: PathBuf,
    groups_before: BTreeSet<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) report: String,
    pub(crate) said: String,
}

/// Starts the harness with the `fairhold` program next to it. Returns `None` if this machine cannot run it, and prints
/// why. is said.
pub(crate) fn start(name: &str, arguments: &[&str]) -> Option<Harness> {
    let turn = TURN.lock();
    if !rustix::process::geteuid().is_root() {
        tell(&format!("not covered here: {name}: a run of real processes with faults needs root"));
        return None;
    }
    let harness = PathBuf::from(env!("CARGO_BIN_EXE_fairhold-jepsen"));
    let program = harness.with_file_name("fairhold");
    let build = "cargo build --release --locked -p fairhold-cli";
    assert!(program.is_file(), "there is no program {}: build it first, with `{build}` or ./fairhold build", program.display());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}-{}", std::process::id()));
    let mut run = Command::new(&harness);
    run.args(arguments).arg("--fairhold").arg(&program).arg("--out").arg(&folder);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let groups_before = groups_of_dead_harnesses();
    let child = run.spawn().expect("the harness can be started");
    Some(Harness { child, folder, groups_before, _turn: turn })
}

/// Whether this exit code means that no run is possible here; prints it. If root made the run, that is a failure.
pub(crate) fn is_not_here(ended: &Ended) -> bool {
    if ended.code != Some(NOT_HERE) {
        return false;
    }
    let excused = is_without("networks");
    assert!(excused, "root cannot make a run here; {WITHOUT}=networks lets the tests pass without any:\n{}", ended.said);
    tell(&ended.said);
    true
}

fn is_without(what: &str) -> bool {
    std::env::var(WITHOUT).is_ok_and(|names| names.split(',').any(|name| name.trim() == what))
}

/// Whether the program of the first cluster version is in the target folder. If not, that is a failure unless it is
/// named.
pub(crate) fn has_baseline() -> bool {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_fairhold-jepsen")).with_file_name("../baseline-1/fairhold");
    let (found, path) = (path.is_file(), path.display());
    assert!(found || is_without("baselines"), "there is no {path}: run ./fairhold build-baseline");
    if !found {
        tell(&format!("not covered here: an upgrade: there is no {path}"));
    }
    found
}

impl Harness {
    /// Waits for the end of the run.
    pub(crate) fn wait(&mut self) -> Ended {
        let (said, report) = (read(self.child.stderr.take()), read(self.child.stdout.take()));
        // Both pipes close when the harness ends.
        let (report, said) = (report.recv_timeout(ENDS_WITHIN), said.recv_timeout(GONE_WITHIN));
        let (Ok(report), Ok(said)) = (report, said) else {
            panic!("the harness has not ended after {ENDS_WITHIN:?}: see {}", self.folder.display());
        };
        let code = self.child.wait().expect("the harness is a child of this process").code();
        Ended { code, report, said }
    }

    /// The leftovers of a harness: processes, namespaces, devices, mounts, control groups.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left: Vec<String> = self.nodes().iter().map(|pid| format!("process {pid}")).collect();
        left.extend(self.namespaces().into_iter().map(|name| format!("namespace {name}")));
        left.extend(self.devices().into_iter().map(|name| format!("device {name}")));
        left.extend(self.mounts().into_iter().map(|path| format!("mount {path}")));
        left.extend(self.groups().iter().map(|path| format!("control group {}", path.display())));
        left
    }

    /// Kills the harness, and removes its leftovers.
    pub(crate) fn clean(&mut self) {
        // It may have ended: then there is nothing to kill.
        drop(self.child.kill());
        drop(self.child.wait());
        for pid in self.nodes() {
            if let Err(error) = kill_process(pid, Signal::KILL) {
                tell(&format!("process {pid:?}: {error}"));
            }
        }
        let started = Instant::now();
        while !self.nodes().is_empty() && started.elapsed() < GONE_WITHIN {
            thread::yield_now();
        }
        for path in self.mounts() {
            run("umount", &["-l", &path]);
        }
        for name in self.namespaces() {
            run("ip", &["netns", "del", &name]);
        }
        for name in self.devices() {
            run("ip", &["link", "del", &name]);
        }
        for group in self.groups() {
            drop(fs::remove_dir(group));
        }
    }

    /// The process number of the harness, which is in the name of the nodes' data.
    fn mark(&self) -> String {
        format!("fairhold-chaos-{}/", self.child.id())
    }

    fn nodes(&self) -> Vec<Pid> {
        let is_node = |pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&self.mark()))
        };
        names("/proc").iter().filter_map(|name| name.parse().ok()).filter(is_node).filter_map(Pid::from_raw).collect()
    }

    fn namespaces(&self) -> Vec<String> {
        let begin = format!("fhc-{}-", self.child.id());
        names("/run/netns").into_iter().filter(|name| name.starts_with(&begin)).collect()
    }

    fn devices(&self) -> Vec<String> {
        let begin = format!("fhc{}-", self.child.id() % 1_000_000);
        names("/sys/class/net").into_iter().filter(|name| name.starts_with(&begin)).collect()
    }

    fn mounts(&self) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a process may see its mounts");
        let paths = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned);
        paths.filter(|path| path.contains(&self.mark())).collect()
    }

    fn groups(&self) -> Vec<PathBuf> {
        groups_of_dead_harnesses().difference(&self.groups_before).cloned().collect()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.clean();
    }
}

/// Reads an output to its end.
fn read(output: Option<impl std::io::Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut output = output.expect("nobody has taken it");
        output.read_to_end(&mut bytes).expect("a pipe can be read");
        // A test that gave up no longer reads it.
        drop(send.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receive
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The control groups of harnesses whose process is gone. Their names contain its process id.
fn groups_of_dead_harnesses() -> BTreeSet<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let of = |controller: &str| {
        let folder = root.join(controller);
        let is_dead = |name: &String| name.strip_prefix("fhc-").is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        names(&folder.to_string_lossy()).into_iter().filter(is_dead).map(move |name| folder.join(name)).collect::<Vec<_>>()
    };
    ["cpu", "memory", "freezer"].into_iter().flat_map(of).collect()
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().expect("the programs of the harness are there");
    if !done.status.success() {
        tell(&format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr)));
    }
}
