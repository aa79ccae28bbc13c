//! The leader's clock: which sessions missed their keepalives, which lock delays are over, what may be forgotten.
//!
//! Only the leader keeps deadlines, in memory and on the monotonic clock. The followers see only its verdicts: commands
//! that it proposes under the leadership in which it made them. A leader that was paused must not end a session when it
//! wakes (etcd#15247). A new leader gives every session and every lock delay its full time again, because renewals are
//! not replicated: it may act late, but never early.

use crate::{
    clock::wall_now,
    leader::{
        scheduled::Scheduled,
        session_deadlines::Touched,
        timers::{StateFacts, Timers},
    },
};
use fairhold_raft::{
    Leadership, Replica,
    error::{NotProposed, ProposeError},
};
use fairhold_state::{
    State,
    command::{Answer, Command, Event},
};
use fairhold_types::{
    SessionNumber, failpoint,
    planted::{self, Bug},
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use openraft_rt::{AsyncRuntime, Instant};
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(100);
/// If a tick is later than this, the process was paused or starved and processed no keepalives: all deadlines move by
/// the delay.
const TICK_LATE: Duration = Duration::from_millis(200);
/// The longest pause between two scheduled commands of the same kind.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long it may take to confirm the leadership.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// The leader's clock of this node: off while another node leads.
pub(crate) struct LeaderClock<RT: AsyncRuntime> {
    phase: Mutex<ClockPhase<RT::Instant>>,
    /// Notified when the state has work left that the leader must continue.
    pending: Notify,
}

enum ClockPhase<I> {
    /// This node does not lead.
    Off,
    /// The timers are being loaded from a copy of the state. These events happened in the meantime, each with its time.
    Loading(Vec<(Event, I)>),
    Running(Box<Timers<I>>),
}

impl<RT: AsyncRuntime> LeaderClock<RT> {
    pub(crate) fn new() -> Self {
        LeaderClock { phase: Mutex::new(ClockPhase::Off), pending: Notify::new() }
    }

    /// Follows the events that are applied now. The state is locked during the call, so no event falls between loading the
    /// state and following it.
    pub(crate) fn observe(&self, state: &State, events: &[Event], now: RT::Instant) {
        match &mut *self.phase() {
            ClockPhase::Off => {}
            ClockPhase::Loading(happened) => {
                happened.extend(events.iter().map(|event| (event.clone(), now)));
            }
            ClockPhase::Running(timers) => {
                events.iter().for_each(|event| timers.observe(state, event, now));
                if state.has_pending() {
                    self.pending.notify_one();
                }
            }
        }
    }

    /// Moves a session's deadline; `None` if the clock does not run for this leadership.
    pub(crate) fn touch(&self, leadership: Leadership, session: SessionNumber) -> Option<Touched> {
        self.with(|timers| (timers.leadership() == leadership).then(|| timers.touch(session, RT::Instant::now())))?
    }

    /// The time since this leader last heard from a session; `None` if it has not, or if the clock does not run.
    pub(crate) fn heard_ago(&self, session: SessionNumber) -> Option<Duration> {
        self.with(|timers| timers.heard_ago(session, RT::Instant::now()))?
    }

    /// Whether an expiry of the session is in flight, or the clock does not run for this leadership any more.
    pub(crate) fn cannot_confirm(&self, leadership: Leadership, session: SessionNumber) -> bool {
        self.with(|timers| timers.leadership() != leadership || timers.is_expiring(session)).unwrap_or(true)
    }

    /// Loads the timers. The state can be large, and it cannot be written while it is read: so this reads a copy, and
    /// then catches up with the events that happened in the meantime.
    fn start(&self, leadership: Leadership, replica: &Replica<RT>) {
        let copy = replica.read(|state| self.start_recording(state));
        let started = RT::Instant::now();
        let timers = Timers::load(leadership, &copy, started);
        replica.read(|state| self.catch_up(timers, state, started));
    }

    /// Takes a copy of the state, and records the events from now on.
    fn start_recording(&self, state: &State) -> State {
        *self.phase() = ClockPhase::Loading(Vec::new());
        state.clone()
    }

    /// Adds the recorded events to timers that were loaded since `started`, and lets them run.
    fn catch_up(&self, mut timers: Timers<RT::Instant>, state: &State, started: RT::Instant) {
        let mut phase = self.phase();
        if let ClockPhase::Loading(happened) = std::mem::replace(&mut *phase, ClockPhase::Off) {
            happened.iter().for_each(|(event, at)| timers.observe(state, event, *at));
        }
        // No keepalive was processed while the timers were loaded.
        timers.paused_for(started.elapsed());
        *phase = ClockPhase::Running(Box::new(timers));
    }

    fn stop(&self) {
        *self.phase() = ClockPhase::Off;
    }

    fn with<T>(&self, work: impl FnOnce(&mut Timers<RT::Instant>) -> T) -> Option<T> {
        match &mut *self.phase() {
            ClockPhase::Running(timers) => Some(work(timers)),
            ClockPhase::Off | ClockPhase::Loading(_) => None,
        }
    }

    fn phase(&self) -> MutexGuard<'_, ClockPhase<RT::Instant>> {
        self.phase.lock()
    }
}

