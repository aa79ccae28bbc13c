//! The leader's clock: who has gone too long without a keepalive, whose lock delay is over, what may be forgotten.
//!
//! Only the leader keeps deadlines, in memory and on the monotonic clock; what travels to the others is its verdict, proposed
//! under the leadership that reached it (a leader that slept and woke must not end anybody's session: etcd#15247). A new
//! leader gives every session and every lock delay its full time again: renewals are not replicated, so it may only err late.

use crate::{
    clock::wall_now,
    leader::{
        scheduled::Scheduled,
        timers::{Due, Touched, Verdicts},
    },
};
use fairhold_raft::{Leadership, Replica, error::NotProposed};
use fairhold_state::{
    State,
    command::{Command, Event},
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

/// How often the clock looks.
const TICK: Duration = Duration::from_millis(100);
/// A tick that comes later than this found the process paused or starved, and so deaf to keepalives: all deadlines move by as
/// much.
const TICK_LATE: Duration = Duration::from_millis(200);
/// The longest pause after a verdict that may have to be followed by another one.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long the proof of leadership before a verdict may take.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a leader has to watch.
pub(crate) struct LeaderClock<RT: AsyncRuntime> {
    duty: Mutex<Duty<RT::Instant>>,
    /// Told when work is left in the state that the leader goes on with.
    pending: Notify,
}

enum Duty<I> {
    /// None: this node does not lead.
    Off,
    /// What there is to watch is being loaded; this happened since, and when.
    Begins(Vec<(Event, I)>),
    On(Box<Verdicts<I>>),
}

impl<RT: AsyncRuntime> LeaderClock<RT> {
    pub(crate) fn new() -> Self {
        LeaderClock { duty: Mutex::new(Duty::Off), pending: Notify::new() }
    }

    /// Keeps up with what is applied. It is called with the state locked, so no change slips in between loading it and
    /// following it.
    pub(crate) fn observe(&self, state: &State, events: &[Event]) {
        match &mut *self.duty() {
            Duty::Off => {}
            Duty::Begins(happened) => happened.extend(events.iter().map(|event| (event.clone(), RT::Instant::now()))),
            Duty::On(verdicts) => {
                let now = RT::Instant::now();
                events.iter().for_each(|event| verdicts.observe(state, event, now));
                if state.has_pending() {
                    self.pending.notify_one();
                }
            }
        }
    }

    /// Moves a session's deadline, if that leadership is the one that this clock serves.
    pub(crate) fn touch(&self, leadership: Leadership, session: SessionNumber) -> Option<Touched> {
        self.with(|verdicts| (verdicts.leadership() == leadership).then(|| verdicts.touch(session, RT::Instant::now())))?
    }

    /// Whether an expiry of the session is on the way, or the clock serves another leadership by now.
    pub(crate) fn is_doubtful(&self, leadership: Leadership, session: SessionNumber) -> bool {
        self.with(|verdicts| verdicts.leadership() != leadership || verdicts.is_expiring(session)).unwrap_or(true)
    }

    /// Begins with all that there is. That can be much, and the state cannot be written while it is read: so a copy is read, and
    /// what happened meanwhile is caught up on.
    fn begin(&self, leadership: Leadership, replica: &Replica<RT>) {
        let copy = replica.read(|state| self.record(state));
        let begun = RT::Instant::now();
        let verdicts = Verdicts::load(leadership, &copy, begun);
        replica.read(|state| self.catch_up(verdicts, state, begun));
    }

    /// A copy of what there is; what happens from now on is kept.
    fn record(&self, state: &State) -> State {
        *self.duty() = Duty::Begins(Vec::new());
        state.clone()
    }

    /// Goes on with what was loaded since `begun`, and with what happened since then.
    fn catch_up(&self, mut verdicts: Verdicts<RT::Instant>, state: &State, begun: RT::Instant) {
        let mut duty = self.duty();
        if let Duty::Begins(happened) = std::mem::replace(&mut *duty, Duty::Off) {
            happened.iter().for_each(|(event, at)| verdicts.observe(state, event, *at));
        }
        // No keepalive was taken meanwhile.
        verdicts.was_deaf(begun.elapsed());
        *duty = Duty::On(Box::new(verdicts));
    }

    fn end(&self) {
        *self.duty() = Duty::Off;
    }

    fn with<T>(&self, work: impl FnOnce(&mut Verdicts<RT::Instant>) -> T) -> Option<T> {
        match &mut *self.duty() {
            Duty::On(verdicts) => Some(work(verdicts)),
            Duty::Off | Duty::Begins(_) => None,
        }
    }

    fn duty(&self) -> MutexGuard<'_, Duty<RT::Instant>> {
        self.duty.lock()
    }
}

/// Runs the clock for as long as the node runs: begins with each leadership of this node, ends with it.
pub(crate) async fn run<RT: AsyncRuntime>(clock: Arc<LeaderClock<RT>>, replica: Replica<RT>) {
    let mut known = None;
    loop {
        if let Some(leadership) = known {
            // What earlier leaders committed must be applied before it is loaded; what comes later is observed.
            let caught_up = replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok();
            if caught_up && failpoint!(NodeClockBegin, RT).is_ok() {
                clock.begin(leadership, &replica);
                lead(&clock, &replica, leadership).await;
                clock.end();
            }
        }
        if known.is_some() && known == replica.leadership() {
            RT::sleep(TICK).await;
            continue;
        }
        known = replica.leadership_change(known).await;
    }
}

/// Why the clock looks.
enum Woken {
    /// It is time to.
    Tick,
    /// A verdict was answered; whether there may be more to do of its kind.
    Answered(bool),
    /// Work is left in the state.
    Pending,
}

