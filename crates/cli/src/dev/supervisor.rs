//! Supervises one node: a child process that ends when this process ends, for any reason.

use super::error::{DevError, ended_how, is_final};
use fairhold_types::NodeId;
use parking_lot::Mutex;
use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

/// How long a node may take to stop before it is killed: more than a node allows itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest piece of a log line to forward at once, in bytes.
const LOG_LINE_BYTES_MAX: u64 = 64 * 1024;

/// An event of a node's process.
#[derive(Debug)]
pub(super) enum ChildEvent {
    /// The process has started.
    Started { id: NodeId, pid: u32 },
    /// The process ended by itself.
    Ended { id: NodeId, pid: u32, status: ExitStatus },
    /// The process cannot be started.
    CannotStart { id: NodeId, error: io::Error },
}

/// Where a node's log lines go.
#[derive(Debug)]
pub(super) enum LogTarget {
    /// To this process's stderr, prefixed with the node's number.
    Stderr,
    /// To a file, while the live view uses the terminal.
    File(PathBuf),
}

/// The supervisor of one node.
#[derive(Debug)]
pub(super) struct ChildSupervisor {
    id: NodeId,
    program: PathBuf,
    args: Vec<OsString>,
    logs: LogWriter,
    restart_after: Option<Duration>,
}

#[derive(Debug, Clone)]
enum LogWriter {
    Stderr,
    File(Arc<Mutex<File>>),
}

impl ChildSupervisor {
    /// Starts nothing yet. With `restart_after`, a node that has died is restarted after that time, unless a restart
    /// cannot help.
    pub(super) fn new(
        id: NodeId,
        args: Vec<OsString>,
        logs: LogTarget,
        restart_after: Option<Duration>,
    ) -> Result<ChildSupervisor, DevError> {
        let logs = match logs {
            LogTarget::Stderr => LogWriter::Stderr,
            LogTarget::File(path) => {
                let opened = File::options().create(true).append(true).open(&path);
                let file = opened.map_err(|error| DevError::Data { path: path.display().to_string(), error })?;
                LogWriter::File(Arc::new(Mutex::new(file)))
            }
        };
        Ok(ChildSupervisor { id, program: env::current_exe()?, args, logs, restart_after })
    }

    /// Keeps the node running until `stop`. Afterwards its process has ended.
    pub(super) async fn run(self, events: mpsc::Sender<ChildEvent>, mut stop: watch::Receiver<bool>) {
        loop {
            match self.start() {
                Ok((child, pid)) => {
                    report(&events, ChildEvent::Started { id: self.id, pid }).await;
                    let Some(status) = self.wait_or_stop(child, &mut stop).await else { return };
                    report(&events, ChildEvent::Ended { id: self.id, pid, status }).await;
                    if is_final(status) {
                        return;
                    }
                }
                Err(error) => report(&events, ChildEvent::CannotStart { id: self.id, error }).await,
            }
            let Some(pause) = self.restart_after else { return };
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                () = sleep(pause) => {}
            }
        }
    }

    fn start(&self) -> io::Result<(Child, u32)> {
        let mut command = Command::new(&self.program);
        // Nobody writes to this pipe: it closes when this process ends, and then the node stops.
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C in the terminal reaches only this process, which then stops the nodes in order.
        command.process_group(0).kill_on_drop(true);
        for (name, _) in env::vars_os().filter(|(name, _)| is_own_variable(name)) {
            command.env_remove(name);
        }
        let mut child = command.spawn()?;
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(forward_log(stderr, self.logs.clone(), self.id));
        }
        let pid = child.id().ok_or_else(|| io::Error::other("the process has no pid"))?;
        Ok((child, pid))
    }

    /// Waits until the process ends by itself, and returns its status. On `stop`, ends it and returns none.
    async fn wait_or_stop(&self, mut child: Child, stop: &mut watch::Receiver<bool>) -> Option<ExitStatus> {
        // `wait` closes the pipe to the child's stdin, and that would stop the node.
        let held = child.stdin.take();
        let ended = tokio::select! {
            biased;
            () = stopped(stop) => None,
            status = child.wait() => Some(status.unwrap_or_else(|error| self.unknown_status(&error))),
        };
        if ended.is_none() {
            self.end(&mut child).await;
        }
        drop(held);
        ended
    }

    fn unknown_status(&self, error: &io::Error) -> ExitStatus {
        eprintln!("dev: the exit status of node {} is unknown: {error}", self.id);
        ExitStatus::default()
    }

    async fn end(&self, child: &mut Child) {
        // There is none if the process has ended by itself.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        {
            eprintln!("dev: cannot send SIGTERM to node {}: {error}", self.id);
        }
        match timeout(STOP_TIMEOUT, child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => eprintln!("dev: node {} {} after SIGTERM", self.id, ended_how(status)),
            Ok(Err(error)) => eprintln!("dev: the exit status of node {} is unknown: {error}", self.id),
            Err(_) => {
                eprintln!("dev: node {} did not stop within {} s: killing it", self.id, STOP_TIMEOUT.as_secs());
                if let Err(error) = child.kill().await {
                    eprintln!("dev: cannot kill node {}: {error}", self.id);
                }
            }
        }
    }
}