/// Runs the clock as long as the node runs: it starts with each leadership of this node and stops with it.
pub(crate) async fn run<RT: AsyncRuntime>(clock: Arc<LeaderClock<RT>>, replica: Replica<RT>) {
    let mut known = None;
    loop {
        if let Some(leadership) = known {
            // The state must have applied everything that earlier leaders committed before it is loaded. Later events
            // are observed.
            let caught_up = replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok();
            if caught_up && failpoint!(NodeClockBegin, RT).is_ok() {
                clock.start(leadership, &replica);
                lead(&clock, &replica, leadership).await;
                clock.stop();
            }
        }
        if known.is_some() && known == replica.leadership() {
            RT::sleep(TICK).await;
            continue;
        }
        known = replica.leadership_change(known).await;
    }
}

/// Why the clock woke up.
enum Woken {
    Tick,
    /// A command was answered; `true` if another one of its kind may follow.
    Answered(bool),
    /// The state has work left.
    Pending,
}

/// Ticks until the leadership is over. What a tick decides runs concurrently with the next ticks, so that no work holds
/// up the clock. Objects that did not fit into a command, and pending work of the state, do not wait for the next tick.
async fn lead<RT: AsyncRuntime>(clock: &LeaderClock<RT>, replica: &Replica<RT>, leadership: Leadership) {
    let mut work: FuturesUnordered<BoxFuture<'_, bool>> = FuturesUnordered::new();
    let mut last = RT::Instant::now();
    let mut tick = Box::pin(RT::sleep(TICK));
    while replica.leadership() == Some(leadership) {
        let woken = tokio::select! {
            biased;
            () = &mut tick => Woken::Tick,
            Some(more) = work.next(), if !work.is_empty() => Woken::Answered(more),
            () = clock.pending.notified() => Woken::Pending,
        };
        let now = RT::Instant::now();
        let propose = |command| propose(clock, replica, leadership, command).boxed();
        match woken {
            Woken::Tick => {
                let late = now.saturating_duration_since(last + TICK);
                last = now;
                tick = Box::pin(RT::sleep(TICK));
                let Some(decided) = decide(clock, &replica.read(StateFacts::of), now, late) else { return };
                let Decided { expirable, due, scheduled } = decided;
                work.extend(expirable.into_iter().map(|session| expire(clock, replica, leadership, session).boxed()));
                work.extend(scheduled.into_iter().map(propose));
                if !due.is_empty() {
                    work.push(confirm(clock, replica, leadership, due).boxed());
                }
            }
            // A tick that is due comes first: it detects whether the process was paused, and then moves all deadlines.
            Woken::Answered(true) if now < last + TICK => {
                let facts = replica.read(StateFacts::of);
                let scheduled = clock.with(|timers| timers.take_scheduled(&facts, now)).unwrap_or_default();
                work.extend(scheduled.into_iter().map(propose));
            }
            Woken::Answered(_) => {}
            Woken::Pending => work.extend(clock.with(Timers::take_continue).flatten().map(propose)),
        }
    }
}

/// What a tick decides.
struct Decided {
    /// Sessions whose expiry is to be proposed.
    expirable: Vec<SessionNumber>,
    /// Sessions whose expiry needs a confirmation of the leadership first.
    due: Vec<SessionNumber>,
    scheduled: Vec<Scheduled>,
}

/// The work of a tick that came late by this much; `None` if the clock is off.
fn decide<RT: AsyncRuntime>(clock: &LeaderClock<RT>, facts: &StateFacts, now: RT::Instant, late: Duration) -> Option<Decided> {
    clock.with(|timers| {
        if was_paused(late) {
            tracing::debug!(?late, "this node was paused: all deadlines move by the pause");
            timers.paused_for(late);
        }
        Decided { expirable: timers.take_expirable(now), due: timers.take_due(now), scheduled: timers.take_scheduled(facts, now) }
    })
}

