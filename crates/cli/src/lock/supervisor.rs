//! The process between `fairhold lock` and the command: it leads the command's process group, reaps the processes that
//! the command leaves behind, and stops every process of the command in time, even if `fairhold lock` is suspended or
//! killed.
//!
//! It becomes the parent of each process that loses its own parent, so the kernel tells it whether any is left: exactly
//! while it has a child. It starts in the command's group, gives the terminal back, and leaves the group before it
//! kills. It catches and ignores the signals that a terminal or the command may send to the group.

use crate::exit;

use super::{
    channel::{Channel, SupervisorOrder, SupervisorReport, receive_input, since_boot},
    descendants::{Descendants, Survivor, describe, group_of},
    group,
    terminal::Terminal,
};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, setpgid,
        wait,
    },
};
use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream, unix::process::CommandExt as _},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until},
};

/// Signals for the command that would otherwise end or suspend this process.
const CAUGHT: [Signal; 10] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];
/// How often it checks for changes that neither a signal nor the socket announces.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// How often it searches for new processes while it kills.
const KILL_EVERY: Duration = Duration::from_millis(2);
/// A killed process is gone by then, unless the kernel cannot end it or does not permit it.
const STUCK_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct SupervisorArgs {
    /// Milliseconds from SIGTERM to SIGKILL when the lock is about to pass
    #[arg(long)]
    grace_ms: u64,
    /// Milliseconds from SIGTERM to SIGKILL when the command has ended or `fairhold lock` is gone
    #[arg(long)]
    kill_after_ms: u64,
    /// Milliseconds from SIGKILL to the time at which the lock may pass
    #[arg(long)]
    kill_before_ms: u64,
    /// Command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The arguments of the last process before the command.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// Pid of the supervisor
    #[arg(long)]
    parent: i32,
    /// Command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// Becomes the command, which dies with the supervisor if only that is killed.
pub(crate) fn exec(args: &ExecArgs) -> ExitCode {
    let done = set_parent_process_death_signal(Some(Signal::KILL));
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if done.is_err() || parent != Some(args.parent) {
        return ExitCode::from(exit::CANNOT_RUN);
    }
    let [program, arguments @ ..] = &args.command[..] else { return ExitCode::from(exit::NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    writeln!(io::stderr(), "fairhold: {}", not_run(&program.to_string_lossy(), &error)).ok();
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_RUN })
}

/// Why the command did not run. A name with spaces is most often a whole command line in quotes.
fn not_run(program: &str, error: &io::Error) -> String {
    let is_line = error.kind() == io::ErrorKind::NotFound && program.contains(char::is_whitespace);
    let advice = if is_line { "; there is no shell here: leave out the quotes, or write sh -c 'COMMAND'" } else { "" };
    format!("{program}: {error}{advice}")
}

/// Runs the supervisor.
pub(crate) fn main(args: &SupervisorArgs) -> ExitCode {
    match supervise(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "fairhold: cannot start the command: {error}").ok();
            ExitCode::from(exit::CANNOT_RUN)
        }
    }
}

/// Fails only if the command was not started.
fn supervise(args: &SupervisorArgs) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let starter = getppid();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the command starts: it may signal its group at once.
        let _caught = group::listen(&CAUGHT)?;
        let mut children = signal(SignalKind::child())?;
        let descendants = Descendants::from_now_on();
        let Some(input) = receive_input(&socket)? else { return Ok(()) };
        let channel = Channel::new(socket)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("fairhold").args(["lock-exec", "--parent", &getpid().as_raw_nonzero().to_string(), "--"]);
        let child = command.args(&args.command).stdin(Stdio::from(input)).spawn()?;
        let mut supervisor = Supervisor {
            channel,
            starter,
            group: getpid(),
            command: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            descendants,
            grace: Duration::from_millis(args.grace_ms),
            kill_after: Duration::from_millis(args.kill_after_ms),
            kill_before: Duration::from_millis(args.kill_before_ms),
            held_until: None,
            kill_at: None,
            killing_since: None,
            has_left_group: false,
            code: None,
            is_orphaned: false,
        };
        while supervisor.reap().await && !supervisor.kill_if_due() {
            let next = supervisor.next_check();
            tokio::select! {
                biased;
                _ = children.recv() => {}
                order = supervisor.channel.receive(), if !supervisor.is_orphaned => supervisor.handle(order),
                () = sleep_until(next) => supervisor.check_deadline().await,
            }
        }
        supervisor.end().await;
        Ok(())
    })
}