/// Whether to keep a variable from the nodes: `dev` configures them with flags, and variables meant for another node
/// would interfere. The log filter may apply to all of them.
fn is_own_variable(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("FAIRHOLD_") && name != "FAIRHOLD_LOG"
}

async fn report(events: &mpsc::Sender<ChildEvent>, event: ChildEvent) {
    // During the shutdown nobody receives events.
    drop(events.send(event).await);
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // If the sender is gone, that is a stop too.
    drop(stop.wait_for(|stop| *stop).await);
}

async fn forward_log(from: impl AsyncRead + Unpin, to: LogWriter, id: NodeId) {
    use tokio::io::AsyncReadExt;

    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LOG_LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => write_log(&to, id, &line),
        }
    }
}

fn write_log(to: &LogWriter, id: NodeId, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let prefixed = format!("[{id}] {}\n", text.trim_end_matches('\n'));
    let written = match to {
        LogWriter::Stderr => io::stderr().write_all(prefixed.as_bytes()),
        LogWriter::File(file) => file.lock().write_all(prefixed.as_bytes()),
    };
    // There is no place to report an error, and reading continues: the node must not block on a full pipe.
    drop(written);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supervisor with a shell script in place of a node.
    fn supervisor(script: &str, restart_after: Option<Duration>) -> ChildSupervisor {
        let args = vec!["-c".into(), script.into()];
        ChildSupervisor { id: 1, program: "/bin/sh".into(), args, logs: LogWriter::Stderr, restart_after }
    }

    #[tokio::test]
    async fn without_restart_a_node_that_ends_is_reported_and_stays_down() {
        let (events_in, mut events) = mpsc::channel(8);
        let (_stop, stopped) = watch::channel(false);
        let task = tokio::spawn(supervisor("exit 4", None).run(events_in, stopped));
        let Some(ChildEvent::Started { id: 1, pid: started }) = events.recv().await else { panic!("not started") };
        let Some(ChildEvent::Ended { id: 1, pid, status }) = events.recv().await else { panic!("not ended") };
        assert_eq!((pid, ended_how(status).as_str()), (started, "ended with exit code 4"));
        task.await.unwrap();
        assert!(events.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_node_that_cannot_take_part_is_not_restarted() {
        let (events_in, mut events) = mpsc::channel(8);
        let (_stop, stopped) = watch::channel(false);
        let task = tokio::spawn(supervisor("exit 3", Some(Duration::ZERO)).run(events_in, stopped));
        assert!(matches!(events.recv().await, Some(ChildEvent::Started { .. })));
        assert!(matches!(events.recv().await, Some(ChildEvent::Ended { status, .. }) if is_final(status)));
        task.await.unwrap();
        assert!(events.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_killed_node_is_restarted() {
        let (events_in, mut events) = mpsc::channel(8);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(supervisor("kill -9 $$", Some(Duration::ZERO)).run(events_in, stopped));
        let mut pids = Vec::new();
        while pids.len() < 2 {
            match events.recv().await {
                Some(ChildEvent::Started { pid, .. }) => pids.push(pid),
                Some(ChildEvent::Ended { status, .. }) => assert_eq!(ended_how(status), "was ended by signal 9"),
                other => panic!("{other:?}"),
            }
        }
        assert_ne!(pids[0], pids[1]);
        stop.send_replace(true);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_running_node_receives_sigterm_and_its_stdin_stays_open_until_it_ends() {
        let (events_in, mut events) = mpsc::channel(8);
        let (stop, stopped) = watch::channel(false);
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        // `read` returns when stdin closes; otherwise only the signal interrupts it.
        let script = "trap 'echo asked >&2; exit 0' TERM; echo up >&2; read line; echo stdin ended >&2";
        let file = Arc::new(Mutex::new(File::create(&log).unwrap()));
        let supervisor = ChildSupervisor { logs: LogWriter::File(file), ..supervisor(script, None) };
        let task = tokio::spawn(supervisor.run(events_in, stopped));
        assert!(matches!(events.recv().await, Some(ChildEvent::Started { .. })));
        while !std::fs::read_to_string(&log).unwrap().contains("up") {
            tokio::task::yield_now().await;
        }
        stop.send_replace(true);
        task.await.unwrap();
        assert!(!std::fs::read_to_string(&log).unwrap().contains("stdin ended"));
        assert!(events.recv().await.is_none(), "a requested stop is not an event");
    }

    #[test]
    fn variables_for_another_node_do_not_reach_the_nodes() {
        for (name, own) in [("FAIRHOLD_ID", true), ("FAIRHOLD_LISTEN", true), ("FAIRHOLD_LOG", false), ("PATH", false)] {
            assert_eq!(is_own_variable(name.as_ref()), own, "{name}");
        }
    }
}
