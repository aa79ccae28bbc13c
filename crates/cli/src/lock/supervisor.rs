//! The process between `fairhold lock` and the command: it leads the command's process group, reaps what the command leaves
//! behind, and stops the group in time, also when `fairhold lock` is suspended or was killed.
//!
//! It is in the group itself, so that its last act, SIGKILL to the group, ends it too: nobody can be left out between looking
//! and killing. All signals that a terminal or the command may send to the group it takes and passes over.

use super::{
    channel::{Channel, Order, Report, receive_input, since_boot},
    group,
    terminal::Terminal,
};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, waitpid,
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

/// The command cannot be run.
const EXIT_CANNOT_RUN: u8 = 126;
/// The command is not there.
const EXIT_NOT_FOUND: u8 = 127;
/// Signals that would end or suspend this process, and that are meant for the command.
const PASSED_OVER: [Signal; 10] = [
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
/// How often is looked for what neither a signal nor the socket tells.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The group is dead so long before the lock may pass.
const KILL_BEFORE: Duration = Duration::from_millis(20);

/// What the supervisor was told.
#[derive(Debug, clap::Args)]
pub(crate) struct SupervisorArgs {
    /// How long before the lock may pass SIGTERM is sent
    #[arg(long)]
    grace_ms: u64,
    /// How long the group has from SIGTERM to SIGKILL where `fairhold lock` is gone
    #[arg(long)]
    kill_after_ms: u64,
    /// The command
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// What the last process before the command was told.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// The supervisor
    #[arg(long)]
    parent: i32,
    /// The command
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// Becomes the command. It dies with the supervisor, should anybody kill that alone.
pub(crate) fn exec(args: &ExecArgs) -> ExitCode {
    let done = set_parent_process_death_signal(Some(Signal::KILL));
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if done.is_err() || parent != Some(args.parent) {
        return ExitCode::from(EXIT_CANNOT_RUN);
    }
    let [program, arguments @ ..] = &args.command[..] else { return ExitCode::from(EXIT_NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    writeln!(io::stderr(), "fairhold: {}: {error}", program.to_string_lossy()).ok();
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_CANNOT_RUN })
}

/// Supervises.
pub(crate) fn main(args: &SupervisorArgs) -> ExitCode {
    match supervise(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "fairhold: the command cannot be supervised: {error}").ok();
            group::send(getpid(), Signal::KILL);
            ExitCode::from(EXIT_CANNOT_RUN)
        }
    }
}

fn supervise(args: &SupervisorArgs) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let starter = getppid();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the command starts: it may signal its group at once.
        let _passed_over = group::listen(&PASSED_OVER)?;
        let mut children = signal(SignalKind::child())?;
        let Some(input) = receive_input(&socket)? else { return Ok(()) };
        let mut command = Command::new("/proc/self/exe");
        command.arg0("fairhold").args(["lock-exec", "--parent", &getpid().as_raw_nonzero().to_string(), "--"]);
        let child = command.args(&args.command).stdin(Stdio::from(input)).spawn()?;
        let mut supervisor = Supervisor {
            channel: Channel::new(socket)?,
            starter,
            command: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            grace: Duration::from_millis(args.grace_ms),
            kill_after: Duration::from_millis(args.kill_after_ms),
            believe_until: None,
            kill_at: None,
            code: None,
            is_alone: false,
        };
        loop {
            supervisor.reap().await;
            if supervisor.is_over() {
                break;
            }
            let look = supervisor.next_look();
            tokio::select! {
                biased;
                _ = children.recv() => {}
                order = supervisor.channel.hear(), if !supervisor.is_alone => supervisor.obey(order),
                () = sleep_until(look) => supervisor.look_at_the_clock().await,
            }
        }
        supervisor.end().await;
        Ok(())
    })
}

struct Supervisor {
    channel: Channel,
    starter: Option<Pid>,
    command: Option<Pid>,
    grace: Duration,
    kill_after: Duration,
    /// Since boot.
    believe_until: Option<Duration>,
    /// Since boot: SIGTERM was sent, and SIGKILL comes then.
    kill_at: Option<Duration>,
    /// How the command ended.
    code: Option<u8>,
    /// `fairhold lock` is gone.
    is_alone: bool,
}

