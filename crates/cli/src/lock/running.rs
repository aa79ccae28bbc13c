//! Runs the command under the supervisor, and keeps the supervisor informed of how long the lock is certainly held.

use crate::exit;

use super::{
    args::{LockArgs, OnLost},
    channel::{Channel, SupervisorOrder, SupervisorReport, send_input, since_boot},
    descendants::{Descendants, Survivor, describe, has_children},
    group,
    supervisor::exit_number,
    terminal::Terminal,
};
use crate::output::note;
use fairhold_client::{Client, Held, Lost};
use fairhold_types::{Code, duration};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_current_process_group, pidfd_open},
};
use std::{
    io::{self, IsTerminal as _},
    os::{fd::AsFd as _, fd::OwnedFd, unix::net::UnixStream},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal as Arrivals, SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

/// How often this process tells the supervisor how long the lock is certainly held.
const INFORM_EVERY: Duration = Duration::from_millis(250);
/// If the supervisor has not acted this long after it should have, this process acts. Only after the lock is lost:
/// before that, `kill_before` decides.
const SUPERVISOR_LATE: Duration = Duration::from_millis(100);
/// A killed supervisor has ended by then, or the search goes on without its end.
const SUPERVISOR_EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// A suspended process knows of its suspension by then.
const SUSPEND_TIMEOUT: Duration = Duration::from_millis(300);
/// A killed process is gone by then, unless the kernel cannot end it or does not permit it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time it reports that it keeps the lock for a process that it cannot stop.
const STUCK_AFTER: Duration = Duration::from_millis(500);
/// The pause between two searches for remaining processes: the first, and the longest.
const SEARCH_PAUSE_MIN: Duration = Duration::from_millis(5);
const SEARCH_PAUSE_MAX: Duration = Duration::from_millis(250);
/// The time from SIGTERM to SIGKILL while the lock is held.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// The same after a break, when another client already has the lock: for this long both may work.
const KILL_AFTER_LOSS: Duration = Duration::from_millis(500);
/// The last part of the ttl, in which all processes are killed and end, and its longest. Finding the processes takes
/// about a millisecond per hundred processes on an idle machine, and several times that beside a command that keeps
/// every core busy.
const KILL_BEFORE_PER_TTL: u32 = 10;
const KILL_BEFORE_MAX: Duration = Duration::from_millis(200);

/// How long before the lock may pass the supervisor kills. If the supervisor does not run, this process kills after
/// half of it.
fn kill_before(ttl: Duration) -> Duration {
    (ttl / KILL_BEFORE_PER_TTL).min(KILL_BEFORE_MAX)
}

/// How long the command has between SIGTERM and SIGKILL if the lock is about to pass.
fn grace_before_loss(args: &LockArgs) -> Duration {
    let longest = args.max_hold.map_or(args.ttl, |max_hold| max_hold.min(args.ttl));
    match args.on_lost {
        OnLost::Term => args.kill_after.unwrap_or(KILL_AFTER).min(longest / 3),
        OnLost::Kill | OnLost::Ignore => Duration::ZERO,
    }
}

/// The running command.
struct RunningCommand<'a> {
    args: &'a LockArgs,
    client: &'a Client,
    held: Held,
    channel: Channel,
    supervisor: Child,
    group: Pid,
    descendants: Descendants,
    continued: Arrivals,
    /// When the command started: when the lock was acquired, or a little later.
    started: Instant,
    /// How the lock was lost.
    lost: Option<Lost>,
    /// When this process kills the remaining processes after a loss, if the supervisor has not done so.
    kill_at: Option<Instant>,
    /// Whether this process killed because the lock was about to pass and the supervisor did not act.
    is_killed: bool,
    /// How the command ended.
    code: Option<u8>,
}

/// Runs the command and returns the exit code. Afterwards no process of the command is left, or a message names it.
///
/// # Errors
/// The command cannot be started.
pub(super) async fn run(args: &LockArgs, client: &Client, held: Held, signals: &mut mpsc::Receiver<Signal>) -> io::Result<u8> {
    let mut running = RunningCommand::start(args, client, held)?;
    let ended = running.follow(signals).await;
    let left = running.stop_remaining(signals).await;
    let by_itself = ended.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    let code = running.code.or(by_itself).unwrap_or(128 + exit_number(Signal::KILL.as_raw()));
    let name = running.held.lock();
    if !left.is_empty() {
        note(&format!("{}; it keeps running without the lock {name}", describe(&left)));
        return Ok(exit::NOT_STOPPED);
    }
    match running.lost.or_else(|| running.held.left().err()) {
        Some(lost) if args.on_lost != OnLost::Ignore => {
            note(&format!("the lock {name} was lost while the command ran: {lost}"));
            Ok(exit::LOST)
        }
        Some(_) | None => Ok(code),
    }
}