struct Supervisor {
    channel: Channel,
    starter: Option<Pid>,
    /// The process group of the command.
    group: Pid,
    command: Option<Pid>,
    descendants: Descendants,
    grace: Duration,
    kill_after: Duration,
    kill_before: Duration,
    /// Since boot.
    held_until: Option<Duration>,
    /// Since boot: SIGTERM was sent, and SIGKILL follows at this time.
    kill_at: Option<Duration>,
    /// Since boot: the time of the first SIGKILL.
    killing_since: Option<Duration>,
    /// Whether this process has left the command's group.
    has_left_group: bool,
    /// How the command ended.
    code: Option<u8>,
    /// Whether `fairhold lock` is gone.
    is_orphaned: bool,
}

impl Supervisor {
    /// Reaps all children that have ended. Returns whether any is left.
    async fn reap(&mut self) -> bool {
        let is_left = loop {
            match reap_ended(self.command, &mut self.code) {
                Reaped::Suspended(signal) => self.suspended(signal).await,
                Reaped::SomeAreLeft => break true,
                Reaped::NoneAreLeft => break false,
            }
        };
        if is_left && self.code.is_some() && self.kill_at.is_none() {
            self.stop(self.kill_after);
        }
        is_left
    }

    async fn suspended(&mut self, signal: i32) {
        self.give_terminal_back();
        self.channel.send(SupervisorReport::Suspended(signal)).await;
    }