/// Ticks until the leadership is over. What a tick decides is carried out beside the next ones, so that no work holds up the
/// clock. What a verdict had no room for does not wait for the next tick, nor does what is pending in the state.
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
        let carry_out = |chore| carry_out(clock, replica, leadership, chore).boxed();
        match woken {
            Woken::Tick => {
                let late = now.saturating_duration_since(last + TICK);
                (last, tick) = (now, Box::pin(RT::sleep(TICK)));
                let Some(decided) = decide(clock, &replica.read(Due::of), now, late) else { return };
                let Decided { condemned, judged, chores } = decided;
                work.extend(condemned.into_iter().map(|session| expire(clock, replica, leadership, session).boxed()));
                work.extend(chores.into_iter().map(carry_out));
                if !judged.is_empty() {
                    work.push(prove(clock, replica, leadership, judged).boxed());
                }
            }
            // Where a tick is due, it comes first: it sees whether the process was held up, and then all deadlines move.
            Woken::Answered(true) if now < last + TICK => {
                let due = replica.read(Due::of);
                let chores = clock.with(|verdicts| verdicts.chores(&due, now)).unwrap_or_default();
                work.extend(chores.into_iter().map(carry_out));
            }
            Woken::Answered(_) => {}
            Woken::Pending => work.extend(clock.with(Verdicts::next_piece).flatten().map(carry_out)),
        }
    }
}

/// What a tick decides.
struct Decided {
    condemned: Vec<SessionNumber>,
    judged: Vec<SessionNumber>,
    chores: Vec<Scheduled>,
}

/// Looks at what is due, at a tick that came so much too late; `None` where the clock is off.
fn decide<RT: AsyncRuntime>(clock: &LeaderClock<RT>, due: &Due, now: RT::Instant, late: Duration) -> Option<Decided> {
    clock.with(|verdicts| {
        if late >= TICK_LATE && !planted::has(Bug::PauseIsCounted) {
            tracing::debug!(?late, "this node was paused: all deadlines move by the pause");
            verdicts.was_deaf(late);
        }
        Decided { condemned: verdicts.execute(now), judged: verdicts.judge(now), chores: verdicts.chores(due, now) }
    })
}

/// Proves, after the judgement, that this node still leads. The next tick looks again at who is due: it moves all deadlines
/// first if the process was held up meanwhile, and has every keepalive that came before.
async fn prove<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    judged: Vec<SessionNumber>,
) -> bool {
    let blind = planted::has(Bug::ExpiresByOldLeader);
    let fails = failpoint!(NodeExpiryProve, RT).is_err();
    let proved = blind || (!fails && replica.read_barrier(RT::Instant::now() + BARRIER_TIMEOUT).await.is_ok());
    let leads = replica.leadership() == Some(leadership);
    clock.with(|verdicts| verdicts.prove(judged, proved && leads));
    false
}

async fn expire<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    session: SessionNumber,
) -> bool {
    let verdict = Command::ExpireSession { session, at: wall_now() };
    let proposed = if failpoint!(NodeExpiryPropose, RT).is_err() {
        Err(NotProposed::NoLeader.into())
    } else if planted::has(Bug::ExpiresByOldLeader) {
        replica.propose(verdict, RT::Instant::now() + BARRIER_TIMEOUT * 5).await
    } else {
        replica.propose_alone(verdict, leadership).await
    };
    match proposed {
        Ok(_) => tracing::info!(session = session.0, "session expired: no keepalive within its timeout"),
        Err(error) => tracing::debug!(%error, session = session.0, "the expiry was not committed"),
    }
    if let Err(error) = failpoint!(NodeExpiryDone, RT) {
        tracing::debug!(%error, "nothing is lost: the expiry was answered");
    }
    clock.with(|verdicts| verdicts.expiry_done(session));
    false
}

/// Proposes a verdict, and says whether there may be more to do of its kind. That is known after a pause as long as the verdict
/// took: verdicts that follow one another leave half of the time to everybody else.
async fn carry_out<RT: AsyncRuntime>(
    clock: &LeaderClock<RT>,
    replica: &Replica<RT>,
    leadership: Leadership,
    chore: Scheduled,
) -> bool {
    let asked = RT::Instant::now();
    let answer = match failpoint!(NodeChorePropose, RT) {
        Ok(()) => replica.propose_alone(chore.command(), leadership).await,
        Err(_) => Err(NotProposed::NoLeader.into()),
    };
    if let Err(error) = &answer {
        // Nothing is lost: the next leader reaches the same verdict again.
        tracing::debug!(%error, ?chore, "a command of the leader's clock was not committed");
    }
    if answer.is_ok() {
        RT::sleep(asked.elapsed().min(PAUSE_MAX)).await;
    }
    clock.with(|verdicts| verdicts.done(&chore, answer.as_ref().ok())).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::SessionNumber;
    use openraft_rt_tokio::TokioRuntime;

    #[test]
    fn what_happens_while_a_new_leader_looks_at_what_there_is_is_not_missed() {
        let (clock, leadership) = (LeaderClock::<TokioRuntime>::new(), Leadership::new(3, 1));
        let (state, session, begun) = (State::new(), SessionNumber(7), Instant::now());
        let copy = clock.record(&state);
        clock.observe(&state, &[Event::SessionOpened { session, timeout_ms: 2_000 }]);
        assert_eq!((clock.touch(leadership, session), clock.is_doubtful(leadership, session)), (None, true), "not yet");
        clock.catch_up(Verdicts::load(leadership, &copy, begun), &state, begun);
        assert_eq!(clock.touch(leadership, session), Some(Touched::Moved(Duration::from_secs(2))));
        assert!(!clock.is_doubtful(leadership, session) && clock.is_doubtful(Leadership::new(4, 1), session));
        clock.end();
        assert_eq!(clock.touch(leadership, session), None);
    }
}