impl Supervisor {
    /// Takes all who have ended, the command and whatever it left.
    async fn reap(&mut self) {
        while let Ok(Some((pid, status))) = waitpid(None, WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if Some(pid) != self.command {
                continue;
            }
            if let Some(suspended_by) = status.stopping_signal() {
                self.suspended(suspended_by).await;
            } else {
                self.code = Some(exit_code(status));
            }
        }
        if self.code.is_some() && self.kill_at.is_none() && group::has_others(getpid()) {
            self.stop(self.kill_after);
        }
    }

    async fn suspended(&mut self, signal: i32) {
        if let (Some(terminal), Some(starter)) = (Terminal::open(), self.starter) {
            give_back(&terminal, starter);
        }
        self.channel.say(Report::Suspended(signal)).await;
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::BelieveUntil(millis)) => self.believe_until = Some(Duration::from_millis(millis)),
            Some(Order::Signal(number)) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    group::send(getpid(), signal);
                }
            }
            Some(Order::Stop(grace)) => self.stop(Duration::from_millis(grace)),
            Some(Order::Continue) => group::send(getpid(), Signal::CONT),
            None => {
                self.is_alone = true;
                self.stop(self.kill_after);
            }
        }
    }

    /// SIGTERM now, and SIGKILL after the grace, or before the lock may pass where that is sooner.
    fn stop(&mut self, grace: Duration) {
        let wanted = since_boot().saturating_add(grace);
        let limit = self.believe_until.map_or(wanted, |until| until.saturating_sub(KILL_BEFORE));
        let kill_at = wanted.min(limit);
        if self.kill_at.is_none() {
            group::send(getpid(), Signal::TERM);
            // What is suspended acts on it only when it goes on.
            group::send(getpid(), Signal::CONT);
        }
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    fn next_look(&self) -> Instant {
        let now = since_boot();
        let stop_at = self.believe_until.filter(|_| self.kill_at.is_none()).map(|until| until.saturating_sub(self.before()));
        let due = [stop_at, self.kill_at].into_iter().flatten().map(|at| at.saturating_sub(now)).min();
        let idle = if self.kill_at.is_some() { LOOK_EVERY } else { Duration::from_secs(1) };
        Instant::now() + due.map_or(idle, |due| due.min(idle))
    }

    /// How long before the lock may pass the group is told.
    fn before(&self) -> Duration {
        self.grace + KILL_BEFORE
    }

    async fn look_at_the_clock(&mut self) {
        let is_late = self.believe_until.is_some_and(|until| since_boot() >= until.saturating_sub(self.before()));
        if is_late && self.kill_at.is_none() {
            self.stop(self.grace);
            if !self.is_alone {
                self.channel.say(Report::OutOfTime).await;
            }
        }
    }

    /// Nobody but this process is left in the group, or nobody may be any more.
    fn is_over(&self) -> bool {
        let must_be = self.kill_at.is_some_and(|at| since_boot() >= at);
        must_be || (self.code.is_some() && !group::has_others(getpid()))
    }

    async fn end(mut self) {
        if let (Some(terminal), Some(starter)) = (Terminal::open(), self.starter) {
            give_back(&terminal, starter);
        }
        // Those who do not go by themselves: first their end, then the news of it.
        let code = self.code.unwrap_or(128 + exit_number(Signal::KILL.as_raw()));
        if !self.is_alone {
            self.channel.say(Report::Ended(code)).await;
        }
        if group::has_others(getpid()) {
            group::send(getpid(), Signal::KILL);
        }
    }
}

/// Gives the foreground back to the group of `fairhold lock`.
fn give_back(terminal: &Terminal, starter: Pid) {
    if let Ok(group) = rustix::process::getpgid(Some(starter)) {
        terminal.hand_to(group);
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => exit_number(code),
        (None, Some(signal)) => 128_u8.saturating_add(exit_number(signal)),
        (None, None) => EXIT_CANNOT_RUN,
    }
}

/// A number as the kernel keeps it: its lowest eight bits.
pub(super) fn exit_number(number: i32) -> u8 {
    number.to_le_bytes()[0]
}