/// Confirms that this node still leads, with a barrier that starts after the sessions were due. The next tick checks
/// again which of them are due: by then every keepalive that arrived before has moved its deadline, and a pause has
/// moved all deadlines.
async fn confirm<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    due: Vec<SessionNumber>,
) -> bool {
    let fails = failpoint!(NodeExpiryProve, RT).is_err();
    let confirmed =
        needs_no_confirmation() || (!fails && replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok());
    let leads = replica.leadership() == Some(leadership);
    clock.with(|timers| timers.confirm(due, confirmed && leads));
    false
}

async fn expire<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    session: SessionNumber,
) -> bool {
    let verdict = Command::ExpireSession { session, at: wall_now() };
    let proposed = match failpoint!(NodeExpiryPropose, RT) {
        Ok(()) => propose_expiry(replica, leadership, verdict).await,
        Err(_) => Err(NotProposed::NoLeader.into()),
    };
    match proposed {
        Ok(_) => tracing::info!(session = session.0, "a session expired: no keepalive within its timeout"),
        Err(error) => tracing::debug!(%error, session = session.0, "the expiry of a session was not committed"),
    }
    if let Err(error) = failpoint!(NodeExpiryDone, RT) {
        tracing::debug!(%error, "the expiry was answered before this failure: nothing is lost");
    }
    clock.with(|timers| timers.expiry_answered(session));
    false
}

/// Proposes a scheduled command, and returns whether another one of its kind may follow. It returns after a pause as
/// long as the command took: consecutive commands leave half of the time to other work.
async fn propose<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    scheduled: Scheduled,
) -> bool {
    let proposed_at = RT::Instant::now();
    let answer = match failpoint!(NodeChorePropose, RT) {
        Ok(()) => replica.propose_alone(scheduled.command(), leadership).await,
        Err(_) => Err(NotProposed::NoLeader.into()),
    };
    if let Err(error) = &answer {
        // Nothing is lost: the next leader schedules the same command again.
        tracing::debug!(%error, ?scheduled, "a command of the leader's clock was not committed");
    }
    if answer.is_ok() {
        RT::sleep(proposed_at.elapsed().min(PAUSE_MAX)).await;
    }
    clock.with(|timers| timers.answered(&scheduled, answer.as_ref().ok())).unwrap_or(false)
}

/// Whether a tick that is this late means that the process was paused.
fn was_paused(late: Duration) -> bool {
    late >= TICK_LATE && !planted::has(Bug::PauseIsCounted)
}

/// Whether a session may expire without proof that this node still leads: only as a planted bug.
fn needs_no_confirmation() -> bool {
    planted::has(Bug::ExpiresByOldLeader)
}

/// Proposes under this leadership only, so that a deposed leader expires nothing.
async fn propose_expiry<RT: AsyncRuntime>(
    replica: &Replica<RT>,
    leadership: Leadership,
    verdict: Command,
) -> Result<Answer, ProposeError> {
    if planted::has(Bug::ExpiresByOldLeader) {
        return replica.propose(verdict, RT::Instant::now() + BARRIER_TIMEOUT * 5).await;
    }
    replica.propose_alone(verdict, leadership).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::SessionNumber;
    use openraft_rt_tokio::TokioRuntime;

    #[test]
    fn events_during_the_loading_of_a_new_leader_are_not_missed() {
        let clock = LeaderClock::<TokioRuntime>::new();
        let leadership = Leadership::new(3, 1);
        let state = State::new();
        let session = SessionNumber(7);
        let started = Instant::now();
        let copy = clock.start_recording(&state);
        clock.observe(&state, &[Event::SessionOpened { session, timeout_ms: 2_000 }], Instant::now());
        assert_eq!(
            (clock.touch(leadership, session), clock.cannot_confirm(leadership, session)),
            (None, true),
            "the clock does not run yet"
        );
        clock.catch_up(Timers::load(leadership, &copy, started), &state, started);
        assert_eq!(clock.touch(leadership, session), Some(Touched::Moved(Duration::from_secs(2))));
        assert!(!clock.cannot_confirm(leadership, session) && clock.cannot_confirm(Leadership::new(4, 1), session));
        clock.stop();
        assert_eq!(clock.touch(leadership, session), None);
    }
}
