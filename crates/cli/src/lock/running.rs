//! Runs the command under the supervisor, and keeps the supervisor informed of how long the lock may be believed in.

use super::{
    EXIT_LOST,
    args::{LockArgs, OnLost},
    channel::{Channel, Order, Report, millis, send_input, since_boot},
    group, say,
    supervisor::exit_number,
    terminal::Terminal,
};
use fairhold_client::{Held, Lost};
use rustix::process::{Pid, Signal, kill_current_process_group};
use std::{
    io::{self, IsTerminal as _},
    os::{fd::AsFd as _, fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal as Arrivals, SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

/// How often the supervisor is told how long the lock may be believed in.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// The supervisor acts by itself; so long after it should have, this process acts.
const SUPERVISOR_LATE: Duration = Duration::from_millis(500);
/// A suspended process knows by then that it was.
const SUSPENDED_WITHIN: Duration = Duration::from_millis(300);
/// A group that was killed is gone by then, but for what the kernel cannot end.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The command, as it runs.
struct Running<'a> {
    args: &'a LockArgs,
    held: Held,
    channel: Channel,
    supervisor: Child,
    group: Pid,
    continued: Arrivals,
    /// How the lock was lost.
    lost: Option<Lost>,
    /// When this process kills the group, should the supervisor not have.
    kill_at: Option<Instant>,
    /// How the command ended.
    code: Option<u8>,
}

/// Runs it, and says with which exit code to end. Afterwards nothing of its process group is left.
pub(super) async fn run(args: &LockArgs, held: Held, signals: &mut mpsc::Receiver<Signal>) -> io::Result<u8> {
    let mut running = Running::start(args, held)?;
    let ended = running.follow(signals).await;
    running.clear().await;
    ended?;
    let code = running.code.unwrap_or(128 + exit_number(Signal::KILL.as_raw()));
    if running.lost.is_none() {
        running.lost = running.held.left().err();
    }
    match running.lost {
        Some(lost) if args.on_lost != OnLost::Ignore => {
            say(&format!("the lock {} was lost while the command ran: {lost}", running.held.lock()));
            Ok(EXIT_LOST)
        }
        Some(_) | None => Ok(code),
    }
}

impl<'a> Running<'a> {
    fn start(args: &'a LockArgs, held: Held) -> io::Result<Running<'a>> {
        // Should the supervisor die, its orphans come here and are seen.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (ours, theirs) = UnixStream::pair()?;
        let grace = match args.on_lost {
            OnLost::Term => args.kill_after.min(args.ttl / 3),
            OnLost::Kill | OnLost::Ignore => Duration::ZERO,
        };
        let mut command = Command::new("/proc/self/exe");
        command.arg0("fairhold").arg("lock-supervisor").args(["--grace-ms", &millis(grace).to_string()]);
        command.args(["--kill-after-ms", &millis(args.kill_after).to_string(), "--"]).args(&args.command);
        command.env("FAIRHOLD_LOCK", held.lock().as_str()).env("FAIRHOLD_GRANT", held.id().to_string());
        let token = held.token().map_or_else(|_| String::new(), |token| token.0.to_string());
        command.env("FAIRHOLD_TOKEN", token).process_group(0).stdin(Stdio::from(OwnedFd::from(theirs)));
        let supervisor = command.spawn()?;
        drop(command);
        let group = supervisor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("the supervisor has no process number"))?;
        if io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && let Some(terminal) = Terminal::open()
        {
            terminal.hand_to(group);
        }
        send_input(&ours, io::stdin().as_fd())?;
        let (channel, continued) = (Channel::new(ours)?, signal(SignalKind::from_raw(Signal::CONT.as_raw()))?);
        Ok(Running { args, held, channel, supervisor, group, continued, lost: None, kill_at: None, code: None })
    }

    /// Until the supervisor has ended.
    async fn follow(&mut self, signals: &mut mpsc::Receiver<Signal>) -> io::Result<()> {
        let (held, mut is_heard, mut told) = (self.held.clone(), true, Instant::now());
        self.tell_time().await;
        loop {
            tokio::select! {
                biased;
                report = self.channel.hear(), if is_heard => match report {
                    Some(report) => self.take(report).await,
                    None => is_heard = false,
                },
                lost = held.lost(), if self.lost.is_none() => self.lose(lost).await,
                ended = self.supervisor.wait(), if !is_heard => return ended.map(|_| ()),
                Some(signal) = signals.recv() => self.channel.say(Order::Signal(signal.as_raw())).await,
                () = sleep_until(self.kill_at.unwrap_or(told)), if self.kill_at.is_some() => {
                    group::send(self.group, Signal::KILL);
                    self.kill_at = Some(Instant::now() + SUPERVISOR_LATE);
                }
                () = sleep_until(told + TELL_EVERY) => {
                    told = Instant::now();
                    self.tell_time().await;
                }
            }
        }
    }

    /// How long the lock may be believed in, in time that does not stand still.
    async fn tell_time(&mut self) {
        if self.args.on_lost == OnLost::Ignore {
            return;
        }
        // The clock is read first, so that the moment is rather too early.
        let now = since_boot();
        if let Ok(left) = self.held.left() {
            self.channel.say(Order::BelieveUntil(millis(now + left))).await;
        }
    }

    async fn take(&mut self, report: Report) {
        match report {
            Report::Ended(code) => self.code = Some(code),
            Report::OutOfTime => {
                self.lost = Some(Lost::CutOff);
                let limit = self.args.kill_after.min(self.args.ttl / 3);
                self.kill_at = Some(Instant::now() + limit + SUPERVISOR_LATE);
                say(&format!("the lock {} cannot be renewed: stopping the command before another may have it", self.held.lock()));
            }
            Report::Suspended(by) => self.suspended(by).await,
        }
    }

    async fn lose(&mut self, lost: Lost) {
        self.lost = Some(lost);
        let grace = match (self.args.on_lost, lost) {
            (OnLost::Ignore, _) => {
                say(&format!("the lock {} was lost, and the command runs on: {lost}", self.held.lock()));
                return;
            }
            // The supervisor has had its time already.
            (OnLost::Term, Lost::CutOff) | (OnLost::Kill, _) => Duration::ZERO,
            (OnLost::Term, _) => self.args.kill_after,
        };
        self.channel.say(Order::Stop(millis(grace))).await;
        self.kill_at = Some(Instant::now() + grace + SUPERVISOR_LATE);
        say(&format!("the lock {} is lost: stopping the command", self.held.lock()));
    }

    /// The command was suspended: by Ctrl-Z, then so is this process; or for want of the terminal, which it gets where it can.
    async fn suspended(&mut self, by: i32) {
        let wants_terminal = by == Signal::TTIN.as_raw() || by == Signal::TTOU.as_raw();
        let terminal = Terminal::open();
        let has_it = terminal.as_ref().is_some_and(Terminal::is_ours);
        if by == Signal::TSTP.as_raw() || (wants_terminal && !has_it) {
            say("suspended: the lock is not renewed meanwhile, and the command is stopped when it runs out");
            kill_current_process_group(Signal::TSTP).ok();
            // Suspension takes a moment to arrive, and where nobody could wake this process it does not come at all.
            timeout(SUSPENDED_WITHIN, self.continued.recv()).await.ok();
        }
        if by == Signal::STOP.as_raw() {
            // Somebody stopped it from outside, and will let it go on from there.
            return;
        }
        if self.held.left().is_ok() {
            if let Some(terminal) = terminal {
                terminal.hand_to(self.group);
            }
            self.channel.say(Order::Continue).await;
        }
    }

    /// Nobody is left in the group, whatever became of the supervisor.
    async fn clear(&self) {
        let begun = Instant::now();
        while group::has_others(self.group) && begun.elapsed() < GONE_WITHIN {
            group::send(self.group, Signal::KILL);
            sleep(LOOK_EVERY).await;
        }
    }
}