    fn handle(&mut self, order: Option<SupervisorOrder>) {
        match order {
            Some(SupervisorOrder::HeldUntil(millis)) => self.held_until = Some(Duration::from_millis(millis)),
            Some(SupervisorOrder::Signal(number)) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.descendants.signal(self.group, &[signal]);
                }
            }
            Some(SupervisorOrder::Stop(grace)) => self.stop(Duration::from_millis(grace)),
            Some(SupervisorOrder::Continue) => group::send(self.group, Signal::CONT),
            None => {
                self.is_orphaned = true;
                self.stop(self.kill_after);
            }
        }
    }

    /// Sends SIGTERM now, and SIGKILL after the grace, or before the lock may pass if that is sooner.
    fn stop(&mut self, grace: Duration) {
        let wanted = since_boot().saturating_add(grace);
        let limit = self.held_until.map_or(wanted, |until| until.saturating_sub(self.kill_before));
        let kill_at = wanted.min(limit);
        if self.kill_at.is_none() {
            // A suspended process handles SIGTERM only when it continues.
            self.descendants.signal(self.group, &[Signal::TERM, Signal::CONT]);
        }
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    fn next_check(&self) -> Instant {
        if self.killing_since.is_some() {
            return Instant::now() + KILL_EVERY;
        }
        let now = since_boot();
        let stop_at = self.held_until.filter(|_| self.kill_at.is_none()).map(|until| until.saturating_sub(self.before()));
        let due = [stop_at, self.kill_at].into_iter().flatten().map(|at| at.saturating_sub(now)).min();
        let idle = if self.kill_at.is_some() { CHECK_EVERY } else { Duration::from_secs(1) };
        Instant::now() + due.map_or(idle, |due| due.min(idle))
    }

    /// How long before the lock may pass it sends SIGTERM.
    fn before(&self) -> Duration {
        self.grace + self.kill_before
    }

    async fn check_deadline(&mut self) {
        let is_late = self.held_until.is_some_and(|until| since_boot() >= until.saturating_sub(self.before()));
        if is_late && self.kill_at.is_none() {
            self.stop(self.grace);
            if !self.is_orphaned {
                self.channel.send(SupervisorReport::OutOfTime).await;
            }
        }
    }

    /// Kills once it is time. Returns whether nothing more can be done.
    fn kill_if_due(&mut self) -> bool {
        let now = since_boot();
        if self.kill_at.is_none_or(|at| now < at) {
            return false;
        }
        let since = *self.killing_since.get_or_insert(now);
        if !self.has_left_group {
            // From outside it can kill the group in one step, which no fork outruns.
            self.give_terminal_back();
            let group = self.starter.and_then(group_of);
            self.has_left_group = group.is_some_and(|group| setpgid(None, Some(group)).is_ok());
        }
        if self.has_left_group {
            group::send(self.group, Signal::KILL);
        }
        self.kill();
        now.saturating_sub(since) >= STUCK_AFTER
    }

    /// Kills every process that the command started, and reaps those that end meanwhile.
    fn kill(&mut self) -> Vec<Survivor> {
        let command = self.command;
        let code = &mut self.code;
        // A suspension does not matter any more.
        self.descendants.kill(|| while let Reaped::Suspended(_) = reap_ended(command, code) {})
    }

    async fn end(mut self) {
        self.give_terminal_back();
        let code = self.code.unwrap_or(128 + exit_number(Signal::KILL.as_raw()));
        if !self.is_orphaned {
            // `fairhold lock` has the lock, and deals with the processes that are left.
            self.channel.send(SupervisorReport::Ended(code)).await;
        } else if self.killing_since.is_some() {
            let left = self.kill();
            if !left.is_empty() {
                writeln!(io::stderr(), "fairhold: {}; it keeps running without the lock", describe(&left)).ok();
            }
        }
        if self.killing_since.is_some() && !self.has_left_group {
            // It could not leave the group, so this kills it too. It does so last: no process that starts meanwhile
            // escapes.
            group::send(self.group, Signal::KILL);
        }
    }

    /// Gives the foreground back to the group of `fairhold lock`.
    fn give_terminal_back(&self) {
        if let (Some(terminal), Some(group)) = (Terminal::open(), self.starter.and_then(group_of)) {
            terminal.hand_to(group);
        }
    }
}

/// What the kernel reports about the children.
enum Reaped {
    /// Command and its arguments was suspended by this signal.
    Suspended(i32),
    SomeAreLeft,
    NoneAreLeft,
}

/// Reaps the children that have ended: the command, and the processes that it left. Keeps the command's exit code. The
/// kernel knows exactly whether a process is left, because every descendant has an ancestor that is a child of this
/// process.
fn reap_ended(command: Option<Pid>, code: &mut Option<u8>) -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            // Once the command has ended, an orphan may get its number.
            Ok(Some((pid, status))) if Some(pid) == command && code.is_none() => match status.stopping_signal() {
                Some(signal) => return Reaped::Suspended(signal),
                None => *code = Some(exit_code(status)),
            },
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::SomeAreLeft,
            Err(_) => return Reaped::NoneAreLeft,
        }
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => exit_number(code),
        (None, Some(signal)) => 128_u8.saturating_add(exit_number(signal)),
        (None, None) => exit::CANNOT_RUN,
    }
}

/// A number as the kernel keeps it: its lowest eight bits.
pub(super) fn exit_number(number: i32) -> u8 {
    number.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_quoted_command_line_explains_that_there_is_no_shell() {
        let not_found = io::Error::from(io::ErrorKind::NotFound);
        assert!(not_run("echo hi", &not_found).contains("; there is no shell here: leave out the quotes, or write sh -c"));
        assert!(!not_run("ehco", &not_found).contains("shell"));
        assert!(!not_run("/opt/my tool", &io::Error::from(io::ErrorKind::PermissionDenied)).contains("shell"));
    }
}