impl<'a> RunningCommand<'a> {
    fn start(args: &'a LockArgs, client: &'a Client, held: Held) -> io::Result<RunningCommand<'a>> {
        // If the supervisor dies, its orphans become children of this process.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let descendants = Descendants::from_now_on();
        let (ours, theirs) = UnixStream::pair()?;
        let kill_after = args.kill_after.unwrap_or(KILL_AFTER);
        let grace = grace_before_loss(args);
        let mut command = Command::new("/proc/self/exe");
        command.arg0("fairhold").arg("lock-supervisor").args(["--grace-ms", &duration::millis(grace).to_string()]);
        command.args(["--kill-after-ms", &duration::millis(kill_after).to_string()]);
        command.args(["--kill-before-ms", &duration::millis(kill_before(args.ttl)).to_string(), "--"]).args(&args.command);
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
        Ok(RunningCommand {
            args,
            client,
            held,
            channel: Channel::new(ours)?,
            supervisor,
            group,
            descendants,
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
            started: Instant::now(),
            lost: None,
            kill_at: None,
            is_killed: false,
            code: None,
        })
    }

    /// Waits until the supervisor has ended, and returns how.
    async fn follow(&mut self, signals: &mut mpsc::Receiver<Signal>) -> ExitStatus {
        let held = self.held.clone();
        let mut is_connected = true;
        let mut informed = Instant::now();
        self.send_deadline().await;
        loop {
            let time_to_kill = self.time_to_kill();
            tokio::select! {
                biased;
                () = sleep(time_to_kill.unwrap_or_default()), if time_to_kill.is_some() => self.kill_if_due(),
                report = self.channel.receive(), if is_connected => match report {
                    Some(report) => self.handle(report).await,
                    None => is_connected = false,
                },
                lost = held.lost(), if self.lost.is_none() => self.lose(lost).await,
                // It is a child of this process, and nothing else waits for it.
                ended = self.supervisor.wait(), if !is_connected => return ended.unwrap_or_default(),
                Some(signal) = signals.recv() => self.channel.send(SupervisorOrder::Signal(signal.as_raw())).await,
                () = sleep_until(self.kill_at.unwrap_or(informed)), if self.kill_at.is_some() => {
                    self.kill();
                    self.kill_at = Some(Instant::now() + SUPERVISOR_LATE);
                }
                () = sleep_until(informed + INFORM_EVERY) => {
                    informed = Instant::now();
                    self.send_deadline().await;
                }
            }
        }
    }

    /// The time until the lock may pass, minus the time to kill: by then the supervisor has killed, if it runs. None if
    /// this process has already killed, or must not kill.
    fn time_to_kill(&self) -> Option<Duration> {
        if self.is_killed || self.args.on_lost == OnLost::Ignore {
            return None;
        }
        self.held.left().ok().map(|left| left.saturating_sub(kill_before(self.args.ttl) / 2))
    }

    fn kill_if_due(&mut self) {
        // A renewal may have arrived meanwhile.
        if self.time_to_kill().is_some_and(|moment| moment.is_zero()) {
            self.is_killed = true;
            self.lost.get_or_insert(Lost::CutOff);
            self.kill();
        }
    }

    /// Kills the group, with the supervisor in it, and every descendant outside it.
    fn kill(&mut self) {
        group::send(self.group, Signal::KILL);
        self.await_supervisor();
        // While the supervisor is alive, it is the only child here, and `follow` waits for it. Afterwards its orphans
        // become children of this process: it reaps the zombies among them, or they fill the lists that show the
        // others.
        self.descendants.kill(|| {
            if matches!(self.supervisor.try_wait(), Ok(Some(_))) {
                has_children();
            }
        });
    }

    /// Waits until the killed supervisor has ended. A supervisor that was stopped has reaped nothing, and only after
    /// its end can the zombies be reaped here.
    fn await_supervisor(&self) {
        let pid = self.supervisor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(handle) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            // If this fails, the search only meets more zombies.
            poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&SUPERVISOR_EXIT_TIMEOUT)).ok();
        }
    }

    /// Tells the supervisor how long the lock is certainly held, on a clock that counts suspension.
    async fn send_deadline(&mut self) {
        if self.args.on_lost == OnLost::Ignore {
            return;
        }
        // Reads the clock first: the result can be too early, but never too late.
        let now = since_boot();
        if let Ok(left) = self.held.left() {
            self.channel.send(SupervisorOrder::HeldUntil(duration::millis(now + left))).await;
        }
    }

    async fn handle(&mut self, report: SupervisorReport) {
        match report {
            SupervisorReport::Ended(code) => self.code = Some(code),
            SupervisorReport::OutOfTime => {
                let name = self.held.lock();
                if let Some(max_hold) = self.max_hold_reached() {
                    self.lost = Some(Lost::Expired);
                    note(&format!(
                        "the lock {name} reaches its --max-hold of {}: stopping the command",
                        duration::format(max_hold)
                    ));
                } else {
                    self.lost = Some(Lost::CutOff);
                    let why = self.refused_credential().map_or_else(String::new, |why| format!(" ({why})"));
                    note(&format!(
                        "the lock {name} cannot be renewed{why}: stopping the command before somebody else can get the lock"
                    ));
                }
            }
            SupervisorReport::Suspended(by) => self.suspended(by).await,
        }
    }

    /// Why the cluster refuses the credential, if it renews nothing for that reason.
    fn refused_credential(&self) -> Option<String> {
        let refusal = self.client.contact().refusal?;
        (refusal.code == Some(Code::Unauthenticated)).then_some(refusal.detail)
    }

    /// `--max-hold`, if it is about to end the grant.
    fn max_hold_reached(&self) -> Option<Duration> {
        let last = grace_before_loss(self.args) + kill_before(self.args.ttl) + INFORM_EVERY;
        self.args.max_hold.filter(|max_hold| self.started.elapsed() + last >= *max_hold)
    }

    async fn lose(&mut self, lost: Lost) {
        self.lost = Some(lost);
        let grace = match (self.args.on_lost, lost) {
            (OnLost::Ignore, _) => {
                note(&format!("the lock {} was lost, but the command keeps running: {lost}", self.held.lock()));
                return;
            }
            // The supervisor has already had its time.
            (OnLost::Term, Lost::CutOff) | (OnLost::Kill, _) => Duration::ZERO,
            (OnLost::Term, _) => self.args.kill_after.unwrap_or(KILL_AFTER_LOSS),
        };
        self.channel.send(SupervisorOrder::Stop(duration::millis(grace))).await;
        self.kill_at = Some(Instant::now() + grace + SUPERVISOR_LATE);
        note(&format!("the lock {} is lost: stopping the command", self.held.lock()));
    }

    /// The command was suspended: by Ctrl-Z, and then this process suspends itself too; or because it needs the
    /// terminal, and then it gets the terminal if possible.
    async fn suspended(&mut self, by: i32) {
        let wants_terminal = by == Signal::TTIN.as_raw() || by == Signal::TTOU.as_raw();
        let terminal = Terminal::open();
        let has_it = terminal.as_ref().is_some_and(Terminal::is_ours);
        if by == Signal::TSTP.as_raw() || (wants_terminal && !has_it) {
            note("suspended: fairhold does not renew the lock now, and stops the command when the lock runs out");
            kill_current_process_group(Signal::TSTP).ok();
            // Suspension takes a moment, and does not happen if nothing could wake this process.
            timeout(SUSPEND_TIMEOUT, self.continued.recv()).await.ok();
        }
        if by == Signal::STOP.as_raw() {
            // Another process stopped it, and will continue it.
            return;
        }
        if self.held.left().is_ok() {
            if let Some(terminal) = terminal {
                terminal.hand_to(self.group);
            }
            self.channel.send(SupervisorOrder::Continue).await;
        }
    }

    /// Stops every remaining process, even without the supervisor. While it holds the lock, it keeps it until the
    /// processes that it cannot stop have ended. Returns the processes that are left without the lock.
    async fn stop_remaining(&mut self, signals: &mut mpsc::Receiver<Signal>) -> Vec<Survivor> {
        let mut started = Instant::now();
        let mut pause = SEARCH_PAUSE_MIN;
        let mut is_reported = false;
        loop {
            let left = self.descendants.kill_and_reap();
            if left.is_empty() {
                return left;
            }
            if self.lost.is_none() && self.held.left().is_err() {
                self.lost = self.held.left().err();
                started = Instant::now();
            }
            match self.lost {
                Some(_) if started.elapsed() >= EXIT_TIMEOUT => return left,
                None if started.elapsed() >= STUCK_AFTER && !is_reported => {
                    note(&format!("{}; keeping the lock {} until it has ended", describe(&left), self.held.lock()));
                    is_reported = true;
                }
                Some(_) | None => {}
            }
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => {
                    self.descendants.signal_each(signal);
                    is_reported = false;
                }
                () = sleep(pause) => pause = (pause * 2).min(SEARCH_PAUSE_MAX),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_client::margin;

    #[test]
    fn both_lines_of_defence_are_before_the_end_of_the_lease_for_every_ttl() {
        for seconds in 1..=3_600 {
            let ttl = Duration::from_secs(seconds);
            let believed = ttl - margin(ttl);
            let (first, second) = (believed - kill_before(ttl), believed - kill_before(ttl) / 2);
            assert!(first < second && second < believed && believed < ttl, "{ttl:?}");
            assert!(ttl - second >= Duration::from_millis(70), "{ttl:?}: what is killed has time to end");
            // There is time for SIGTERM, and before that for renewals, which begin at a third of the ttl.
            assert!(first.saturating_sub(ttl / 3) > ttl / 2, "{ttl:?}");
        }
    }
}
